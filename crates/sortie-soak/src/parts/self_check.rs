//! Fails on purpose, in every way that the campaign has to notice. Not a part of a campaign.

use std::{process, thread, time::Duration};

use crate::{
    part::{Part, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    devices: &["cpu"],
    weight: 0,
    quick_runs: 6,
    patience: Duration::from_secs(10),
    ..Part::new(
        "self-check",
        "fails on purpose: seed 0 reports a fault, 1 panics, 2 aborts, 3 hangs, 4 exits slowly, 5 is clean",
        run,
    )
};

fn run(task: &Task, report: &mut Report) -> sortie::Result<()> {
    report.at("the failure");
    match task.seed {
        0 => report.fault("planted"),
        // Caught, as a thread of the library would.
        1 => drop(thread::spawn(|| panic!("planted")).join()),
        2 => process::abort(),
        3 => thread::sleep(Duration::from_secs(3600)),
        4 => {
            report.exiting();
            thread::sleep(Duration::from_secs(3));
        }
        _ => report.count(1),
    }
    Ok(())
}
