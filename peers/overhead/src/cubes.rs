//! cubecl on its wgpu runtime: kernels launched one by one, or captured once and replayed.
//!
//! A thread of its own encodes and submits; the calling thread hands launches over to it, and waits.

#![expect(unsafe_code, reason = "cubecl takes handles and replays graphs on the caller's word")]

use cubecl::client::{Client, Graph};
use cubecl::device::{DeviceId, RuntimeId};
use cubecl::device_handle::DeviceHandle;
use cubecl::prelude::*;
use cubecl::server::Handle;
use cubecl::wgpu::{RuntimeOptions, WgpuSetup, init_device};
use pollster::block_on;
use wgpu::{Backend, Backends, DeviceDescriptor, Features, Instance, InstanceDescriptor, MemoryHints};

use crate::case::Case;
use crate::comparison::{Outcome, Runner};
use crate::dispatches::{Dispatches, GROUP, ITEMS};

#[cube(launch)]
fn step(x: &[u32], y: &mut [u32]) {
    if ABSOLUTE_POS < x.len() {
        y[ABSOLUTE_POS] = x[ABSOLUTE_POS] + 1;
    }
}

/// Opens the device whose name contains `name`, with all the adapter has, as cubecl itself would.
fn open(name: &str) -> Outcome<(Client, Served)> {
    let descriptor =
        InstanceDescriptor { backends: Backends::VULKAN, ..InstanceDescriptor::new_without_display_handle() };
    let instance = Instance::new(descriptor);
    let adapters = block_on(instance.enumerate_adapters(Backends::VULKAN));
    let adapter = adapters.into_iter().find(|adapter| adapter.get_info().name.contains(name));
    let adapter = adapter.ok_or("cubecl does not see it")?;
    let unwanted = Features::MAPPABLE_PRIMARY_BUFFERS | Features::all_experimental_mask();
    let (device, queue) = block_on(adapter.request_device(&DeviceDescriptor {
        required_features: adapter.features().difference(unwanted),
        required_limits: adapter.limits(),
        memory_hints: MemoryHints::MemoryUsage,
        ..DeviceDescriptor::default()
    }))?;
    let setup = WgpuSetup { instance, adapter, device, queue, backend: Backend::Vulkan };
    let device = cubecl::Device::Wgpu(init_device(setup, RuntimeOptions::default()));
    Ok((device.client(), Served(RuntimeId::strip(device.to_id()))))
}

/// A device's thread, which wakes up every 150 µs for as long as it lives: without this it would until the process ends.
struct Served(DeviceId);

impl Drop for Served {
    fn drop(&mut self) {
        DeviceHandle::<()>::shutdown(self.0);
    }
}

/// A launch for every op.
pub(crate) struct Launches {
    client: Client,
    buffers: Vec<Handle>,
    dispatches: Dispatches,
    /// The last field: it ends when all that uses it has been dropped.
    _served: Served,
}

impl Launches {
    /// Opens a device and makes the buffers.
    pub(crate) fn new(adapter: &str, case: Case) -> Outcome<Self> {
        let (client, served) = open(adapter)?;
        let zeros = [0; ITEMS * 4];
        let dispatches = case.dispatches();
        let buffers = (0..dispatches.buffers).map(|_| client.create_from_slice(&zeros)).collect();
        Ok(Self { client, buffers, dispatches, _served: served })
    }

    fn launch(&self, n: usize) {
        for &(from, to) in self.dispatches.routes.iter().cycle().take(n) {
            // SAFETY: every buffer was made with this many elements.
            let argument = |at: usize| unsafe { BufferArg::from_raw_parts(self.buffers[at].clone(), ITEMS) };
            let count = CubeCount::Static((ITEMS / GROUP) as u32, 1, 1);
            step::launch(&self.client, count, CubeDim::new_1d(GROUP as u32), argument(from), argument(to));
        }
    }

    fn wait(&self) -> Outcome<()> {
        block_on(self.client.sync()).map_err(|error| format!("{error:?}").into())
    }
}

impl Runner for Launches {
    fn run(&mut self, n: usize) -> Outcome<()> {
        self.launch(n);
        self.wait()
    }

    fn answer(&mut self) -> Outcome<u32> {
        let bytes = self.client.read_one(self.buffers[self.dispatches.answer].clone());
        let bytes = bytes.map_err(|error| format!("{error:?}"))?;
        Ok(bytemuck::pod_read_unaligned(&bytes[..4]))
    }
}

/// Launches captured in the first run.
pub(crate) struct Captured {
    /// The first field: it uses the device.
    graph: Option<Graph>,
    launches: Launches,
}

impl Captured {
    /// As [`Launches::new`].
    pub(crate) fn new(adapter: &str, case: Case) -> Outcome<Self> {
        Ok(Self { launches: Launches::new(adapter, case)?, graph: None })
    }

    /// What is captured runs once on the way, which the capture asks for.
    fn capture(&self, n: usize) -> Outcome<Graph> {
        let client = &self.launches.client;
        client.graph_prepare().map_err(|error| format!("{error:?}"))?;
        self.launches.launch(n);
        self.launches.wait()?;
        client.start_capture().map_err(|error| format!("{error:?}"))?;
        self.launches.launch(n);
        client.stop_capture().map_err(|error| format!("{error:?}").into())
    }
}

impl Runner for Captured {
    fn run(&mut self, n: usize) -> Outcome<()> {
        let Some(graph) = &self.graph else {
            self.graph = Some(self.capture(n)?);
            return Ok(());
        };
        // SAFETY: the buffers live as long as the graph, and only this thread uses them, on the stream of the capture.
        unsafe { graph.replay() }.map_err(|error| format!("{error:?}"))?;
        self.launches.wait()
    }

    fn answer(&mut self) -> Outcome<u32> {
        self.launches.answer()
    }
}
