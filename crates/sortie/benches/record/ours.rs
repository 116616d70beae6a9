//! sortie: recorded again in every run, or recorded once and replayed.

use sortie::{Batch, Buffer, Device, DeviceOptions, Grid, Kernel, Replay};
use sortie_bench::Outcome;

use crate::dispatches::{Dispatches, ITEMS, Runner};

/// Opens the device whose name contains `name`.
pub(crate) fn open(name: &str, native_replay: bool) -> sortie::Result<Device> {
    Device::open_with(DeviceOptions::default().with_device(name).with_native_replay(native_replay))
}

/// The same, where every batch is encoded.
pub(crate) fn open_encoding(name: &str) -> sortie::Result<Device> {
    Device::open_with(DeviceOptions::default().with_device(name).with_auto_replay(false))
}

/// A batch for every run.
pub(crate) struct Recorded {
    pub(crate) device: Device,
    kernel: Kernel,
    buffers: Vec<Buffer<u32>>,
    dispatches: Dispatches,
    runs: usize,
}

impl Recorded {
    /// Compiles the kernel and makes the buffers.
    pub(crate) fn new(device: Device, dispatches: Dispatches) -> sortie::Result<Self> {
        let kernel = device.kernel(dispatches.source)?;
        let buffers = (0..dispatches.buffers).map(|_| device.zeros(ITEMS)).collect::<sortie::Result<_>>()?;
        Ok(Self { device, kernel, buffers, dispatches, runs: 0 })
    }

    fn record(&self, n: usize) -> Batch {
        let batch = self.device.batch();
        self.dispatch(&batch, n);
        batch
    }

    fn dispatch(&self, batch: &Batch, n: usize) {
        for (op, &(from, to)) in self.dispatches.routes.iter().cycle().take(n).enumerate() {
            let bindings: [&dyn sortie::Bind; 2] = [&self.buffers[from], &self.buffers[to]];
            let dispatch = batch.dispatch(&self.kernel, &bindings, Grid::items(ITEMS));
            if let Some(immediates) = self.dispatches.immediates {
                dispatch.immediates(&immediates(self.runs, op));
            }
        }
    }
}

impl Runner for Recorded {
    fn run(&mut self, n: usize) -> Outcome<()> {
        self.runs += 1;
        if !self.dispatches.has_data {
            return Ok(self.record(n).submit()?);
        }
        let (batch, buffer) = (self.device.batch(), &self.buffers[self.dispatches.answer]);
        batch.write(buffer, &Dispatches::data(self.runs));
        self.dispatch(&batch, n);
        let reading = batch.read(buffer);
        batch.submit()?;
        std::hint::black_box(reading.wait()?);
        Ok(())
    }

    fn answer(&mut self) -> Outcome<u32> {
        Ok(self.buffers[self.dispatches.answer].download()?[0])
    }
}

/// A batch recorded in the first run.
pub(crate) struct Replayed {
    pub(crate) recorded: Recorded,
    replay: Option<Replay>,
}

impl Replayed {
    /// As [`Recorded::new`].
    pub(crate) fn new(device: Device, dispatches: Dispatches) -> sortie::Result<Self> {
        Ok(Self { recorded: Recorded::new(device, dispatches)?, replay: None })
    }
}

impl Runner for Replayed {
    fn run(&mut self, n: usize) -> Outcome<()> {
        let replay = match &mut self.replay {
            Some(replay) => replay,
            none => none.insert(self.recorded.record(n).freeze()?),
        };
        Ok(replay.run().submit()?)
    }

    fn answer(&mut self) -> Outcome<u32> {
        self.recorded.answer()
    }
}
