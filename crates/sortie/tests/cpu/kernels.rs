//! Dispatches: what is bound, how much runs, and what is counted.

use sortie::{DeviceOptions, ErrorKind, Grid};

use crate::{cpu, cpu_with};

/// Reads its first binding and writes its second: y = 2 x + 1.
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = 2u * x[id.x] + 1u; }
    }
";

/// Swaps what its two bindings hold.
const SWAP: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(4)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        let kept = x[id.x];
        x[id.x] = y[id.x];
        y[id.x] = kept;
    }
";

fn step(x: u32) -> u32 {
    x.wrapping_mul(2).wrapping_add(1)
}

#[test]
fn a_dispatch_covers_all_items_whatever_their_number_and_the_threads() -> sortie::Result<()> {
    for threads in [1, 2, 5] {
        let device = cpu_with(DeviceOptions::default().with_threads(threads));
        let kernel = device.kernel(STEP)?;
        for len in [1_u32, 63, 64, 65, 1000, 100_000] {
            let data: Vec<u32> = (0..len).collect();
            let (x, y) = (device.upload(&data)?, device.zeros::<u32>(data.len())?);
            let batch = device.batch();
            batch.dispatch(&kernel, &[&x, &y], Grid::items(len));
            let result = batch.read(&y);
            batch.submit()?;
            assert_eq!(result.wait()?, data.iter().map(|x| step(*x)).collect::<Vec<_>>());
        }
    }
    Ok(())
}

#[test]
fn a_thousand_chained_dispatches_are_one_submission_and_one_pass() -> sortie::Result<()> {
    let device = cpu();
    let kernel = device.kernel(STEP)?;
    let (x, y) = (device.upload(&[1_u32, 2, 3, 4])?, device.zeros::<u32>(4)?);
    let mut expected = [1_u32, 2, 3, 4];
    let before = device.metrics();
    let batch = device.batch();
    for _ in 0..500 {
        batch.dispatch(&kernel, &[&x, &y], Grid::items(4));
        batch.dispatch(&kernel, &[&y, &x], Grid::items(4));
        expected = expected.map(|value| step(step(value)));
    }
    batch.submit()?;
    let after = device.metrics() - before;
    assert_eq!((after.submissions, after.passes, after.dispatches), (1, 1, 1000));
    assert_eq!(x.download()?, expected);
    Ok(())
}

#[test]
fn the_same_source_is_made_ready_once() -> sortie::Result<()> {
    let device = cpu();
    let before = device.metrics();
    device.kernel(STEP)?;
    device.kernel(STEP)?;
    device.kernel(SWAP)?;
    assert_eq!((device.metrics() - before).pipelines_created, 2);
    Ok(())
}

#[test]
fn parts_of_one_buffer_may_be_bound_side_by_side_to_be_written() -> sortie::Result<()> {
    let device = cpu();
    let kernel = device.kernel(SWAP)?;
    let x = device.upload(&[1_u32, 2, 3, 4, 5, 6, 7, 8, 9, 10])?;
    let batch = device.batch();
    // The later part first, and a word between them.
    batch.dispatch(&kernel, &[&x.slice(6..10), &x.slice(1..5)], Grid::groups(1));
    batch.submit()?;
    assert_eq!(x.download()?, [1, 7, 8, 9, 10, 6, 2, 3, 4, 5]);
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x.slice(..4), &x.slice(3..7)], Grid::groups(1));
    assert_eq!(batch.submit().expect_err("they overlap").kind(), ErrorKind::Bindings);
    let step = device.kernel(STEP)?;
    let batch = device.batch();
    batch.dispatch(&step, &[&x.slice(..4), &x.slice(4..8)], Grid::items(4));
    batch.submit()?;
    assert_eq!(x.download()?[4..8], [3, 15, 17, 19], "one reads, one writes");
    Ok(())
}

#[test]
fn parts_of_one_buffer_may_be_bound_as_often_as_one_likes_to_be_read() -> sortie::Result<()> {
    let device = cpu();
    let kernel = device.kernel(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> sum: array<u32>;
        @group(1) @binding(0) var<storage, read> y: array<u32>;
        @group(2) @binding(0) var<uniform> z: vec4<u32>;
        @compute @workgroup_size(4)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) { sum[id.x] = x[id.x] + 10u * y[id.x] + 100u * z[id.x]; }",
    )?;
    let x = device.upload(&[1_u32, 2, 3, 4, 5, 6, 7, 8])?;
    let sum = device.zeros::<u32>(4)?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x, &sum, &x.slice(2..), &x.slice(1..5)], Grid::groups(1));
    batch.submit()?;
    assert_eq!(sum.download()?, [231, 342, 453, 564]);
    Ok(())
}

#[test]
fn a_slice_is_as_long_as_it_is_bound() -> sortie::Result<()> {
    let device = cpu();
    let kernel = device.kernel(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> length: array<u32>;
        @compute @workgroup_size(1) fn main() { length[0] = arrayLength(&x); }",
    )?;
    let (x, length) = (device.zeros::<u32>(100)?, device.zeros::<u32>(1)?);
    for (start, end) in [(0, 100), (1, 100), (7, 8), (0, 99)] {
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x.slice(start..end), &length], Grid::groups(1));
        batch.submit()?;
        assert_eq!(length.download()?, [end as u32 - start as u32]);
    }
    Ok(())
}

#[test]
fn a_binding_that_is_only_mentioned_is_given() -> sortie::Result<()> {
    let device = cpu();
    let kernel = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> mentioned: array<u32>;
        @group(0) @binding(1) var<storage, read> unused: array<u32>;
        @group(0) @binding(2) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() { _ = &mentioned; x[0] = 3u; }",
    )?;
    assert_eq!(kernel.num_bindings(), 2);
    let (a, x) = (device.zeros::<u32>(1)?, device.zeros::<u32>(1)?);
    let batch = device.batch();
    batch.dispatch(&kernel, &[&a, &x], Grid::groups(1));
    batch.submit()?;
    assert_eq!(x.download()?, [3]);
    Ok(())
}

#[test]
fn scratch_is_bound_like_any_memory() -> sortie::Result<()> {
    let device = cpu();
    let kernel = device.kernel(STEP)?;
    let x = device.upload(&[1_u32; 64])?;
    let batch = device.batch();
    let mut slots = vec![batch.scratch::<u32>(64)];
    batch.dispatch(&kernel, &[&x, &slots[0]], Grid::items(64));
    for _ in 0..20 {
        let next = batch.scratch::<u32>(64);
        batch.dispatch(&kernel, &[&slots[slots.len() - 1], &next], Grid::items(64));
        slots.push(next);
    }
    let result = batch.read(slots[20]);
    batch.submit()?;
    assert_eq!(result.wait()?, [(0..21).fold(1, |value, _| step(value)); 64]);
    Ok(())
}

/// Counts how often it ran.
const COUNT: &str = "
    @group(0) @binding(0) var<storage, read_write> x: atomic<u32>;
    @compute @workgroup_size(1) fn main() { atomicAdd(&x, 1u); }
";

#[test]
fn grids_of_any_size_are_run_as_they_are() -> sortie::Result<()> {
    let device = cpu();
    let kernel = device.kernel(COUNT)?;
    for groups in [[0_u32, 5, 5], [65_536, 1, 1], [1, 70_000, 1], [3, 1, 65_537]] {
        let x = device.zeros::<u32>(1)?;
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x], Grid::groups(groups));
        batch.submit()?;
        assert_eq!(x.download()?, [groups.iter().product::<u32>()], "{groups:?}");
    }
    Ok(())
}

#[test]
fn an_indirect_grid_is_read_when_the_dispatch_runs() -> sortie::Result<()> {
    let device = cpu();
    let kernel = device.kernel(COUNT)?;
    let (x, counts) = (device.zeros::<u32>(1)?, device.zeros::<u32>(8)?);
    let batch = device.batch();
    batch.write(counts.slice(4..7), &[3, 2, 4]);
    batch.dispatch(&kernel, &[&x], Grid::indirect(&counts.slice(4..7)));
    batch.write(counts.slice(4..7), &[3, 0, 4]);
    batch.dispatch(&kernel, &[&x], Grid::indirect(&counts.slice(4..7)));
    batch.submit()?;
    assert_eq!(x.download()?, [24]);
    Ok(())
}

#[test]
fn each_dispatch_has_its_own_immediates_up_to_the_limit() -> sortie::Result<()> {
    let device = cpu();
    let kernel = device.kernel(
        "var<immediate> amounts: array<u32, 64>;
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) { x[i] += amounts[i]; }",
    )?;
    let x = device.zeros::<u32>(64)?;
    let batch = device.batch();
    for round in 1..=10_u32 {
        let amounts: [u32; 64] = std::array::from_fn(|index| round * index as u32);
        batch.dispatch(&kernel, &[&x], Grid::groups(1)).immediates(&amounts);
    }
    batch.submit()?;
    assert_eq!(x.download()?, (0..64).map(|index| 55 * index).collect::<Vec<u32>>());
    Ok(())
}
