//! Where and when something was measured.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use sortie::DeviceInfo;

/// The line of releases that this is built with; a test holds it against the lock file.
const WGPU: &str = "30";

/// What a reader has to know to believe a number, or to measure it again.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) system: String,
    pub(crate) device: String,
    pub(crate) driver: String,
    pub(crate) kind: String,
    pub(crate) versions: String,
    pub(crate) date: String,
    pub(crate) command: String,
}

impl Machine {
    pub(crate) fn here(info: &DeviceInfo) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let build = if cfg!(debug_assertions) { "debug build" } else { "release build" };
        Self {
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: system(),
            device: format!("{} ({})", info.name, info.backend),
            driver: info.driver.clone(),
            kind: info.kind.to_string(),
            versions: format!("sortie {}, wgpu {WGPU}, {build}", env!("CARGO_PKG_VERSION")),
            date: date(since.as_secs()),
            command: command(),
        }
    }

    /// All of it, named.
    pub(crate) fn facts(&self) -> [(&'static str, String); 9] {
        [
            ("device", self.device.clone()),
            ("kind", self.kind.clone()),
            ("driver", self.driver.clone()),
            ("processor", self.processor.clone()),
            ("cores", self.cores.to_string()),
            ("system", self.system.clone()),
            ("versions", self.versions.clone()),
            ("date", self.date.clone()),
            ("command", self.command.clone()),
        ]
    }
}

/// As it was typed, with what chose the device and how many threads lavapipe has.
fn command() -> String {
    let set =
        ["LP_NUM_THREADS", "SORTIE_DEVICE"].into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?)));
    let set = set.map(|(name, value)| format!("{name}={value}"));
    set.chain(["sortie".to_owned()]).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ")
}

/// What the processor calls itself, where the system tells.
fn processor() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = told.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned())
}

fn system() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.map_or(std::env::consts::OS, |name| name.trim_matches('"'));
    format!("{name}, {}", std::env::consts::ARCH)
}

/// Seconds since 1970 as a day and a time, in UTC.
fn date(seconds: u64) -> String {
    let (minutes, mut days) = (seconds / 60 % (24 * 60), seconds / 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02} {:02}:{:02} UTC", month + 1, days + 1, minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let told = [0, 951_782_400, 1_709_251_199, 4_107_542_400].map(date);
        let expected = ["1970-01-01 00:00", "2000-02-29 00:00", "2024-02-29 23:59", "2100-03-01 00:00"];
        assert_eq!(told, expected.map(|text| format!("{text} UTC")));
    }

    #[test]
    fn wgpu_is_the_one_that_is_locked() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"wgpu\"\nversion = \"{WGPU}.")));
    }
}
