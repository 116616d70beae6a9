//! Indirect grids in native recordings: counts that change from run to run, checked on the device.

use sortie::{Device, Grid, Kernel, wgpu};

use crate::{devices, drivers, native::native_runs, resubmit};

/// Counts the groups that run in the first word, and keeps the number of groups that each sees after it.
const COUNT: &str = "
    @group(0) @binding(0) var<storage, read_write> seen: array<atomic<u32>, 4>;
    @compute @workgroup_size(1) fn main(@builtin(num_workgroups) groups: vec3<u32>) {
        atomicAdd(&seen[0], 1u);
        atomicMax(&seen[1], groups.x);
        atomicMax(&seen[2], groups.y);
        atomicMax(&seen[3], groups.z);
    }";

fn count(device: &Device) -> Kernel {
    device.kernel(COUNT).expect("a kernel")
}

/// Grids, up to the limit and beyond it.
fn grids(device: &Device) -> Vec<[u32; 3]> {
    let most = device.info().limits.groups;
    let mut grids = vec![[1, 1, 1], [3, 2, 5], [0, 7, 7], [7, 7, 0], [0, 0, 0], [4, 4, 4]];
    // The built-in CPU has no limit.
    if !device.is_cpu() {
        let past = most + 1;
        grids.extend([
            [most, 1, 1],
            [past, 1, 1],
            [1, past, 1],
            [1, 1, past],
            [u32::MAX, 0, 1],
            [u32::MAX; 3],
            [2, 1, 1],
        ]);
    }
    grids
}

/// What [`COUNT`] leaves.
fn seen(device: &Device, grid: [u32; 3]) -> [u32; 4] {
    let most = if device.is_cpu() { u32::MAX } else { device.info().limits.groups };
    let [x, y, z] = grid;
    if grid.contains(&0) || grid.iter().any(|count| *count > most) { [0; 4] } else { [x * y * z, x, y, z] }
}

#[test]
fn each_run_has_the_grid_that_its_counts_give_and_none_over_the_limit() {
    for (name, device) in devices() {
        let count = count(&device);
        let batch = device.batch();
        let (counts_input, counts) = batch.input::<u32>([8]);
        let result = batch.scratch::<u32>(4);
        // In the middle of a buffer, where no binding may start.
        let grid = device.zeros::<u32>(512).expect("memory");
        batch.copy(&counts, grid.slice(301..309));
        batch.dispatch(&count, &[&result], Grid::indirect(&grid.slice(303..306)));
        let result = batch.output(result);
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"));
        let all = grids(&device);
        for [x, y, z] in &all {
            let mut run = replay.run();
            run.write(counts_input, &[9, 9, *x, *y, *z, 9, 9, 9]);
            let result = run.read(result);
            run.submit().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(result.wait().expect("it ran"), seen(&device, [*x, *y, *z]), "{name}: {x} × {y} × {z}");
        }
        assert_eq!(device.metrics().native_runs, native_runs(&device, all.len() as u64), "{name}");
    }
}

#[test]
fn dispatches_find_their_grids_in_order_and_count_once() {
    const NEXT: &str = "
        @group(0) @binding(0) var<storage, read_write> grids: array<u32>;
        @compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
            if id.x == 0u { grids[groups.x * 3u] = groups.x + 1u; }
        }";
    for (name, device) in devices() {
        let (count, next) = (count(&device), device.kernel(NEXT).expect("a kernel"));
        let grids = device.upload(&[1_u32; 30]).expect("memory");
        let results: Vec<_> = (0..10).map(|_| device.zeros::<u32>(4).expect("memory")).collect();
        let batch = device.batch();
        let grid = |at: usize| grids.slice(3 * at..3 * at + 3);
        for at in 0..9 {
            // Dispatch `at` has `at + 1` groups and writes the grid after its own.
            batch.dispatch(&next, &[&grids.slice(..)], Grid::groups([at as u32 + 1, 1, 1]));
        }
        for (at, result) in results.iter().enumerate() {
            batch.dispatch(&count, &[result], Grid::indirect(&grid(at)));
        }
        // A grid that is written after it was used.
        batch.fill(&grids, 2);
        batch.dispatch(&count, &[&results[0]], Grid::indirect(&grid(4)));
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{name}: {error}"));
        let before = device.metrics();
        replay.run().submit().unwrap_or_else(|error| panic!("{name}: {error}"));
        let done = device.metrics() - before;
        assert_eq!((done.dispatches, done.native_runs), (21, native_runs(&device, 1)), "{name}: one is the fill");
        let found: Vec<u32> = results.iter().map(|result| result.download().expect("it ran")[0]).collect();
        assert_eq!(found, [9, 2, 3, 4, 5, 6, 7, 8, 9, 10], "{name}: the first one has eight more");
    }
}

#[test]
fn a_batch_with_an_indirect_grid_is_resubmitted() {
    for (driver, device, _) in resubmit::pairs() {
        let count = count(&device);
        let (grid, result) = (device.zeros::<u32>(3).expect("memory"), device.zeros::<u32>(4).expect("memory"));
        let all = grids(&device);
        let done = resubmit::until_resubmitted(&device, 2 * all.len() as u64, |step| {
            let wanted = all[step as usize % all.len()];
            let batch = device.batch();
            batch.write(&grid, &wanted);
            batch.fill(&result, 0);
            batch.dispatch(&count, &[&result], Grid::indirect(&grid));
            let found = batch.read(&result);
            batch.submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
            assert_eq!(found.wait().expect("it ran"), seen(&device, wanted), "{driver}: {wanted:?}");
        });
        assert_eq!((done.batches_recorded, done.resubmit_misses_unsupported), (1, 0), "{driver}");
    }
}

/// Of an application's buffer that only holds grids, a kernel cannot check the counts.
#[test]
fn a_grid_that_a_kernel_cannot_read_is_encoded() {
    for driver in ["llvmpipe", "swiftshader"] {
        let Some(device) = drivers::open(driver) else { continue };
        let (raw, queue) = device.wgpu().expect("a wgpu device");
        let usage = wgpu::BufferUsages::INDIRECT | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
        let theirs =
            raw.create_buffer(&wgpu::BufferDescriptor { label: None, size: 12, usage, mapped_at_creation: false });
        queue.write_buffer(&theirs, 0, bytemuck::cast_slice(&[3_u32, 2, 1]));
        let grid = device.import::<u32>(theirs).expect("its usages suffice");
        let result = device.zeros::<u32>(4).expect("memory");
        let batch = device.batch();
        batch.dispatch(&count(&device), &[&result], Grid::indirect(&grid));
        let replay = batch.freeze().unwrap_or_else(|error| panic!("{driver}: {error}"));
        replay.run().submit().unwrap_or_else(|error| panic!("{driver}: {error}"));
        assert_eq!(result.download().expect("it ran"), [6, 3, 2, 1], "{driver}");
        assert_eq!(device.metrics().native_runs, 0, "{driver}");
    }
}
