//! From the host into device memory, outside any batch.
//!
//! On wgpu all of it goes through the submit line, because a queue write would jump ahead of work that has not been submitted. The
//! built-in CPU needs the line only for memory that a batch may know already: memory out of the pool has nothing pending on it.

use std::sync::Arc;

use super::{block::Block, raw::Store};
use crate::{
    device::Gpu,
    error::{Error, Result},
};

/// Recycled memory up to this size is zeroed by a queue write, which rides along with the next submission; more than that is cleared
/// on the device by a submission of its own, because the zeros would have to be copied there.
const ZEROED_BY_WRITE: u64 = 64 << 10;

/// Puts data into memory that nobody has seen yet.
pub(super) fn upload(block: &Arc<Block>, data: &[u8]) -> Result<()> {
    match block.store() {
        Store::Wgpu(buffer) => queue_write(block, buffer, 0, data),
        Store::Cpu(words) => {
            words.write(0, data);
            Ok(())
        }
    }
}

/// Overwrites memory in order with the flights, padded with zeros to 4 bytes.
pub(super) fn write(block: &Arc<Block>, start: u64, data: &[u8]) -> Result<()> {
    match block.store() {
        Store::Wgpu(buffer) => queue_write(block, buffer, start, data),
        Store::Cpu(words) => {
            block.shared().submitter().store(block, words, start, data);
            Ok(())
        }
    }
}

/// Makes recycled memory that nobody has seen yet read as zero.
pub(super) fn zero(block: &Arc<Block>) -> Result<()> {
    if block.fresh() {
        return Ok(());
    }
    match block.store() {
        Store::Wgpu(buffer) if block.bytes() <= ZEROED_BY_WRITE => {
            static ZEROS: [u8; ZEROED_BY_WRITE as usize] = [0; ZEROED_BY_WRITE as usize];
            queue_write(block, buffer, 0, &ZEROS[..usize::try_from(block.bytes()).unwrap_or(ZEROS.len())])
        }
        Store::Wgpu(buffer) => clear(block, buffer),
        Store::Cpu(words) => {
            words.zero(block.bytes());
            Ok(())
        }
    }
}

fn queue_write(block: &Arc<Block>, buffer: &wgpu::Buffer, start: u64, data: &[u8]) -> Result<()> {
    let shared = block.shared();
    let padded = (data.len() as u64).next_multiple_of(4);
    let Some(size) = wgpu::BufferSize::new(padded) else { return Ok(()) };
    let scopes = shared.gpu().scopes();
    let view = shared.queue().write_buffer_with(buffer, start, size);
    scopes.pop(|| format!("a write of {padded} bytes"), padded)?;
    let Some(mut view) = view else {
        shared.probe();
        shared.lost().check()?;
        return Err(Error::internal(format!("wgpu gave no room to write {padded} bytes")));
    };
    view.slice(..data.len()).copy_from_slice(data);
    for pad in data.len()..view.len() {
        view.slice(pad..=pad).copy_from_slice(&[0]);
    }
    shared.submitter().write(view, block)
}

fn clear(block: &Arc<Block>, buffer: &wgpu::Buffer) -> Result<()> {
    let gpu: &Gpu = block.shared().gpu();
    let scopes = gpu.scopes();
    let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("sortie zeros") });
    encoder.clear_buffer(buffer, 0, Some(block.bytes()));
    let commands = encoder.finish();
    scopes.pop(|| "the zeroing of recycled memory".into(), 0)?;
    block.shared().submitter().clear(commands);
    Ok(())
}
