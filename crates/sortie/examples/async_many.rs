//! Many tasks share one device: each records and submits a batch of its own and awaits its own result.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use sortie::{Device, Grid, Kernel, Result};
use tokio::task::JoinSet;

const TASKS: u32 = 64;

const SQUARE: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64)
    fn square(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] = x[id.x] * x[id.x]; }
    }";

/// Raises numbers to the power of four.
async fn fourth_power(device: Device, square: Kernel, input: Vec<u32>) -> Result<Vec<u32>> {
    let x = device.upload(&input)?;
    let batch = device.batch();
    batch.dispatch(&square, &[&x], Grid::items(x.len()));
    batch.dispatch(&square, &[&x], Grid::items(x.len()));
    let result = batch.read(&x);
    // Never waits for the device; the ticket is awaited while other tasks record.
    batch.submit_async()?.await?;
    result.await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open()?;
    let square = device.kernel(SQUARE)?;

    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let work = fourth_power(device.clone(), square.clone(), (task..task + 100).collect());
        tasks.spawn(async move { (task, work.await) });
    }
    while let Some(done) = tasks.join_next().await {
        let (task, result) = done?;
        let expected: Vec<u32> = (task..task + 100).map(|x| x.pow(4)).collect();
        assert_eq!(result?, expected, "task {task}");
    }
    println!("{TASKS} tasks, {} submissions on {}", device.metrics().submissions, device.info());
    Ok(())
}
