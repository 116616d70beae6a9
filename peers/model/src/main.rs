//! A real encoder, all-MiniLM-L6-v2, in sortie, onnxruntime and candle.
//!
//! Contenders take turns; a ratio is the median ratio to `sortie` within a round. A time is from tokens to embeddings in
//! the caller's memory. onnxruntime is a process of its own, from PyPI, which takes its own times. Embeddings are
//! compared before anything is timed.
//!
//! `scripts/minilm; cargo run --release -p peers-model [-- --quick] [--json] [--only NAME,..] [--model DIR]
//! [--python PYTHON]`

#![expect(clippy::print_stderr, reason = "notes go to stderr")]

mod candle;
mod onnx;
mod ours;
mod work;

use std::{path::PathBuf, thread};

use sortie_bench::{Args, Case, Contender, Outcome, Report, Rounds};

use crate::work::{Encode, Work};

/// Rows and tokens of each.
const SHAPES: [[usize; 2]; 4] = [[1, 16], [8, 32], [32, 64], [32, 128]];

/// Worst difference of an embedding's element to sortie's.
const WORST: f32 = 1e-6;

/// Notes on the figures.
const NOTES: &str = "\
sortie runs a replay, sortie-record records a batch each time;
sortie-again is the control: its distance from 1 is the error of the figures.
onnxruntime runs its own operation for attention. onnx-spin lets its threads spin while they wait, which costs CPU time.
Every contender has as many threads as the machine has cores.";

fn main() -> Outcome<()> {
    let args = Args::read(&["--model=", "--python=", "--only="]);
    let folder = args.value("--model").map_or_else(minilm, |folder| Ok(folder.into()))?;
    let python = args.value("--python").unwrap_or("python3");
    let threads = thread::available_parallelism()?.get();
    let device = sortie::Device::cpu()?;
    let mut all: Vec<(&str, Box<dyn Encode>)> = Vec::new();
    for (name, is_replay) in [("sortie", true), ("sortie-again", true), ("sortie-record", false)] {
        if name == "sortie" || args.selects(name) {
            all.push((name, Box::new(ours::Ours::open(&device, &folder, is_replay)?)));
        }
    }
    for (name, spin) in [("onnx", false), ("onnx-spin", true)] {
        if args.selects(name) {
            match onnx::Onnx::open(python, &folder, threads, spin) {
                Ok(onnx) => all.push((name, Box::new(onnx))),
                Err(error) => eprintln!("without {name}: {error} (python3 -m pip install onnxruntime onnx)"),
            }
        }
    }
    if args.selects("candle") {
        all.push(("candle", Box::new(candle::Candle::open(&folder)?)));
    }

    let rounds = if args.quick { 3 } else { 15 };
    let contenders = Contender::all(&all.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let mut report = Report::new("peers-model", args.json);
    for [rows, length] in SHAPES {
        let work = Work::new(rows, length);
        let expected = all[0].1.embed(&work)?;
        for (name, contender) in &mut all[1..] {
            let found = contender.embed(&work)?;
            let differences = found.iter().zip(&expected).map(|(x, y)| (x - y).abs());
            let worst = differences.fold(0.0, f32::max);
            eprintln!("{rows} × {length}: {name} differs by {worst:.1e}");
            if worst > WORST || found.len() != expected.len() {
                return Err(format!("{name} differs by {worst:e}").into());
            }
        }
        // A run of the smallest takes a few milliseconds: several are one turn.
        let runs = (512 / (rows * length)).max(1);
        let samples = Rounds::new(rounds).run(all.len(), |contender, _| all[contender].1.time(&work, runs))?;
        let case = format!("{rows}x{length}");
        let case = Case { device: &device.info().name, case: &case, n: rows, metrics: ["wall_us", "cpu_us"] };
        report.rows(&case, &contenders, &samples);
    }
    eprintln!("{NOTES}");
    Ok(())
}

/// Where `scripts/minilm` puts the model.
fn minilm() -> Outcome<PathBuf> {
    let of = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = of("SORTIE_CACHE").filter(|cache| cache.as_os_str() != "off");
    let cache = cache.or_else(|| Some(of("HOME")?.join(".cache/sortie"))).ok_or("there is no HOME")?;
    let folder = cache.join("minilm");
    if folder.join("model.safetensors").exists() { Ok(folder) } else { Err("scripts/minilm fetches the model".into()) }
}
