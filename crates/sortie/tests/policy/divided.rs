//! Dispatches that are too long for one submission.

use std::time::Duration;

use sortie::{Device, DeviceOptions, Grid, policy::Split};

use crate::{drivers, on, printed};

/// Notes which group each of its own was, and how many there are; and counts, to see that each ran once.
const WHO: &str = "
    var<immediate> by: u32;
    @group(0) @binding(0) var<storage, read_write> seen: array<vec4<u32>>;
    @group(0) @binding(1) var<storage, read_write> count: array<atomic<u32>>;
    @compute @workgroup_size(4, 2) fn main(
        @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32, @builtin(global_invocation_id) id: vec3<u32>,
    ) {
        let at = (group.z * groups.y + group.y) * groups.x + group.x;
        if local == 0u { seen[at] = vec4(group, groups.x * 10000u + groups.y * 100u + groups.z + by); }
        atomicAdd(&count[at], id.x + 1u);
    }";

/// More than ten times as many groups as are guessed to fit the shortest budget.
const GRID: [u32; 3] = [1031, 67, 3];
const GROUPS: usize = 1031 * 67 * 3;

fn expected() -> (Vec<[u32; 4]>, Vec<u32>) {
    let [width, height, depth] = GRID;
    let groups = || (0..depth).flat_map(|z| (0..height).flat_map(move |y| (0..width).map(move |x| [x, y, z])));
    let seen = groups().map(|[x, y, z]| [x, y, z, width * 10_000 + height * 100 + depth + 5]).collect();
    let count = groups().map(|[x, _, _]| 2 * (0..4).map(|local| 4 * x + local + 1).sum::<u32>()).collect();
    (seen, count)
}

#[test]
fn pieces_of_a_dispatch_see_the_grid_they_are_of() {
    for native_immediates in [true, false] {
        on(drivers(), |name, plain| {
            let index = Device::list().iter().position(|info| info.name == plain.info().name);
            let options = index.map_or_else(DeviceOptions::default, by_index);
            check(name, &Device::open_with(options.with_native_immediates(native_immediates))?)
        });
    }
}

fn check(name: &str, device: &Device) -> sortie::Result<()> {
    let kernel = device.kernel(WHO)?;
    for (budget, native) in [(0, false), (0, true), (4, false)] {
        let (seen, count) = (device.zeros::<[u32; 4]>(GROUPS)?, device.zeros::<u32>(GROUPS)?);
        let batch = device.batch();
        batch.dispatch(&kernel, &[&seen, &count], Grid::groups(GRID)).immediates(&5_u32);
        batch.split_by(Split::Adaptive { budget: Duration::from_millis(budget) });
        let submissions = batch.plan()?.submissions();
        let before = device.metrics();
        if native {
            batch.freeze().and_then(|replay| replay.run().submit())?;
        } else {
            batch.submit()?;
        }
        let made = device.metrics() - before;
        assert!((seen.download()?, count.download()?) == expected(), "{name}");
        if budget == 0 {
            assert!(submissions >= 4, "{name}: {submissions}");
            // A replay that is not native, as none is but on Vulkan, does not divide in its runs.
            let divides = !native || made.native_runs > 0;
            assert_eq!(made.pieces, if divides { submissions as u64 - 1 } else { 0 }, "{name}");
        }
    }
    Ok(())
}

const LONG: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var a = id.x;
        for (var i = 0u; i < 500u; i++) { a = a * 1664525u + 1013904223u; }
        x[id.x] += a;
    }";
/// As many workgroups as are guessed to take a little more than the shortest budget, which is a small part of what they take.
const LEN: usize = 1 << 20;

/// A replay keeps the plan that it was frozen with, while the same recording, submitted anew, is divided.
#[test]
fn a_replay_that_was_not_divided_runs_beside_batches_that_are() {
    on(drivers(), |name, plain| {
        let index = Device::list().iter().position(|info| info.name == plain.info().name);
        let options = index.map_or_else(DeviceOptions::default, by_index).with_native_replay(false);
        let device = Device::open_with(options)?;
        let (long, x) = (device.kernel(LONG)?, device.zeros::<u32>(LEN)?);
        // Nothing is known of the kernel yet.
        let split = Split::Adaptive { budget: Duration::from_millis(1) };
        let record = || {
            let batch = device.batch();
            batch.dispatch(&long, &[&x], Grid::items(LEN));
            batch.split_by(split);
            batch
        };
        let replay = record().freeze()?;
        record().submit()?;
        let once = x.download()?;
        // Planned just before the run, with the same estimates.
        let batch = record();
        assert!(batch.plan()?.dispatches() > 1, "{name}");
        replay.run().submit()?;
        batch.submit()?;
        assert!(device.metrics().pieces > 0, "{name}: {:?}", device.metrics());
        let thrice: Vec<u32> = once.iter().map(|x| x.wrapping_mul(3)).collect();
        assert!(x.download()? == thrice, "{name}");
        Ok(())
    });
}

#[test]
fn a_long_dispatch_becomes_as_many_pieces_as_it_needs() {
    on(drivers(), |name, device| {
        let (long, x) = (device.kernel(LONG)?, device.zeros::<u32>(LEN)?);
        let batch = |split: Split| -> sortie::Result<_> {
            x.write(&vec![1; LEN])?;
            let batch = device.batch();
            batch.dispatch(&long, &[&x], Grid::items(LEN));
            batch.split_by(split);
            Ok((batch.plan()?, batch))
        };
        // Its first run may have the driver's compilation in it.
        batch(Split::Never)?.1.submit()?;
        batch(Split::Never)?.1.submit()?;
        // On a busy machine a completion that is seen late is not measured. A budget is at least 1 ms.
        for _ in 0..100 {
            let (plan, unmeasured) = batch(Split::Never)?;
            if plan.estimate() >= Duration::from_millis(10) {
                break;
            }
            unmeasured.submit()?;
        }
        batch(Split::Never)?.1.submit()?;
        let expected = x.download()?;
        let (whole, _) = batch(Split::Never)?;
        let budget = whole.estimate() / 10;
        let (plan, divided) = batch(Split::Adaptive { budget })?;
        assert!(plan.longest() <= budget, "{name}: {plan:?} of {whole:?}");
        let before = device.metrics();
        divided.submit()?;
        let (made, result) = (device.metrics() - before, x.download()?);
        assert_eq!([made.submissions, made.pieces], [16, 15], "{name}: {made:?}");
        assert!(result == expected, "{name}");
        printed(&format!("{name}: {whole:?} became {plan:?}"));
        Ok(())
    });
}

fn by_index(index: usize) -> DeviceOptions {
    DeviceOptions::default().with_device(index.to_string())
}
