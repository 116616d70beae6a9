//! As a guest on an application's wgpu device.

use sortie::{Buffer, Device, DeviceOptions, ErrorKind, Grid};

use crate::{ONE_IN_FLIGHT, STEP, on_drivers, step};

/// A wgpu device that belongs to the test.
fn theirs(device: &Device) -> (wgpu::Device, wgpu::Queue) {
    // Opened by name on an instance of its own, the way a stranger would.
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle_from_env());
    let backend = if device.info().backend == "gl" { wgpu::Backends::GL } else { wgpu::Backends::VULKAN };
    let adapters = pollster::block_on(instance.enumerate_adapters(backend));
    let adapter =
        adapters.into_iter().find(|adapter| adapter.get_info().name == device.info().name).expect("the adapter");
    pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default())).expect("a device")
}

#[test]
fn a_guest_shares_buffers_with_its_host() {
    on_drivers(|device| {
        let (wgpu, queue) = theirs(device);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let raw =
            wgpu.create_buffer(&wgpu::BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false });
        queue.write_buffer(&raw, 0, bytemuck::cast_slice(&[3_u32; 16]));
        let guest = Device::from_wgpu(wgpu.clone(), queue.clone())?;
        assert_eq!(guest.info().limits.immediate_bytes, 0, "only the features it was opened with");
        let kernel = guest.kernel(STEP)?;
        let x: Buffer<u32> = guest.import(raw.clone())?;
        let y = guest.zeros::<u32>(16)?;
        let batch = guest.batch();
        batch.dispatch(&kernel, &[&x, &y], Grid::items(16));
        batch.copy(&y, &x);
        batch.fill(&y, 5);
        batch.submit()?;
        assert_eq!((x.download()?, y.download()?), (vec![step(3); 16], vec![5; 16]));
        assert_eq!(guest.reopen().expect_err("not ours to open").kind(), ErrorKind::Unsupported);
        Ok(())
    });
}

#[test]
fn a_guest_catches_errors_in_scopes_and_keeps_the_hosts_handler() {
    on_drivers(|device| {
        let (wgpu, queue) = theirs(device);
        wgpu.on_uncaptured_error(std::sync::Arc::new(|error| panic!("reached the host: {error}")));
        let guest = Device::from_wgpu(wgpu.clone(), queue)?;
        let kernel = guest.kernel(STEP)?;
        let usage = wgpu::BufferUsages::STORAGE;
        let raw =
            wgpu.create_buffer(&wgpu::BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false });
        let (x, y): (Buffer<u32>, Buffer<u32>) = (guest.import(raw.clone())?, guest.zeros(16)?);
        let batch = guest.batch();
        batch.dispatch(&kernel, &[&x, &y], Grid::items(16));
        raw.destroy();
        batch.submit().expect_err("the host has destroyed the buffer");
        assert_eq!(y.download()?, [0; 16], "and nothing ran");
        Ok(())
    });
}

#[test]
fn a_device_without_native_immediates_or_their_limits_still_takes_them() {
    on_drivers(|device| {
        let (wgpu, queue) = theirs(device);
        let guest = Device::from_wgpu_with(wgpu, queue, DeviceOptions::default().with_policy(ONE_IN_FLIGHT))?;
        let kernel = guest.kernel(
            "var<immediate> amount: u32;
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] += amount; }",
        )?;
        let x = guest.zeros::<u32>(4)?;
        let batch = guest.batch();
        for amount in 1..=10_u32 {
            batch.dispatch(&kernel, &[&x], Grid::groups(4)).immediates(&amount);
        }
        batch.submit()?;
        assert_eq!(x.download()?, [55; 4]);
        Ok(())
    });
}
