//! Where the corpus runs.

use std::sync::LazyLock;

use sortie::{Device, wgpu::Features};

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

/// Whether a device has a feature of wgpu. The built-in CPU has those that the corpus asks for.
fn has_feature(device: &Device, feature: Features) -> bool {
    device.wgpu().is_none_or(|(device, _)| device.features().contains(feature))
}

/// Whether a device has what a case needs.
pub(crate) fn has(name: &str, device: &Device, need: Need) -> bool {
    match need {
        Need::F16 => has_feature(device, Features::SHADER_F16),
        Need::Int64 => has_feature(device, Features::SHADER_INT64),
        Need::Int64Atomics => has_feature(device, Features::SHADER_INT64_ATOMIC_ALL_OPS),
        Need::LongLoops => name != "llvmpipe",
        Need::Waiting => name != "llvmpipe" || std::env::var("LP_NUM_THREADS").is_ok_and(|threads| threads == "0"),
        Need::InOrder(groups) => name != "swiftshader" || groups <= 16,
        Need::Invocations(count) => device.info().limits.workgroup_invocations >= count,
    }
}
