//! Waits that end at about the time at which wgpu's own poll gives up: two dispatches of about 100 ms each, in
//! submissions of their own, read back.

use std::time::{Duration, Instant};

use sortie::{Device, Error, Grid, Kernel, Result};

use super::work::{SLOW, advanced};
use crate::{
    devices,
    part::{Part, Size, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    name: "waiting",
    about: "waits for submissions of about 100 ms each, with right answers and no panic; size: seconds",
    devices: devices::ALL,
    weight: 3,
    size: Size { quick: 3, full: 60 },
    quick_runs: 1,
    patience: Duration::from_secs(600),
    run,
    conclude: None,
};

/// What a dispatch is to take.
const WANTED: f64 = 0.1;

/// Elements that are read back and checked.
const READ: usize = 64;

fn run(task: &Task, report: &mut Report) {
    if let Err(error) = wait(task, report) {
        report.fault(format!("{error:?}"));
    }
}

fn wait(task: &Task, report: &mut Report) -> Result<()> {
    let device = devices::open(&task.device)?;
    let slow = device.kernel(SLOW)?;
    let mut random = task.random();
    let (begin, seconds) = (Instant::now(), Duration::from_secs(task.size));
    let mut items = 1 << 14;
    while begin.elapsed() < seconds {
        report.at(format!("round {}, {items} items", report.operations()));
        let took = round(&device, &slow, items)?;
        report.count(1);
        let next = items as f64 * (WANTED / took.as_secs_f64()).clamp(0.5, 2.0);
        // Somewhere near it, on both sides.
        items = (next * (0.95 + 0.1 * random.f64())).clamp(4096.0, (1 << 24) as f64) as usize;
    }
    Ok(())
}

/// Returns how long one of the two dispatches took.
fn round(device: &Device, slow: &Kernel, items: usize) -> Result<Duration> {
    let x = device.zeros::<u32>(items)?;
    let begin = Instant::now();
    let mut batch = device.batch();
    batch.dispatch(slow, &[&x], Grid::items(items));
    batch.split();
    batch.dispatch(slow, &[&x], Grid::items(items));
    let reading = batch.read(x.slice(items - READ..));
    let ticket = batch.submit_async()?;
    let answer = reading.wait()?;
    let took = begin.elapsed() / 2;
    ticket.wait()?;
    if answer == [advanced(advanced(0)); READ] { Ok(took) } else { Err(Error::input("a wrong answer")) }
}
