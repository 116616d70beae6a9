//! Random programs on the public API, misuse included, with right answers and the right errors.

use fastrand::Rng;
use sortie::{
    Device, DeviceOptions, Result,
    device::Planning,
    policy::{Split, SubmitPolicy},
};

use crate::{
    devices,
    part::{Part, Size, Task},
    program::Program,
    report::Report,
};

pub(crate) const PART: Part = Part {
    weight: 3,
    size: Size { quick: 60, full: 400 },
    quick_runs: 2,
    ..Part::new(
        "programs",
        "random API programs, misuse included, against a model in plain Rust; size: programs per process",
        run,
    )
};

/// Programs of one device.
const PER_DEVICE: u64 = 20;

/// Steps of one program.
const STEPS: usize = 40;

fn run(task: &Task, report: &mut Report) -> Result<()> {
    let mut random = task.random();
    let other = Device::cpu()?;
    let mut device = devices::open_with(&task.device, options(&mut random))?;
    for number in task.operations() {
        report.at(format!("program {number}"));
        if number % PER_DEVICE == PER_DEVICE - 1 {
            device = devices::open_with(&task.device, options(&mut random))?;
        }
        let mut own = random.fork();
        let steps = own.usize(1..=STEPS);
        if let Err(fault) = Program::new(&device, &other, &mut own)?.run(steps) {
            report.fault(format!("program {number}: {fault}"));
        }
        report.count(1);
    }
    Ok(())
}

/// A device in one of the ways that must not change a result.
fn options(random: &mut Rng) -> DeviceOptions {
    let planning = Planning { reorder: random.bool(), reuse: random.bool(), fuse: random.bool(), join: random.bool() };
    let split = if random.bool() { Split::Every(random.usize(1..5)) } else { Split::default() };
    let options = DeviceOptions::default()
        .with_planning(planning)
        .with_policy(random.bool().then(|| SubmitPolicy { split, in_flight: random.usize(1..4) }))
        .with_native_replay(random.u8(..4) > 0)
        .with_native_immediates(random.u8(..4) > 0);
    if random.bool() { options.with_threads(1) } else { options }
}
