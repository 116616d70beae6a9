//! The threads of this process: which contender started them, and which of them are the driver's.
//!
//! A thread belongs to the contender that was being made, or that ran, when it started. The time of the calling thread
//! counts for the contender that runs.

#![expect(unsafe_code, reason = "the CPU time of a thread takes a system call")]

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use crate::comparison::Outcome;

/// Parts of the names of Mesa's threads, which run kernels and write its cache of compiled ones.
const DRIVER_NAMES: [&str; 2] = ["llvmpipe-", ":disk$"];
/// How long a new thread that never sleeps may take to name itself.
const MAX_NAMING_TIME: Duration = Duration::from_secs(1);
/// The kernel's number of a thread's clock ends in this: the thread's own, in nanoseconds (`CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`).
const OWN_CLOCK: i32 = 0b110;

/// All threads seen so far.
pub(crate) struct ThreadList {
    caller: i32,
    /// Lavapipe's queue runs the kernels on an unnamed thread, which has the name of the thread that opened the device.
    caller_name: String,
    known: BTreeSet<i32>,
    driver: BTreeSet<String>,
}

impl ThreadList {
    /// Lists the threads there are. The calling thread must be the one that makes and runs contenders.
    pub(crate) fn new() -> Outcome<Self> {
        // SAFETY: it only returns a number.
        let caller = unsafe { libc::gettid() };
        let known = BTreeSet::from_iter(alive()?);
        Ok(Self { caller, caller_name: name(caller)?, known, driver: BTreeSet::new() })
    }

    /// The threads started since the last call, without the driver's.
    pub(crate) fn started(&mut self) -> Outcome<Vec<i32>> {
        let alive = BTreeSet::from_iter(alive()?);
        let begun: Vec<i32> = alive.difference(&self.known).copied().collect();
        // Threads that have ended are forgotten: their ids may be used again.
        self.known = alive;
        let mut started = Vec::new();
        let mut queues = 0;
        for thread in begun {
            // A thread that has ended since costs nothing.
            let Ok(name) = own_name(thread) else { continue };
            if name == self.caller_name {
                queues += 1;
                self.driver
                    .insert(format!("{name} (lavapipe's queues, one per device, have the name of their caller)"));
            } else if DRIVER_NAMES.iter().any(|part| name.contains(part)) {
                self.driver.insert(name);
            } else {
                started.push(thread);
            }
        }
        // A second one could be an unnamed thread of a contender.
        if queues > 1 {
            return Err(format!(
                "{queues} threads called {} have started: which one is the queue's?",
                self.caller_name
            )
            .into());
        }
        Ok(started)
    }

    /// The thread that called [`ThreadList::new`].
    pub(crate) fn caller(&self) -> i32 {
        self.caller
    }

    /// Names of the driver's threads.
    pub(crate) fn driver_threads(&self) -> String {
        Vec::from_iter(self.driver.iter().map(String::as_str)).join(", ")
    }
}

/// The CPU time of a thread up to now. For a running thread /proc is only as recent as the last tick.
pub(crate) fn cpu_time(thread: i32) -> Outcome<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local that the kernel may write to.
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

/// A thread has the name of its creator until it names itself, which it has done once it sleeps.
fn own_name(thread: i32) -> Outcome<String> {
    let runs = |stat: &str| stat.rsplit(") ").next().is_some_and(|state| state.starts_with('R'));
    let begin = Instant::now();
    while runs(&fs::read_to_string(format!("/proc/self/task/{thread}/stat"))?) && begin.elapsed() < MAX_NAMING_TIME {
        std::thread::sleep(Duration::from_micros(100));
    }
    name(thread)
}

fn name(thread: i32) -> Outcome<String> {
    Ok(fs::read_to_string(format!("/proc/self/task/{thread}/comm"))?.trim_end().to_owned())
}
