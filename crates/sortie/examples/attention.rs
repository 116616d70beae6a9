//! One block of attention with several heads and a causal mask, checked against plain Rust.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

use sortie::{Device, Tensor};

const HEADS: usize = 4;
const TOKENS: usize = 32;
const SIZE: usize = 16;
const WIDTH: usize = HEADS * SIZE;

/// Rows of tokens as rows of each head.
fn heads(x: Tensor<'_, f32>) -> Tensor<'_, f32> {
    x.reshape([TOKENS, HEADS, SIZE]).permute(&[1, 0, 2])
}

fn attention<'b>(x: Tensor<'b, f32>, weights: [Tensor<'b, f32>; 3], mask: Tensor<'b, f32>) -> Tensor<'b, f32> {
    let [query, key, value] = weights.map(|weights| heads(x.matmul(weights)));
    let scores = query.matmul(key.transpose()) / (SIZE as f32).sqrt() + mask;
    scores.softmax().matmul(value).permute(&[1, 0, 2]).reshape([TOKENS, WIDTH])
}

/// The same in plain Rust.
fn reference(x: &[f32], weights: &[Vec<f32>; 3]) -> Vec<f64> {
    let product = |weights: &[f32]| -> Vec<f64> {
        (0..TOKENS * WIDTH)
            .map(|at| {
                (0..WIDTH)
                    .map(|i| f64::from(x[at / WIDTH * WIDTH + i]) * f64::from(weights[i * WIDTH + at % WIDTH]))
                    .sum()
            })
            .collect()
    };
    let [query, key, value] = weights.each_ref().map(|weights| product(weights));
    let mut out = vec![0.0; TOKENS * WIDTH];
    for head in 0..HEADS {
        for token in 0..TOKENS {
            let at = |token: usize, i: usize| token * WIDTH + head * SIZE + i;
            let score = |other: usize| {
                (0..SIZE).map(|i| query[at(token, i)] * key[at(other, i)]).sum::<f64>() / (SIZE as f64).sqrt()
            };
            let shares: Vec<f64> = (0..=token).map(|other| score(other).exp()).collect();
            let all: f64 = shares.iter().sum();
            for i in 0..SIZE {
                out[at(token, i)] = (0..=token).map(|other| shares[other] / all * value[at(other, i)]).sum();
            }
        }
    }
    out
}

fn main() -> sortie::Result<()> {
    let device = Device::open()?;
    let some = |len: usize, seed: usize| -> Vec<f32> {
        (0..len).map(|at| ((at * 7919 + seed * 104_729) % 2003) as f32 / 8000.0 - 0.125).collect()
    };
    let input: Vec<f32> = some(TOKENS * WIDTH, 9).iter().map(|x| x * 8.0).collect();
    let weights = [some(WIDTH * WIDTH, 1), some(WIDTH * WIDTH, 2), some(WIDTH * WIDTH, 3)];
    // Causal mask: no token sees later ones.
    let mask: Vec<f32> =
        (0..TOKENS * TOKENS).map(|at| if at % TOKENS > at / TOKENS { f32::NEG_INFINITY } else { 0.0 }).collect();

    let (start, before) = (Instant::now(), device.metrics());
    let batch = device.batch();
    let x = batch.tensor_from(&input, [TOKENS, WIDTH]);
    let mask = batch.tensor_from(&mask, [TOKENS, TOKENS]);
    let projections = weights.each_ref().map(|weights| batch.tensor_from(weights, [WIDTH, WIDTH]));
    let y = attention(x, projections, mask).read();
    let (ops, plan) = (batch.num_ops(), batch.plan()?);
    batch.submit()?;
    let y = y.wait()?;
    let after = device.metrics();
    println!(
        "{ops} ops, {} kernels compiled, {} dispatches, {} submissions, {} KiB at most, {:?} on {}",
        after.pipelines_created - before.pipelines_created,
        plan.dispatches(),
        after.submissions - before.submissions,
        plan.peak_bytes() / 1024,
        start.elapsed(),
        device.info(),
    );
    let worst = y.iter().zip(reference(&input, &weights)).map(|(y, x)| (f64::from(*y) - x).abs()).fold(0.0, f64::max);
    println!("at most {worst:.1e} from f64");
    assert!(worst < 1e-5);
    Ok(())
}
