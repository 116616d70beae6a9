//! The default way to multiply large matrices, for devices without measurements.

use sortie_plan::MatmulKernel;

use crate::info::{DeviceInfo, DeviceKind, Limits};

/// The best way for most devices of a kind.
pub(super) fn default_way(info: &DeviceInfo) -> MatmulKernel {
    match info.kind {
        // There, workgroup memory is ordinary memory, and a barrier costs more than it saves.
        DeviceKind::Software => MatmulKernel::Wide,
        _ if fits(MatmulKernel::Tiles, &info.limits) => MatmulKernel::Tiles,
        _ => MatmulKernel::Blocks,
    }
}

/// Whether kernels of a way fit the limits of a device. WebGPU's default limits are enough for all of them.
pub(crate) fn fits(way: MatmulKernel, limits: &Limits) -> bool {
    way != MatmulKernel::Tiles || (limits.workgroup_invocations >= 256 && limits.workgroup_bytes >= 16_384)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_follows_from_the_kind_and_the_limits() {
        let mut info = DeviceInfo { limits: Limits::WEBGPU, ..DeviceInfo::cpu(1) };
        for (kind, way) in [
            (DeviceKind::Discrete, MatmulKernel::Tiles),
            (DeviceKind::Integrated, MatmulKernel::Tiles),
            (DeviceKind::Virtual, MatmulKernel::Tiles),
            (DeviceKind::Other, MatmulKernel::Tiles),
            (DeviceKind::Software, MatmulKernel::Wide),
        ] {
            info.kind = kind;
            assert_eq!(default_way(&info), way, "{kind}");
        }
        info.kind = DeviceKind::Integrated;
        for [invocations, bytes] in [[128, 16_384], [256, 8192]] {
            (info.limits.workgroup_invocations, info.limits.workgroup_bytes) = (invocations, bytes);
            assert_eq!(default_way(&info), MatmulKernel::Blocks);
            assert_eq!(MatmulKernel::ALL.map(|way| fits(way, &info.limits)), [true, true, false]);
        }
    }
}
