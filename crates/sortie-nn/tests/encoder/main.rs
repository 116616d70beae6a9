//! Embeddings against a reference in plain Rust, in f64: of a small random encoder, and of the real model where
//! `scripts/minilm` has fetched it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod files;
mod hostile;
mod reference;

use std::{collections::HashMap, fs, path::PathBuf, sync::Arc};

use safetensors::SafeTensors;
use sortie::{BatchConfig, Batcher, Device, half::f16};
use sortie_nn::{Encoder, EncoderConfig, Weights};
use tokenizers::Tokenizer;

use self::{files::Folder, reference::embedding};

/// Worst difference to f64: rounding of f32, through all layers of an encoder.
const WORST: f64 = 5e-7;

/// Devices that the tests run on: `SORTIE_DEVICE`, or the built-in CPU.
fn device() -> Device {
    if std::env::var_os("SORTIE_DEVICE").is_some() { Device::open().unwrap() } else { Device::cpu().unwrap() }
}

/// Random sequences of 1 to `most` tokens.
fn sequences(config: &EncoderConfig, count: usize, most: usize) -> Vec<Vec<u32>> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut sequence = || {
        let length = random.usize(1..=most);
        (0..length).map(|_| random.u32(0..config.vocabulary as u32)).collect()
    };
    (0..count).map(|_| sequence()).collect()
}

/// Embeds all in one padded batch.
fn embed(device: &Device, encoder: &Encoder, sequences: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let longest = sequences.iter().map(Vec::len).max().unwrap();
    let mut all = Vec::new();
    for (row, sequence) in sequences.iter().enumerate() {
        all.extend(sequence);
        all.resize((row + 1) * longest, 0);
    }
    let lengths: Vec<u32> = sequences.iter().map(|sequence| sequence.len() as u32).collect();
    let batch = device.batch();
    let tokens = batch.tensor_from(&all, [sequences.len(), longest]);
    let embeddings = encoder.embed(tokens, batch.tensor_from(&lengths, [sequences.len()])).read();
    batch.submit().unwrap();
    embeddings.wait().unwrap().chunks(encoder.config().width).map(<[f32]>::to_vec).collect()
}

fn worst(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).map(|(x, y)| (f64::from(*x) - y).abs()).fold(0.0, f64::max)
}

#[test]
fn a_small_random_encoder_agrees_with_f64_on_a_hundred_sequences() {
    let folder = Folder::new();
    let device = device();
    let encoder = <Encoder>::open(folder.path(), &device).unwrap();
    let sequences = sequences(encoder.config(), 100, 12);
    let found = embed(&device, &encoder, &sequences);
    for (found, sequence) in found.iter().zip(&sequences) {
        let expected = embedding(encoder.config(), &files::param, sequence);
        let worst = worst(found, &expected);
        assert!(worst <= WORST, "{worst:e} for {sequence:?}");
    }
}

#[test]
fn half_precision_weights_make_nearly_the_same_embeddings() {
    let folder = Folder::new();
    let device = device();
    let encoder = Encoder::<f16>::open(folder.path(), &device).unwrap();
    let tokens = vec![1_u32, 5, 2, 3];
    let batch = device.batch();
    let ids = batch.tensor_from(&tokens, [1, 4]);
    let found = encoder.embed(ids, batch.tensor_from(&[4], [1])).read();
    batch.submit().unwrap();
    let (found, expected) = (found.wait().unwrap(), embedding(encoder.config(), &files::param, &tokens));
    let cosine: f64 = found.iter().zip(&expected).map(|(x, y)| f64::from(*x) * y).sum();
    assert!(1.0 - cosine <= 1e-5, "{cosine}");
}

#[test]
fn a_batcher_of_sequences_answers_as_f64_does_and_the_same_bits_whatever_shares_a_batch() {
    let folder = Folder::new();
    let config = EncoderConfig::open(folder.path().join("config.json")).unwrap();
    let job = <Encoder>::job(folder.path()).unwrap();
    let batcher = Batcher::new(&device(), job, BatchConfig::default()).unwrap();
    let sequences = Arc::new(sequences(&config, 60, 32));
    // Alone, and then with whatever eight callers ask at the same time.
    let alone: Vec<Vec<f32>> = sequences.iter().map(|tokens| batcher.call_blocking(tokens.clone()).unwrap()).collect();
    for (found, sequence) in alone.iter().zip(sequences.iter()) {
        let worst = worst(found, &embedding(&config, &files::param, sequence));
        assert!(worst <= WORST, "{worst:e} for {sequence:?}");
    }
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let (batcher, sequences) = (batcher.clone(), sequences.clone());
            std::thread::spawn(move || {
                let order = (0..sequences.len()).map(|at| (at * 7 + caller * 11) % sequences.len());
                order.map(|at| (at, batcher.call_blocking(sequences[at].clone()).unwrap())).collect::<Vec<_>>()
            })
        })
        .collect();
    for caller in callers {
        for (at, answer) in caller.join().unwrap() {
            let difference = answer.iter().zip(&alone[at]).filter(|(x, y)| x.to_bits() != y.to_bits()).count();
            assert_eq!(difference, 0, "sequence {at} of {} tokens", sequences[at].len());
        }
    }
    for wrong in [vec![], vec![1; config.positions + 1], vec![1, config.vocabulary as u32]] {
        assert_eq!(batcher.call_blocking(wrong).unwrap_err().kind(), sortie::ErrorKind::Input);
    }
}

#[test]
fn weights_of_a_function_and_of_a_file_make_the_same_encoder() {
    let folder = Folder::new();
    let device = device();
    let config = EncoderConfig::open(folder.path().join("config.json")).unwrap();
    let made: Encoder = Weights::from_fn(files::param).load(&device, |params| Encoder::new(params, &config)).unwrap();
    let read = <Encoder>::open(folder.path(), &device).unwrap();
    let sequences = vec![vec![1, 2, 3], vec![4]];
    assert_eq!(embed(&device, &made, &sequences), embed(&device, &read, &sequences));
}

/// Where `scripts/minilm` puts the model.
fn minilm() -> Option<PathBuf> {
    let of = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = of("SORTIE_CACHE").filter(|cache| cache.as_os_str() != "off");
    let cache = cache.or_else(|| Some(of("HOME")?.join(".cache/sortie")));
    let folder = of("SORTIE_MINILM").or_else(|| Some(cache?.join("minilm")))?;
    folder.join("model.safetensors").exists().then_some(folder)
}

#[test]
fn the_real_model_agrees_with_f64_on_a_hundred_sentences() {
    let Some(folder) = minilm() else { return };
    let device = device();
    let encoder = <Encoder>::open(&folder, &device).unwrap();
    let mut tokenizer = Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
    tokenizer.with_padding(None);
    let page = include_str!("../../../../ARCHITECTURE.md");
    let words: Vec<&str> = page.split_whitespace().collect();
    let sentences: Vec<String> = (0..100).map(|at| words[at * 11..][..1 + at % 9].join(" ")).collect();
    let ids = |text: &String| tokenizer.encode_fast(text.as_str(), true).unwrap().get_ids().to_vec();
    let sequences: Vec<Vec<u32>> = sentences
        .iter()
        .map(ids)
        .map(|mut ids: Vec<u32>| {
            ids.truncate(24);
            ids
        })
        .collect();
    let found = embed(&device, &encoder, &sequences);
    let file = fs::read(folder.join("model.safetensors")).unwrap();
    let tensors: HashMap<String, Vec<f32>> = SafeTensors::deserialize(&file)
        .unwrap()
        .iter()
        .filter(|(_, view)| view.dtype() == safetensors::Dtype::F32)
        .map(|(name, view)| {
            let values = view.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
            (name.to_owned(), values.collect())
        })
        .collect();
    let lookup = |name: &str, _: &[usize]| tensors[name].clone();
    let of = |(found, sequence): (&Vec<f32>, &Vec<u32>)| worst(found, &embedding(encoder.config(), &lookup, sequence));
    let worst = found.iter().zip(&sequences).map(of).fold(0.0, f64::max);
    assert!(worst <= WORST, "{worst:e}");
}
