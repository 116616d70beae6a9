//! The software drivers that tests run on.
//!
//! They are Vulkan's lavapipe and SwiftShader, or with `WGPU_BACKEND=gl` llvmpipe through EGL. Without a driver a test says so and passes; with `SORTIE_REQUIRE_GPU=1`, which
//! `scripts/test` sets, it fails.
#![allow(dead_code, reason = "not every test uses all of it")]

use sortie::{
    Device, DeviceOptions,
    policy::{Split, SubmitPolicy},
};

/// The built-in CPU device.
pub(crate) fn cpu() -> Option<Device> {
    Some(Device::cpu_with(uncut()).unwrap_or_else(|error| panic!("the built-in CPU does not open: {error}")))
}

/// A driver, by a part of its name.
pub(crate) fn open(driver: &str) -> Option<Device> {
    open_with(driver, uncut())
}

/// Options of a device that cuts no batch by itself. On a busy machine every batch seems to take long; cut by that, it would be more submissions than a test counts.
pub(crate) fn uncut() -> DeviceOptions {
    let policy = SubmitPolicy { split: Split::Never, ..SubmitPolicy::default() };
    DeviceOptions::default().with_policy(policy)
}

/// The same, with options.
pub(crate) fn open_with(driver: &str, options: DeviceOptions) -> Option<Device> {
    let options = options.with_device(find(driver)?.to_string());
    Some(Device::open_with(options).unwrap_or_else(|error| panic!("{driver} is listed but does not open: {error}")))
}

/// Where a driver stands in the list of devices.
pub(crate) fn find(driver: &str) -> Option<usize> {
    let is = |info: &sortie::device::DeviceInfo| info.backend == backend() && info.name.to_lowercase().contains(driver);
    let index = Device::list().iter().position(is);
    // Debian has SwiftShader for Vulkan alone.
    if index.is_none() && !(is_gl() && driver == "swiftshader") {
        let required = std::env::var_os("SORTIE_REQUIRE_GPU").is_some();
        let missing = format!("there is no {} driver called {driver}", backend());
        assert!(!required, "SORTIE_REQUIRE_GPU is set, but {missing}");
        say(&format!("SKIPPED on {driver}: {missing}"));
    }
    index
}

/// Whether the drivers are asked through GL.
pub(crate) fn is_gl() -> bool {
    std::env::var("WGPU_BACKEND").is_ok_and(|backend| backend == "gl")
}

fn backend() -> &'static str {
    if is_gl() { "gl" } else { "vulkan" }
}

/// Straight to the terminal: the harness hides what a passing test prints.
pub(crate) fn say(line: &str) {
    drop(std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes()));
}
