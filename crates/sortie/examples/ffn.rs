//! A stack of feed-forward blocks as in a language model: norm, gate and up, swish, product, down, residual. Thirty-six
//! layers are one submission of four kernels; later runs compile nothing.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

use sortie::{Buffer, Device, Tensor};

const LAYERS: usize = 36;
const WIDTH: usize = 128;
const HIDDEN: usize = 352;
const ROWS: usize = 8;
const RUNS: usize = 5;

/// Weights, resident on the device.
struct Layer {
    gate: Buffer<f32>,
    up: Buffer<f32>,
    down: Buffer<f32>,
}

impl Layer {
    fn new(device: &Device, seed: usize) -> sortie::Result<Self> {
        let weights = |rows: usize, columns: usize, kind: usize| {
            let scale = 1.0 / (rows as f32).sqrt();
            let value = |at: usize| (((at * 7919 + seed * 104_729 + kind * 1299) % 2003) as f32 / 1001.0 - 1.0) * scale;
            device.upload(&(0..rows * columns).map(value).collect::<Vec<_>>())
        };
        Ok(Self { gate: weights(WIDTH, HIDDEN, 1)?, up: weights(WIDTH, HIDDEN, 2)?, down: weights(HIDDEN, WIDTH, 3)? })
    }

    fn forward<'b>(&self, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        let batch = x.batch();
        let [gate, up] = [&self.gate, &self.up].map(|weights| batch.tensor(weights, [WIDTH, HIDDEN]));
        let down = batch.tensor(&self.down, [HIDDEN, WIDTH]);
        let normed = x.rms_norm(1e-6);
        x + (normed.matmul(gate).swish() * normed.matmul(up)).matmul(down)
    }
}

fn main() -> sortie::Result<()> {
    let device = Device::open()?;
    let layers: Vec<Layer> = (0..LAYERS).map(|seed| Layer::new(&device, seed)).collect::<sortie::Result<_>>()?;
    let input: Vec<f32> = (0..ROWS * WIDTH).map(|at| (at as f32 * 0.37).sin()).collect();

    let mut answers = Vec::new();
    for run in 1..=RUNS {
        let (start, before) = (Instant::now(), device.metrics());
        let batch = device.batch();
        let x = batch.tensor_from(&input, [ROWS, WIDTH]);
        let y = layers.iter().fold(x, |x, layer| layer.forward(x)).read();
        let (ops, plan) = (batch.num_ops(), batch.plan()?);
        batch.submit()?;
        answers.push(y.wait()?);
        let after = device.metrics();
        println!(
            "run {run}: {ops} ops, {} kernels compiled, {} dispatches, {} submissions, {} KiB at most, {:?}",
            after.pipelines_created - before.pipelines_created,
            plan.dispatches(),
            after.submissions - before.submissions,
            plan.peak_bytes() / 1024,
            start.elapsed(),
        );
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert!(answers[0].iter().all(|x| x.is_finite()));
    println!("on {}", device.info());
    Ok(())
}
