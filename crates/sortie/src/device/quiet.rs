//! Detects whether Vulkan has only software drivers, without a message on stderr.
//!
//! Mesa's layer `device_select` asks the Wayland compositor which GPU it uses, on every instance that could present to
//! one, as wgpu's instances can. Without `XDG_RUNTIME_DIR`, libwayland prints an error each time. In that case a
//! default open first queries an instance without extensions, which the layer ignores. If it finds no hardware, nothing
//! else is queried.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

use std::{ffi::OsString, path::Path, sync::LazyLock};

use ash::vk;

use crate::exit::{self, Loading};

/// Never destroyed: it keeps the drivers loaded; some of them do not survive unloading.
static PLAIN: LazyLock<Option<(ash::Entry, ash::Instance)>> = LazyLock::new(|| {
    exit::run_at_exit();
    // SAFETY: this is Vulkan's own library, which wgpu loads the same way. The instance enables nothing, and both are
    // never dropped.
    let loaded = unsafe {
        let entry = ash::Entry::load().ok();
        entry.and_then(|entry| {
            let instance = entry.create_instance(&vk::InstanceCreateInfo::default(), None).ok()?;
            Some((entry, instance))
        })
    };
    exit::run_at_exit();
    loaded
});

/// Whether Vulkan is known to have devices, all of them software. Does not use wgpu.
pub(super) fn only_software() -> bool {
    let asked = wgpu::InstanceDescriptor::new_without_display_handle_from_env().backends;
    if !asked.contains(wgpu::Backends::VULKAN) || finds_compositor(|name| std::env::var_os(name)) {
        return false;
    }
    let _loading = Loading::begin();
    let Some((_, instance)) = &*PLAIN else { return false };
    // SAFETY: the instance is alive, and the devices are its own.
    let kinds: Vec<_> = unsafe {
        let devices = instance.enumerate_physical_devices().unwrap_or_default();
        devices.into_iter().map(|device| instance.get_physical_device_properties(device).device_type).collect()
    };
    !kinds.is_empty() && kinds.iter().all(|kind| *kind == vk::PhysicalDeviceType::CPU)
}

/// Whether libwayland can find a compositor's socket, so that it prints no message.
fn finds_compositor(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_path = |name: &str| variable(name).is_some_and(|path| Path::new(&path).is_absolute());
    variable("WAYLAND_SOCKET").is_some() || is_path("XDG_RUNTIME_DIR") || is_path("WAYLAND_DISPLAY")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compositor_is_found_by_a_socket_or_an_absolute_path() {
        let finds = |set: &[(&str, &str)]| {
            finds_compositor(|name| set.iter().find(|(one, _)| *one == name).map(|(_, value)| value.into()))
        };
        assert!(finds(&[("XDG_RUNTIME_DIR", "/run/user/1000")]));
        assert!(finds(&[("WAYLAND_DISPLAY", "/tmp/wayland-0")]));
        assert!(finds(&[("WAYLAND_SOCKET", "7")]));
        assert!(!finds(&[]));
        assert!(!finds(&[("XDG_RUNTIME_DIR", ""), ("WAYLAND_DISPLAY", "wayland-0")]));
    }
}
