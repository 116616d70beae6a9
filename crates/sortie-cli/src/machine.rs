//! Where and when something was measured.

use std::{fs, time::SystemTime};

use sortie::device::DeviceInfo;

/// The release series of wgpu that this is built with; a test compares it with the lock file.
const WGPU: &str = "30";

/// What a reader needs to know to judge a measurement, or to repeat it: names and values.
pub(crate) type Machine = [(&'static str, String); 9];

pub(crate) fn here(info: &DeviceInfo) -> Machine {
    let build = if cfg!(debug_assertions) { "debug build" } else { "release build" };
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    [
        ("device", device(info)),
        ("kind", info.kind.to_string()),
        ("driver", info.driver.clone()),
        ("processor", processor()),
        ("cores", std::thread::available_parallelism().map_or(1, usize::from).to_string()),
        ("system", system()),
        ("versions", format!("sortie {}, wgpu {WGPU}, {build}", env!("CARGO_PKG_VERSION"))),
        ("date", date),
        ("command", command()),
    ]
}

pub(crate) fn device(info: &DeviceInfo) -> String {
    format!("{} ({})", info.name, info.backend)
}

/// As it was typed, with the variables that choose the device and the number of lavapipe's threads.
fn command() -> String {
    let set =
        ["LP_NUM_THREADS", "SORTIE_DEVICE"].into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    let set = set.map(|(name, value)| format!("{name}={value}"));
    set.chain(["sortie".to_owned()]).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ")
}

/// The processor's name, if the system knows it.
fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

fn system() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.map_or(std::env::consts::OS, |name| name.trim_matches('"'));
    format!("{name}, {}", std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wgpu_is_the_one_that_is_locked() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"wgpu\"\nversion = \"{WGPU}.")));
    }
}
