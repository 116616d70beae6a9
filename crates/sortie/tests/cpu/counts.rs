//! What it counts, the same as a wgpu device.

use sortie::{Batch, Device, metrics::Metrics};

use crate::cpu;

fn counted(device: &Device, run: impl FnOnce(&Batch)) -> sortie::Result<Metrics> {
    let before = device.metrics();
    let batch = device.batch();
    run(&batch);
    batch.submit()?;
    Ok(device.metrics() - before)
}

#[test]
fn a_recording_seen_before_is_not_planned_again_and_makes_nothing() -> sortie::Result<()> {
    let device = cpu();
    let (x, y) = (device.zeros::<u32>(64)?, device.zeros::<u32>(64)?);
    let record = |batch: &Batch| {
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
    assert_eq!((second.uploads, second.reads), (1, 1));
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
    assert_eq!(counts.barriers, 5);
    let split = counted(&device, |batch| {
        batch.fill(&x, 1);
        batch.split();
        batch.fill(&y, 1);
    })?;
    assert_eq!((split.batches, split.submissions, split.passes, split.barriers), (1, 2, 2, 0));
    Ok(())
}

#[test]
fn scratch_is_cleared_only_where_it_was_used_before() -> sortie::Result<()> {
    let device = cpu();
    let read = |batch: &Batch| {
        let scratch = batch.scratch::<u32>(64);
        drop(batch.read(scratch));
    };
    assert_eq!(counted(&device, read)?.transfers, 1, "memory just made is zero");
    assert_eq!(counted(&device, read)?.transfers, 2, "recycled memory is not");
    Ok(())
}

#[test]
fn a_kernel_known_already_is_not_made_ready_again() -> sortie::Result<()> {
    let device = cpu();
    let source = "@compute @workgroup_size(1) fn main() {}";
    for _ in 0..3 {
        device.kernel(source)?;
    }
    let counts = device.metrics();
    assert_eq!((counts.pipelines_created, counts.pipeline_hits), (1, 2));
    Ok(())
}

#[test]
fn operations_that_share_a_kernel_are_counted_each_time_they_run() -> sortie::Result<()> {
    let device = cpu();
    let batch = device.batch();
    let (x_input, x) = batch.input::<f32>([64]);
    // One kernel for all three.
    let y = x.exp();
    let y = -y;
    let y = y.abs();
    let out = batch.output(y);
    let replay = batch.freeze()?;
    let before = device.metrics();
    for _ in 0..2 {
        let mut run = replay.run();
        run.write(x_input, &[0.0; 64]);
        let reading = run.read(out);
        run.submit()?;
        assert_eq!(reading.wait()?, [1.0; 64]);
    }
    let counts = device.metrics() - before;
    assert_eq!((counts.dispatches, counts.fused_ops), (2, 2 * 2));
    assert_eq!((counts.uploads, counts.reads), (2, 2), "one input and one output a run");
    Ok(())
}

#[test]
fn the_gauges_of_the_pool_say_who_has_what() -> sortie::Result<()> {
    let device = cpu();
    let pool = || {
        let now = device.metrics();
        [now.pool_bytes_live, now.pool_bytes_idle, now.pool_bytes_peak, now.pool_bytes_wasted]
    };
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(65)?);
    assert_eq!(pool(), [256 + 512, 0, 768, 512 - 260]);
    drop(y);
    let batch = device.batch();
    let scratch = batch.scratch::<f32>(64);
    batch.copy(&x, scratch);
    drop(batch.read(scratch));
    batch.submit()?;
    assert_eq!(pool(), [256, 512 + 256, 768, 0], "scratch was in use, and is back");
    Ok(())
}

#[test]
fn in_flight_counts_running_submissions() -> sortie::Result<()> {
    let device = cpu();
    let x = device.zeros::<u32>(1 << 20)?;
    let batch = device.batch();
    // Between two submissions there would be none.
    batch.split_by(sortie::policy::Split::Never);
    (0..100_000).for_each(|value| batch.fill(&x, value));
    let ticket = batch.submit_async()?;
    while device.metrics().in_flight == 0 {
        std::thread::yield_now();
    }
    assert_eq!(device.metrics().in_flight, 1);
    ticket.clone().cancel();
    ticket.wait().expect_err("canceled");
    assert_eq!(device.metrics().in_flight, 0);
    Ok(())
}
