//! onnxruntime, in a process of its own.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sortie_bench::Outcome;
use tempfile::TempDir;

use crate::work::{Encode, Work};

/// A Python process that answers line by line: see `encoder.py`.
pub(crate) struct Onnx {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    files: TempDir,
}

/// Times of runs, in µs.
#[derive(serde::Deserialize)]
struct Times {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Onnx {
    pub(crate) fn open(python: &str, folder: &Path, threads: usize, spin: bool) -> Outcome<Self> {
        let files = tempfile::tempdir()?;
        let script = files.path().join("encoder.py");
        fs::write(&script, include_str!("encoder.py"))?;
        let mut command = Command::new(python);
        command.arg(&script).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a child has pipes".into());
        };
        let mut onnx = Self { child, requests, answers: BufReader::new(answers), files };
        onnx.ask::<Value>(&json!({ "threads": threads, "spin": spin }))?;
        Ok(onnx)
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Value) -> Outcome<T> {
        writeln!(self.requests, "{request}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).map_err(|error| format!("onnxruntime's process ended, or {error}").into())
    }
}

impl Encode for Onnx {
    fn embed(&mut self, work: &Work) -> Outcome<Vec<f32>> {
        let [tokens, lengths, out] = ["tokens", "lengths", "out"].map(|name| self.files.path().join(name));
        let bytes = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        fs::write(&tokens, bytes(&work.tokens))?;
        fs::write(&lengths, bytes(&work.lengths))?;
        let request = json!({
            "tokens": tokens, "lengths": lengths, "rows": work.rows, "length": work.length, "out": out
        });
        self.ask::<Value>(&request)?;
        let four = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Ok(fs::read(&out)?.chunks_exact(4).map(four).collect())
    }

    fn time(&mut self, _: &Work, runs: usize) -> Outcome<[f64; 2]> {
        let times: Times = self.ask(&json!({ "runs": runs }))?;
        Ok([times.wall, times.cpu].map(|times| times.iter().sum::<f64>() / times.len() as f64))
    }
}

impl Drop for Onnx {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
