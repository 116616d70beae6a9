//! What a run costs: CPU time of the calling thread, wall time, heap allocations of the process.

#![expect(unsafe_code, reason = "counting allocations takes a global allocator, reading CPU time a system call")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many things are measured.
pub(crate) const METRICS: [&str; 3] = ["cpu_us_per_op", "total_us_per_op", "allocs_per_op"];

/// One value for each of [`METRICS`].
pub(crate) type Sample = [f64; METRICS.len()];

/// Measures one call.
pub(crate) fn measure<T>(call: impl FnOnce() -> T) -> (Sample, T) {
    let allocs = ALLOCS.load(Ordering::Relaxed);
    let wall = Instant::now();
    let cpu = cpu_time();
    let given = call();
    let cpu = cpu_time().saturating_sub(cpu);
    let wall = wall.elapsed();
    let allocs = ALLOCS.load(Ordering::Relaxed) - allocs;
    ([cpu.as_secs_f64() * 1e6, wall.as_secs_f64() * 1e6, allocs as f64], given)
}

/// Small ops on lavapipe are all futex with its thread pool on: it goes without.
pub(crate) fn still_lavapipe() {
    // SAFETY: nothing else runs yet in this process.
    unsafe { std::env::set_var("LP_NUM_THREADS", "0") };
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the kernel to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
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
