//! Whether Vulkan has only software drivers, found out without a message on stderr.
//!
//! Mesa's layer `device_select` asks the Wayland compositor which GPU it uses, on every instance that could present to one, and wgpu's instances can. Without
//! `XDG_RUNTIME_DIR`, libwayland prints an error each time. So there a default open first asks an instance without extensions, which the layer leaves alone. Without
//! hardware that is all it asks.

#![expect(unsafe_code, reason = "Vulkan is called directly")]

use std::{ffi::OsString, path::Path, sync::LazyLock};

use ash::vk;

use crate::exit::{self, Loading};

/// Never destroyed: it keeps the drivers loaded, which not all of them survive otherwise.
static PLAIN: LazyLock<Option<(ash::Entry, ash::Instance)>> = LazyLock::new(|| {
    exit::run_at_exit();
    // SAFETY: Vulkan's own library, which wgpu loads the same way; the instance asks for nothing, and neither is ever let go of.
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

/// Whether it is known, without wgpu, that Vulkan has devices and all of them are software.
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

/// Whether libwayland knows where to look for a compositor, so that it looks without a message.
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
