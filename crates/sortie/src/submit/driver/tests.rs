//! A driver without threads: items are submitted on the thread that queues them, and a call completes submissions in
//! flight.

use std::{
    panic::Location,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    super::{BatchState, DeviceQueue, QueueItem, ReadySubmission, Refused, Seen, Submitted, Submitter, Waited},
    *,
};
use crate::{
    Device, DeviceOptions, ErrorKind, Grid,
    clock::{Clock, Instant},
    finish::{Completion, PendingReadback},
    lost::Lost,
    metrics::Counters,
    policy::Costs,
    policy::Split,
};

#[derive(Debug)]
struct NoThreads;

impl Driver for NoThreads {
    fn start(&self, _turns: Arc<dyn Turns>) -> Result<()> {
        Ok(())
    }

    fn pushed(&self, turns: &dyn Turns) {
        while turns.take(false) {}
    }

    fn help(&self, turns: &dyn Turns, done: &dyn Fn() -> bool) {
        while !done() && (turns.take(false) || turns.complete(false)) {}
    }
}

fn device() -> Result<Device> {
    Device::cpu_driven(DeviceOptions::default().with_threads(1), Box::new(NoThreads))
}

const DOUBLE: &str = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3u) { x[id.x] = 2 * x[id.x]; }";

#[test]
fn a_device_without_threads_has_run_a_batch_when_submit_async_returns() -> Result<()> {
    let device = device()?;
    let (kernel, x) = (device.kernel(DOUBLE)?, device.upload(&[1_u32, 2, 3])?);
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x], Grid::groups([3, 1, 1]));
    let reading = batch.read(&x);
    let ticket = batch.submit_async()?;
    assert!(ticket.is_ready() && reading.is_ready());
    assert_eq!(reading.wait()?, [2, 4, 6]);
    ticket.wait()
}

#[test]
fn a_device_without_threads_runs_blocking_batches_writes_and_replays_in_order() -> Result<()> {
    let device = device()?;
    let (kernel, x) = (device.kernel(DOUBLE)?, device.zeros::<u32>(2)?);
    x.write(&[5, 6])?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x], Grid::groups([2, 1, 1]));
    batch.submit()?;
    x.slice(..1).write(&[7])?;
    assert_eq!(x.download()?, [7, 12]);
    device.trim();

    let batch = device.batch();
    let (input, x) = batch.input::<f32>([2]);
    let output = (x * 3.0).output();
    let replay = batch.freeze()?;
    let mut run = replay.run();
    run.write(input, &[1.0, 2.0]);
    let reading = run.read(output);
    run.submit_async()?;
    assert_eq!(reading.wait()?, [3.0, 6.0]);
    Ok(())
}

#[test]
fn a_device_without_threads_runs_batches_that_are_cut_and_reports_their_errors() -> Result<()> {
    let device = device()?;
    let (kernel, x) = (device.kernel(DOUBLE)?, device.upload(&[1_u32])?);
    let doubled = |times: usize, dropped: bool| {
        let batch = device.batch();
        batch.split_by(Split::Every(1));
        for _ in 0..times {
            batch.dispatch(&kernel, &[&x], Grid::groups([1, 1, 1]));
        }
        let reading = batch.read(&x);
        if dropped {
            drop(batch);
            return reading.wait();
        }
        batch.submit_async()?;
        assert!(reading.is_ready());
        reading.wait()
    };
    assert_eq!(doubled(5, false)?, [32]);
    assert_eq!(doubled(5, true).expect_err("it was dropped").kind(), ErrorKind::Canceled);
    assert_eq!(doubled(1, false)?, [64]);
    Ok(())
}

#[test]
fn callers_on_many_threads_take_turns_for_each_other() -> Result<()> {
    let device = device()?;
    let (kernel, x) = (device.kernel(&DOUBLE.replace("2 * x[id.x]", "1 + x[id.x]"))?, device.upload(&[1_u32])?);
    let spare = device.upload(&[0_u32])?;
    let caller = |number: u32| -> Result<()> {
        for round in 0..20 {
            let batch = device.batch();
            batch.dispatch(&kernel, &[&x], Grid::groups([1, 1, 1]));
            match round % 2 {
                0 => batch.submit()?,
                _ => batch.submit_async()?.wait()?,
            }
            spare.write(&[number])?;
        }
        Ok(())
    };
    let caller = &caller;
    thread::scope(|scope| {
        let callers: Vec<_> = (0..4).map(|number| scope.spawn(move || caller(number))).collect();
        callers.into_iter().try_for_each(|caller| caller.join().expect("no panic"))
    })?;
    assert_eq!(x.download()?, [81]);
    Ok(())
}

/// An asynchronous device: its submissions are in flight until the test ends them.
#[derive(Debug, Default)]
struct Manual {
    /// The submissions it got, by number.
    given: Mutex<Vec<u64>>,
    /// How many of them are done.
    done: AtomicU64,
}

impl DeviceQueue for Manual {
    type Commands = u64;
    type Write = ();
    type WaitPoint = u64;

    fn submit(&self, number: u64, _batch: &Arc<BatchState>) -> std::result::Result<Submitted<u64>, Refused> {
        self.given.lock().push(number);
        Ok(Submitted::InFlight { point: number, at: Clock::Wall.now(), native: false })
    }

    fn write(&self, (): ()) -> Result<()> {
        Ok(())
    }

    fn wait(&self, point: &u64, at_most: Duration) -> Waited {
        assert_eq!(at_most, Duration::ZERO, "there is no thread that could wait");
        match *point < self.done.load(Ordering::Relaxed) {
            true => Waited::Done(Seen { at: Instant::now(), on_time: true }),
            false => Waited::Pending,
        }
    }

    fn finished(&self, _readback: Option<&dyn PendingReadback>) -> Result<()> {
        Ok(())
    }

    fn retain(&self, _point: u64, _batch: &Arc<BatchState>) {}
}

#[test]
fn submissions_in_flight_are_completed_by_calls_which_make_room_for_the_next() -> Result<()> {
    let (lost, counters, costs) = (Arc::<Lost>::default(), Arc::<Counters>::default(), Arc::new(Costs::new(1.0)));
    let submitter =
        Submitter::start(Manual::default(), Box::new(NoThreads), 2, lost, counters, (costs, Clock::Wall), None)?;
    let completions: Vec<_> = (0..5)
        .map(|number| {
            let completion = Arc::new(Completion::new());
            completion.submitted();
            let batch = BatchState::new(completion.clone(), Arc::new([]), Location::caller());
            submitter.push([QueueItem::Submission(ReadySubmission::whole(number, batch))]);
            completion
        })
        .collect();
    let ended = || completions.iter().filter(|completion| completion.is_done()).count();
    let device = &submitter.device;
    assert_eq!(*device.given.lock(), [0, 1], "two may be in flight");
    assert!(!submitter.complete(false), "nothing is done");
    device.done.store(1, Ordering::Relaxed);
    assert!(submitter.complete(false));
    assert_eq!((ended(), device.given.lock().clone()), (1, vec![0, 1, 2]));
    // A callback may be late.
    device.done.store(3, Ordering::Relaxed);
    while submitter.complete(false) {}
    assert_eq!((ended(), device.given.lock().clone()), (3, vec![0, 1, 2, 3, 4]));
    // A waiting thread checks by itself.
    device.done.store(5, Ordering::Relaxed);
    submitter.wait(&completions[4])?;
    assert_eq!(ended(), 5);
    Ok(())
}
