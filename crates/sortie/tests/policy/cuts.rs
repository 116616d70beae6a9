//! Where batches are cut, by count, and how that shows in the metrics.

use std::time::Duration;

use sortie::{
    Device, DeviceOptions, ErrorKind,
    policy::{Split, SubmitPolicy},
};

use crate::{Chain, LEN, devices, drivers, expected, noop, numbers, on};

#[test]
fn every_so_many_ops_begin_a_submission_and_splits_of_its_own_stay() -> sortie::Result<()> {
    let device = noop();
    let chain = Chain::new(&device)?;
    // One write and 99 dispatches.
    for (split, submissions, cuts) in [
        (Split::Never, 1, 0),
        (Split::Every(1000), 1, 0),
        (Split::Every(100), 1, 0),
        (Split::Every(50), 2, 1),
        (Split::Every(7), 15, 14),
        (Split::Every(1), 100, 99),
        (Split::default(), 1, 0),
    ] {
        let batch = device.batch();
        chain.record(&batch, 99);
        batch.split_by(split);
        assert_eq!(batch.plan()?.submissions(), submissions, "{split}");
        let before = device.metrics();
        batch.submit()?;
        let made = device.metrics() - before;
        assert_eq!([made.submissions, made.cuts], [submissions as u64, cuts], "{split}");
        assert_eq!([made.batches, made.dispatches, made.pieces], [1, 99, 0], "{split}");
    }
    let batch = device.batch();
    chain.record(&batch, 9);
    batch.split();
    chain.record(&batch, 9);
    batch.split_by(Split::Every(8));
    let before = device.metrics();
    batch.submit()?;
    let made = device.metrics() - before;
    assert_eq!([made.submissions, made.cuts], [4, 2], "8 and 2, twice");
    Ok(())
}

#[test]
fn a_device_has_a_policy_and_says_which() -> sortie::Result<()> {
    let policy = SubmitPolicy { split: Split::Every(10), in_flight: 3 };
    let options = DeviceOptions::default().with_device("noop").with_policy(policy);
    let device = Device::open_with(options)?;
    assert_eq!([device.policy(), device.metrics().policy], [policy; 2]);
    let chain = Chain::new(&device)?;
    let batch = device.batch();
    chain.record(&batch, 99);
    batch.submit()?;
    assert_eq!(device.metrics().submissions, 10);
    // A batch may know better, and so may a replay.
    let batch = device.batch();
    chain.record(&batch, 99);
    batch.split_by(Split::Never);
    batch.submit()?;
    assert_eq!(device.metrics().submissions, 11);
    for (split, submissions) in [(None, 10), (Some(Split::Every(50)), 2)] {
        let batch = device.batch();
        chain.record(&batch, 99);
        split.into_iter().for_each(|split| batch.split_by(split));
        let replay = batch.freeze()?;
        let before = device.metrics();
        replay.run().submit()?;
        assert_eq!((device.metrics() - before).submissions, submissions);
    }
    Ok(())
}

#[test]
fn the_built_in_cpu_cuts_nothing_unless_a_policy_is_set() -> sortie::Result<()> {
    const OPS: u32 = 100_000;
    let device = Device::cpu()?;
    assert_eq!(device.policy(), SubmitPolicy { split: Split::Never, ..SubmitPolicy::default() });
    let adaptive = DeviceOptions::default().with_policy(SubmitPolicy::default());
    for (device, whole) in [(device, true), (Device::cpu_with(adaptive)?, false)] {
        let chain = Chain::new(&device)?;
        let batch = device.batch();
        chain.record(&batch, OPS);
        let plan = batch.plan()?;
        assert!(plan.estimate() > Duration::from_millis(100), "{plan:?}");
        assert_eq!(plan.submissions() == 1, whole, "{plan:?}");
        let before = device.metrics();
        batch.submit()?;
        assert_eq!((device.metrics() - before).submissions, plan.submissions() as u64);
        // One that is told by the batch itself is, too.
        let batch = device.batch();
        chain.record(&batch, OPS);
        batch.split_by(Split::Adaptive { budget: Duration::from_millis(1) });
        assert!(batch.plan()?.submissions() > 1);
    }
    Ok(())
}

#[test]
fn however_it_is_cut_the_result_is_the_same_live_and_replayed() {
    on(devices(), |name, device| {
        let chain = Chain::new(device)?;
        for split in [Split::Never, Split::Every(1), Split::Every(7), Split::Every(40)] {
            let batch = device.batch();
            chain.record(&batch, 101);
            batch.split_by(split);
            batch.submit()?;
            assert_eq!(chain.result(101)?, expected(101), "{name}, {split}");
            let batch = device.batch();
            for _ in 0..2 {
                let x = batch.tensor(&chain.buffers[0], [LEN]);
                let doubled = x + x;
                doubled.store(&chain.buffers[0]);
            }
            batch.split_by(split);
            let replay = batch.freeze()?;
            chain.buffers[0].write(&numbers())?;
            for _ in 0..3 {
                drop(replay.run().submit_async()?);
            }
            let expected: Vec<u32> = numbers().iter().map(|x| x << 6).collect();
            assert_eq!(chain.buffers[0].download()?, expected, "{name}, {split}");
        }
        Ok(())
    });
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() -> sortie::Result<()> {
    let device = Device::cpu()?;
    let chain = Chain::new(&device)?;
    let batch = device.batch();
    chain.record(&batch, 10);
    batch.copy(chain.buffers[0].slice(..8), chain.buffers[1].slice(..9));
    batch.split_by(Split::Every(1));
    let error = batch.submit().expect_err("lengths differ");
    assert_eq!(error.location().map(std::panic::Location::file), Some(file!()));
    assert_ne!(error.kind(), ErrorKind::Internal);
    assert_eq!(device.metrics().submissions, 0);
    Ok(())
}

#[test]
fn submissions_leave_while_the_next_ones_are_encoded() {
    // Whether the submit thread gets its turn in time is not ours to say: often enough it does.
    on(devices(), |name, device| {
        // It holds up the second submission until the first is done.
        if name == "llvmpipe" {
            return Ok(());
        }
        let chain = Chain::new(device)?;
        let mut overlaps = false;
        for _ in 0..1000 {
            let batch = device.batch();
            chain.record(&batch, 2000);
            batch.split_by(Split::Every(100));
            let before = device.metrics().submissions;
            let ticket = batch.submit_async()?;
            overlaps |= device.metrics().submissions > before;
            ticket.wait()?;
            if overlaps {
                break;
            }
        }
        assert!(overlaps, "{name}: nothing ever left before all was encoded");
        Ok(())
    });
}

#[test]
fn a_part_that_cannot_be_encoded_fails_the_batch_in_its_turn() {
    on(drivers(), |name, device| {
        let Some((wgpu, _)) = device.wgpu() else { unreachable!("a driver is wgpu's") };
        let foreign = wgpu.create_buffer(&sortie::wgpu::BufferDescriptor {
            label: None,
            size: 1024,
            usage: sortie::wgpu::BufferUsages::STORAGE | sortie::wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let imported = device.import::<u32>(foreign.clone())?;
        foreign.destroy();
        let chain = Chain::new(device)?;
        let batch = device.batch();
        chain.record(&batch, 10);
        batch.copy(&chain.buffers[0], &imported);
        let reading = batch.read(&chain.buffers[0]);
        batch.split_by(Split::Every(1));
        let error = batch.submit().expect_err("a destroyed buffer");
        assert!(error.to_string().contains("destroyed"), "{name}: {error}");
        assert!(reading.wait().is_err(), "{name}");
        // What it may have written is not to be trusted; written anew, it is.
        let batch = device.batch();
        batch.copy(&chain.buffers[1], &chain.buffers[0]);
        assert_eq!(batch.submit().map_err(|error| error.kind()), Err(ErrorKind::Poisoned), "{name}");
        let batch = device.batch();
        batch.fill(&chain.buffers[1], 1);
        chain.record(&batch, 10);
        batch.submit()?;
        assert_eq!(chain.result(10)?, expected(10), "{name}");
        Ok(())
    });
}
