//! A small network learns which of two interleaved moons a point is on. The gradients are written by hand. A training step
//! is twelve lines (`step`, `forward`, `gradients`), frozen into a replay that runs 1,000 times.
//!
//! `cargo run --release -p sortie --example train`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Instant;

use sortie::{Batch, Buffer, Device, Result, Tensor};

const POINTS: usize = 256;
const HIDDEN: usize = 16;
const STEPS: u64 = 1000;
const RATE: f32 = 1.0;
/// Weights and bias of the hidden layer, then of the output.
const SHAPES: [&[usize]; 4] = [&[2, HIDDEN], &[HIDDEN], &[HIDDEN, 1], &[1]];

/// The parameters, which stay on the device.
struct Network([Buffer<f32>; 4]);

impl Network {
    fn new(device: &Device) -> Result<Self> {
        let [w1, b1, w2, b2] = start();
        Ok(Self([device.upload(&w1)?, device.upload(&b1)?, device.upload(&w2)?, device.upload(&b2)?]))
    }

    fn tensors<'b>(&self, batch: &'b Batch) -> [Tensor<'b, f32>; 4] {
        std::array::from_fn(|at| batch.tensor(&self.0[at], SHAPES[at]))
    }

    /// A step down the gradients.
    fn step<'b>(&self, x: Tensor<'b, f32>, y: Tensor<'b, f32>) {
        let old = self.tensors(x.batch());
        for ((parameter, old), gradient) in self.0.iter().zip(old).zip(gradients(old, x, y)) {
            (old - RATE * gradient).store(parameter);
        }
    }
}

/// The hidden layer, and how likely each point is on the second moon.
fn forward<'b>([w1, b1, w2, b2]: [Tensor<'b, f32>; 4], x: Tensor<'b, f32>) -> [Tensor<'b, f32>; 2] {
    let hidden = (x.matmul(w1) + b1).tanh();
    [hidden, (hidden.matmul(w2) + b2).sigmoid()]
}

/// The gradients of the mean cross-entropy.
fn gradients<'b>(network: [Tensor<'b, f32>; 4], x: Tensor<'b, f32>, y: Tensor<'b, f32>) -> [Tensor<'b, f32>; 4] {
    let [hidden, guess] = forward(network, x);
    let d_out = (guess - y) / POINTS as f32;
    let d_hidden = d_out.matmul(network[2].transpose()) * (1.0 - hidden * hidden);
    let (of_w1, of_b1) = (x.transpose().matmul(d_hidden), d_hidden.sum(&[0]));
    let (of_w2, of_b2) = (hidden.transpose().matmul(d_out), d_out.sum(&[0]));
    [of_w1, of_b1, of_w2, of_b2]
}

/// The mean cross-entropy, and how many points of a hundred are on the moon that the network says.
fn score(device: &Device, network: &Network, (x, y): &(Vec<f32>, Vec<f32>)) -> Result<[f32; 2]> {
    let batch = device.batch();
    let (x, y) = (batch.tensor_from(x, [POINTS, 2]), batch.tensor_from(y, [POINTS, 1]));
    let [_, guess] = forward(network.tensors(&batch), x);
    let loss = (0.0 - y * guess.log() - (1.0 - y) * (1.0 - guess).log()).mean(&[0, 1]).read();
    let right = (guess.greater(0.5).cast::<f32>().equal(y).cast::<f32>() * 100.0).mean(&[0, 1]).read();
    batch.submit()?;
    Ok([loss.wait()?[0], right.wait()?[0]])
}

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("on {}", device.info());
    let (known, unknown) = (moons(1), moons(2));

    // The gradients at the start, against plain Rust.
    let network = Network::new(&device)?;
    let batch = device.batch();
    let (x, y) = (batch.tensor_from(&known.0, [POINTS, 2]), batch.tensor_from(&known.1, [POINTS, 1]));
    let readings = gradients(network.tensors(&batch), x, y).map(Tensor::read);
    batch.submit()?;
    for (reading, expected) in readings.into_iter().zip(gradients_in_plain_rust(&known.0, &known.1)) {
        for (found, expected) in reading.wait()?.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "gradient {found}, in plain Rust {expected}");
        }
    }

    // The step is recorded once and replayed. Its data is written once, too.
    let [loss_before, _] = score(&device, &network, &known)?;
    let batch = device.batch();
    let (x, y) = (batch.tensor_from(&known.0, [POINTS, 2]), batch.tensor_from(&known.1, [POINTS, 1]));
    network.step(x, y);
    let step = batch.freeze()?;

    let (clock, before) = (Instant::now(), device.metrics());
    for _ in 0..STEPS {
        step.run().submit()?;
    }
    let (time, did) = (clock.elapsed(), device.metrics() - before);
    let native = if did.native_runs == STEPS { "native" } else { "not native" };
    println!("{STEPS} steps in {time:.1?}; the runs were {native} ({} of {STEPS})", did.native_runs);

    let [loss, _] = score(&device, &network, &known)?;
    let [_, right] = score(&device, &network, &unknown)?;
    println!("loss {loss_before:.3} before, {loss:.3} after; {right:.1} % of points never seen are told right");
    assert!(loss < loss_before / 4.0);
    assert!(right >= 98.0);
    Ok(())
}

/// Numbers from 0 to 1, the same on every machine.
fn random(seed: u32) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    }
}

/// Parameters before training.
fn start() -> [Vec<f32>; 4] {
    let mut random = random(7);
    SHAPES.map(|shape| (0..shape.iter().product()).map(|_| 2.0 * random() - 1.0).collect())
}

/// Points on two half circles, with some noise; and for each 1 if it is on the second.
fn moons(seed: u32) -> (Vec<f32>, Vec<f32>) {
    let mut random = random(seed);
    let labels: Vec<f32> = (0..POINTS).map(|at| (at % 2) as f32).collect();
    let point = |second: &f32| {
        let (sin, cos) = (random() * std::f32::consts::PI).sin_cos();
        let [x, y] = if *second == 1.0 { [1.0 - cos, 0.4 - sin] } else { [cos, sin] };
        [x + 0.2 * random() - 0.1, y + 0.2 * random() - 0.1]
    };
    (labels.iter().flat_map(point).collect(), labels)
}

fn gradients_in_plain_rust(points: &[f32], labels: &[f32]) -> [Vec<f32>; 4] {
    let [w1, b1, w2, b2] = start();
    let mut gradients = SHAPES.map(|shape| vec![0.0; shape.iter().product()]);
    for (point, label) in points.chunks(2).zip(labels) {
        let hidden: Vec<f32> =
            (0..HIDDEN).map(|at| (point[0] * w1[at] + point[1] * w1[HIDDEN + at] + b1[at]).tanh()).collect();
        let out = hidden.iter().zip(&w2).map(|(hidden, weight)| hidden * weight).sum::<f32>() + b2[0];
        let d_out = (1.0 / (1.0 + (-out).exp()) - label) / POINTS as f32;
        gradients[3][0] += d_out;
        for at in 0..HIDDEN {
            let d_hidden = d_out * w2[at] * (1.0 - hidden[at] * hidden[at]);
            gradients[0][at] += point[0] * d_hidden;
            gradients[0][HIDDEN + at] += point[1] * d_hidden;
            gradients[1][at] += d_hidden;
            gradients[2][at] += hidden[at] * d_out;
        }
    }
    gradients
}
