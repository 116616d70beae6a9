//! A grid of more workgroups than a device takes in one dimension (65,535) is folded; the kernel sees unfolded ids.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use sortie::{Device, Grid, Result};

const GROUPS: usize = 100_000;

/// The result is right only if every id is.
const IDS: &str = "
    @group(0) @binding(0) var<storage, read_write> seen: array<vec4<u32>>;
    @compute @workgroup_size(16)
    fn ids(
        @builtin(global_invocation_id) global: vec3<u32>,
        @builtin(workgroup_id) group: vec3<u32>,
        @builtin(local_invocation_id) local: vec3<u32>,
        @builtin(num_workgroups) groups: vec3<u32>,
    ) {
        if global.x < arrayLength(&seen) { seen[global.x] = vec4(global.x, group.x, local.x, groups.x); }
    }";

fn main() -> Result<()> {
    let device = Device::open()?;
    let ids = device.kernel(IDS)?;
    let [width, ..] = ids.workgroup_size().map(|size| size as usize);
    // The last workgroup is not full, so the kernel checks its bounds.
    let items = GROUPS * width - 5;
    let seen = device.zeros::<[u32; 4]>(items)?;

    let batch = device.batch();
    batch.dispatch(&ids, &[&seen], Grid::items(items));
    let seen = batch.read(&seen);
    batch.submit()?;

    for (item, seen) in seen.wait()?.into_iter().enumerate() {
        assert_eq!(seen.map(|id| id as usize), [item, item / width, item % width, GROUPS], "item {item}");
    }
    println!(
        "{items} items in {GROUPS} groups on {}, which takes {} at once",
        device.info(),
        device.info().limits.groups
    );
    Ok(())
}
