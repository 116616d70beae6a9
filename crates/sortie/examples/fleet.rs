//! Every device of this machine behind one batcher, which shares out work by measured throughput.
//!
//! `cargo run --release -p sortie --example fleet`

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

use sortie::{
    BatchConfig, Batcher, Device, Fleet,
    batcher::{Rows, ServiceTime},
};

const CALLERS: u32 = 64;
const REQUESTS: u32 = 50;
/// Rows of a request.
const ROWS: u32 = 16;

/// Steps until a number is 1, by Collatz.
const STEPS: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x >= arrayLength(&y) { return; }
        var n = x[id.x];
        var steps = 0u;
        while n > 1u && steps < 1000u {
            if n % 2u == 0u { n /= 2u; } else { n = 3u * n + 1u; }
            steps += 1u;
        }
        y[id.x] = steps;
    }
";

fn steps(mut n: u32) -> u32 {
    let mut steps = 0;
    while n > 1 && steps < 1000 {
        n = if n.is_multiple_of(2) { n / 2 } else { n.wrapping_mul(3).wrapping_add(1) };
        steps += 1;
    }
    steps
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut devices = Device::fleet()?.devices().to_vec();
    // The same device may be listed twice.
    devices.push(Device::cpu()?);
    let fleet = Fleet::new(devices)?;
    let batcher = Batcher::new(&fleet, Rows::<u32, u32>::new([1, 1], STEPS), BatchConfig::latency())?;
    let start = Instant::now();
    let ask = |caller: u32| {
        let batcher = batcher.clone();
        tokio::spawn(async move {
            for request in 0..REQUESTS {
                let first = (caller * REQUESTS + request) * ROWS;
                let numbers: Vec<u32> = (first..first + ROWS).collect();
                let expected: Vec<u32> = numbers.iter().copied().map(steps).collect();
                assert_eq!(batcher.call(numbers).await?, expected);
            }
            Ok::<_, sortie::Error>(())
        })
    };
    for caller in (0..CALLERS).map(ask).collect::<Vec<_>>() {
        caller.await??;
    }
    let (time, metrics) = (start.elapsed(), batcher.metrics());
    println!("{} rows of {} requests in {time:.0?}, all correct:", metrics.rows, metrics.requests);
    for (device, share) in fleet.devices().iter().zip(batcher.worker_metrics()) {
        let part = 100.0 * share.rows as f64 / metrics.rows as f64;
        println!("{part:5.1} % in {:4} batches on {}", share.batches, device.info());
        if let Some(ServiceTime { fixed: batch, per_row: row }) = share.measured {
            println!("        {batch:.1?} per batch and {row:.1?} per row");
        }
    }
    Ok(())
}
