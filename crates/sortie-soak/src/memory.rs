//! Memory and limits of this process.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const MB: f64 = 1e6;

/// Bytes of memory of this process that are resident.
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// The most bytes that were resident at once so far.
pub fn peak() -> u64 {
    status("VmHWM:")
}

/// Bytes of address space of this process.
pub fn address_space() -> u64 {
    status("VmSize:")
}

/// Growth of the resident memory from `before` to now in megabytes; negative when memory was given back.
pub fn growth(before: u64) -> f64 {
    (resident() as f64 - before as f64) / MB
}

/// Sets a limit of this process.
///
/// # Panics
/// When the hard limit is lower.
pub fn limit(resource: Resource, to: u64) {
    let hard = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(to), maximum: hard }).expect("a limit below the hard one");
}

/// A figure of the kernel's about this process; 0 where there is no such file.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kib| kib << 10)
}
