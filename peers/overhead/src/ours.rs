//! sortie: recorded anew in every run, or recorded once and replayed.

use sortie::{Batch, Buffer, Device, DeviceOptions, Grid, Kernel, Replay};

use crate::case::{Case, ITEMS, STEP};
use crate::comparison::{Outcome, Runner};

/// Opens the device whose name contains `name`.
pub(crate) fn open(name: &str, native_replay: bool) -> Outcome<Device> {
    Ok(Device::open_with(DeviceOptions::default().with_device(name).with_native_replay(native_replay))?)
}

/// A batch for every run.
pub(crate) struct Recorded {
    device: Device,
    kernel: Kernel,
    buffers: Vec<Buffer<u32>>,
    case: Case,
    routes: Vec<(usize, usize)>,
}

impl Recorded {
    /// Compiles the kernel and makes the buffers.
    pub(crate) fn new(device: Device, case: Case) -> Outcome<Self> {
        let kernel = device.kernel(STEP)?;
        let buffers = (0..case.buffers()).map(|_| device.zeros(ITEMS)).collect::<Result<_, _>>()?;
        Ok(Self { device, kernel, buffers, case, routes: case.routes() })
    }

    fn record(&self, n: usize) -> Batch {
        let batch = self.device.batch();
        for &(from, to) in self.routes.iter().cycle().take(n) {
            batch.dispatch(&self.kernel, &[&self.buffers[from], &self.buffers[to]], Grid::items(ITEMS));
        }
        batch
    }
}

impl Runner for Recorded {
    fn run(&mut self, n: usize) -> Outcome<()> {
        self.record(n).submit()?;
        Ok(())
    }

    fn answer(&mut self) -> Outcome<u32> {
        Ok(self.buffers[self.case.answer()].download()?[0])
    }
}

/// A batch recorded in the first run.
pub(crate) struct Replayed {
    recorded: Recorded,
    replay: Option<Replay>,
}

impl Replayed {
    /// As [`Recorded::new`].
    pub(crate) fn new(device: Device, case: Case) -> Outcome<Self> {
        Ok(Self { recorded: Recorded::new(device, case)?, replay: None })
    }
}

impl Runner for Replayed {
    fn run(&mut self, n: usize) -> Outcome<()> {
        let replay = match self.replay.take() {
            Some(replay) => replay,
            None => self.recorded.record(n).freeze()?,
        };
        self.replay.insert(replay).run().submit()?;
        Ok(())
    }

    fn answer(&mut self) -> Outcome<u32> {
        self.recorded.answer()
    }
}
