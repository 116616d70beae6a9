//! More requests than a device can answer, for a while; then as few as before.
//!
//! Every request is answered, rightly or with the error that says why not; memory stays bounded; afterwards all is as it
//! was before.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use sortie::{
    BatchConfig, Batcher, Device, ErrorKind, Result,
    batcher::{BatchSizing, CallOptions, OnDevice, Overload, Rows},
};

use super::work::{SLOW_ROWS, advanced};
use crate::{
    devices, memory,
    part::{Part, Size, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    weight: 2,
    size: Size { quick: 1, full: 10 },
    ..Part::new(
        "overload",
        "a batcher under overload, rejecting and queueing, and its recovery; size: seconds of each",
        run,
    )
};

/// Threads that ask.
const CALLERS: u32 = 4;
/// Requests that one of them has under way.
const UNDER_WAY: usize = 256;
/// Rows of a request.
const ROWS: usize = 32;
/// Megabytes that a batcher may grow by under overload.
const STEADY: f64 = 64.0;

/// How requests were answered.
#[derive(Default)]
struct Answers {
    right: AtomicU64,
    rejected: AtomicU64,
    expired: AtomicU64,
}

fn run(task: &Task, report: &mut Report) -> Result<()> {
    let reject = BatchConfig::latency().with_max_batch_size(1024).with_overload(Overload::Reject);
    let target = BatchSizing::Target { p99: Duration::from_millis(20) };
    let configs = [
        ("rejecting", reject),
        ("queueing", reject.with_overload(Overload::Wait)),
        ("with a target", reject.with_sizing(target)),
    ];
    let device = devices::open(&task.device)?;
    let seconds = (task.size as f64).min(task.time.unwrap_or(f64::INFINITY) / configs.len() as f64);
    for (name, config) in configs {
        report.at(name);
        overload(&device, name, config, Duration::from_secs_f64(seconds), report)?;
    }
    Ok(())
}

fn overload(device: &Device, name: &str, config: BatchConfig, time: Duration, report: &mut Report) -> Result<()> {
    let batcher = Batcher::new(device, Rows::<u32, u32>::new([1, 1], SLOW_ROWS), config)?;
    recovered(&batcher, name, report);
    let (answers, begin, before) = (Answers::default(), Instant::now(), memory::resident());
    let call = |caller: u32| {
        let mut faults = Vec::new();
        while begin.elapsed() < time && faults.is_empty() {
            faults.extend(ask(&batcher, caller, &answers));
        }
        faults
    };
    let faults: Vec<String> = thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|caller| scope.spawn(move || call(caller))).collect();
        let faults = callers.into_iter().map(|caller| caller.join().unwrap_or(vec!["a caller panicked".into()]));
        faults.flatten().collect()
    });
    for fault in faults.iter().take(3) {
        report.fault(format!("{name}: {fault}"));
    }
    let counts = [&answers.right, &answers.rejected, &answers.expired].map(|count| count.load(Ordering::Relaxed));
    report.count(counts.iter().sum());
    report.check(counts[0] > 0, || format!("{name}: nothing was answered"));
    let growth = memory::growth(before);
    report.figure(&format!("{name} MB"), growth);
    report.check(growth <= STEADY, || format!("{name}: grew by {growth:.1} MB, more than {STEADY} MB"));
    recovered(&batcher, name, report);
    let figures = batcher.metrics();
    report.check(figures.failed == 0, || format!("{name}: {} batches failed", figures.failed));
    Ok(())
}

/// A burst of requests, some with a deadline, some dropped. Returns what must not happen.
fn ask(batcher: &Batcher<OnDevice<Rows<u32, u32>>>, value: u32, answers: &Answers) -> Vec<String> {
    let mut asked = Vec::with_capacity(UNDER_WAY);
    for request in 0..UNDER_WAY {
        let deadline = (request % 4 == 0).then(|| Instant::now() + Duration::from_millis(5));
        asked.push(batcher.call(vec![value; ROWS]).with(CallOptions { deadline, ..CallOptions::default() }).send());
        if request % 16 == 0 {
            // The caller has gone.
            drop(asked.pop());
        }
    }
    let mut faults = Vec::new();
    for call in asked {
        match call.wait() {
            Ok(answer) if answer == [advanced(value); ROWS] => drop(answers.right.fetch_add(1, Ordering::Relaxed)),
            Ok(_) => faults.push("a wrong answer".into()),
            Err(error) => match error.kind() {
                ErrorKind::Overloaded => drop(answers.rejected.fetch_add(1, Ordering::Relaxed)),
                ErrorKind::Expired => drop(answers.expired.fetch_add(1, Ordering::Relaxed)),
                _ => faults.push(format!("{error:?}")),
            },
        }
    }
    faults
}

/// Without overload every request is answered.
fn recovered(batcher: &Batcher<OnDevice<Rows<u32, u32>>>, name: &str, report: &mut Report) {
    for value in 0..20 {
        let answer = batcher.call_blocking(vec![value; ROWS]);
        let right = answer.as_ref().is_ok_and(|answer| *answer == [advanced(value); ROWS]);
        report.check(right, || format!("{name}: without overload a request is answered with {answer:?}"));
    }
}
