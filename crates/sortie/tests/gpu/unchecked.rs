//! Kernels whose author vouches for them.
#![expect(unsafe_code, reason = "vouches for kernels")]

use sortie::{Device, Grid, Kernel, Result, wgpu::ShaderRuntimeChecks};

use crate::on_all;

/// All that checks watch: arrays, buffers, loops, divisions and workgroup memory. `x` has as many elements as `y`.
const SUMS: &str = "
    override width: u32 = 32;
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    var<workgroup> parts: array<u32, 64>;
    @compute @workgroup_size(width) fn main(
        @builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) lane: u32
    ) {
        var sum = parts[lane + 32u];
        var weights = array<u32, 4>(1u, 2u, 3u, 4u);
        for (var at = 0u; at <= id.x && at < arrayLength(&x); at++) { sum += x[at] * weights[at % 4u]; }
        parts[lane] = sum / (id.x + 1u);
        workgroupBarrier();
        if id.x < arrayLength(&y) { y[id.x] = parts[lane] + sum; }
    }
";

fn unchecked(device: &Device) -> Result<Kernel> {
    // SAFETY: every access is in bounds, the loop ends, and no divisor is zero.
    unsafe { device.module_unchecked(SUMS, ShaderRuntimeChecks::unchecked())? }.kernel("main")
}

#[test]
fn a_kernel_without_checks_that_needs_none_gives_the_same_in_batches_and_replays() {
    on_all(|device| {
        let before = device.metrics();
        let kernels = [device.kernel(SUMS)?, unchecked(device)?];
        assert_eq!((device.metrics() - before).pipelines_created, 2, "each has its own");
        let x = device.upload(&(1..=1000).collect::<Vec<u32>>())?;
        let mut results = Vec::new();
        for kernel in &kernels {
            let y = device.zeros::<u32>(1000)?;
            let batch = device.batch();
            batch.dispatch(kernel, &[&x, &y], 1000);
            batch.submit()?;
            results.push(y.download()?);
            let z = device.zeros::<u32>(1000)?;
            let batch = device.batch();
            batch.dispatch(kernel, &[&x, &z], 1000);
            batch.freeze()?.run().submit()?;
            results.push(z.download()?);
        }
        assert_eq!(results[0][..3], [2, 7, 18], "1, then (1 + 4) ÷ 2, then (1 + 4 + 9) ÷ 3, each and the sum");
        assert!(results.iter().all(|result| *result == results[0]));
        Ok(())
    });
}

#[test]
fn the_built_in_cpu_checks_anyway() -> Result<()> {
    let device = Device::cpu()?;
    let source = "
        @group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) {
            y[id.x + 1000000u] = 7u;
            y[id.x] = x[id.x * 1000u] / (id.x & 0u) + 1u;
        }";
    // SAFETY: none of it is right, but it runs on the built-in CPU only.
    let wild = unsafe { device.module_unchecked(source, ShaderRuntimeChecks::unchecked())? }.only_kernel()?;
    let mut results = Vec::new();
    for kernel in [device.kernel(source)?, wild] {
        let (x, y) = (device.upload(&[5_u32; 64])?, device.zeros::<u32>(64)?);
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x, &y], Grid::groups(64));
        batch.submit()?;
        results.push(y.download()?);
    }
    assert_eq!(results[0], results[1]);
    Ok(())
}
