//! Batches that an application submits itself, in its own command encoder.

use std::panic::Location;

use sortie_plan::OpKind;

use super::{Batch, Recorder};
use crate::{
    device::DeviceCore,
    error::{Error, ErrorKind, Result},
    finish::Ticket,
    policy::Split,
};

impl Batch {
    /// Encodes the whole batch into `encoder`, which belongs to the application, after what is already in it. The
    /// application submits it together with its own passes.
    ///
    /// ```
    /// use sortie::{Device, DeviceOptions};
    ///
    /// # let owner = Device::open_with(DeviceOptions::default().with_device("noop"))?;
    /// # let (gpu, queue) = owner.wgpu().expect("it is wgpu's");
    /// let device = Device::from_wgpu(gpu.clone(), queue.clone())?; // for example of a renderer
    /// let x = device.zeros::<u32>(4)?;
    ///
    /// let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    /// // Passes of the application, then:
    /// let batch = device.batch();
    /// batch.write(&x, &[1, 2, 3, 4]);
    /// let reading = batch.read(&x);
    /// let ticket = batch.encode(&mut encoder)?;
    /// // More passes of the application, then:
    /// queue.submit([encoder.finish()]);
    /// ticket.wait()?;
    /// assert_eq!(reading.wait()?, [1, 2, 3, 4]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// The batch takes effect where the application submits it:
    ///
    /// - It sees batches and writes of this device that were submitted before this call. Those submitted later are
    ///   ordered by when they and the application's command buffer reach the queue.
    /// - [`Ticket::wait`] blocks until the application has submitted the command buffer and the device has run it, like
    ///   a channel. [`Ticket::wait_timeout`] returns [`Timeout`](ErrorKind::Timeout). A batch without ops is done at
    ///   once.
    /// - Its memory is in use until then. Ticket and readings resolve with [`Canceled`](ErrorKind::Canceled) if the
    ///   application drops the encoder or the command buffer, or if wgpu refuses it. Then the batch has had no effect.
    /// - [`Ticket::cancel`] has no effect.
    /// - The batch is never cut, whatever its [`Split`] and the device's policy are. Its work counts as none of
    ///   sortie's submissions in the metrics.
    ///
    /// No pass may be open on `encoder`, and it must be of the same wgpu device. wgpu reports mistakes about that when
    /// the encoder is finished, to the application.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) on a device that is not from [`Device::from_wgpu`], and if the batch has
    /// a [`split`](Batch::split); else as [`Batch::submit`]. After an error `encoder` is unchanged.
    ///
    /// [`Device::from_wgpu`]: crate::Device::from_wgpu
    #[track_caller]
    pub fn encode(self, encoder: &mut wgpu::CommandEncoder) -> Result<Ticket> {
        self.split_by(Split::Never);
        let completion =
            self.start(Location::caller(), false, check, |backend, launch| backend.encode(launch, encoder), false)?;
        Ok(Ticket::new(completion))
    }
}

fn check(core: &DeviceCore, recorder: &mut Recorder) -> Result<()> {
    if !core.backend.is_borrowed() {
        let message =
            "encode: only a device from Device::from_wgpu shares its encoders with an application; use submit";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let ops = recorder.recording.ops.iter().enumerate();
    let splits: Vec<_> = ops.filter(|(_, op)| op.kind == OpKind::Split).map(|(number, _)| number).collect();
    for op in splits {
        let message = "encode: the application submits the batch as a whole, so it cannot be split";
        recorder.mistake(op, Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}
