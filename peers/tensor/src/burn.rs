//! burn on its wgpu backend, with fusion and autotuning: operations are queued as they are called, and run at the latest when it is waited for.

use std::time::Instant;

use ::burn::tensor::activation::{gelu, sigmoid};
use ::burn::tensor::wgpu::WgpuSetup;
use ::burn::tensor::wgpu::wgpu::{
    Adapter, Backend, Backends, DeviceDescriptor, Features, Instance, InstanceDescriptor, MemoryHints,
};
use ::burn::tensor::{Device, Tensor, TensorData};
use pollster::block_on;

use crate::comparison::{Outcome, Run, Runner};
use crate::operands::{COLUMNS, ChainOperands, ProductOperands, ROWS, SIDE};

/// Opens the device whose name contains `name`, and gives that name in full. Burn itself would take the first one of a kind, which may be another.
pub(crate) fn open(name: &str) -> Outcome<(Device, String)> {
    let descriptor =
        InstanceDescriptor { backends: Backends::VULKAN, ..InstanceDescriptor::new_without_display_handle() };
    let instance = Instance::new(descriptor);
    let adapters = block_on(instance.enumerate_adapters(Backends::VULKAN));
    let adapter = adapters.into_iter().find(|adapter| adapter.get_info().name.contains(name));
    let setup = set_up(instance, adapter.ok_or("burn does not see it")?)?;
    let info = setup.adapter.get_info();
    Ok((Device::wgpu_options().setup(setup).init()?, format!("{} ({:?})", info.name, info.backend)))
}

/// Asks for all the adapter has, as burn itself would.
fn set_up(instance: Instance, adapter: Adapter) -> Outcome<WgpuSetup> {
    let unwanted = Features::MAPPABLE_PRIMARY_BUFFERS | Features::all_experimental_mask();
    let (device, queue) = block_on(adapter.request_device(&DeviceDescriptor {
        required_features: adapter.features().difference(unwanted),
        required_limits: adapter.limits(),
        memory_hints: MemoryHints::MemoryUsage,
        ..DeviceDescriptor::default()
    }))?;
    Ok(WgpuSetup { instance, adapter, device, queue, backend: Backend::Vulkan })
}

/// The chain on resident tensors.
pub(crate) struct Chain {
    device: Device,
    x: Tensor<2>,
    w: Tensor<2>,
    b: Tensor<2>,
}

impl Chain {
    /// Uploads the operands.
    pub(crate) fn new(device: &Device) -> Self {
        let ChainOperands { x, w, b } = ChainOperands::new();
        Self {
            device: device.clone(),
            x: tensor(device, x, [ROWS, COLUMNS]),
            w: tensor(device, w, [1, COLUMNS]),
            b: tensor(device, b, [1, COLUMNS]),
        }
    }
}

impl Runner for Chain {
    fn run(&mut self, wanted: bool) -> Run {
        let start = Instant::now();
        let v = self.x.clone().mul(self.w.clone()).add(self.b.clone());
        let g = gelu(v);
        let s = sigmoid(g.clone());
        let y = g.mul(s).add(self.x.clone());
        finish(&self.device, start, y, wanted)
    }
}

/// The product on resident tensors.
pub(crate) struct Product {
    device: Device,
    a: Tensor<2>,
    b: Tensor<2>,
}

impl Product {
    /// Uploads the operands.
    pub(crate) fn new(device: &Device) -> Self {
        let ProductOperands { a, b } = ProductOperands::new();
        Self { device: device.clone(), a: tensor(device, a, [SIDE, SIDE]), b: tensor(device, b, [SIDE, SIDE]) }
    }
}

impl Runner for Product {
    fn run(&mut self, wanted: bool) -> Run {
        let start = Instant::now();
        let c = self.a.clone().matmul(self.b.clone());
        finish(&self.device, start, c, wanted)
    }
}

fn tensor(device: &Device, data: Vec<f32>, shape: [usize; 2]) -> Tensor<2> {
    Tensor::from_data(TensorData::new(data, shape), device)
}

/// Waits while the result is alive: burn need not compute a dropped one.
fn finish(device: &Device, start: Instant, result: Tensor<2>, wanted: bool) -> Run {
    device.sync()?;
    let time = start.elapsed().as_secs_f64() * 1e6;
    let answer = if wanted { result.into_data().as_slice::<f32>()?.to_vec() } else { Vec::new() };
    Ok((time, answer))
}
