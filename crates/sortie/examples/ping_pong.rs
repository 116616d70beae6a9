//! A simulation whose state stays on the device: heat spreads over a plate, from one buffer into another and back. Two
//! steps are recorded once and replayed; only the last state is read.
//!
//! `cargo run --release -p sortie --example ping_pong`
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::time::Instant;

use sortie::{Device, Grid, Result};

const SIDE: usize = 64;
const STEPS: usize = 1000;

const SPREAD: &str = "
    const SIDE = 64u;
    @group(0) @binding(0) var<storage, read> old: array<f32>;
    @group(0) @binding(1) var<storage, read_write> next: array<f32>;
    @compute @workgroup_size(8, 8)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        let at = id.y * SIDE + id.x;
        if id.x == 0u || id.y == 0u || id.x == SIDE - 1u || id.y == SIDE - 1u {
            next[at] = old[at]; // the rim keeps its temperature
            return;
        }
        next[at] = 0.25 * (old[at - 1u] + old[at + 1u] + old[at - SIDE] + old[at + SIDE]);
    }";

fn main() -> Result<()> {
    let device = Device::open()?;
    println!("on {}", device.info());
    let spread = device.kernel(SPREAD)?;
    let mut plate = vec![0.0_f32; SIDE * SIDE];
    plate[..SIDE].fill(100.0); // hot along one edge
    let one = device.upload(&plate)?;
    let other = device.zeros::<f32>(SIDE * SIDE)?;

    let batch = device.batch();
    let groups = (SIDE / 8) as u32;
    batch.dispatch(&spread, &[&one, &other], Grid::groups([groups, groups, 1]));
    batch.dispatch(&spread, &[&other, &one], Grid::groups([groups, groups, 1]));
    let two_steps = batch.freeze()?;

    let start = Instant::now();
    let mut last = None;
    for _ in 0..STEPS / 2 {
        last = Some(two_steps.run().submit_async()?); // runs queue up, and execute in order
    }
    if let Some(ticket) = last {
        ticket.wait()?;
    }
    let time = start.elapsed();
    let found = one.download()?;

    // The same on the host.
    for _ in 0..STEPS {
        let old = plate.clone();
        for row in 1..SIDE - 1 {
            for column in 1..SIDE - 1 {
                let at = row * SIDE + column;
                plate[at] = 0.25 * (old[at - 1] + old[at + 1] + old[at - SIDE] + old[at + SIDE]);
            }
        }
    }
    let worst = found.iter().zip(&plate).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst} away from what the host computes");
    println!(
        "{STEPS} steps in {time:.1?}, {:.1} µs each; the middle is at {:.2}°",
        time.as_secs_f64() * 1e6 / STEPS as f64,
        found[SIDE * SIDE / 2 + SIDE / 2]
    );
    Ok(())
}
