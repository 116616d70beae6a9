//! Several devices behind one batcher.

use crate::{
    device::Device,
    error::{Error, ErrorKind, Result},
    options::DeviceOptions,
};

/// Several devices that a [`Batcher`](crate::Batcher) spreads its batches over.
///
/// Each takes batches when it has room for one, so that faster ones take more; slower ones take smaller batches, and leave what is done sooner elsewhere.
/// A device that is lost, or has become too slow, gets no more work until it is back; the others go on.
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device, Fleet, batcher::Rows};
///
/// let fleet = Fleet::new([Device::cpu()?, Device::cpu()?])?; // the same one twice is allowed
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
    /// Of these devices.
    ///
    /// # Errors
    /// [`NoDevice`](ErrorKind::NoDevice) without any.
    pub fn new(devices: impl IntoIterator<Item = Device>) -> Result<Self> {
        let devices: Vec<Device> = devices.into_iter().collect();
        if devices.is_empty() {
            return Err(Error::new(ErrorKind::NoDevice, "a fleet of no devices"));
        }
        Ok(Self { devices })
    }

    /// Opens everything there is to open, each with these options but for their name: GPUs, the built-in CPU, software drivers.
    ///
    /// What does not open is passed over, with a warning.
    ///
    /// # Errors
    /// When not even the built-in CPU starts.
    pub fn open_with(options: &DeviceOptions) -> Result<Self> {
        let open = |at: usize, info: &dyn std::fmt::Display| {
            let options = options.clone().with_device(at.to_string());
            Device::open_with(options)
                .inspect_err(|error| tracing::warn!(target: "sortie", "{info} is passed over: {error}"))
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
    /// Opens every device there is: GPUs, the built-in CPU, software drivers.
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
