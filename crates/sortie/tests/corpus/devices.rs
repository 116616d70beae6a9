//! Where the corpus runs.

use std::sync::LazyLock;

use sortie::{Device, DeviceOptions};

use crate::case::Need;

/// The devices of this process, the one that the others are compared with first.
pub(crate) fn devices() -> &'static [(&'static str, Device)] {
    static DEVICES: LazyLock<Vec<(&str, Device)>> = LazyLock::new(|| {
        let drivers = ["llvmpipe", "swiftshader"].into_iter().filter_map(|driver| Some((driver, open(driver)?)));
        cpu().map(|device| ("cpu", device)).into_iter().chain(drivers).collect()
    });
    &DEVICES
}

/// The built-in CPU device; there is none yet.
fn cpu() -> Option<Device> {
    None
}

/// A Vulkan driver. The same name may answer through GL where there is none.
fn open(driver: &str) -> Option<Device> {
    let list = Device::list();
    let index = list.iter().position(|info| info.backend == "vulkan" && info.name.to_lowercase().contains(driver));
    let Some(index) = index else {
        let required = std::env::var_os("SORTIE_REQUIRE_GPU").is_some();
        assert!(!required, "SORTIE_REQUIRE_GPU is set, but there is no Vulkan driver called {driver}");
        say(&format!("SKIPPED on {driver}: there is no Vulkan driver of that name"));
        return None;
    };
    let options = DeviceOptions { device: Some(index.to_string()), ..DeviceOptions::default() };
    Some(Device::open_with(options).unwrap_or_else(|error| panic!("{driver} is listed but does not open: {error}")))
}

/// Whether a device has what a case needs.
pub(crate) fn has(name: &str, device: &Device, need: Need) -> bool {
    match need {
        Need::F16 => {
            device.wgpu().is_none_or(|(device, _)| device.features().contains(sortie::wgpu::Features::SHADER_F16))
        }
        Need::LongLoops => name != "llvmpipe",
    }
}

/// Straight to the terminal: the harness hides what a passing test prints.
pub(crate) fn say(line: &str) {
    drop(std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes()));
}
