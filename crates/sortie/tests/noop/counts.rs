//! "1,000 ops, one submission, one pass": cost stated in objects, not in time.

use sortie::{Batch, Buffer, Device, Grid, Kernel, metrics::Metrics, policy::Split};

use crate::{STEP, noop};

/// What `run` adds to the counters.
fn counted(device: &Device, run: impl FnOnce(&Batch)) -> Metrics {
    let before = device.metrics();
    let batch = device.batch();
    run(&batch);
    batch.submit().expect("the batch runs");
    device.metrics() - before
}

fn chain(batch: &Batch, step: &Kernel, x: &Buffer<f32>, y: &Buffer<f32>, n: usize) {
    for _ in 0..n / 2 {
        batch.dispatch(step, &[x, y], Grid::items(x.len()));
        batch.dispatch(step, &[y, x], Grid::items(x.len()));
    }
}

#[test]
fn a_thousand_chained_dispatches_are_one_submission_and_one_pass() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros(1024)?, device.zeros(1024)?);
    let first = counted(&device, |batch| chain(batch, &step, &x, &y, 1000));
    assert_eq!((first.submissions, first.passes, first.dispatches), (1, 1, 1000));
    assert_eq!((first.bind_groups_created, first.plans_made), (2, 1));
    assert_eq!(first.barriers, 999, "each waits for the one before");
    Ok(())
}

#[test]
fn the_second_identical_recording_creates_nothing_and_is_not_planned_again() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros(1024)?, device.zeros(1024)?);
    let record = |batch: &Batch| {
        chain(batch, &step, &x, &y, 1000);
        batch.write(&x, &vec![1.0; 1024]);
        batch.fill(&y, 3.0);
        let scratch = batch.scratch::<f32>(1024);
        batch.dispatch(&step, &[&x, &scratch], Grid::items(1024));
        batch.copy(scratch, &y);
        drop(batch.read(&y));
    };
    counted(&device, record);
    let second = counted(&device, record);
    assert_eq!((second.pipelines_created, second.bind_groups_created, second.buffers_created), (0, 0, 0));
    assert_eq!((second.plans_made, second.plan_hits, second.submissions), (0, 1, 1));
    Ok(())
}

#[test]
fn other_buffers_of_the_same_shape_share_the_plan() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let of = |n: usize| -> sortie::Result<_> { Ok((device.zeros(n)?, device.zeros(n)?)) };
    let ((a, b), (c, d)) = (of(1024)?, of(1024)?);
    counted(&device, |batch| chain(batch, &step, &a, &b, 100));
    let other = counted(&device, |batch| chain(batch, &step, &c, &d, 100));
    assert_eq!((other.plans_made, other.bind_groups_created), (0, 2));
    let aliased = counted(&device, |batch| {
        batch.dispatch(&step, &[&a, &c], Grid::items(1024));
        batch.dispatch(&step, &[&b, &d], Grid::items(1024));
    });
    assert_eq!(aliased.plans_made, 1, "another aliasing pattern is another plan");
    Ok(())
}

#[test]
fn a_hundred_alternating_copies_and_dispatches_on_independent_buffers_need_two_passes_at_most() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let make = || -> sortie::Result<Vec<Buffer<f32>>> { (0..100).map(|_| device.zeros(64)).collect() };
    let (a, b, c, d) = (make()?, make()?, make()?, make()?);
    let independent = counted(&device, |batch| {
        for index in 0..100 {
            batch.copy(&a[index], &b[index]);
            batch.dispatch(&step, &[&c[index], &d[index]], Grid::items(64));
        }
    });
    assert!(independent.passes <= 2, "{} passes", independent.passes);
    let dependent = counted(&device, |batch| {
        for index in 0..100 {
            batch.copy(&a[index], &b[index]);
            batch.dispatch(&step, &[&b[index], &c[index]], Grid::items(64));
        }
    });
    assert_eq!((dependent.passes, dependent.dispatches, dependent.transfers), (1, 100, 100));
    Ok(())
}

#[test]
fn a_split_makes_another_submission_and_a_barrier_does_not() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros(64)?, device.zeros(64)?);
    let counts = counted(&device, |batch| {
        batch.split();
        chain(batch, &step, &x, &y, 4);
        batch.barrier();
        chain(batch, &step, &x, &y, 4);
        batch.split();
        batch.split();
        chain(batch, &step, &x, &y, 4);
        batch.split();
        assert_eq!((batch.num_ops(), batch.num_slots()), (12, 2));
    });
    assert_eq!((counts.submissions, counts.passes), (2, 2));
    assert_eq!(counts.barriers, 7 + 3, "where it is split there is none");
    Ok(())
}

#[test]
fn what_does_not_depend_on_each_other_has_no_barrier_between() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let buffers: Vec<Buffer<f32>> = (0..20).map(|_| device.zeros(64)).collect::<sortie::Result<_>>()?;
    let record = |batch: &Batch| {
        for pair in buffers.chunks(2) {
            batch.dispatch(&step, &[&pair[0], &pair[1]], Grid::items(64));
        }
    };
    assert_eq!(counted(&device, record).barriers, 0);
    let cut = counted(&device, |batch| {
        record(batch);
        record(batch);
        batch.split_by(Split::Every(8));
    });
    // Two waves of ten ops: the third of three submissions lies in the second, the second in both.
    assert_eq!((cut.submissions, cut.cuts, cut.barriers), (3, 2, 1));
    Ok(())
}

#[test]
fn an_empty_batch_and_a_grid_of_zero_reach_no_device() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?);
    assert_eq!(counted(&device, |_| {}).submissions, 0);
    let nothing = counted(&device, |batch| {
        batch.dispatch(&step, &[&x, &y], Grid::items(0));
        batch.dispatch(&step, &[&x, &y], Grid::groups([3, 0, 1]));
    });
    assert_eq!((nothing.dispatches, nothing.passes, nothing.bind_groups_created), (0, 0, 0));
    Ok(())
}

#[test]
fn ops_of_length_zero_do_not_close_the_pass() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, y, empty) = (device.zeros::<f32>(64)?, device.zeros::<f32>(64)?, device.zeros::<f32>(0)?);
    let counts = counted(&device, |batch| {
        for _ in 0..10 {
            chain(batch, &step, &x, &y, 2);
            batch.barrier();
            batch.copy(&empty, x.slice(1..1));
            batch.fill(&empty, 1.0);
            batch.barrier();
        }
    });
    assert_eq!((counts.passes, counts.dispatches, counts.transfers), (1, 20, 0));
    Ok(())
}

#[test]
fn the_same_source_is_compiled_once_and_other_constants_apart() -> sortie::Result<()> {
    let device = noop();
    let source = "override n: u32 = 64; @group(0) @binding(0) var<storage, read_write> x: array<f32>;
        @compute @workgroup_size(n) fn main() { x[0] = 1.0; }";
    let before = device.metrics();
    device.kernel(source)?;
    device.kernel(source)?;
    let twice = device.metrics() - before;
    assert_eq!((twice.pipelines_created, twice.pipeline_hits), (1, 1));
    assert_eq!(device.module(source)?.with("n", 32).kernel("main")?.workgroup_size(), [32, 1, 1]);
    let others = device.metrics() - before;
    assert_eq!((others.pipelines_created, others.pipeline_hits), (2, 1));
    Ok(())
}

#[test]
fn reads_and_writes_of_a_batch_share_one_staging_buffer_each() -> sortie::Result<()> {
    let device = noop();
    let buffers: Vec<Buffer<u32>> = (0..50).map(|_| device.zeros(10)).collect::<sortie::Result<_>>()?;
    let counts = counted(&device, |batch| {
        for buffer in &buffers {
            batch.write(buffer, &[7; 10]);
            drop(batch.read(buffer));
        }
    });
    assert_eq!((counts.buffers_created, counts.submissions, counts.transfers), (2, 1, 100));
    assert_eq!((counts.uploads, counts.reads), (50, 50));
    assert_eq!((counts.bytes_written, counts.bytes_read), (50 * 40, 50 * 40));
    let empty = device.zeros::<u32>(0)?;
    let nothing = counted(&device, |batch| {
        batch.write(&empty, &[]);
        drop(batch.read(&empty));
    });
    assert_eq!((nothing.uploads, nothing.reads), (0, 0), "what moves nothing does not count");
    Ok(())
}

#[test]
fn scratch_with_lifetimes_apart_shares_memory() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let x = device.zeros::<f32>(1024)?;
    let counts = counted(&device, |batch| {
        let mut from = batch.scratch::<f32>(1024);
        batch.copy(&x, from);
        for _ in 0..100 {
            let to = batch.scratch::<f32>(1024);
            batch.dispatch(&step, &[&from, &to], Grid::items(1024));
            from = to;
        }
        batch.copy(from, &x);
    });
    assert_eq!((counts.passes, counts.submissions), (1, 1));
    assert!(counts.buffers_created <= 3, "{} buffers for a chain of 101 scratch slots", counts.buffers_created);
    Ok(())
}

/// A code generator declares everything `read_write`.
#[test]
fn dispatches_that_only_read_are_in_one_wave_whatever_they_declare() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(&STEP.replace("storage, read>", "storage, read_write>"))?;
    let x = device.zeros::<f32>(1024)?;
    let outputs = (0..98).map(|_| device.zeros::<f32>(1024)).collect::<sortie::Result<Vec<_>>>()?;
    let counts = counted(&device, |batch| {
        for y in &outputs {
            batch.dispatch(&step, &[&x, y], Grid::items(1024));
        }
    });
    assert_eq!((counts.dispatches, counts.passes, counts.barriers), (98, 1, 0));
    Ok(())
}

#[test]
fn a_kernel_that_reads_and_writes_one_buffer_is_compiled_for_it_once() -> sortie::Result<()> {
    let device = noop();
    let step = device.kernel(STEP)?;
    let (x, part) = (device.zeros::<f32>(2048)?, 1024);
    let run = || {
        counted(&device, |batch| {
            batch.dispatch(&step, &[&x.slice(..part), &x.slice(part..)], part);
        })
    };
    assert_eq!([run(), run()].map(|counts| counts.pipelines_created), [1, 0]);
    Ok(())
}
