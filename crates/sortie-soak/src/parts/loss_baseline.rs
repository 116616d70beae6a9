//! A plain wgpu program that opens and destroys as many devices as `loss` does: what it grows by is not ours.

use std::time::Duration;

use pollster::block_on;
use sortie::wgpu;

use super::{loss::WARM_UP, work::SLOW};
use crate::{
    devices, memory,
    part::{Part, Size, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    devices: devices::DRIVERS,
    weight: 0,
    size: Size { quick: 15, full: 200 },
    patience: Duration::from_secs(900),
    ..Part::new(
        "loss-baseline",
        "plain wgpu opens and destroys devices with work in flight, for comparison; size: losses",
        run,
    )
};

fn run(task: &Task, report: &mut Report) -> sortie::Result<()> {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle_from_env();
    descriptor.backends = wgpu::Backends::VULKAN;
    let instance = wgpu::Instance::new(descriptor);
    let adapters = block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let named = |adapter: &wgpu::Adapter| adapter.get_info().name.to_lowercase().contains(&task.device);
    let Some(adapter) = adapters.into_iter().find(named) else {
        return Err(sortie::Error::input(format!("there is no {}", task.device)));
    };
    let mut before = memory::resident();
    for loss in task.operations() {
        if loss == WARM_UP.min(task.size / 2) {
            before = memory::resident();
        }
        // `loss` opens two: one after each loss, and one that the batcher opens.
        for destroyed in [true, false] {
            cycle(&adapter, destroyed).map_err(|error| sortie::Error::input(format!("loss {loss}: {error}")))?;
        }
        report.count(1);
    }
    report.figure("growth MB", memory::growth(before));
    Ok(())
}

fn cycle(adapter: &wgpu::Adapter, destroyed: bool) -> Result<(), wgpu::RequestDeviceError> {
    const BYTES: u64 = 4 << 12;
    let descriptor = wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..Default::default() };
    let (device, queue) = block_on(adapter.request_device(&descriptor))?;
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(SLOW.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    for _ in 0..4 {
        let buffer = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: BYTES,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: buffer.as_entire_binding() }],
        });
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(64, 1, 1);
        drop(pass);
        queue.submit([encoder.finish()]);
    }
    if destroyed {
        device.destroy();
    }
    drop(device.poll(wgpu::PollType::wait_indefinitely()));
    Ok(())
}
