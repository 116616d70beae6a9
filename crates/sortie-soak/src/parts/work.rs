//! Work that takes a while and whose result is known.

use sortie::{Device, Error, Grid, Result};

/// Advances every element by a linear congruential generator, 512 steps per dispatch. lavapipe stops an invocation after
/// 65,535 iterations, so a long dispatch has many items, not many steps.
pub(super) const SLOW: &str = include_str!("../../kernels/slow.wgsl");

/// The same from one buffer to another, for streams and batchers.
pub(super) const SLOW_ROWS: &str = include_str!("../../kernels/slow_rows.wgsl");

/// What one dispatch makes of an element.
pub(super) fn advanced(value: u32) -> u32 {
    (0..512).fold(value, |value, _| value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

/// Runs [`SLOW`] once and checks the answer.
pub(super) fn works(device: &Device) -> Result<()> {
    let kernel = device.kernel(SLOW)?;
    let x = device.upload(&[3_u32; 256])?;
    let batch = device.batch();
    batch.dispatch(&kernel, &[&x], Grid::items(256));
    let read = batch.read(&x);
    batch.submit()?;
    if read.wait()? == [advanced(3); 256] { Ok(()) } else { Err(Error::input("a wrong answer")) }
}
