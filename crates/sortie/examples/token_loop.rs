//! A token loop: a small network whose output is the next input. Recorded once, replayed for every token.
//!
//! `cargo run --release -p sortie --example token_loop`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Instant;

use sortie::{Batch, Buffer, Device, Result, Tensor};

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
    fn step(&self, batch: &Batch, token: Tensor<u32>, memory: &Buffer<f32>) -> Tensor<u32> {
        let table = batch.tensor(&self.embedding, [WORDS, WIDTH]);
        let word = table.gather(token);
        let old = batch.tensor(memory, [1, WIDTH]);
        let old = old * 0.9;
        let mixed = word + old;
        let hidden = batch.tensor(&self.hidden, [WIDTH, WIDTH]);
        let h = mixed.matmul(hidden);
        let h = h.gelu();
        let h = h + mixed;
        let h = h.rms_norm(1e-5);
        h.store(memory);
        let head = batch.tensor(&self.head, [WIDTH, WORDS]);
        let scores = h.matmul(head);
        scores.argmax(1)
    }
}

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("on {}", device.info());
    let network = Network::new(&device)?;

    // Kernels are compiled before anything is timed.
    let batch = device.batch();
    let token = batch.tensor_from(&[1], [1]);
    network.step(&batch, token, &device.zeros(WIDTH)?);
    batch.submit()?;

    // Live: recorded again for every token.
    let memory = device.zeros::<f32>(WIDTH)?;
    let start = Instant::now();
    let mut live = vec![1_u32];
    for at in 0..TOKENS {
        let batch = device.batch();
        let token = batch.tensor_from(&[live[at]], [1]);
        let next = network.step(&batch, token, &memory);
        let next = batch.read(next);
        batch.submit()?;
        live.extend(next.wait()?);
    }
    let time_live = start.elapsed();

    // Replayed: recorded once.
    let memory = device.zeros::<f32>(WIDTH)?;
    let batch = device.batch();
    let (token_input, token) = batch.input::<u32>([1]);
    let next = network.step(&batch, token, &memory);
    let next = batch.output(next);
    let replay = batch.freeze()?;
    let start = Instant::now();
    let mut replayed = vec![1_u32];
    for at in 0..TOKENS {
        let mut run = replay.run();
        run.write(token_input, &[replayed[at]]);
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
