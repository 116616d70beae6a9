//! Which way to multiply large matrices suits a device of which nothing has been measured.

use sortie_plan::ProductWay;

use crate::info::{DeviceInfo, DeviceKind, Limits};

/// The way that suits most devices of a kind.
pub(super) fn default_way(info: &DeviceInfo) -> ProductWay {
    match info.kind {
        // Workgroup memory is memory like any other there, and a barrier costs more than it saves.
        DeviceKind::Software => ProductWay::Wide,
        _ if fits(ProductWay::Tiles, &info.limits) => ProductWay::Tiles,
        _ => ProductWay::Blocks,
    }
}

/// Whether kernels of a way run within the limits of a device. Those of WebGPU's defaults are enough for all.
pub(crate) fn fits(way: ProductWay, limits: &Limits) -> bool {
    way != ProductWay::Tiles || (limits.workgroup_invocations >= 256 && limits.workgroup_bytes >= 16_384)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_follows_from_the_kind_and_the_limits() {
        let mut info = DeviceInfo { limits: Limits::WEBGPU, ..DeviceInfo::cpu(1) };
        for (kind, way) in [
            (DeviceKind::Discrete, ProductWay::Tiles),
            (DeviceKind::Integrated, ProductWay::Tiles),
            (DeviceKind::Virtual, ProductWay::Tiles),
            (DeviceKind::Other, ProductWay::Tiles),
            (DeviceKind::Software, ProductWay::Wide),
        ] {
            info.kind = kind;
            assert_eq!(default_way(&info), way, "{kind}");
        }
        info.kind = DeviceKind::Integrated;
        for [invocations, bytes] in [[128, 16_384], [256, 8192]] {
            (info.limits.workgroup_invocations, info.limits.workgroup_bytes) = (invocations, bytes);
            assert_eq!(default_way(&info), ProductWay::Blocks);
            assert_eq!(ProductWay::ALL.map(|way| fits(way, &info.limits)), [true, true, false]);
        }
    }
}
