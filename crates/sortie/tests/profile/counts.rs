//! What asking for a profile costs, in objects.

use sortie::{Batch, Device, Grid, metrics::Metrics, policy::Split};

use crate::{STEP, devices, drivers, noop};

fn counted(device: &Device, profiled: bool, record: &dyn Fn(&Batch)) -> sortie::Result<Metrics> {
    let before = device.metrics();
    let batch = device.batch();
    let profile = profiled.then(|| batch.profile());
    record(&batch);
    batch.submit()?;
    if let Some(profile) = profile {
        let profile = profile.wait()?;
        assert_eq!(profile.submissions() as u64, (device.metrics() - before).submissions);
    }
    Ok(device.metrics() - before)
}

#[test]
fn a_profiled_batch_is_planned_passed_and_submitted_as_without() -> sortie::Result<()> {
    for (name, _) in devices().into_iter().chain([("noop", noop())]) {
        // A batch that comes again is resubmitted, and a profiled one is not.
        let device = Device::open_with(drivers::uncut().with_device(name).with_auto_replay(false))?;
        let step = device.kernel(STEP)?;
        let (x, y) = (device.zeros::<f32>(1024)?, device.zeros::<f32>(1024)?);
        for split in [Split::Never, Split::Every(7)] {
            let record = |batch: &Batch| {
                batch.split_by(split);
                for _ in 0..10 {
                    batch.dispatch(&step, &[&x, &y], Grid::items(1024));
                    batch.dispatch(&step, &[&y, &x], Grid::items(1024));
                    batch.copy(&x, &y);
                }
                let scratch = batch.scratch::<f32>(1024);
                batch.dispatch(&step, &[&x, &scratch], Grid::items(1024));
                drop(batch.read(scratch));
            };
            counted(&device, false, &record)?;
            let without = counted(&device, false, &record)?;
            counted(&device, true, &record)?;
            let with = counted(&device, true, &record)?;
            let shape = |m: Metrics| (m.batches, m.submissions, m.cuts, m.passes, m.dispatches, m.transfers);
            assert_eq!(shape(with), shape(without), "{name}, {split:?}");
            assert_eq!((with.plans_made, with.bind_groups_created), (0, 0), "{name}: a profile has no plan of its own");
            // What has been profiled leaves nothing behind.
            let after = counted(&device, false, &record)?;
            assert_eq!(after, without, "{name}, {split:?}");
        }
    }
    Ok(())
}

#[test]
fn off_it_makes_nothing_and_on_only_its_timestamps() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
    let record = |batch: &Batch| {
        for _ in 0..500 {
            batch.dispatch(&step, &[&x, &y], Grid::items(64));
        }
    };
    for _ in 0..2 {
        counted(&device, true, &record)?;
    }
    let off = counted(&device, false, &record)?;
    assert_eq!((off.buffers_created, off.buffers_recycled, off.bytes_read, off.transfers), (0, 0, 0, 0));
    let on = counted(&device, true, &record)?;
    assert_eq!(
        (on.buffers_created, on.bytes_read, on.transfers),
        (0, 0, 0),
        "what it reads back through is used again"
    );
    Ok(())
}

#[test]
fn more_ops_than_a_query_set_holds_each_have_their_time() -> sortie::Result<()> {
    for (name, device) in devices() {
        let step = device.kernel(STEP)?;
        let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
        let ops = 10_000;
        let batch = device.batch();
        batch.split_by(Split::Never);
        let profile = batch.profile();
        for op in 0..ops {
            let ends = if op % 2 == 0 { [&x, &y] } else { [&y, &x] };
            batch.dispatch(&step, &[ends[0], ends[1]], Grid::items(64));
        }
        let result = batch.read(&x);
        batch.submit()?;
        let profile = profile.wait()?;
        assert_eq!((profile.ops().len(), profile.steps().len()), (ops + 1, ops + 1), "{name}");
        let known = profile.steps().iter().filter(|step| step.time().is_some()).count();
        // A shared machine's clock may stand still now and then; a lost query set would take 4,096 with it.
        assert!(known > ops * 9 / 10, "{name}: the times of {known} of {ops} ops are known");
        let sum: std::time::Duration = profile.steps().iter().filter_map(sortie::profile::StepProfile::time).sum();
        assert!(
            profile.device_time().is_some_and(|all| all >= sum && all <= 2 * sum),
            "{name}: {sum:?} of {profile:?}"
        );
        assert_eq!(result.wait()?, [ops as f32; 64], "{name}");
        // Grouped by kernel, and op by op.
        assert!(profile.to_string().lines().count() < 20 && format!("{profile:#}").lines().count() > ops);
    }
    Ok(())
}
