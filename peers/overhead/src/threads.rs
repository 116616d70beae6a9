//! Whose CPU time is whose: the threads of this process, who made them, and which of them are the driver's.
//!
//! A thread belongs to the contender that was being made, or that ran, when it began. The calling thread belongs to whoever runs.

#![expect(unsafe_code, reason = "the CPU time of a thread takes a system call")]

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use crate::contest::Outcome;

/// Driver threads with a name of their own have this in it: Mesa's, which run kernels and write its cache of compiled ones.
const DRIVER: [&str; 2] = ["llvmpipe-", ":disk$"];
/// One that never sleeps has named itself by then.
const NAMED: Duration = Duration::from_secs(1);
/// The kernel's number of a thread's clock ends in this: the thread's own, in nanoseconds (`CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`).
const OWN_CLOCK: i32 = 0b110;

/// All threads that were seen.
pub(crate) struct Census {
    caller: i32,
    /// Lavapipe's queue runs the kernels on a thread without a name, which so has that of the thread that opened the device.
    caller_name: String,
    known: BTreeSet<i32>,
    left_out: BTreeSet<String>,
}

impl Census {
    /// Knows the threads there are. The calling thread is the one that makes contenders and runs them.
    pub(crate) fn new() -> Outcome<Self> {
        // SAFETY: it only gives a number.
        let caller = unsafe { libc::gettid() };
        let known = BTreeSet::from_iter(alive()?);
        Ok(Self { caller, caller_name: name(caller)?, known, left_out: BTreeSet::new() })
    }

    /// The threads that have begun since this was asked last, without the driver's.
    pub(crate) fn newcomers(&mut self) -> Outcome<Vec<i32>> {
        let alive = BTreeSet::from_iter(alive()?);
        let begun: Vec<i32> = alive.difference(&self.known).copied().collect();
        // What has ended is forgotten: its number may come again.
        self.known = alive;
        let mut newcomers = Vec::new();
        let mut queues = 0;
        for thread in begun {
            // What has ended since costs nothing any more.
            let Ok(name) = own_name(thread) else { continue };
            if name == self.caller_name {
                queues += 1;
                self.left_out
                    .insert(format!("{name} (lavapipe's queues, one for each device, are called like their caller)"));
            } else if DRIVER.iter().any(|part| name.contains(part)) {
                self.left_out.insert(name);
            } else {
                newcomers.push(thread);
            }
        }
        // One more would be a contender's, without a name either.
        if queues > 1 {
            return Err(
                format!("{queues} threads called {} have begun: which one is the queue's?", self.caller_name).into()
            );
        }
        Ok(newcomers)
    }

    /// The thread that this was made on.
    pub(crate) fn caller(&self) -> i32 {
        self.caller
    }

    /// Names of the driver's threads.
    pub(crate) fn left_out(&self) -> String {
        Vec::from_iter(self.left_out.iter().map(String::as_str)).join(", ")
    }
}

/// The CPU time of a thread up to now, also while it runs: what /proc tells of a running thread is as old as the last tick.
pub(crate) fn cpu_time(thread: i32) -> Outcome<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the kernel to write to.
    let failed = unsafe { libc::clock_gettime((!thread << 3) | OWN_CLOCK, &raw mut time) } != 0;
    if failed {
        return Err(format!("thread {thread} has ended, and its CPU time with it").into());
    }
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

fn alive() -> Outcome<Vec<i32>> {
    let numbers = fs::read_dir("/proc/self/task")?.map(|entry| Ok(entry?.file_name().to_string_lossy().parse()?));
    numbers.collect()
}

/// A thread names itself, and has the name of who made it until then: it has done so once it sleeps.
fn own_name(thread: i32) -> Outcome<String> {
    let runs = |stat: &str| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('R'));
    let begin = Instant::now();
    while runs(&fs::read_to_string(format!("/proc/self/task/{thread}/stat"))?) && begin.elapsed() < NAMED {
        std::thread::sleep(Duration::from_micros(100));
    }
    name(thread)
}

fn name(thread: i32) -> Outcome<String> {
    Ok(fs::read_to_string(format!("/proc/self/task/{thread}/comm"))?.trim_end().to_owned())
}
