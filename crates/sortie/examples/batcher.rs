//! A thousand tasks make single requests; the batcher runs them on the device in batches.
//!
//! `cargo run --release -p sortie --example batcher [ROWS]`: at most `ROWS` rows per batch

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

use sortie::{
    Batch, BatchConfig, Batcher, Device, Grid, Kernel,
    batcher::{Answers, DeviceJob},
};

const TASKS: u32 = 1000;
const REQUESTS: u32 = 100;

/// The length of a vector.
struct Length;

impl DeviceJob for Length {
    type Input = [f32; 4];
    type Output = f32;
    type Ready = Kernel;

    fn prepare(&self, device: &Device) -> sortie::Result<Kernel> {
        device.kernel(
            "@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
            @group(0) @binding(1) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x < arrayLength(&y) { y[id.x] = length(x[id.x]); }
            }",
        )
    }

    fn record(&self, kernel: &mut Kernel, batch: &Batch, inputs: &[[f32; 4]]) -> sortie::Result<Answers<f32>> {
        let x = batch.scratch::<[f32; 4]>(inputs.len());
        batch.write(x, inputs);
        let y = batch.scratch::<f32>(inputs.len());
        batch.dispatch(kernel, &[&x, &y], Grid::items(inputs.len()));
        let y = batch.read(y);
        Ok(Box::new(|| Ok(y.wait()?.into_iter().map(Ok).collect())))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open()?;
    let mut config = BatchConfig::default();
    if let Some(rows) = std::env::args().nth(1) {
        config.max_batch_size = rows.parse()?;
    }
    let batcher = Batcher::new(&device, Length, config)?;
    let start = Instant::now();
    let ask = |task: u32| {
        let batcher = batcher.clone();
        tokio::spawn(async move {
            for request in 0..REQUESTS {
                let [a, b] = [task as f32, request as f32];
                let length = batcher.call([a, 0.0, 0.0, b]).await?;
                assert!((length - a.hypot(b)).abs() <= 1e-3 * (1.0 + length), "{length} of {a} and {b}");
            }
            Ok::<_, sortie::Error>(())
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(ask).collect();
    for task in tasks {
        task.await??;
    }
    let (time, metrics) = (start.elapsed(), batcher.metrics());
    let rate = metrics.requests as f64 / time.as_secs_f64();
    println!("{} requests of {TASKS} tasks in {} batches on {}", metrics.requests, metrics.batches, device.info());
    let (mean, fill) = (metrics.rows as f64 / metrics.batches as f64, 100.0 * metrics.fill);
    println!("{rate:.0} requests a second; {mean:.0} to a batch, {fill:.0} % of what it may have");
    println!(
        "waited {:?} (99 %: {:?}), served in {:?} (99 %: {:?})",
        metrics.wait.p50, metrics.wait.p99, metrics.service.p50, metrics.service.p99
    );
    Ok(())
}
