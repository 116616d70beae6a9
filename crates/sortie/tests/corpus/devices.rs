//! Where the corpus runs.

use std::sync::LazyLock;

use sortie::Device;

use crate::{
    case::Need,
    drivers::{cpu, open},
};

/// The devices of this process, the one that the others are compared with first.
pub(crate) fn devices() -> &'static [(&'static str, Device)] {
    static DEVICES: LazyLock<Vec<(&str, Device)>> = LazyLock::new(|| {
        let drivers = ["llvmpipe", "swiftshader"].into_iter().filter_map(|driver| Some((driver, open(driver)?)));
        cpu().map(|device| ("cpu", device)).into_iter().chain(drivers).collect()
    });
    &DEVICES
}

/// Whether a device has what a case needs.
pub(crate) fn has(name: &str, device: &Device, need: Need) -> bool {
    match need {
        Need::F16 => {
            device.wgpu().is_none_or(|(device, _)| device.features().contains(sortie::wgpu::Features::SHADER_F16))
        }
        Need::LongLoops => name != "llvmpipe",
        Need::Waiting => name != "llvmpipe" || std::env::var("LP_NUM_THREADS").is_ok_and(|threads| threads == "0"),
        Need::InOrder(groups) => name != "swiftshader" || groups <= 16,
        Need::Invocations(count) => device.info().limits.workgroup_invocations >= count,
    }
}
