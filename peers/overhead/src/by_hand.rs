//! wgpu 30 as an expert writes it, and as a beginner does.

use sortie::{Buffer, Device};

use crate::case::{Case, GROUP, ITEMS, STEP};
use crate::comparison::{Outcome, Runner};

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
    case: Case,
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    buffers: Vec<wgpu::Buffer>,
    routes: Vec<(usize, usize)>,
    groups: Vec<wgpu::BindGroup>,
}

impl ByHand {
    /// Takes the device that sortie opens, so that features and limits are the same; nothing else of sortie is used in a run.
    pub(crate) fn new(opened: &Device, how: How, case: Case) -> Outcome<Self> {
        let (device, queue) = opened.wgpu().ok_or("not a wgpu device")?;
        let (device, queue) = (device.clone(), queue.clone());
        let layout = layout(&device);
        let pipeline = pipeline(&device, &layout);
        let buffers = (0..case.buffers()).map(|_| buffer(&device)).collect();
        let routes = case.routes();
        let mut made = Self { how, case, device, queue, pipeline, layout, buffers, routes, groups: Vec::new() };
        made.groups = made.routes.iter().map(|&route| made.group(route)).collect();
        Ok(made)
    }

    fn group(&self, (from, to): (usize, usize)) -> wgpu::BindGroup {
        let entry = |binding, buffer: usize| wgpu::BindGroupEntry {
            binding,
            resource: self.buffers[buffer].as_entire_binding(),
        };
        let entries = [entry(0, from), entry(1, to)];
        self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.layout,
            entries: &entries,
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

    fn one_pass(&self, n: usize) {
        let mut encoder = self.encoder();
        let mut pass = self.pass(&mut encoder);
        for op in 0..n {
            let at = op % self.routes.len();
            if self.how == How::NewGroups {
                dispatch(&mut pass, &self.group(self.routes[at]));
            } else {
                dispatch(&mut pass, &self.groups[at]);
            }
        }
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }

    fn pass_per_op(&self, n: usize) {
        let mut encoder = self.encoder();
        for group in self.groups.iter().cycle().take(n) {
            dispatch(&mut self.pass(&mut encoder), group);
        }
        self.queue.submit([encoder.finish()]);
    }

    fn submit_per_op(&self, n: usize) {
        for group in self.groups.iter().cycle().take(n) {
            let mut encoder = self.encoder();
            dispatch(&mut self.pass(&mut encoder), group);
            self.queue.submit([encoder.finish()]);
        }
    }
}

impl Runner for ByHand {
    fn run(&mut self, n: usize) -> Outcome<()> {
        match self.how {
            How::Best | How::NewGroups => self.one_pass(n),
            How::PassPerOp => self.pass_per_op(n),
            How::SubmitPerOp => self.submit_per_op(n),
        }
        self.device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok(())
    }

    fn answer(&mut self) -> Outcome<u32> {
        let guest = Device::from_wgpu(self.device.clone(), self.queue.clone())?;
        let buffer: Buffer<u32> = guest.import(self.buffers[self.case.answer()].clone())?;
        Ok(buffer.download()?[0])
    }
}

fn dispatch(pass: &mut wgpu::ComputePass<'_>, group: &wgpu::BindGroup) {
    pass.set_bind_group(0, group, &[]);
    pass.dispatch_workgroups((ITEMS / GROUP) as u32, 1, 1);
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

fn pipeline(device: &wgpu::Device, layout: &wgpu::BindGroupLayout) -> wgpu::ComputePipeline {
    let source = wgpu::ShaderSource::Wgsl(STEP.into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(layout)],
        immediate_size: 0,
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

fn buffer(device: &wgpu::Device) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: ITEMS as u64 * 4,
        usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    })
}
