//! The devices of a campaign: the built-in CPU and the software drivers.

use sortie::{Device, DeviceOptions, Result};

/// All of them, by the names that `--device` takes.
pub const ALL: &[&str] = &["cpu", "llvmpipe", "swiftshader"];

/// Those behind Vulkan.
pub const DRIVERS: &[&str] = &["llvmpipe", "swiftshader"];

/// Opens a device.
///
/// # Errors
/// As [`Device::open_with`].
pub fn open(name: &str) -> Result<Device> {
    open_with(name, DeviceOptions::default())
}

/// Opens a device with options; their `device` is replaced.
///
/// # Errors
/// As [`Device::open_with`].
pub fn open_with(name: &str, options: DeviceOptions) -> Result<Device> {
    Device::open_with(options.with_device(name))
}

/// Whether this machine has it.
pub fn exists(name: &str) -> bool {
    name == "cpu" || Device::list().iter().any(|info| info.name.to_lowercase().contains(name))
}
