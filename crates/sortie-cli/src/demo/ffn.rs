//! A stack of feed-forward blocks as in a language model: norm, gate, up, swish, product, down and residual.
//!
//! The stack is a list of steps that read the results of earlier ones. The device runs the same steps, one at a time or
//! together, as the reference.

use std::error::Error;

use sortie::{Batch, Buffer, Device, Replay, Tensor};

use super::work::{Strategy, Trial, Work};
use crate::{
    device::DevicePair,
    error::check_answers,
    measurement::{InFlight, Measurement},
    number,
};

const WIDTH: usize = 64;
const HIDDEN: usize = 176;
const EPSILON: f32 = 1e-6;

/// Relative to the largest value: products of up to 176 terms are summed in any order, through all layers.
const TOLERANCE: f32 = 1e-4;

#[derive(Clone, Copy, Debug)]
enum Op {
    RmsNorm,
    /// With the weights of this index.
    Matmul(usize),
    Swish,
    Mul,
    Add,
}

/// An op on the results `x` and `y` of earlier steps; unary ops ignore `y`. Result 0 is the input, result `n` that of
/// step `n`.
#[derive(Clone, Copy, Debug)]
struct Step {
    op: Op,
    x: usize,
    y: usize,
    /// Of its result.
    width: usize,
}

fn steps(layers: usize) -> Vec<Step> {
    let layer = |layer: usize| {
        let (input, weights) = (7 * layer, 3 * layer);
        let step = |op, x: usize, y: usize, width| Step { op, x: input + x, y: input + y, width };
        [
            step(Op::RmsNorm, 0, 0, WIDTH),
            step(Op::Matmul(weights), 1, 1, HIDDEN),
            step(Op::Swish, 2, 2, HIDDEN),
            step(Op::Matmul(weights + 1), 1, 1, HIDDEN),
            step(Op::Mul, 3, 4, HIDDEN),
            step(Op::Matmul(weights + 2), 5, 5, WIDTH),
            step(Op::Add, 0, 6, WIDTH),
        ]
    };
    (0..layers).flat_map(layer).collect()
}

impl Step {
    fn record<'b>(self, weights: &[Buffer<f32>], x: Tensor<'b, f32>, y: Tensor<'b, f32>) -> Tensor<'b, f32> {
        match self.op {
            Op::RmsNorm => x.rms_norm(EPSILON),
            Op::Matmul(index) => {
                let weights = &weights[index];
                x.matmul(x.batch().tensor(weights, [weights.len() / self.width, self.width]))
            }
            Op::Swish => x.swish(),
            Op::Mul => x * y,
            Op::Add => x + y,
        }
    }

    /// The same in plain Rust.
    fn reference(self, weights: &[Vec<f32>], x: &[f64], y: &[f64]) -> Vec<f64> {
        match self.op {
            Op::RmsNorm => {
                let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
                x.iter().map(|x| x / (mean + f64::from(EPSILON)).sqrt()).collect()
            }
            Op::Matmul(index) => {
                let column = |column: usize| weights[index][column..].iter().step_by(self.width);
                let product =
                    |weights| x.iter().zip(weights).map(|(x, weight): (_, &f32)| x * f64::from(*weight)).sum();
                (0..self.width).map(|at| product(column(at))).collect()
            }
            Op::Swish => x.iter().map(|x| x / (1.0 + (-x).exp())).collect(),
            Op::Mul => x.iter().zip(y).map(|(x, y)| x * y).collect(),
            Op::Add => x.iter().zip(y).map(|(x, y)| x + y).collect(),
        }
    }
}

/// Weights and results on a device.
struct Resident {
    device: Device,
    weights: Vec<Buffer<f32>>,
    /// The input, then the result of each step.
    results: Vec<Buffer<f32>>,
}

impl Resident {
    fn new(device: &Device, steps: &[Step], weights: &[Vec<f32>]) -> sortie::Result<Self> {
        let widths = std::iter::once(WIDTH).chain(steps.iter().map(|step| step.width));
        Ok(Self {
            device: device.clone(),
            weights: weights.iter().map(|weights| device.upload(weights)).collect::<sortie::Result<_>>()?,
            results: widths.map(|width| device.zeros(width)).collect::<sortie::Result<_>>()?,
        })
    }

    fn submission_each(&self, steps: &[Step]) -> sortie::Result<()> {
        let mut in_flight = InFlight::on(&self.device);
        for (step, to) in steps.iter().zip(&self.results[1..]) {
            let batch = self.device.batch();
            let [x, y] = [step.x, step.y].map(|at| batch.tensor(&self.results[at], [1, self.results[at].len()]));
            step.record(&self.weights, x, y).store(to);
            in_flight.submit(batch)?;
        }
        in_flight.wait()
    }

    fn together(&self, steps: &[Step]) -> Batch {
        let batch = self.device.batch();
        let mut results = vec![batch.tensor(&self.results[0], [1, WIDTH])];
        for step in steps {
            results.push(step.record(&self.weights, results[step.x], results[step.y]));
        }
        results[steps.len()].store(&self.results[steps.len()]);
        batch
    }
}

/// The stack on both devices.
struct Ffn {
    steps: Vec<Step>,
    input: Vec<f32>,
    expected: Vec<f32>,
    plain: Resident,
    fusing: Resident,
    replay: Replay,
}

pub(super) fn work(pair: &DevicePair, layers: usize) -> sortie::Result<Work<'static>> {
    let ffn = Ffn::new(pair, layers)?;
    Ok(Work {
        title: number::counted(layers, "feed-forward layer"),
        about: format!(
            "{}: norm, gate, up, swish, product, down and residual, on a row of {WIDTH}, {HIDDEN} in between, weights resident. Checked against plain Rust \
             in 64 bits, with a tolerance of {TOLERANCE:e} of the largest value.",
            number::counted(ffn.steps.len(), "op")
        ),
        unit: "op",
        count: ffn.steps.len(),
        strategies: &[Strategy::Each, Strategy::Batched, Strategy::Fused, Strategy::Replayed],
        run: Box::new(move |strategy| ffn.run(strategy)),
    })
}

impl Ffn {
    fn new(pair: &DevicePair, layers: usize) -> sortie::Result<Self> {
        let weights: Vec<Vec<f32>> = (0..3 * layers).map(weights).collect();
        let input: Vec<f32> = (0..WIDTH).map(|at| (at as f32 * 0.37).sin()).collect();
        let steps = steps(layers);
        let mut results: Vec<Vec<f64>> = vec![input.iter().copied().map(f64::from).collect()];
        for step in &steps {
            results.push(step.reference(&weights, &results[step.x], &results[step.y]));
        }
        let fusing = Resident::new(&pair.fusing, &steps, &weights)?;
        Ok(Self {
            expected: results[steps.len()].iter().map(|x| *x as f32).collect(),
            plain: Resident::new(&pair.plain, &steps, &weights)?,
            replay: fusing.together(&steps).freeze()?,
            fusing,
            steps,
            input,
        })
    }

    fn run(&self, strategy: Strategy) -> Result<Trial, Box<dyn Error>> {
        let on = if matches!(strategy, Strategy::Fused | Strategy::Replayed) { &self.fusing } else { &self.plain };
        let result = &on.results[self.steps.len()];
        on.results[0].write(&self.input)?;
        // The result of an earlier run must not pass for an answer.
        result.write(&[0.0; WIDTH])?;
        let measurement = Measurement::of(&on.device, || match strategy {
            Strategy::Each => on.submission_each(&self.steps),
            Strategy::Replayed => self.replay.run().submit(),
            _ => on.together(&self.steps).submit(),
        })?;
        check_answers(&strategy, "element", &result.download()?, &self.expected, near(&self.expected))?;
        Ok(Trial { measurement, count: self.steps.len(), latency: None })
    }
}

/// Whether a value is within the tolerance. NaN is near nothing.
fn near(expected: &[f32]) -> impl Fn(&f32, &f32) -> bool {
    let largest = expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
    move |answer, expected| (answer - expected).abs() <= TOLERANCE * largest
}

/// One matrix, with numbers so small that results do not grow from layer to layer.
fn weights(index: usize) -> Vec<f32> {
    let rows = if index % 3 == 2 { HIDDEN } else { WIDTH };
    let scale = 1.0 / (rows as f32).sqrt();
    (0..WIDTH * HIDDEN).map(|at| (((at * 7919 + index * 104_729) % 2003) as f32 / 1001.0 - 1.0) * scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_gives_the_reference_s_answer_and_one_batch_is_one_submission() -> Result<(), Box<dyn Error>> {
        for layers in [1, 2] {
            let ffn = Ffn::new(&DevicePair::cpu()?, layers)?;
            assert!(ffn.expected.iter().any(|x| x.abs() > 0.1) && ffn.expected != ffn.input);
            for strategy in [Strategy::Each, Strategy::Batched, Strategy::Fused, Strategy::Replayed] {
                let submissions = ffn.run(strategy)?.measurement.submissions;
                assert_eq!(submissions, if strategy == Strategy::Each { 7 * layers as u64 } else { 1 }, "{strategy}");
            }
        }
        Ok(())
    }

    #[test]
    fn near_is_near_the_largest_and_nan_is_near_nothing() {
        let near = near(&[100.0, 0.0]);
        assert!(near(&0.009, &0.0) && !near(&0.011, &0.0));
        assert!(!near(&f32::NAN, &1.0) && !near(&1.0, &f32::NAN));
    }
}
