//! Sentences of 4 to 32 tokens: 64 callers of a batcher, and full batches by hand, in turns on the built-in CPU.
//!
//! By hand, all sentences are known beforehand: they are sorted by bucket and run as full batches, one replay for each
//! shape. Each caller of the batcher has one sentence at a time. Every answer of both is compared with the answer that
//! the sentence has alone, bit by bit.
//!
//! `cargo bench -p sortie-nn --bench sequences [-- --quick] [--json] [--model DIR]`: with a random encoder of six layers
//! of width 384, or the model in a folder.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use sortie::{
    BatchConfig, Batcher, Device, Input, Output, Replay,
    batcher::{OnDevice, Sequences},
};
use sortie_bench::{Args, Case, Contender, Outcome, Report, Rounds};
use sortie_nn::{Encoder, EncoderConfig, Weights};

const CALLERS: usize = 64;
/// Positions of a batch.
const SIZE: usize = 1024;
const CONFIG: &str = r#"{
    "model_type": "bert", "vocab_size": 1000, "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536, "max_position_embeddings": 64, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    "hidden_act": "gelu"
}"#;

struct Frozen {
    replay: Replay,
    tokens: Input<u32>,
    lengths: Input<u32>,
    embeddings: Output<f32>,
}

/// Full batches of what is known beforehand.
struct ByHand {
    device: Device,
    encoder: Encoder,
    replays: HashMap<[usize; 2], Frozen>,
}

impl ByHand {
    /// The embedding of each sentence.
    fn run(&mut self, sentences: &[Vec<u32>]) -> Outcome<Vec<Vec<f32>>> {
        let mut buckets = BTreeMap::<usize, Vec<usize>>::new();
        for (at, sentence) in sentences.iter().enumerate() {
            buckets.entry(sentence.len().next_multiple_of(8)).or_default().push(at);
        }
        let mut all = vec![Vec::new(); sentences.len()];
        for (length, of_bucket) in &buckets {
            for batch in of_bucket.chunks(SIZE / length) {
                let rows: Vec<&Vec<u32>> = batch.iter().map(|at| &sentences[*at]).collect();
                let found = self.batch(&rows, *length)?;
                for (at, row) in batch.iter().zip(found.chunks(found.len() / rows.len())) {
                    all[*at] = row.to_vec();
                }
            }
        }
        Ok(all)
    }

    fn batch(&mut self, rows: &[&Vec<u32>], length: usize) -> Outcome<Vec<f32>> {
        let shape = [rows.len(), length];
        if !self.replays.contains_key(&shape) {
            let batch = self.device.batch();
            let (tokens, of_tokens) = batch.input::<u32>(shape);
            let (lengths, of_lengths) = batch.input::<u32>([rows.len()]);
            let embeddings = self.encoder.embed(of_tokens, of_lengths).output();
            self.replays.insert(shape, Frozen { replay: batch.freeze()?, tokens, lengths, embeddings });
        }
        let mut tokens = Vec::with_capacity(rows.len() * length);
        for (at, row) in rows.iter().enumerate() {
            tokens.extend_from_slice(row);
            tokens.resize((at + 1) * length, 0);
        }
        let frozen = &self.replays[&shape];
        let mut run = frozen.replay.run();
        run.write(frozen.tokens, &tokens);
        run.write(frozen.lengths, &rows.iter().map(|row| row.len() as u32).collect::<Vec<_>>());
        let embeddings = run.read(frozen.embeddings);
        run.submit()?;
        Ok(embeddings.wait()?)
    }
}

/// The embedding of each sentence, by callers who each ask for the next one.
fn callers(batcher: &Batcher<OnDevice<Sequences<u32, f32>>>, sentences: &Arc<Vec<Vec<u32>>>) -> Outcome<Vec<Vec<f32>>> {
    let next = Arc::new(AtomicUsize::new(0));
    let caller = || {
        let (batcher, sentences, next) = (batcher.clone(), sentences.clone(), next.clone());
        thread::spawn(move || {
            let mut own = Vec::new();
            while let at = next.fetch_add(1, Ordering::Relaxed)
                && at < sentences.len()
            {
                own.push((at, batcher.call_blocking(sentences[at].clone())?));
            }
            Ok::<_, sortie::Error>(own)
        })
    };
    let all: Vec<_> = (0..CALLERS).map(|_| caller()).collect();
    let mut found = vec![Vec::new(); sentences.len()];
    for caller in all {
        for (at, embedding) in caller.join().map_err(|_| "a caller panicked")?? {
            found[at] = embedding;
        }
    }
    Ok(found)
}

fn param(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(name.bytes().map(u64::from).sum());
    let centre = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
    (0..shape.iter().product()).map(|_| centre + 0.1 * (random.f32() - 0.5)).collect()
}

fn main() -> Outcome<()> {
    let args = Args::read(&["--model="]);
    let folder = tempfile::tempdir()?;
    let model = args.value("--model").map(|folder| Path::new(folder).to_owned());
    let path = folder.path().join("config.json");
    std::fs::write(&path, CONFIG)?;
    let config = EncoderConfig::open(model.as_ref().map_or(path, |model| model.join("config.json")))?;
    let open = {
        let config = config.clone();
        move |device: &Device| match &model {
            Some(model) => <Encoder>::open(model, device),
            None => Weights::from_fn(param).load(device, |params| Encoder::new(params, &config)),
        }
    };
    let device = Device::cpu()?;
    let mut by_hand = ByHand { device: device.clone(), encoder: open(&device)?, replays: HashMap::new() };
    let job = Sequences::<u32, f32>::new(
        config.width,
        move |device| Ok(open(device)?),
        |encoder: &Encoder, tokens, lengths| encoder.embed(tokens, lengths),
    );
    let batcher = Batcher::new(&device, job, BatchConfig::default().with_max_batch_size(SIZE))?;

    let mut random = fastrand::Rng::with_seed(3);
    let count = if args.quick { 256 } else { 1024 };
    let mut sentence = || (0..random.usize(4..=32)).map(|_| random.u32(0..1000)).collect::<Vec<u32>>();
    let sentences: Arc<Vec<Vec<u32>>> = Arc::new((0..count).map(|_| sentence()).collect());
    let alone: Vec<Vec<f32>> =
        sentences.iter().map(|sentence| batcher.call_blocking(sentence.clone())).collect::<Result<_, _>>()?;

    let samples = Rounds::new(if args.quick { 3 } else { 7 }).run(3, |contender, _| {
        let start = Instant::now();
        let found = if contender == 2 { callers(&batcher, &sentences)? } else { by_hand.run(&sentences)? };
        let seconds = start.elapsed().as_secs_f64();
        match found.iter().zip(&alone).position(|(found, alone)| found != alone) {
            Some(at) => Err(format!("sentence {at} of {} tokens has another answer", sentences[at].len()).into()),
            None => Ok([count as f64 / seconds]),
        }
    })?;
    let info = device.info();
    let case = Case { device: &info.name, case: "4 to 32 tokens", n: count, metrics: ["sentences_per_s"] };
    let contenders = Contender::all(&["by hand", "by hand again", "64 callers"]);
    Report::new("sequences", args.json).rows(&case, &contenders, &samples);
    Ok(())
}
