//! What a run costs: CPU time of the contender's threads and of the calling one, wall time, heap allocations of the
//! process.

#![expect(unsafe_code, reason = "setting environment variables")]

use std::time::{Duration, Instant};

use sortie_bench::{CountingAllocator, allocations};

use crate::comparison::Outcome;
use crate::threads::{ThreadList, cpu_time};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// What is measured.
pub(crate) const METRICS: [&str; 4] = ["cpu_us_per_op", "caller_us_per_op", "total_us_per_op", "allocs_per_op"];

/// One value for each of [`METRICS`].
pub(crate) type Sample = [f64; METRICS.len()];

/// Measures one call, for which the calling thread and `own` work. Threads that it starts are added to `own`.
pub(crate) fn measure(
    threads: &mut ThreadList,
    own: &mut Vec<i32>,
    call: impl FnOnce() -> Outcome<()>,
) -> Outcome<Sample> {
    // Opening a device may start threads that end afterwards. No thread may end within a run: its time would be lost.
    own.retain(|&thread| cpu_time(thread).is_ok());
    let others = sum(own)?;
    let count = allocations();
    let wall = Instant::now();
    let caller = cpu_time(threads.caller())?;
    call()?;
    let caller = cpu_time(threads.caller())?.saturating_sub(caller);
    let wall = wall.elapsed();
    let count = allocations() - count;
    // Before threads are listed, which takes time.
    let mut others = sum(own)?.saturating_sub(others);
    let started = threads.started()?;
    others += sum(&started)?;
    own.extend(started);
    Ok([micros(caller + others), micros(caller), micros(wall), count as f64])
}

/// Makes Vulkan's loader find only lavapipe, because some contenders cannot select a device, and switches lavapipe's
/// thread pool off: small ops are dominated by its futex calls.
pub(crate) fn select_lavapipe_without_threads() {
    // SAFETY: no other thread runs yet in this process.
    unsafe {
        std::env::set_var("VK_LOADER_DRIVERS_SELECT", "lvp_icd*");
        std::env::set_var("LP_NUM_THREADS", "0");
    }
}

fn sum(threads: &[i32]) -> Outcome<Duration> {
    threads.iter().map(|&thread| cpu_time(thread)).sum()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
