//! scry-gpu: a batch of its own on Vulkan, recorded anew in every run. Its user places the barriers.

use scry_gpu::{BackendKind, Buffer, Device, Kernel};

use crate::case::Case;
use crate::comparison::{Outcome, Runner};
use crate::dispatches::{Dispatches, ITEMS, STEP};

/// A `Batch` for every run.
pub(crate) struct Scry {
    device: Device,
    kernel: Kernel,
    buffers: Vec<Buffer<u32>>,
    case: Case,
    dispatches: Dispatches,
}

impl Scry {
    /// Opens a device. It cannot be told which: fails if that is not `adapter`.
    pub(crate) fn new(adapter: &str, case: Case) -> Outcome<Self> {
        let device = Device::with_backend(BackendKind::Vulkan)?;
        if !device.name().contains(adapter) {
            return Err(format!("scry-gpu opens {}", device.name()).into());
        }
        let dispatches = case.dispatches();
        let kernel = device.compile(STEP)?;
        let buffers = (0..dispatches.buffers).map(|_| device.upload(&[0; ITEMS])).collect::<Result<_, _>>()?;
        Ok(Self { device, kernel, buffers, case, dispatches })
    }
}

impl Runner for Scry {
    fn run(&mut self, n: usize) -> Outcome<()> {
        let mut batch = self.device.batch()?;
        for (op, &(from, to)) in self.dispatches.routes.iter().cycle().take(n).enumerate() {
            if op > 0 && op.is_multiple_of(self.case.apart()) {
                batch.barrier();
            }
            batch.run(&self.kernel, &[&self.buffers[from], &self.buffers[to]], ITEMS as u32)?;
        }
        batch.submit()?;
        Ok(())
    }

    fn answer(&mut self) -> Outcome<u32> {
        Ok(self.buffers[self.dispatches.answer].download()?[0])
    }
}
