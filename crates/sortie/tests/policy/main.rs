//! How batches are cut into submissions: where, that it shows in no result, and that the device need not wait for the last one to be encoded.

#[path = "../drivers/mod.rs"]
mod installed;

mod adaptive;
mod cuts;
mod divided;
mod threads;
mod tuning;

use installed::say as printed;
use sortie::{Batch, Buffer, Device, DeviceOptions, Grid, Kernel};

/// Every device that runs something.
fn devices() -> Vec<(&'static str, Device)> {
    let mut all = vec![("cpu", Device::cpu().expect("the built-in CPU opens anywhere"))];
    for driver in ["llvmpipe", "swiftshader"] {
        all.extend(installed::open_with(driver, DeviceOptions::default()).map(|device| (driver, device)));
    }
    all
}

/// Those that go through wgpu.
fn drivers() -> Vec<(&'static str, Device)> {
    devices().into_iter().filter(|(_, device)| device.wgpu().is_some()).collect()
}

fn on(devices: Vec<(&str, Device)>, test: impl Fn(&str, &Device) -> sortie::Result<()>) {
    for (name, device) in devices {
        test(name, &device).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

fn noop() -> Device {
    let options = DeviceOptions::default().with_device("noop");
    Device::open_with(options).unwrap_or_else(|error| panic!("noop: {error}"))
}

/// y = 3 x + by, mixed with its neighbour: what runs too early, too late or twice changes the answer.
const MIX: &str = "
    var<immediate> by: u32;
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        let n = arrayLength(&x);
        if id.x < n { y[id.x] = 3u * x[id.x] + x[(id.x + 1u) % n] + by; }
    }";

const LEN: usize = 256;

/// To and fro between two buffers.
struct Chain {
    kernel: Kernel,
    buffers: [Buffer<u32>; 2],
}

impl Chain {
    fn new(device: &Device) -> sortie::Result<Self> {
        Ok(Self { kernel: device.kernel(MIX)?, buffers: [device.upload(&numbers())?, device.zeros(LEN)?] })
    }

    /// The input anew, then the ops.
    fn record(&self, batch: &Batch, ops: u32) {
        batch.write(&self.buffers[0], &numbers());
        for op in 0..ops {
            let (x, y) = (&self.buffers[op as usize % 2], &self.buffers[(op as usize + 1) % 2]);
            batch.dispatch(&self.kernel, &[x, y], Grid::items(LEN)).immediates(&op);
        }
    }

    fn result(&self, ops: u32) -> sortie::Result<Vec<u32>> {
        self.buffers[ops as usize % 2].download()
    }
}

fn numbers() -> Vec<u32> {
    (0..LEN as u32).map(|at| at * 31 + 7).collect()
}

fn expected(ops: u32) -> Vec<u32> {
    let mut x = numbers();
    for op in 0..ops {
        let mix = |at: usize| x[at].wrapping_mul(3).wrapping_add(x[(at + 1) % LEN]).wrapping_add(op);
        x = (0..LEN).map(mix).collect();
    }
    x
}
