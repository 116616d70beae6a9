//! What a run costs: CPU time of the contender's threads and of the calling one, wall time, heap allocations of the process.

#![expect(
    unsafe_code,
    reason = "counting allocations takes a global allocator, setting a variable nothing else that runs"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::contest::Outcome;
use crate::threads::{Census, cpu_time};

/// What is measured.
pub(crate) const METRICS: [&str; 4] = ["cpu_us_per_op", "caller_us_per_op", "total_us_per_op", "allocs_per_op"];

/// One value for each of [`METRICS`].
pub(crate) type Sample = [f64; METRICS.len()];

/// Measures one call, in which the calling thread and `own` work for a contender. Threads that begin in it are added to `own`.
pub(crate) fn measure(census: &mut Census, own: &mut Vec<i32>, call: impl FnOnce() -> Outcome<()>) -> Outcome<Sample> {
    // Opening a device may take threads that end afterwards. Within a run none may: its time would be lost.
    own.retain(|&thread| cpu_time(thread).is_ok());
    let others = sum(own)?;
    let allocs = ALLOCS.load(Ordering::Relaxed);
    let wall = Instant::now();
    let caller = cpu_time(census.caller())?;
    call()?;
    let caller = cpu_time(census.caller())?.saturating_sub(caller);
    let wall = wall.elapsed();
    let allocs = ALLOCS.load(Ordering::Relaxed) - allocs;
    // Before the census, which takes its time.
    let mut others = sum(own)?.saturating_sub(others);
    let newcomers = census.newcomers()?;
    others += sum(&newcomers)?;
    own.extend(newcomers);
    Ok([micros(caller + others), micros(caller), micros(wall), allocs as f64])
}

/// Vulkan's loader finds only lavapipe, as not everyone can be told what to take, and that goes without its thread pool: small ops are all futex
/// with it on.
pub(crate) fn only_still_lavapipe() {
    // SAFETY: nothing else runs yet in this process.
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

static ALLOCS: AtomicU64 = AtomicU64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) };
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(at, layout, size) }
    }
}
