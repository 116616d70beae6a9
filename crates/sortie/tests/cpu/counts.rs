//! What it counts, the same as a wgpu device.

use sortie::{Batch, Device, Metrics};

use crate::cpu;

fn counted(device: &Device, run: impl FnOnce(&mut Batch)) -> sortie::Result<Metrics> {
    let before = device.metrics();
    let mut batch = device.batch();
    run(&mut batch);
    batch.submit()?;
    Ok(device.metrics() - before)
}

#[test]
fn a_recording_seen_before_is_not_planned_again_and_makes_nothing() -> sortie::Result<()> {
    let device = cpu();
    let (x, y) = (device.zeros::<u32>(64)?, device.zeros::<u32>(64)?);
    let record = |batch: &mut Batch| {
        batch.write(&x, &[1; 64]);
        batch.fill(&y, 3);
        let scratch = batch.scratch::<u32>(64);
        batch.copy(&x, scratch);
        drop(batch.read(scratch));
    };
    let first = counted(&device, record)?;
    assert_eq!((first.batches, first.submissions, first.plans_made, first.buffers_created), (1, 1, 1, 1));
    let second = counted(&device, record)?;
    assert_eq!((second.plans_made, second.plan_hits), (0, 1));
    assert_eq!((second.buffers_created, second.buffers_recycled), (0, 1));
    assert_eq!((second.bytes_written, second.bytes_read), (256, 256));
    assert_eq!((second.bind_groups_created, second.bind_group_hits, second.pipelines_created), (0, 0, 0));
    Ok(())
}

#[test]
fn passes_are_the_compute_phases_of_the_plan() -> sortie::Result<()> {
    let device = cpu();
    let (x, y) = (device.zeros::<u32>(64)?, device.zeros::<u32>(64)?);
    let counts = counted(&device, |batch| {
        for value in 1..=3 {
            batch.fill(&x, value);
            batch.copy(&x, &y);
        }
    })?;
    assert_eq!((counts.submissions, counts.passes, counts.dispatches, counts.transfers), (1, 3, 3, 3));
    let split = counted(&device, |batch| {
        batch.fill(&x, 1);
        batch.split();
        batch.fill(&y, 1);
    })?;
    assert_eq!((split.batches, split.submissions, split.passes), (1, 2, 2));
    Ok(())
}

#[test]
fn scratch_is_cleared_only_where_it_was_used_before() -> sortie::Result<()> {
    let device = cpu();
    let read = |batch: &mut Batch| {
        let scratch = batch.scratch::<u32>(64);
        drop(batch.read(scratch));
    };
    assert_eq!(counted(&device, read)?.transfers, 1, "memory just made is zero");
    assert_eq!(counted(&device, read)?.transfers, 2, "recycled memory is not");
    Ok(())
}
