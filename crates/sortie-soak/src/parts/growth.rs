//! Memory after many operations, buffers, replays and uploads. Each case has a process of its own.

use std::time::Duration;

use sortie::{Device, DeviceOptions, ErrorKind, Grid, Result};

use super::work::SLOW;
use crate::{
    devices, memory,
    part::{Part, Size, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    weight: 3,
    size: Size { quick: 20, full: 1000 },
    cases: CASES.len() as u64,
    quick_runs: CASES.len() as u64,
    patience: Duration::from_secs(900),
    ..Part::new(
        "growth",
        "memory after 1M ops, 400k buffers, 10k replays, and uploads without submissions; size: thousandths of that",
        run,
    )
};

type Case = (&'static str, fn(&Task, &mut Report) -> Result<()>);

const CASES: &[Case] = &[
    ("uploads, dropped", uploads_dropped),
    ("uploads, kept", uploads_kept),
    ("writes", writes),
    ("ops", ops),
    ("buffers", buffers),
    ("replays", replays),
];

const MIB: u64 = 1 << 20;

/// Elements of one upload of 8 MiB.
const UPLOAD: usize = 2 << 20;

/// Of the device, for uploads.
const BUDGET: u64 = 64 * MIB;

/// Megabytes that a steady loop may grow by.
const MAX_STEADY_MB: f64 = 16.0;

/// Megabytes that uploads under the budget may grow by.
const MAX_UPLOADS_MB: f64 = 128.0;

fn run(task: &Task, report: &mut Report) -> Result<()> {
    let (name, case) = CASES[task.seed as usize % CASES.len()];
    report.at(name);
    case(task, report)
}

/// How often, of `full` times.
fn times(task: &Task, full: u64) -> u64 {
    (full * task.size / 1000).max(1)
}

fn budgeted(task: &Task) -> Result<Device> {
    devices::open_with(&task.device, DeviceOptions::default().with_memory_budget(BUDGET))
}

fn grew(name: &str, before: u64, most: f64, report: &mut Report) {
    let growth = memory::growth(before);
    report.figure(&format!("{name} MB"), growth);
    report.check(growth <= most, || format!("{name}: grew by {growth:.1} MB, more than {most} MB"));
}

/// Uploads whose buffers are dropped at once need no more memory than the budget.
fn uploads_dropped(task: &Task, report: &mut Report) -> Result<()> {
    let device = budgeted(task)?;
    let data = vec![7_u32; UPLOAD];
    let before = memory::resident();
    let mut most = 0;
    for _ in 0..times(task, 300).max(30) {
        drop(device.upload(&data)?);
        most = most.max(device.memory_bytes());
        report.count(1);
    }
    report.check(most <= BUDGET, || format!("memory_bytes was {most}, over the budget"));
    grew("uploads, dropped", before, MAX_UPLOADS_MB, report);
    device.trim();
    let left = device.memory_bytes();
    report.check(left == 0, || format!("memory_bytes is {left} when all is dropped and trimmed"));
    grew("uploads, trimmed", before, MAX_UPLOADS_MB, report);
    Ok(())
}

/// Uploads whose buffers are kept meet the budget.
fn uploads_kept(task: &Task, report: &mut Report) -> Result<()> {
    let device = budgeted(task)?;
    let data = vec![7_u32; UPLOAD];
    let before = memory::resident();
    let mut kept = Vec::new();
    let error = loop {
        match device.upload(&data) {
            Ok(buffer) => kept.push(buffer),
            Err(error) => break Some(error),
        }
        report.count(1);
        if kept.len() == 300 {
            break None;
        }
    };
    let bytes = 4 * (UPLOAD * kept.len()) as u64;
    match error.as_ref().map(sortie::Error::kind) {
        Some(ErrorKind::OutOfMemory { budget: BUDGET, .. }) => {}
        other => report.fault(format!("{bytes} bytes kept, then {other:?} instead of OutOfMemory")),
    }
    report.check((BUDGET / 2..=BUDGET).contains(&bytes), || format!("{bytes} bytes were kept, of {BUDGET}"));
    let told = device.memory_bytes();
    report.check((bytes..=BUDGET).contains(&told), || format!("memory_bytes is {told} with {bytes} kept"));
    // What is kept is on top.
    grew("uploads, kept", before, MAX_UPLOADS_MB + bytes as f64 / 1e6, report);
    for buffer in &kept {
        report.check(buffer.slice(UPLOAD - 4..).download()? == [7; 4], || "a wrong answer".into());
    }
    Ok(())
}

/// Writes to one buffer without a submission in between.
fn writes(task: &Task, report: &mut Report) -> Result<()> {
    let device = budgeted(task)?;
    let data = vec![7_u32; UPLOAD];
    let buffer = device.zeros::<u32>(UPLOAD)?;
    let before = memory::resident();
    for _ in 0..times(task, 300).max(30) {
        buffer.write(&data)?;
        report.count(1);
    }
    grew("writes", before, MAX_UPLOADS_MB, report);
    let told = device.memory_bytes();
    report.check(told <= BUDGET, || format!("memory_bytes is {told}, over the budget"));
    report.check(buffer.slice(UPLOAD - 4..).download()? == [7; 4], || "a wrong answer".into());
    Ok(())
}

/// Batches of many ops.
fn ops(task: &Task, report: &mut Report) -> Result<()> {
    const BATCH: u64 = 1000;
    let device = devices::open(&task.device)?;
    let kernel = device.kernel(SLOW)?;
    let x = device.zeros::<u32>(64)?;
    steady("ops", task, times(task, 1_000_000) / BATCH, report, |report| {
        let batch = device.batch();
        for op in 0..BATCH {
            match op % 4 {
                0 => drop(batch.dispatch(&kernel, &[&x], Grid::items(64)).label("advance")),
                1 => batch.fill(x.slice(..32), 1),
                2 => batch.copy(x.slice(..16), x.slice(16..32)),
                _ => batch.write(x.slice(32..), &[2; 32]),
            }
        }
        let reading = batch.read(&x);
        batch.submit()?;
        report.count(BATCH);
        reading.wait().map(drop)
    })
}

/// Buffers of random sizes, some of them used.
fn buffers(task: &Task, report: &mut Report) -> Result<()> {
    let device = devices::open(&task.device)?;
    let mut random = task.random();
    let mut kept = Vec::new();
    steady("buffers", task, times(task, 400_000) / 100, report, |report| {
        for _ in 0..100 {
            kept.push(device.upload(&vec![1_u32; random.usize(1..4096)])?);
        }
        while kept.len() > 50 {
            drop(kept.swap_remove(random.usize(..kept.len())));
        }
        let batch = device.batch();
        kept.iter().for_each(|buffer| batch.fill(buffer, 3));
        report.count(100);
        batch.submit()
    })
}

/// Replays that are frozen, run and dropped.
fn replays(task: &Task, report: &mut Report) -> Result<()> {
    let device = devices::open(&task.device)?;
    let kernel = device.kernel(SLOW)?;
    let state = device.zeros::<u32>(64)?;
    let mut random = task.random();
    steady("replays", task, times(task, 10_000) / 10, report, |report| {
        for _ in 0..10 {
            let batch = device.batch();
            let (input, x) = batch.input::<u32>([64]);
            (x + x).store(&state);
            for _ in 0..random.usize(1..5) {
                batch.dispatch(&kernel, &[&state], Grid::items(64));
            }
            let out = batch.output(&state);
            let replay = batch.freeze()?;
            let mut run = replay.run();
            run.write(input, &[1; 64]);
            let reading = run.read(out);
            drop(run.submit_async()?);
            if random.bool() {
                drop(replay);
                reading.wait()?;
            } else {
                drop(reading);
            }
        }
        report.count(10);
        Ok(())
    })
}

/// Runs `round` often and measures what the process grows by after the first half, when the caches are full.
fn steady(
    name: &str,
    task: &Task,
    rounds: u64,
    report: &mut Report,
    mut round: impl FnMut(&mut Report) -> Result<()>,
) -> Result<()> {
    let rounds = rounds.max(10);
    let mut before = memory::resident();
    for done in 0..rounds {
        if task.is_over() && done > rounds / 2 {
            break;
        }
        if done == rounds / 2 {
            before = memory::resident();
        }
        round(report)?;
    }
    grew(name, before, MAX_STEADY_MB, report);
    Ok(())
}
