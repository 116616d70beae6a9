//! Buffers of other owners.

use sortie::{Buffer, Device, ErrorKind, Grid};

use crate::{STEP, noop};

fn raw(device: &Device, size: u64) -> wgpu::Buffer {
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let (wgpu, _) = device.wgpu().expect("a wgpu device");
    wgpu.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
}

/// With an instance for each device, wgpu took a buffer of one for a buffer of the other.
#[test]
fn a_buffer_of_another_device_is_not_taken_for_one_of_ours() -> sortie::Result<()> {
    let (device, other) = (noop(), noop());
    let kernel = device.kernel(STEP)?;
    let (ours, theirs) = (raw(&device, 64), raw(&other, 64));
    let ours: Buffer<u32> = device.import(ours)?;
    let theirs: Buffer<u32> = device.import(theirs)?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&ours, &theirs], Grid::items(16));
    assert_eq!(batch.num_slots(), 2);
    assert_eq!(batch.submit().expect_err("it belongs to the other device").kind(), ErrorKind::Bindings);
    assert_eq!(theirs.write(&[1; 16]).expect_err("it belongs to the other device").kind(), ErrorKind::Bindings);
    ours.write(&[1; 16])
}

/// A length that is no multiple of 4 was rounded down for the planner and up for the copy.
#[test]
fn an_import_of_an_odd_number_of_bytes_is_refused() {
    let device = noop();
    let error = device.import::<u16>(raw(&device, 6)).expect_err("6 bytes");
    assert_eq!(error.kind(), ErrorKind::Shape);
}

/// A write that wgpu refuses after it was queued was not reported, or stopped the submit thread.
#[test]
fn a_write_refused_after_it_was_queued_poisons_its_buffer_and_no_thread_hangs() -> sortie::Result<()> {
    for guest in [false, true] {
        let owner = noop();
        let (wgpu, queue) = owner.wgpu().expect("a wgpu device");
        let device = if guest { Device::from_wgpu(wgpu.clone(), queue.clone())? } else { owner.clone() };
        let raw = raw(&owner, 64);
        let imported: Buffer<u32> = device.import(raw.clone())?;
        raw.destroy();
        // Depending on when wgpu notices, the write itself or what comes after tells.
        let written = imported.write(&[7; 16]);
        let read = imported.download();
        assert!(written.is_err() || read.is_err(), "guest: {guest}");
        assert_eq!(device.upload(&[1_u32, 2])?.download()?.len(), 2, "the device works on");
    }
    Ok(())
}

/// A guest hears nothing of the loss, and called everything that followed a defect of its own.
#[test]
fn a_guest_whose_device_was_destroyed_says_so() -> sortie::Result<()> {
    let owner = noop();
    let (wgpu, queue) = owner.wgpu().expect("a wgpu device");
    let guest = Device::from_wgpu(wgpu.clone(), queue.clone())?;
    let x = guest.upload(&[1_u32; 16])?;
    wgpu.destroy();
    let lost = |kind: Option<ErrorKind>| assert_eq!(kind, Some(ErrorKind::DeviceLost));
    lost(x.download().err().map(|error| error.kind()));
    lost(guest.upload(&[1_u32]).err().map(|error| error.kind()));
    lost(guest.kernel(STEP).err().map(|error| error.kind()));
    Ok(())
}

/// A pattern that no binding can hold underflowed, or went round in circles.
#[test]
fn a_fill_on_a_device_with_tiny_bindings_is_split() -> sortie::Result<()> {
    for bytes in [4, 256] {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: wgpu::Backends::NOOP,
            backend_options: wgpu::BackendOptions { noop: wgpu::NoopBackendOptions::enabled(), ..Default::default() },
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let adapter =
            pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).expect("noop");
        let required_limits = wgpu::Limits { max_storage_buffer_binding_size: bytes, ..wgpu::Limits::default() };
        let descriptor = wgpu::DeviceDescriptor { required_limits, ..Default::default() };
        let (wgpu, queue) = pollster::block_on(adapter.request_device(&descriptor)).expect("a device");
        let device = Device::from_wgpu(wgpu, queue)?;
        let x = device.zeros::<u32>(1000)?;
        let batch = device.batch();
        batch.fill(&x, 7);
        batch.submit()?;
    }
    Ok(())
}
