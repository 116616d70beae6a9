//! wgpu 30 as an expert writes it, and as a beginner does.

use sortie::{Buffer, Device};
use sortie_bench::Outcome;

use crate::dispatches::{Dispatches, GROUP, ITEMS, Runner};

/// What is made for every op.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum How {
    /// Nothing: one pass, bind groups made once, the pipeline set once.
    Best,
    /// A bind group; one pass.
    NewGroups,
    /// A pass; bind groups made once, one encoder.
    PassPerOp,
    /// An encoder, a pass and a submission; bind groups made once.
    SubmitPerOp,
}

/// A hand-written program.
pub(crate) struct ByHand {
    how: How,
    dispatches: Dispatches,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    buffers: Vec<wgpu::Buffer>,
    groups: Vec<wgpu::BindGroup>,
    /// What is read back.
    readback: wgpu::Buffer,
    runs: usize,
}

impl ByHand {
    /// Takes the device that sortie opens, so that features and limits are the same; nothing else of sortie is used in
    /// a run.
    pub(crate) fn new(opened: &Device, how: How, dispatches: Dispatches) -> Outcome<Self> {
        let (device, queue) = opened.wgpu().ok_or("not a wgpu device")?;
        let (device, queue) = (device.clone(), queue.clone());
        let layout = layout(&device);
        let pipeline = pipeline(&device, &layout, &dispatches);
        let buffer = |usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: ITEMS as u64 * 4,
                usage,
                mapped_at_creation: false,
            })
        };
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffers = (0..dispatches.buffers).map(|_| buffer(usage)).collect();
        let readback = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        let groups = Vec::new();
        let mut made = Self { how, dispatches, device, queue, pipeline, layout, buffers, groups, readback, runs: 0 };
        made.groups = made.dispatches.routes.iter().map(|&route| made.group(route)).collect();
        Ok(made)
    }

    fn group(&self, (from, to): (usize, usize)) -> wgpu::BindGroup {
        let resource = |buffer: usize| self.buffers[buffer].as_entire_binding();
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.layout,
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: resource(from) },
                wgpu::BindGroupEntry { binding: 1, resource: resource(to) },
            ],
        })
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    fn pass<'a>(&self, encoder: &'a mut wgpu::CommandEncoder) -> wgpu::ComputePass<'a> {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.pipeline);
        pass
    }

    fn dispatch(&self, pass: &mut wgpu::ComputePass<'_>, op: usize, route: usize) {
        if self.how == How::NewGroups {
            pass.set_bind_group(0, &self.group(self.dispatches.routes[route]), &[]);
        } else {
            pass.set_bind_group(0, &self.groups[route], &[]);
        }
        if let Some(immediates) = self.dispatches.immediates {
            pass.set_immediates(0, bytemuck::cast_slice(&immediates(self.runs, op)));
        }
        pass.dispatch_workgroups((ITEMS / GROUP) as u32, 1, 1);
    }
}

impl Runner for ByHand {
    fn run(&mut self, n: usize) -> Outcome<()> {
        self.runs += 1;
        let (has_data, answer) = (self.dispatches.has_data, &self.buffers[self.dispatches.answer]);
        if has_data {
            self.queue.write_buffer(answer, 0, bytemuck::cast_slice(&Dispatches::data(self.runs)));
        }
        let ops = (0..n).zip((0..self.groups.len()).cycle());
        if self.how == How::SubmitPerOp {
            for (op, route) in ops {
                let mut encoder = self.encoder();
                self.dispatch(&mut self.pass(&mut encoder), op, route);
                self.queue.submit([encoder.finish()]);
            }
        } else {
            let mut encoder = self.encoder();
            if self.how == How::PassPerOp {
                ops.for_each(|(op, route)| self.dispatch(&mut self.pass(&mut encoder), op, route));
            } else {
                let mut pass = self.pass(&mut encoder);
                ops.for_each(|(op, route)| self.dispatch(&mut pass, op, route));
            }
            if has_data {
                encoder.copy_buffer_to_buffer(answer, 0, &self.readback, 0, ITEMS as u64 * 4);
                encoder.map_buffer_on_submit(&self.readback, wgpu::MapMode::Read, .., |_| {});
            }
            self.queue.submit([encoder.finish()]);
        }
        self.device.poll(wgpu::PollType::wait_indefinitely())?;
        if has_data && self.how != How::SubmitPerOp {
            let read: Vec<u32> = bytemuck::pod_collect_to_vec(&self.readback.get_mapped_range(..)?);
            std::hint::black_box(read);
            self.readback.unmap();
        }
        Ok(())
    }

    fn answer(&mut self) -> Outcome<u32> {
        let guest = Device::from_wgpu(self.device.clone(), self.queue.clone())?;
        let buffer: Buffer<u32> = guest.import(self.buffers[self.dispatches.answer].clone())?;
        Ok(buffer.download()?[0])
    }
}

fn layout(device: &wgpu::Device) -> wgpu::BindGroupLayout {
    let entry = |binding, read_only| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only },
            has_dynamic_offset: false,
            min_binding_size: wgpu::BufferSize::new(4),
        },
        count: None,
    };
    let entries = [entry(0, true), entry(1, false)];
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries })
}

fn pipeline(device: &wgpu::Device, layout: &wgpu::BindGroupLayout, dispatches: &Dispatches) -> wgpu::ComputePipeline {
    let source = wgpu::ShaderSource::Wgsl(dispatches.source.into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(layout)],
        immediate_size: if dispatches.immediates.is_some() { 16 } else { 0 },
    });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: Some(&layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    })
}
