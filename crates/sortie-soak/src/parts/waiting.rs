//! Waits that end at about the time at which a poll with a timeout of 100 ms gives up.
//!
//! One or two dispatches of about 100 ms each, then a split and a read. The read is short, and lavapipe's `submit` of it
//! returns just when the dispatches are done: wgpu then polls on two threads at once.

use std::time::{Duration, Instant};

use sortie::{Device, Error, Grid, Kernel, Result};

use super::work::{SLOW, advanced};
use crate::{
    devices,
    part::{Part, Size, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    weight: 3,
    size: Size { quick: 3, full: 60 },
    cases: 2,
    ..Part::new(
        "waiting",
        "waits for submissions of about 100 ms each, with right answers and no panic; size: seconds",
        run,
    )
};

/// What a dispatch is to take.
const WANTED: f64 = 0.1;

/// Elements that are read back and checked.
const READ: usize = 64;

/// Items of a dispatch.
const MIN_ITEMS: usize = 1 << 12;
const MAX_ITEMS: usize = 1 << 24;

fn run(task: &Task, report: &mut Report) -> Result<()> {
    let device = devices::open(&task.device)?;
    let slow = device.kernel(SLOW)?;
    let mut random = task.random();
    let (begin, seconds) = (Instant::now(), Duration::from_secs(task.size));
    let mut items = 1 << 14;
    while begin.elapsed() < seconds && !task.is_over() {
        report.at(format!("round {}, {items} items", report.operations()));
        let dispatches = if task.seed.is_multiple_of(2) { 2 } else { 1 };
        let took = round(&device, &slow, items, dispatches)?;
        report.count(1);
        // Towards it by small steps, so that a busy machine does not throw it far off.
        let next = items as f64 * (WANTED / took.as_secs_f64()).clamp(0.8, 1.25);
        items = ((next * (0.98 + 0.04 * random.f64())) as usize).clamp(MIN_ITEMS, MAX_ITEMS);
    }
    Ok(())
}

/// Returns how long one of the dispatches took.
fn round(device: &Device, slow: &Kernel, items: usize, dispatches: u32) -> Result<Duration> {
    let x = device.zeros::<u32>(items)?;
    let begin = Instant::now();
    let batch = device.batch();
    for _ in 0..dispatches {
        batch.dispatch(slow, &[&x], Grid::items(items));
    }
    batch.split();
    let reading = batch.read(x.slice(items - READ..));
    let ticket = batch.submit_async()?;
    let answer = reading.wait()?;
    let took = begin.elapsed() / dispatches;
    ticket.wait()?;
    let right = (0..dispatches).fold(0, |value, _| advanced(value));
    if answer == [right; READ] { Ok(took) } else { Err(Error::input("a wrong answer")) }
}
