//! A token loop: a small network whose output is the next input. Recorded once, replayed for every token.
//!
//! `cargo run --release -p sortie --example token_loop`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Instant;

use sortie::{Buffer, Device, Result, Tensor};

const WORDS: usize = 64;
const WIDTH: usize = 128;
const TOKENS: usize = 200;

struct Network {
    embedding: Buffer<f32>,
    hidden: Buffer<f32>,
    head: Buffer<f32>,
}

/// Pseudo-random numbers, the same on every machine.
fn weights(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 7919 + seed * 104_729) % 1999) as f32 / 8000.0 - 0.125).collect()
}

impl Network {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            embedding: device.upload(&weights(WORDS * WIDTH, 1))?,
            hidden: device.upload(&weights(WIDTH * WIDTH, 2))?,
            head: device.upload(&weights(WIDTH * WORDS, 3))?,
        })
    }

    /// The next word: the hidden state is mixed with the last word.
    fn step<'b>(&self, token: Tensor<'b, u32>, memory: &Buffer<f32>) -> Tensor<'b, u32> {
        let batch = token.batch();
        let word = batch.tensor(&self.embedding, [WORDS, WIDTH]).gather(token);
        let mixed = word + 0.9 * batch.tensor(memory, [1, WIDTH]);
        let hidden = mixed.matmul(batch.tensor(&self.hidden, [WIDTH, WIDTH])).gelu();
        let state = (hidden + mixed).rms_norm(1e-5);
        state.store(memory);
        state.matmul(batch.tensor(&self.head, [WIDTH, WORDS])).argmax(1)
    }
}

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("on {}", device.info());
    let network = Network::new(&device)?;

    // Kernels are compiled before anything is timed.
    let batch = device.batch();
    network.step(batch.tensor_from(&[1], [1]), &device.zeros(WIDTH)?);
    batch.submit()?;

    // Live: recorded again for every token.
    let memory = device.zeros::<f32>(WIDTH)?;
    let start = Instant::now();
    let mut live = vec![1_u32];
    for at in 0..TOKENS {
        let batch = device.batch();
        let next = network.step(batch.tensor_from(&[live[at]], [1]), &memory).read();
        batch.submit()?;
        live.extend(next.wait()?);
    }
    let time_live = start.elapsed();

    // Replayed: recorded once.
    let memory = device.zeros::<f32>(WIDTH)?;
    let batch = device.batch();
    let (last, token) = batch.input::<u32>([1]);
    let next = network.step(token, &memory).output();
    let replay = batch.freeze()?;
    let start = Instant::now();
    let mut replayed = vec![1_u32];
    for at in 0..TOKENS {
        let mut run = replay.run();
        run.write(last, &[replayed[at]]);
        let next = run.read(next);
        run.submit()?;
        replayed.extend(next.wait()?);
    }
    let time_replayed = start.elapsed();

    assert_eq!(live, replayed, "the same words");
    println!("{TOKENS} tokens, among them {:?} …", &live[..8]);
    println!("recorded for every token: {:.1} µs a token", time_live.as_secs_f64() * 1e6 / TOKENS as f64);
    println!("replayed:                 {:.1} µs a token", time_replayed.as_secs_f64() * 1e6 / TOKENS as f64);
    Ok(())
}
