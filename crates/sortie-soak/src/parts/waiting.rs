//! Waits that end at about the time at which a poll with a timeout of 100 ms gives up: two dispatches of about 100 ms
//! each, in submissions of their own, read back. In every second process the second dispatch is short: that gives twice
//! as many rounds, and lavapipe's `submit` of it ends just when the first is done.

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

/// Items of a dispatch.
const LEAST: usize = 1 << 12;
const MOST: usize = 1 << 24;

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
        let second = if task.seed.is_multiple_of(2) { items } else { LEAST };
        let took = round(&device, &slow, [items, second])?;
        report.count(1);
        // Towards it by small steps, so that a busy machine does not throw it far off.
        let next = items as f64 * (WANTED / took.as_secs_f64()).clamp(0.8, 1.25);
        items = ((next * (0.98 + 0.04 * random.f64())) as usize).clamp(LEAST, MOST);
    }
    Ok(())
}

/// Returns how long the first dispatch took, by its share of the items.
fn round(device: &Device, slow: &Kernel, [first, second]: [usize; 2]) -> Result<Duration> {
    let [x, y] = [device.zeros::<u32>(first)?, device.zeros::<u32>(second)?];
    let begin = Instant::now();
    let mut batch = device.batch();
    batch.dispatch(slow, &[&x], Grid::items(first));
    batch.split();
    batch.copy(x.slice(first - READ..), y.slice(..READ));
    batch.dispatch(slow, &[&y], Grid::items(second));
    let reading = batch.read(y.slice(..READ));
    let ticket = batch.submit_async()?;
    let answer = reading.wait()?;
    let took = begin.elapsed().mul_f64(first as f64 / (first + second) as f64);
    ticket.wait()?;
    if answer == [advanced(advanced(0)); READ] { Ok(took) } else { Err(Error::input("a wrong answer")) }
}
