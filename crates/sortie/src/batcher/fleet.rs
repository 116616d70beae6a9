//! Several devices behind one batcher.

use crate::{
    device::Device,
    error::{Error, ErrorKind, Result},
    options::DeviceOptions,
};

/// Several devices that a [`Batcher`](crate::Batcher) spreads its batches over.
///
/// Each device takes a batch when it has capacity, so faster devices take more. Slower devices take smaller batches,
/// and skip work that another device would complete sooner. A device that is lost, or has become too slow, gets no work
/// until it recovers; the others continue.
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device, Fleet, batcher::Rows};
///
/// let fleet = Fleet::new([Device::cpu()?, Device::cpu()?])?; // the same device twice is allowed
/// let squares = Rows::<f32, f32>::new([1, 1], "
///     @group(0) @binding(0) var<storage, read> x: array<f32>;
///     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
///     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
///         if id.x < arrayLength(&y) { y[id.x] = x[id.x] * x[id.x]; }
///     }
/// ");
/// let batcher = Batcher::new(&fleet, squares, BatchConfig::default())?;
/// assert_eq!(batcher.call_blocking(vec![3.0])?, [9.0]);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fleet {
    devices: Vec<Device>,
}

impl Fleet {
    /// A fleet of these devices.
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice) if there are none.
    pub fn new(devices: impl IntoIterator<Item = Device>) -> Result<Self> {
        let devices: Vec<Device> = devices.into_iter().collect();
        if devices.is_empty() {
            return Err(Error::new(ErrorKind::NoDevice, "a fleet of no devices"));
        }
        Ok(Self { devices })
    }

    /// Opens every available device, each with these options except the name: GPUs, the built-in CPU, software drivers.
    ///
    /// Devices that fail to open are skipped, with a warning.
    ///
    /// # Errors
    /// If even the built-in CPU fails to start.
    pub fn open_with(options: &DeviceOptions) -> Result<Self> {
        let open = |at: usize, info: &dyn std::fmt::Display| {
            let options = options.clone().with_device(at.to_string());
            Device::open_with(options)
                .inspect_err(|error| tracing::warn!(target: "sortie", "{info} is skipped: {error}"))
                .ok()
        };
        let all = Device::list();
        Self::new(all.iter().enumerate().filter_map(|(at, info)| open(at, info)))
    }

    /// Its devices.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }
}

impl Device {
    /// Opens every available device: GPUs, the built-in CPU, software drivers.
    ///
    /// # Errors
    /// As [`Fleet::open_with`].
    pub fn fleet() -> Result<Fleet> {
        Fleet::open_with(&DeviceOptions::default())
    }
}

impl From<Device> for Fleet {
    fn from(device: Device) -> Self {
        Self { devices: vec![device] }
    }
}

impl From<&Device> for Fleet {
    fn from(device: &Device) -> Self {
        device.clone().into()
    }
}

impl From<&Fleet> for Fleet {
    fn from(fleet: &Fleet) -> Self {
        fleet.clone()
    }
}
