//! Adversarial and mutated WGSL: every source compiles within its limits or is refused with an error that says why.

use std::time::Duration;

use rustix::{
    process::Resource,
    time::{ClockId, clock_gettime},
};
use sortie::{Buffer, Device, DeviceOptions, Error, ErrorKind, Grid, Kernel, Result};

use super::wgsl::{self, ADVERSARIES};
use crate::{
    devices, memory,
    part::{Part, Size, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    weight: 3,
    size: Size { quick: 60, full: 300 },
    cases: ADVERSARIES.len() as u64 + 2,
    quick_runs: ADVERSARIES.len() as u64 + 2,
    patience: Duration::from_secs(300),
    ..Part::new(
        "kernels",
        "adversarial WGSL, one source per process, then mutated WGSL; size: mutated sources per process",
        run,
    )
};

/// Megabytes that one source may take.
const MAX_SOURCE_MB: f64 = 512.0;

/// Seconds of processor time that one source may take; more in a build without optimisation.
const MAX_SOURCE_SECONDS: f64 = if cfg!(debug_assertions) { 15.0 } else { 5.0 };

/// Seconds of processor time after which a child is killed.
const MAX_CPU_SECONDS: u64 = 120;

/// Bytes of address space beyond what is in use after which allocations fail.
const MAX_ADDRESS_BYTES: u64 = 3 << 30;

fn run(task: &Task, report: &mut Report) -> Result<()> {
    let budget = Some(Duration::from_millis(200));
    let device = devices::open_with(&task.device, DeviceOptions::default().with_kernel_budget(budget))?;
    memory::limit(Resource::As, memory::address_space() + MAX_ADDRESS_BYTES);
    memory::limit(Resource::Cpu, MAX_CPU_SECONDS);
    match ADVERSARIES.get(task.seed as usize) {
        Some((name, size)) => adversarial(&device, name, *size, task, report),
        None if task.seed.is_multiple_of(2) => {
            let mut random = task.random();
            // Up to twice the size at which it was found to be expensive.
            let (name, size) = ADVERSARIES[random.usize(..ADVERSARIES.len())];
            adversarial(&device, name, random.usize(1..=2 * size), task, report);
        }
        None => mutations(&device, task, report),
    }
    Ok(())
}

/// One source, with what it costs.
fn adversarial(device: &Device, family: &str, size: usize, task: &Task, report: &mut Report) {
    let (name, source) = (format!("{family}, {size} of them"), wgsl::adversarial(family, size));
    report.at(&name);
    dump(&source);
    report.count(1);
    let (before, begin) = (memory::resident(), processor_time());
    let compiled = device.kernel(&source);
    let (peak, seconds) = ((memory::peak().saturating_sub(before)) as f64 / 1e6, processor_time() - begin);
    let outcome = match &compiled {
        Ok(_) => "compiles".to_owned(),
        Err(error) => {
            refused(error, report);
            format!("{:?}: {}", error.kind(), error.to_string().lines().next().unwrap_or_default())
        }
    };
    report.note(format!("{name} ({} bytes): {seconds:.1} s, {peak:.0} MB, {outcome}", source.len()));
    report.figure("most MB", peak);
    report.figure("most CPU s", seconds);
    report.check(peak <= MAX_SOURCE_MB, || format!("{name}: {peak:.0} MB"));
    // Times are never checked in `scripts/test`.
    report.check(task.quick || seconds <= MAX_SOURCE_SECONDS, || format!("{name}: {seconds:.1} s of processor time"));
}

fn mutations(device: &Device, task: &Task, report: &mut Report) {
    let (corpus, mut random) = (wgsl::corpus(), task.random());
    report.check(!corpus.is_empty(), || "there are no sources to mutate".into());
    let before = memory::resident();
    let mut compiled = 0;
    for number in task.operations() {
        let source = wgsl::mutated(&corpus[random.usize(..corpus.len())], &corpus, &mut random);
        // Most of the corpus has several entry points.
        let entry = random.choice(wgsl::entries(&source)).map(str::to_owned);
        report.at(format!("mutation {number}"));
        dump(&source);
        report.count(1);
        let kernel = match entry {
            Some(entry) => device.module(&source).and_then(|module| module.kernel(&entry)),
            None => device.kernel(&source),
        };
        match kernel {
            Ok(kernel) => {
                compiled += 1;
                // Endless loops are stopped on the built-in CPU only.
                if task.device == "cpu"
                    && let Err(error) = dispatch(device, &kernel)
                {
                    refused(&error, report);
                }
            }
            Err(error) => refused(&error, report),
        }
    }
    report.figure("mutations compiled", f64::from(compiled));
    let growth = (memory::peak().saturating_sub(before)) as f64 / 1e6;
    report.figure("mutations MB", growth);
    report.check(growth <= MAX_SOURCE_MB, || format!("mutations grew by {growth:.0} MB"));
}

/// Writes the source to the file that `SOAK_DUMP` names, if it is set: what is in it after a crash is the cause.
fn dump(source: &str) {
    if let Some(path) = std::env::var_os("SOAK_DUMP") {
        drop(std::fs::write(path, source));
    }
}

/// Runs a kernel with buffers that may or may not suit it.
fn dispatch(device: &Device, kernel: &Kernel) -> Result<()> {
    let buffers: Vec<Buffer<u32>> = (0..kernel.num_bindings()).map(|_| device.zeros(1024)).collect::<Result<_>>()?;
    let untyped: Vec<_> = buffers.iter().map(Buffer::untyped).collect();
    let bindings: Vec<&dyn sortie::Bind> = untyped.iter().map(|memory| memory as &dyn sortie::Bind).collect();
    let batch = device.batch();
    batch.dispatch(kernel, &bindings, Grid::groups(2));
    batch.submit()
}

/// Every error is of a kind that a source may cause, and short.
fn refused(error: &Error, report: &mut Report) {
    let fitting = match error.kind() {
        ErrorKind::Internal | ErrorKind::DeviceLost | ErrorKind::NoDevice | ErrorKind::Canceled => false,
        // A source is refused before it needs all memory.
        ErrorKind::OutOfMemory { .. } => false,
        _ => true,
    };
    report.check(fitting, || format!("{error:?}"));
    let length = error.to_string().len();
    report.check(length <= 16 << 10, || format!("an error of {length} bytes: {error:.200}"));
}

/// Seconds of processor time that this process has used.
fn processor_time() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
