//! `sortie embed` with a small random encoder.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    io::Write,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use safetensors::{Dtype, tensor::TensorView};
use sortie::{BatchConfig, Batcher, Device};
use sortie_nn::Encoder;
use tempfile::TempDir;

const WIDTH: usize = 16;

/// Words of the tokenizer; the last one is not in the model's vocabulary.
const WORDS: [&str; 8] = ["[UNK]", "the", "cat", "dog", "sleeps", "runs", "far", "outside"];

/// A folder with a model and texts.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("model")).unwrap();
        let config = format!(
            r#"{{"model_type": "bert", "vocab_size": {}, "hidden_size": {WIDTH}, "num_hidden_layers": 1,
                "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 12, "type_vocab_size": 1,
                "layer_norm_eps": 1e-12, "hidden_act": "gelu"}}"#,
            WORDS.len() - 1
        );
        place.write("model/config.json", config.as_bytes());
        place.write("model/model.safetensors", &weights());
        let words: Vec<String> = WORDS.iter().enumerate().map(|(id, word)| format!("{word:?}: {id}")).collect();
        let tokenizer = format!(
            r#"{{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
                "pre_tokenizer": {{"type": "Whitespace"}}, "post_processor": null, "decoder": null,
                "model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "[UNK]"}}}}"#,
            words.join(", ")
        );
        place.write("model/tokenizer.json", tokenizer.as_bytes());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sortie"));
        command.current_dir(self.0.path()).args(["embed", "--model", "model", "--device", "cpu"]).args(arguments);
        command
    }

    fn embed(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// With a pipe to its standard input.
    fn piped(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Files beside the model.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name != "model");
        names.sort();
        names
    }
}

fn weights() -> Vec<u8> {
    let mut shapes = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![WORDS.len() - 1, WIDTH]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![12, WIDTH]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![1, WIDTH]),
    ];
    let mut linear = |name: &str, inputs: usize, outputs: usize| {
        shapes.push((format!("encoder.layer.0.{name}.weight"), vec![outputs, inputs]));
        shapes.push((format!("encoder.layer.0.{name}.bias"), vec![outputs]));
    };
    ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
        .iter()
        .for_each(|name| linear(name, WIDTH, WIDTH));
    linear("intermediate.dense", WIDTH, 32);
    linear("output.dense", 32, WIDTH);
    for name in ["embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"] {
        shapes.extend(["weight", "bias"].map(|part| (format!("{name}.LayerNorm.{part}"), vec![WIDTH])));
    }
    let mut state = 1_u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut bytes = |shape: &Vec<usize>| -> Vec<u8> {
        (0..shape.iter().product()).flat_map(|_: usize| random().to_le_bytes()).collect()
    };
    let all: Vec<Vec<u8>> = shapes.iter().map(|(_, shape)| bytes(shape)).collect();
    let views = shapes
        .iter()
        .zip(&all)
        .map(|((name, shape), bytes)| (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The embeddings that the library makes of these lines.
fn expected(place: &Place, lines: &[&str]) -> Vec<f32> {
    let job = <Encoder>::job(place.path("model")).unwrap();
    let batcher = Batcher::new(&Device::cpu().unwrap(), job, BatchConfig::default()).unwrap();
    let id = |word: &str| WORDS.iter().position(|known| *known == word).unwrap_or(0) as u32;
    lines.iter().flat_map(|line| batcher.call_blocking(line.split(' ').map(id).collect()).unwrap()).collect()
}

#[test]
fn a_file_and_a_pipe_have_the_embeddings_of_the_library_in_the_order_of_lines() {
    let place = Place::new();
    let lines: Vec<String> =
        (0..300).map(|at| (0..=at % 11).map(|word| WORDS[1 + (at + word) % 6]).collect::<Vec<_>>().join(" ")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let expected = expected(&place, &lines);
    place.write("lines.txt", lines.join("\n").as_bytes());
    let output = place.embed(&["lines.txt", "--output", "out.npy"]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(told(&output).contains("300 lines"), "{}", told(&output));
    let file = fs::read(place.path("out.npy")).unwrap();
    let header = String::from_utf8_lossy(&file[..128]);
    assert!(header.contains(&format!("'shape': (300, {WIDTH})")), "{header}");
    let found: Vec<f32> =
        file[128..].chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(found, expected);

    let mut child = place.piped(&[]);
    child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut all = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["line"], number);
        all.extend(value["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32));
    }
    assert_eq!(all, expected);
}

#[test]
fn the_nearest_line_is_the_question_itself() {
    let place = Place::new();
    place.write("lines.txt", b"the dog runs far\nthe cat sleeps\n\ndog\n");
    let output = place.embed(&["lines.txt", "--query", "the cat sleeps", "--top", "2", "--skip-empty"]);
    assert!(output.status.success(), "{}", told(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.starts_with(" 1.000      2  the cat sleeps\n"), "{text}");
}

#[test]
fn a_line_that_cannot_be_embedded_is_named_and_leaves_no_file() {
    let place = Place::new();
    let long = ["the"; 13].join(" ");
    for (text, expected) in [
        ("cat\n\ndog".as_bytes(), "lines.txt:2: it is empty; --skip-empty"),
        (format!("cat\n{long}").as_bytes(), "lines.txt:2: a sequence of 13 elements; 1 to 12 are possible"),
        (b"cat\ndog\nfar outside", "lines.txt:3: token 1 is 7, but the vocabulary has 7 words"),
        (b"cat\n\xff", "lines.txt:2: it is not UTF-8"),
    ] {
        place.write("lines.txt", text);
        let output = place.embed(&["lines.txt", "--output", "out.npy"]);
        assert!(!output.status.success() && told(&output).contains(expected), "{}, not {expected}", told(&output));
        assert_eq!(place.files(), ["lines.txt"]);
    }
    place.write("lines.txt", format!("cat\n{long}").as_bytes());
    let output = place.embed(&["lines.txt", "--output", "out.jsonl", "--truncate"]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(fs::read_to_string(place.path("out.jsonl")).unwrap().lines().count(), 2);
}

#[test]
fn other_folders_are_refused() {
    let place = Place::new();
    place.write("lines.txt", b"cat");
    fs::remove_file(place.path("model/tokenizer.json")).unwrap();
    assert!(told(&place.embed(&["lines.txt"])).contains("tokenizer.json: "));
    fs::remove_file(place.path("model/config.json")).unwrap();
    assert!(told(&place.embed(&["lines.txt"])).contains("config.json: it cannot be read: No such file"));
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_leaves_no_partial_file() {
    use rustix::process::{Pid, Signal, kill_process};

    let place = Place::new();
    let mut child = place.piped(&["--output", "out.npy"]);
    let mut text = child.stdin.take().unwrap();
    text.write_all(b"the cat sleeps\n").unwrap();
    while place.files().is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::yield_now();
    }
    // The handler is installed right after the file is created; until then the signal would end the process as it is.
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    let masks = || fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let catches = || {
        let caught = masks().lines().find_map(|line| line.strip_prefix("SigCgt:").map(str::trim).map(str::to_owned));
        u64::from_str_radix(&caught.unwrap(), 16).unwrap() & (1 << 1) != 0
    };
    while !catches() {
        std::thread::yield_now();
    }
    kill_process(pid, Signal::INT).unwrap();
    let status = child.wait().unwrap();
    drop(text);
    assert_eq!(status.code(), Some(130), "{status}");
    assert_eq!(place.files(), Vec::<String>::new());
}
