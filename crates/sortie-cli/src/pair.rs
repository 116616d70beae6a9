//! The device at hand, opened twice: as it comes, and without fusion.

use sortie::{Device, DeviceKind, DeviceOptions, Planning};

/// Both are the same hardware; planning is an option of opening.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) fusing: Device,
    pub(crate) plain: Device,
}

impl Pair {
    pub(crate) fn open(device: Option<&str>) -> Result<Self, Box<dyn std::error::Error>> {
        let options = DeviceOptions { device: device.map(Into::into), ..Default::default() };
        let fusing = Device::open_with(options.clone())?;
        if fusing.info().kind == DeviceKind::Noop {
            return Err("the noop device runs nothing: there is no answer to check".into());
        }
        let plain =
            Device::open_with(DeviceOptions { planning: Planning { fuse: false, ..Planning::default() }, ..options })?;
        Ok(Self { fusing, plain })
    }
}
