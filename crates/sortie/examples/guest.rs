//! sortie as a guest of an application that uses wgpu itself: the application's passes before and after a batch, all in
//! one command encoder and one submission. Checked against plain Rust.
//!
//! `SORTIE_DEVICE=llvmpipe cargo run --release -p sortie --example guest`
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use std::time::Instant;

use sortie::{Device, Grid};
use wgpu::BufferUsages;

const LEN: usize = 100_000;
const FRAMES: u32 = 100;

/// The application's own shader, before and after the batch.
const ADD_INDEX: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64)
    fn add_index(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] += id.x; }
    }";

/// The guest's kernel.
const SQUARE: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn square(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = x[id.x] * x[id.x] + 1u; }
    }";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Stands for a renderer that opened the device itself.
    let owner = Device::open()?;
    let Some((gpu, queue)) = owner.wgpu() else {
        println!("{} is not a wgpu device: name another one in SORTIE_DEVICE", owner.info());
        return Ok(());
    };
    let shared = gpu.create_buffer(&wgpu::BufferDescriptor {
        label: Some("shared"),
        size: (LEN * size_of::<u32>()) as u64,
        usage: BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    });
    let module = gpu.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(ADD_INDEX.into()),
    });
    let pipeline = gpu.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("add index"),
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let group = gpu.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: shared.as_entire_binding() }],
    });
    let own_pass = |encoder: &mut wgpu::CommandEncoder| {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(LEN.div_ceil(64) as u32, 1, 1);
    };

    // The guest: the application's device, queue and buffer.
    let device = Device::from_wgpu(gpu.clone(), queue.clone())?;
    let square = device.kernel(SQUARE)?;
    let x = device.import::<u32>(shared.clone())?;

    let mut expected: Vec<u32> = (0..LEN as u32).collect();
    queue.write_buffer(&shared, 0, bytemuck::cast_slice(&expected));
    let (begin, mut result) = (Instant::now(), Vec::new());
    for frame in 0..FRAMES {
        let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("frame") });
        own_pass(&mut encoder);

        let batch = device.batch();
        let room = batch.scratch::<u32>(LEN);
        batch.dispatch(&square, &[&x, &room], Grid::items(LEN));
        batch.dispatch(&square, &[&room, &x], Grid::items(LEN));
        let last = (frame + 1 == FRAMES).then(|| batch.read(&x));
        let ticket = batch.encode(&mut encoder)?;

        own_pass(&mut encoder);
        queue.submit([encoder.finish()]);
        // Frames in flight would need no wait. This one shows that the ticket resolves without a poll of the application.
        ticket.wait()?;
        if let Some(reading) = last {
            result = reading.wait()?;
        }
    }
    let time = begin.elapsed();

    // The batch read before the application's last pass.
    for frame in 0..FRAMES {
        for (index, x) in (0..LEN as u32).zip(&mut expected) {
            *x = x.wrapping_add(index);
            *x = x.wrapping_mul(*x).wrapping_add(1);
            *x = x.wrapping_mul(*x).wrapping_add(1);
            if frame + 1 < FRAMES {
                *x = x.wrapping_add(index);
            }
        }
    }
    assert_eq!(result, expected, "the same as plain Rust");
    let metrics = device.metrics();
    assert_eq!(metrics.submissions, 0, "the application submitted everything");
    println!("{FRAMES} frames of two passes of the application around a batch, {LEN} numbers, on {}", device.info());
    println!(
        "{} batches, {} submissions of sortie, {time:.1?}; equal to plain Rust",
        metrics.batches, metrics.submissions
    );
    Ok(())
}
