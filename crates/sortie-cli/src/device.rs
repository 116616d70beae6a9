//! The device that a verb runs on.

use std::error::Error;

use sortie::{
    Device, DeviceOptions,
    device::{DeviceKind, Planning},
};

/// The option `--device`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Part of the device's name, its index in `sortie devices`, or `cpu`
    #[arg(long)]
    pub(crate) device: Option<String>,
}

impl DeviceArgs {
    pub(crate) fn options(&self) -> DeviceOptions {
        let mut options = DeviceOptions::default();
        options.device.clone_from(&self.device);
        options
    }

    /// Opens a device that runs kernels.
    pub(crate) fn open(&self) -> Result<Device, Box<dyn Error>> {
        let device = Device::open_with(self.options())?;
        if device.info().kind == DeviceKind::Noop {
            return Err("the noop device runs nothing: there would be no results".into());
        }
        Ok(device)
    }
}

/// One device, opened twice: with and without fusion.
#[derive(Clone, Debug)]
pub(crate) struct DevicePair {
    pub(crate) fusing: Device,
    pub(crate) plain: Device,
}

impl DevicePair {
    pub(crate) fn open(args: &DeviceArgs) -> Result<Self, Box<dyn Error>> {
        let planning = Planning { fuse: false, ..Planning::default() };
        let fusing = args.open()?;
        Ok(Self { fusing, plain: Device::open_with(args.options().with_planning(planning))? })
    }

    #[cfg(test)]
    pub(crate) fn cpu() -> Result<Self, Box<dyn Error>> {
        Self::open(&DeviceArgs { device: Some("cpu".into()) })
    }
}
