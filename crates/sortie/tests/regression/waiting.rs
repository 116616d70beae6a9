//! wgpu drops the callbacks that come after one that panics, and a reading then waited for its mapping indefinitely.

use sortie::{Device, ErrorKind, wgpu};

use super::on_drivers;

#[test]
fn a_map_callback_that_is_dropped_instead_of_called_ends_its_wait_with_an_error() {
    on_drivers(|owner| {
        let (gpu, queue) = owner.wgpu().expect("a wgpu device");
        let device = Device::from_wgpu(gpu.clone(), queue.clone())?;
        let x = device.upload(&[1_u32, 2, 3])?;
        // The application's own callback, which comes first and panics.
        let theirs = gpu.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 4,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.clear_buffer(&theirs, 0, None);
        queue.submit([encoder.finish()]);
        theirs.map_async(wgpu::MapMode::Read, .., |_| panic!("of the application's own"));
        let batch = device.batch();
        let reading = batch.read(&x);
        // Whether the panic meets the submission or the wait, the reading ends.
        let outcome = batch.submit_async().and_then(|_| reading.wait());
        if let Err(error) = outcome {
            assert!(matches!(error.kind(), ErrorKind::Internal | ErrorKind::DeviceLost), "{error}");
        }
        Ok(())
    });
}
