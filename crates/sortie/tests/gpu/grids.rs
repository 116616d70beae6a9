//! Grids of any size: folded where the device's limit is passed, ids put right.

use sortie::Grid;

use crate::on_all;

/// Counts how often each group runs and checks every id the kernel can ask for.
const IDS: &str = "
    struct Ids { @builtin(global_invocation_id) global: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32> }
    var<immediate> stride: vec3<u32>;
    @group(0) @binding(0) var<storage, read_write> seen: array<atomic<u32>>;
    @group(0) @binding(1) var<storage, read_write> wrong: atomic<u32>;
    @compute @workgroup_size(2, 1, 1)
    fn main(ids: Ids, @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
            @builtin(local_invocation_index) lane: u32) {
        let same = all(ids.global == group * vec3<u32>(2u, 1u, 1u) + ids.local) && ids.local.x == lane
            && all(groups == stride) && all(group < groups);
        if !same { atomicAdd(&wrong, 1u); }
        atomicAdd(&seen[group.x + groups.x * (group.y + groups.y * group.z)], 1u);
    }
";

#[test]
fn every_group_of_a_huge_grid_runs_once_and_sees_its_own_ids() {
    on_all(|device| {
        let kernel = device.kernel(IDS)?;
        for groups in [
            [65_535_u32, 1, 1],
            [65_536, 1, 1],
            [200_003, 1, 1],
            [1, 70_000, 1],
            [1, 1, 70_001],
            [70_000, 3, 2],
            [3, 65_537, 1],
        ] {
            let total = groups.iter().product::<u32>() as usize;
            let (seen, wrong) = (device.zeros::<u32>(total)?, device.zeros::<u32>(1)?);
            let batch = device.batch();
            batch.dispatch(&kernel, &[&seen, &wrong], Grid::groups(groups)).immediates(&groups);
            batch.submit()?;
            assert_eq!(wrong.download()?, [0], "{groups:?}");
            assert!(seen.download()?.iter().all(|count| *count == 2), "{groups:?}");
        }
        Ok(())
    });
}

#[test]
fn a_huge_grid_of_items_writes_every_item() {
    on_all(|device| {
        let kernel = device.kernel(
            "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(16) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x < arrayLength(&x) { x[id.x] = id.x ^ 0x5555u; }
            }",
        )?;
        let n = 2_000_003_u32;
        let x = device.zeros::<u32>(n as usize)?;
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x], Grid::items(n));
        batch.submit()?;
        assert!(x.download()?.iter().zip(0..).all(|(found, index): (&u32, u32)| *found == index ^ 0x5555));
        Ok(())
    });
}

#[test]
fn barriers_and_workgroup_memory_survive_folding() {
    on_all(|device| {
        let kernel = device.kernel(
            "var<workgroup> shared_sum: array<u32, 8>;
            @group(0) @binding(0) var<storage, read_write> sums: array<u32>;
            @compute @workgroup_size(8)
            fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
                shared_sum[local.x] = group.x + local.x;
                for (var half = 4u; half > 0u; half /= 2u) {
                    workgroupBarrier();
                    if local.x < half { shared_sum[local.x] += shared_sum[local.x + half]; }
                }
                if local.x == 0u { sums[group.x] = shared_sum[0]; }
            }",
        )?;
        let sums = device.zeros::<u32>(100_000)?;
        let batch = device.batch();
        batch.dispatch(&kernel, &[&sums], Grid::groups(100_000));
        batch.submit()?;
        assert!(sums.download()?.iter().zip(0..).all(|(sum, group): (&u32, u32)| *sum == 8 * group + 28));
        Ok(())
    });
}

#[test]
fn an_indirect_grid_is_read_when_the_dispatch_runs() {
    on_all(|device| {
        let count = device.kernel(
            "@group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
            @compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) { atomicAdd(&x[id.x], id.y + 1u); }",
        )?;
        let plan = device.kernel(
            "@group(0) @binding(0) var<storage, read_write> counts: array<u32>;
            @compute @workgroup_size(1) fn main() { counts[4] = 3u; counts[5] = 2u; counts[6] = 1u; }",
        )?;
        let (x, counts) = (device.zeros::<u32>(4)?, device.zeros::<u32>(8)?);
        let batch = device.batch();
        batch.dispatch(&plan, &[&counts], Grid::groups(1));
        batch.dispatch(&count, &[&x], Grid::indirect(&counts.slice(4..7)));
        batch.submit()?;
        assert_eq!(x.download()?, [3, 3, 3, 0]);
        Ok(())
    });
}

#[test]
fn a_two_dimensional_grid_covers_the_plane() {
    on_all(|device| {
        let kernel = device.kernel(
            "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
                if id.x < 100u && id.y < 37u { x[id.y * 100u + id.x] = id.x * 1000u + id.y; }
            }",
        )?;
        let x = device.zeros::<u32>(3700)?;
        let batch = device.batch();
        batch.dispatch(&kernel, &[&x], Grid::items([100, 37]));
        batch.submit()?;
        assert!(
            x.download()?.iter().zip(0..).all(|(found, index): (&u32, u32)| *found == index % 100 * 1000 + index / 100)
        );
        Ok(())
    });
}
