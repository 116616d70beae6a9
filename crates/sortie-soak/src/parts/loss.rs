//! The device is destroyed with everything in flight.
//!
//! Every ticket and reading that was pending resolves as `DeviceLost`, within a second; the batcher answers what was
//! queued after it has reopened the device; nothing crashes, panics or keeps memory that the metrics do not show.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use sortie::{
    BatchConfig, Batcher, Device, Error, ErrorKind, Grid, Kernel, Reading, Replay, Result, Stream, Ticket,
    batcher::{OnDevice, ResponseFuture, Rows},
    profile::Profile,
    stream::{Sink, Source},
};

use super::{
    loss_baseline,
    work::{SLOW, SLOW_ROWS, advanced, works},
};
use crate::{
    child, devices, memory,
    part::{Outcome, Part, Size, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    devices: devices::DRIVERS,
    weight: 4,
    size: Size { quick: 15, full: 200 },
    quick_runs: 2,
    patience: Duration::from_secs(900),
    conclude: Some(conclude),
    ..Part::new(
        "loss",
        "the device is destroyed with replays, batches, readings, a batcher and a stream in flight; size: losses",
        run,
    )
};

/// Elements of the buffers that slow dispatches work on.
const ITEMS: usize = 1 << 12;

/// A ticket or reading that takes longer than this to resolve is late.
const MAX_RESOLVE_TIME: Duration = Duration::from_secs(1);

/// One that takes longer than this is not waited for.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Losses before memory is first measured.
pub(super) const WARM_UP: u64 = 5;

fn run(task: &Task, report: &mut Report) -> Result<()> {
    let mut random = task.random();
    let mut device = devices::open(&task.device)?;
    let mut tally = Tally::default();
    let mut before = memory::resident();
    for loss in task.operations() {
        if loss == WARM_UP.min(task.size / 2) {
            before = memory::resident();
        }
        report.at(format!("loss {loss}"));
        if let Err(error) = lose(&device, &mut random, &mut tally, report) {
            report.fault(format!("loss {loss}, before it: {error:?}"));
        }
        report.count(1);
        device = device.reopen()?;
        if let Err(error) = works(&device) {
            report.fault(format!("loss {loss}, after reopening: {error:?}"));
        }
    }
    report.figure("growth MB", memory::growth(before));
    report.figure("retained MB", tally.retained as f64 / 1e6);
    report.figure("longest to resolve ms", tally.longest.as_secs_f64() * 1e3);
    report.figure("resolved late", f64::from(tally.late));
    // Times are never checked in `scripts/test`.
    report.check(task.quick || tally.late == 0, || {
        let (late, longest) = (tally.late, tally.longest.as_secs_f64());
        format!("{late} resolved later than 1 s after the loss, the last after {longest:.1} s")
    });
    report.figure("pending at the loss", f64::from(tally.lost));
    report.figure("done before the loss", f64::from(tally.done));
    Ok(())
}

/// The growth of a plain wgpu program is subtracted from ours.
fn conclude(task: &Task, outcome: &mut Outcome) {
    const ALLOWED: f64 = 10.0;
    let baseline = child::run(&loss_baseline::PART, task);
    let grown =
        |name: &str, figures: &[(String, f64)]| figures.iter().find(|(own, _)| own == name).map(|(_, value)| *value);
    let plain = grown("growth MB", &baseline.figures).unwrap_or_default();
    outcome.figures.insert("plain wgpu growth MB".into(), plain);
    for failure in baseline.failures {
        outcome.fail(&format!("plain wgpu: {failure}"));
    }
    let ours = outcome.figures.get("growth MB").copied().unwrap_or_default();
    let retained = outcome.figures.get("retained MB").copied().unwrap_or_default();
    if !task.quick && ours - plain.max(retained) > ALLOWED {
        outcome.fail(&format!("grew by {ours:.1} MB; plain wgpu by {plain:.1} MB, retained {retained:.1} MB"));
    }
}

/// The batcher's job.
type SlowRows = OnDevice<Rows<u32, u32>>;

/// What has been seen of tickets, readings and calls.
#[derive(Default)]
struct Tally {
    longest: Duration,
    late: u32,
    lost: u32,
    done: u32,
    retained: u64,
}

/// What is in flight when the device goes.
#[derive(Default)]
struct InFlight {
    tickets: Vec<(&'static str, Ticket)>,
    readings: Vec<(&'static str, Reading<u32>)>,
    profiles: Vec<Reading<Profile>>,
    replays: Vec<Replay>,
    calls: Vec<ResponseFuture<SlowRows>>,
}

impl InFlight {
    fn ticket(&mut self, of: &'static str, ticket: Ticket, random: &mut Rng) {
        // A dropped one detaches.
        if random.u8(..) > 16 {
            self.tickets.push((of, ticket));
        }
    }
}

fn lose(device: &Device, random: &mut Rng, tally: &mut Tally, report: &mut Report) -> Result<()> {
    let slow = device.kernel(SLOW)?;
    let rows = device.kernel(SLOW_ROWS)?;
    let mut in_flight = InFlight::default();
    // Direct submissions end with the first call of `Device::wgpu`: they go first.
    direct_replays(device, &slow, random, &mut in_flight)?;
    let batcher = Batcher::new(
        device,
        Rows::<u32, u32>::new([1, 1], SLOW_ROWS),
        BatchConfig::latency().with_max_batch_size(256).with_in_flight(2).with_queue_capacity(1 << 20),
    )?;
    let destroyed = AtomicBool::new(false);
    let kinds = thread::scope(|scope| {
        let stream = scope.spawn(|| until_lost(&destroyed, || stream(device, &rows)));
        let user = scope.spawn(|| until_lost(&destroyed, || user(device)));
        in_flight.calls.extend((0..24).map(|call| batcher.call(vec![call; 256]).send()));
        let filled = match random.u8(..4) {
            0 => Ok(()),
            1 => live_batches(device, &slow, random, &mut in_flight),
            2 => replays(device, &slow, random, &mut in_flight),
            _ => replays(device, &slow, random, &mut in_flight)
                .and_then(|()| live_batches(device, &slow, random, &mut in_flight)),
        };
        thread::sleep(Duration::from_micros(random.u64(..20_000)));
        let Some((gpu, _)) = device.wgpu() else { unreachable!("a driver is wgpu's") };
        if random.bool() {
            in_flight.replays.clear();
        }
        let begin = Instant::now();
        destroyed.store(true, Ordering::SeqCst);
        let elsewhere = random.bool().then(|| scope.spawn(|| gpu.destroy()));
        if elsewhere.is_none() {
            gpu.destroy();
        }
        resolve(&mut in_flight, begin, tally, report);
        drop(elsewhere.map(thread::ScopedJoinHandle::join));
        refuses(device, &slow, &in_flight.replays, report);
        (filled, stream.join(), user.join())
    });
    answered(std::mem::take(&mut in_flight.calls), &batcher, report);
    tally.retained += device.metrics().retained_bytes;
    let (filled, stream, user) = kinds;
    for (of, outcome) in [("stream", stream), ("another thread", user)] {
        match outcome {
            Ok(error) => is_loss(of, &error, report),
            Err(_) => report.fault(format!("{of} panicked")),
        }
    }
    filled
}

/// Native replays that bring nothing and read nothing.
fn direct_replays(device: &Device, slow: &Kernel, random: &mut Rng, in_flight: &mut InFlight) -> Result<()> {
    for _ in 0..random.usize(..3) {
        let state = device.zeros::<u32>(ITEMS)?;
        let batch = device.batch();
        for _ in 0..random.usize(1..6) {
            batch.dispatch(slow, &[&state], Grid::items(ITEMS));
        }
        let replay = batch.freeze()?;
        for _ in 0..random.usize(1..6) {
            in_flight.ticket("a direct replay", replay.run().submit_async()?, random);
        }
        if random.bool() {
            in_flight.replays.push(replay);
        }
    }
    Ok(())
}

/// Replays with inputs and outputs; some of their runs are encoded, because they are profiled.
fn replays(device: &Device, slow: &Kernel, random: &mut Rng, in_flight: &mut InFlight) -> Result<()> {
    let batch = device.batch();
    let (input, x) = batch.input::<u32>([ITEMS]);
    let state = batch.scratch::<u32>(ITEMS);
    (x + x).store(state);
    for _ in 0..random.usize(1..6) {
        batch.dispatch(slow, &[&state], Grid::items(ITEMS));
    }
    let out = batch.output(state);
    let replay = batch.freeze()?;
    for _ in 0..random.usize(1..8) {
        let mut run = replay.run();
        run.write(input, &[7; ITEMS]);
        let of = if random.bool() {
            in_flight.profiles.push(run.profile());
            "an encoded replay"
        } else {
            "a native replay"
        };
        in_flight.readings.push((of, run.read(out)));
        in_flight.ticket(of, run.submit_async()?, random);
    }
    in_flight.replays.push(replay);
    Ok(())
}

fn live_batches(device: &Device, slow: &Kernel, random: &mut Rng, in_flight: &mut InFlight) -> Result<()> {
    for _ in 0..random.usize(1..6) {
        let state = device.upload(&[5_u32; ITEMS])?;
        let batch = device.batch();
        for _ in 0..random.usize(1..6) {
            batch.dispatch(slow, &[&state], Grid::items(ITEMS));
            if random.bool() {
                batch.split();
            }
        }
        let copy = batch.scratch::<u32>(ITEMS);
        batch.copy(&state, copy);
        batch.fill(&state, 3);
        in_flight.readings.push(("a live batch", batch.read(copy)));
        in_flight.ticket("a live batch", batch.submit_async()?, random);
    }
    Ok(())
}

/// Runs `once` until the device is lost. Returns the error that it ends with.
fn until_lost(destroyed: &AtomicBool, once: impl Fn() -> Result<()>) -> Error {
    loop {
        if let Err(error) = once() {
            return error;
        }
        if destroyed.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }
}

fn stream(device: &Device, rows: &Kernel) -> Result<()> {
    let took = |_: &[u32]| Ok::<(), std::io::Error>(());
    let stream = Stream::<u32, u32>::kernel(device, rows).window(4096);
    stream.run(Source::items(0..1 << 20), Sink::each(took)).map(drop)
}

/// Makes buffers, kernels, replays and batches.
fn user(device: &Device) -> Result<()> {
    let kernel = device.kernel(SLOW)?;
    let x = device.upload(&[1_u32; 1024])?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x], Grid::items(1024));
    batch.freeze()?.run().submit()?;
    x.write(&[2; 1024])?;
    x.download().map(drop)
}

/// Waits for everything, and checks how it ends and when.
fn resolve(in_flight: &mut InFlight, begin: Instant, tally: &mut Tally, report: &mut Report) {
    let mut ended = |of: &str, outcome: Result<()>| {
        let took = begin.elapsed();
        match outcome {
            Ok(()) => tally.done += 1,
            Err(error) if error.kind() == ErrorKind::DeviceLost => {
                tally.lost += 1;
                tally.longest = tally.longest.max(took);
                tally.late += u32::from(took > MAX_RESOLVE_TIME);
            }
            Err(error) if error.kind() == ErrorKind::Timeout => report.fault(format!("{of}: never resolved")),
            Err(error) => report.fault(format!("{of}: ended with {error:?}")),
        }
    };
    for (of, ticket) in in_flight.tickets.drain(..) {
        ended(of, ticket.wait_timeout(WAIT_TIMEOUT));
    }
    for (of, reading) in in_flight.readings.drain(..) {
        ended(&format!("the reading of {of}"), reading.wait_timeout(WAIT_TIMEOUT).map(drop));
    }
    for profile in in_flight.profiles.drain(..) {
        ended("a profile", profile.wait_timeout(WAIT_TIMEOUT).map(drop));
    }
}

/// A lost device refuses everything, as lost.
fn refuses(device: &Device, slow: &Kernel, replays: &[Replay], report: &mut Report) {
    let batch = || {
        let batch = device.batch();
        let x = batch.scratch::<u32>(64);
        batch.dispatch(slow, &[&x], Grid::items(64));
        batch
    };
    // wgpu tells of the loss when it is next polled: the batch comes first.
    let mut calls = vec![
        ("a batch", batch().submit()),
        ("an upload", device.upload(&[1_u32]).map(drop)),
        ("zeros", device.zeros::<u32>(16).map(drop)),
        ("freezing", batch().freeze().map(drop)),
    ];
    calls.extend(replays.iter().map(|replay| ("a run", replay.run().submit_async().and_then(|ticket| ticket.wait()))));
    for (of, outcome) in calls {
        match outcome {
            Ok(()) => report.fault(format!("{of} succeeds on a lost device")),
            // A replay with inputs complains of those first.
            Err(error) if error.kind() == ErrorKind::Bindings => {}
            Err(error) => is_loss(of, &error, report),
        }
    }
}

/// Every call is answered: those whose batch was in flight as lost, those queued after the batcher has reopened.
fn answered(calls: Vec<ResponseFuture<SlowRows>>, batcher: &Batcher<SlowRows>, report: &mut Report) {
    let (all, mut failed) = (calls.len(), 0);
    for (call, value) in calls.into_iter().zip(0_u32..) {
        match call.wait() {
            Ok(answer) => report.check(answer == [advanced(value); 256], || "a call has a wrong answer".into()),
            Err(error) => {
                failed += 1;
                is_loss("a call", &error, report);
            }
        }
    }
    // At most what was under way, and one batch that meets the loss when it is submitted.
    report.check(failed <= 3, || format!("{failed} of {all} queued calls failed"));
    match batcher.call_blocking(vec![1; 256]) {
        Ok(answer) => report.check(answer == [advanced(1); 256], || "a call after the loss has a wrong answer".into()),
        // Idle when the device went: the first call finds out.
        Err(error) => {
            is_loss("the first call after the loss", &error, report);
            let again = batcher.call_blocking(vec![1; 256]);
            report.check(again.is_ok(), || format!("the batcher does not come back: {again:?}"));
        }
    }
}

fn is_loss(of: &str, error: &Error, report: &mut Report) {
    report.check(error.kind() == ErrorKind::DeviceLost, || format!("{of}: ended with {error:?}"));
}
