//! sortie inside a program that uses wgpu itself: on its device, its queue and its buffers.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use sortie::{Device, Grid};
use wgpu::{BufferUsages, PollType};

const LEN: usize = 1000;

const HALVE: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<f32>;
    @compute @workgroup_size(64)
    fn halve(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] *= 0.5; }
    }";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Stands for a renderer that opened the device itself.
    let owner = Device::open()?;
    let Some((gpu, queue)) = owner.wgpu() else {
        println!("{} is not a wgpu device: name another one in SORTIE_DEVICE", owner.info());
        return Ok(());
    };
    let buffer = |label, usage| {
        let size = (LEN * size_of::<f32>()) as u64;
        gpu.create_buffer(&wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false })
    };
    let shared = buffer("shared", BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC);
    let on_host = buffer("on host", BufferUsages::MAP_READ | BufferUsages::COPY_DST);

    // The owner writes with wgpu ...
    let input: Vec<f32> = (0..LEN as u16).map(f32::from).collect();
    queue.write_buffer(&shared, 0, bytemuck::cast_slice(&input));

    // ... sortie works on the same buffer ...
    let device = Device::from_wgpu(gpu.clone(), queue.clone())?;
    let halve = device.kernel(HALVE)?;
    let x = device.import::<f32>(shared.clone())?;
    let batch = device.batch();
    batch.dispatch(&halve, &[&x], Grid::items(x.len()));
    batch.dispatch(&halve, &[&x], Grid::items(x.len()));
    // Waited for, because the owner's next submission must come after ours.
    batch.submit()?;

    // ... and the owner reads it with wgpu.
    let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    encoder.copy_buffer_to_buffer(&shared, 0, &on_host, 0, shared.size());
    queue.submit([encoder.finish()]);
    on_host.map_async(wgpu::MapMode::Read, .., |_| {});
    gpu.poll(PollType::wait_indefinitely())?;
    let output: Vec<f32> = bytemuck::pod_collect_to_vec(&on_host.get_mapped_range(..)?);

    assert!(input.iter().zip(&output).all(|(input, output)| input * 0.25 == *output));
    println!("{} numbers quartered on {}", output.len(), device.info());
    Ok(())
}
