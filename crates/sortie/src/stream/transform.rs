//! The processing of a window.
//!
//! A window is written to memory fresh from the pool rather than to a batch's own data or a replay's input. This is the
//! only path to the device with a single copy, and on the built-in CPU the only one that need not wait for the running
//! kernel. Each recording is a few ops with a cached plan, so a window costs little more than moving its bytes.

use super::bytes;
use crate::{
    batch::{Batch, FlatRows, Grid, RowWidths},
    device::Device,
    error::{CallSite, Error, ErrorKind, Result},
    finish::{Reading, Ticket},
    kernel::Kernel,
    memory::pooled_bytes,
    replay::{Input, Output, Replay},
    tensor::{Element, Tensor},
};

/// Records the processing of a window, and returns the reading of its output.
type RecordWindow<'a, T, U> = Box<dyn for<'b> FnMut(&'b Batch, Tensor<'b, T>) -> Reading<U> + 'a>;

/// The processing of a window, with the user's line for errors.
pub(super) enum Transform<'a, T, U> {
    Kernel { device: Device, kernel: Kernel },
    Recording { device: Device, record: RecordWindow<'a, T, U> },
    Replay { replay: Replay, input: Input<T>, output: Output<U> },
}

impl<T: Element, U: Element> Transform<'_, T, U> {
    /// Checks that it can process windows.
    pub(super) fn check(&self, widths: RowWidths) -> Result<()> {
        match self {
            Self::Kernel { kernel, .. } => check_kernel::<T, U>(kernel, widths),
            Self::Recording { .. } => Ok(()),
            Self::Replay { input, output, .. } => {
                if input.is_empty() || output.is_empty() || !output.len().is_multiple_of(input.rows) {
                    let message = format!(
                        "stream: a replay with an input of {} rows, {} elements, and an output of {} elements has no rows",
                        input.rows,
                        input.len(),
                        output.len()
                    );
                    return Err(Error::new(ErrorKind::Shape, message));
                }
                Ok(())
            }
        }
    }

    /// Whether the output of a window has as many rows as its input; otherwise the user's recording determines it.
    pub(super) fn is_rowwise(&self) -> bool {
        !matches!(self, Self::Recording { .. })
    }

    /// Bytes of device memory that a window of `rows` rows takes while it is in flight.
    pub(super) fn window_bytes(&mut self, rows: usize, widths: RowWidths) -> Result<u64> {
        let (input, output) = (rows as u64 * bytes::<T>(widths.input), rows as u64 * bytes::<U>(widths.output));
        let (device, own) = match self {
            Self::Kernel { device, kernel, .. } if kernel.num_bindings() == 1 => (device, 0),
            Self::Kernel { device, .. } => (device, pooled_bytes(output)),
            Self::Recording { device, record, .. } => {
                let batch = device.batch();
                let memory = batch.scratch::<T>(rows * widths.input);
                drop(record(&batch, batch.tensor(memory, [rows, widths.input])));
                // The scratch memory stands for the input, which is not the batch's own.
                let own = batch.plan()?.peak_bytes().saturating_sub(input);
                (device, pooled_bytes(own))
            }
            Self::Replay { .. } => return Ok(0),
        };
        // wgpu keeps uploaded data until the device has copied it.
        let staged = if device.is_cpu() { 0 } else { input };
        Ok(pooled_bytes(input) + own + staged)
    }

    /// Submits a window of whole rows. The reading may be longer than the output, never shorter.
    pub(super) fn send(&mut self, window: &[T], widths: RowWidths, here: CallSite) -> Result<(Ticket, Reading<U>)> {
        let sent = match self {
            Self::Kernel { device, kernel, .. } => through_kernel(device, kernel, window, widths),
            Self::Recording { device, record, .. } => through_recording(device, record, window, widths.input),
            Self::Replay { replay, input, output, .. } => through_replay(replay, *input, *output, window),
        };
        // A user's mistake has the user's own line, not a line of this file.
        sent.map_err(|error| match error.location() {
            Some(at) if at.file() != file!() => error,
            _ => error.at(here),
        })
    }
}

fn through_kernel<T: Element, U: Element>(
    device: &Device,
    kernel: &Kernel,
    window: &[T],
    widths: RowWidths,
) -> Result<(Ticket, Reading<U>)> {
    let rows = window.len() / widths.input;
    let batch = device.batch();
    // Windows take turns with the memory of the pool.
    batch.set_single();
    let reading = if kernel.num_bindings() == 1 {
        let x = device.upload::<U>(bytemuck::cast_slice(window))?;
        batch.dispatch(kernel, &[&FlatRows(&x)], Grid::items(rows));
        batch.read(&x)
    } else {
        let x = device.upload(window)?;
        let y = batch.scratch::<U>(rows * widths.output);
        batch.dispatch(kernel, &[&FlatRows(&x), &FlatRows(&y)], Grid::items(rows));
        batch.read(y)
    };
    Ok((batch.submit_async()?, reading))
}

fn through_recording<T: Element, U: Element>(
    device: &Device,
    record: &mut RecordWindow<'_, T, U>,
    window: &[T],
    width: usize,
) -> Result<(Ticket, Reading<U>)> {
    let batch = device.batch();
    // Windows take turns with the memory of the pool.
    batch.set_single();
    let x = device.upload(window)?;
    let x = batch.tensor(&x, [window.len() / width, width]);
    let reading = record(&batch, x);
    Ok((batch.submit_async()?, reading))
}

fn through_replay<T: Element, U: Element>(
    replay: &Replay,
    input: Input<T>,
    output: Output<U>,
    window: &[T],
) -> Result<(Ticket, Reading<U>)> {
    let mut run = replay.run();
    if window.len() == input.len() {
        run.write(input, window);
    } else {
        let mut filled = Vec::new();
        Error::reserve(&mut filled, input.len())?;
        filled.extend_from_slice(window);
        filled.resize(input.len(), T::zeroed());
        run.write(input, &filled);
    }
    let reading = run.read(output);
    Ok((run.submit_async()?, reading))
}

fn check_kernel<T, U>(kernel: &Kernel, widths: RowWidths) -> Result<()> {
    let wrong = |message: String| Err(Error::new(ErrorKind::Bindings, message));
    let entry = kernel.entry();
    match kernel.num_bindings() {
        1 if !kernel.writes(0) => wrong(format!("stream: the only binding of the kernel {entry:?} is never written")),
        1 if bytes::<T>(widths.input) != bytes::<U>(widths.output) || size_of::<T>() != size_of::<U>() => {
            wrong(format!(
                "stream: the kernel {entry:?} works in place, but a row has {} elements of {} bytes before and {} of {} after",
                widths.input,
                size_of::<T>(),
                widths.output,
                size_of::<U>()
            ))
        }
        2 if !kernel.writes(1) => wrong(format!("stream: the second binding of the kernel {entry:?} is never written")),
        1 | 2 => Ok(()),
        count => {
            wrong(format!("stream: the kernel {entry:?} has {count} bindings; a stream has one in and one out, or one"))
        }
    }
}
