//! The devices that kernels are compared on, for the tests `cache`, `corpus`, `expressions` and `tensor`, and those of `sortie-states`.
#![allow(dead_code, reason = "not every test uses all of it")]

use sortie::{Device, DeviceOptions};

/// The built-in CPU device.
pub(crate) fn cpu() -> Option<Device> {
    Some(Device::cpu().unwrap_or_else(|error| panic!("the built-in CPU does not open: {error}")))
}

/// A Vulkan driver. The same name may answer through GL where there is none.
pub(crate) fn open(driver: &str) -> Option<Device> {
    open_with(driver, DeviceOptions::default())
}

/// The same, with options.
pub(crate) fn open_with(driver: &str, options: DeviceOptions) -> Option<Device> {
    let list = Device::list();
    let index = list.iter().position(|info| info.backend == "vulkan" && info.name.to_lowercase().contains(driver));
    let Some(index) = index else {
        let required = std::env::var_os("SORTIE_REQUIRE_GPU").is_some();
        assert!(!required, "SORTIE_REQUIRE_GPU is set, but there is no Vulkan driver called {driver}");
        say(&format!("SKIPPED on {driver}: there is no Vulkan driver of that name"));
        return None;
    };
    let options = DeviceOptions { device: Some(index.to_string()), ..options };
    Some(Device::open_with(options).unwrap_or_else(|error| panic!("{driver} is listed but does not open: {error}")))
}

/// Straight to the terminal: the harness hides what a passing test prints.
pub(crate) fn say(line: &str) {
    drop(std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes()));
}
