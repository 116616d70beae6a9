//! Processes that exit at random moments. The parent measures the time from the call to the end.

use std::{
    process,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use sortie::{BatchConfig, Batcher, Device, Grid, Result, batcher::Rows};

use super::work::{SLOW, SLOW_ROWS};
use crate::{
    devices,
    part::{Part, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    weight: 2,
    quick_runs: 16,
    patience: Duration::from_secs(120),
    ..Part::new(
        "exits",
        "exits while devices are opened, work is submitted or in flight, or a kernel hangs; one exit per process",
        run,
    )
};

/// Ends only with the process.
const ENDLESS: &str = include_str!("../../kernels/endless.wgsl");

/// What other threads do when the process exits.
const SCENES: &[(&str, Scene)] = &[
    ("inside submit", submits),
    ("replays in flight", replays),
    ("a batcher at work", batcher),
    ("uploads and downloads", transfers),
];

/// Works in an endless loop, and sends a message when it has started.
type Scene = fn(&Device, &mpsc::Sender<()>) -> Result<()>;

fn run(task: &Task, report: &mut Report) -> Result<()> {
    let mut random = task.random();
    // Half of them during `open`.
    if task.seed.is_multiple_of(2) {
        opening(task, &mut random, report);
    } else {
        working(task, &mut random, report)?;
    }
    leave(&mut random, report);
    Ok(())
}

/// One or two threads open devices.
fn opening(task: &Task, random: &mut Rng, report: &mut Report) {
    report.at("exit during open");
    for _ in 0..random.usize(1..3) {
        let device = task.device.clone();
        thread::spawn(move || {
            let mut open = Vec::new();
            loop {
                open.extend(devices::open(&device));
                if open.len() == 2 {
                    open.clear();
                }
            }
        });
    }
    pause(random, 150);
}

/// A device is open and busy.
fn working(task: &Task, random: &mut Rng, report: &mut Report) -> Result<()> {
    let hangs = task.device == "cpu" && task.seed % 8 == 1;
    let (name, scene) = if hangs { ("a hung kernel", hung as Scene) } else { SCENES[random.usize(..SCENES.len())] };
    report.at(format!("exit with {name}"));
    let device = devices::open(&task.device)?;
    let (send, begun) = mpsc::channel();
    thread::spawn(move || scene(&device, &send));
    report.check(begun.recv().is_ok(), || format!("{name}: did not begin"));
    pause(random, 50);
    Ok(())
}

/// Exits in one of the ways there are.
fn leave(random: &mut Rng, report: &mut Report) {
    if random.bool() {
        report.exiting();
        process::exit(0);
    }
    // From another thread, while this one waits.
    thread::scope(|scope| {
        scope.spawn(|| {
            report.exiting();
            process::exit(0);
        });
    });
}

/// A random time, so that exits are spread over what the other threads do.
fn pause(random: &mut Rng, most_ms: u64) {
    let (begin, time) = (Instant::now(), Duration::from_micros(random.u64(..most_ms * 1000)));
    while begin.elapsed() < time {
        thread::sleep(Duration::from_micros(50));
    }
}

fn submits(device: &Device, begun: &mpsc::Sender<()>) -> Result<()> {
    let slow = device.kernel(SLOW)?;
    let x = device.zeros::<u32>(1 << 12)?;
    begun.send(()).unwrap_or_default();
    loop {
        let batch = device.batch();
        for _ in 0..4 {
            batch.dispatch(&slow, &[&x], Grid::items(1 << 12));
        }
        batch.submit()?;
    }
}

fn replays(device: &Device, begun: &mpsc::Sender<()>) -> Result<()> {
    let slow = device.kernel(SLOW)?;
    let x = device.zeros::<u32>(1 << 12)?;
    let batch = device.batch();
    batch.dispatch(&slow, &[&x], Grid::items(1 << 12));
    let replay = batch.freeze()?;
    begun.send(()).unwrap_or_default();
    let mut tickets = std::collections::VecDeque::new();
    loop {
        tickets.push_back(replay.run().submit_async()?);
        if tickets.len() > 8 {
            tickets.pop_front().map_or(Ok(()), |ticket| ticket.wait())?;
        }
    }
}

fn batcher(device: &Device, begun: &mpsc::Sender<()>) -> Result<()> {
    let rows = Rows::<u32, u32>::new([1, 1], SLOW_ROWS);
    let batcher = Batcher::new(device, rows, BatchConfig::latency())?;
    begun.send(()).unwrap_or_default();
    loop {
        let calls: Vec<_> = (0..16).map(|call| batcher.call(vec![call; 64]).send()).collect();
        for call in calls {
            call.wait()?;
        }
    }
}

fn transfers(device: &Device, begun: &mpsc::Sender<()>) -> Result<()> {
    begun.send(()).unwrap_or_default();
    loop {
        let x = device.upload(&[1_u32; 1 << 16])?;
        x.slice(..8).write(&[2; 8])?;
        x.download()?;
    }
}

/// A kernel of the built-in CPU that never ends.
fn hung(device: &Device, begun: &mpsc::Sender<()>) -> Result<()> {
    let endless = device.kernel(ENDLESS)?;
    let x = device.zeros::<u32>(1)?;
    let batch = device.batch();
    batch.dispatch(&endless, &[&x], Grid::groups(1));
    let ticket = batch.submit_async()?;
    begun.send(()).unwrap_or_default();
    ticket.wait()
}
