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

/// More than this is copied by a submission of its own, out of a buffer of ours: one that cannot be had is an error, where wgpu would lose the device for want of its own.
const QUEUED: usize = 1 << 20;
/// Bytes of an upload that are staged at a time.
const PIECE: usize = 8 << 20;

/// Puts data into memory that nobody has seen yet.
pub(super) fn upload(block: &Arc<Block>, data: &[u8]) -> Result<()> {
    match block.store() {
        // Piece by piece: nobody can see half of it.
        Store::Wgpu(buffer) => (0_u64..)
            .step_by(PIECE)
            .zip(data.chunks(PIECE))
            .try_for_each(|(start, piece)| write_through(block, buffer, start, piece, false)),
        Store::Cpu(words) => {
            words.write(0, data);
            Ok(())
        }
    }
}

/// Overwrites memory in order with the flights, padded with zeros to 4 bytes. `whole` says that it overwrites all of it.
pub(super) fn write(block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()> {
    match block.store() {
        Store::Wgpu(buffer) => write_through(block, buffer, start, data, whole),
        Store::Cpu(words) => block.shared().submitter().store(block, words, start, data, whole),
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
            queue_write(block, buffer, 0, &ZEROS[..usize::try_from(block.bytes()).unwrap_or(ZEROS.len())], false)
        }
        Store::Wgpu(buffer) => clear(block, buffer),
        Store::Cpu(words) => {
            words.zero(block.bytes());
            Ok(())
        }
    }
}

fn write_through(block: &Arc<Block>, buffer: &wgpu::Buffer, start: u64, data: &[u8], whole: bool) -> Result<()> {
    match data.len() {
        ..=QUEUED => queue_write(block, buffer, start, data, whole),
        _ => copy_in(block, buffer, start, data, whole),
    }
}

fn copy_in(block: &Arc<Block>, buffer: &wgpu::Buffer, start: u64, data: &[u8], whole: bool) -> Result<()> {
    let shared = block.shared();
    let (gpu, submitter) = (shared.gpu(), shared.submitter());
    let padded = (data.len() as u64).next_multiple_of(4);
    submitter.make_room(padded);
    let scopes = gpu.scopes();
    let staging = gpu.create_buffer(&wgpu::BufferDescriptor {
        label: Some("sortie write"),
        size: padded,
        usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
        mapped_at_creation: true,
    });
    scopes.pop(|| format!("a write of {padded} bytes"), padded)?;
    let mut view = staging
        .get_mapped_range_mut(..)
        .map_err(|error| Error::internal("wgpu gave no room to write to").caused_by(error))?;
    view.slice(..data.len()).copy_from_slice(data);
    drop(view);
    let scopes = gpu.scopes();
    staging.unmap();
    let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("sortie write") });
    encoder.copy_buffer_to_buffer(&staging, 0, buffer, start, padded);
    let commands = encoder.finish();
    scopes.pop(|| format!("a write of {padded} bytes"), padded)?;
    submitter.copy_in(commands, padded, block, whole)
}

fn queue_write(block: &Arc<Block>, buffer: &wgpu::Buffer, start: u64, data: &[u8], whole: bool) -> Result<()> {
    let shared = block.shared();
    let padded = (data.len() as u64).next_multiple_of(4);
    let Some(size) = wgpu::BufferSize::new(padded) else { return Ok(()) };
    shared.submitter().make_room(padded);
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
    shared.submitter().write(view, block, whole)
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

/// A copy on the host, or an error where there is no memory for it: what users choose the size of must not end the process.
pub(crate) fn copy<T: bytemuck::Pod>(data: &[T]) -> Result<Vec<T>> {
    let mut copied = with_capacity(data.len())?;
    copied.extend_from_slice(data);
    Ok(copied)
}

/// Elements out of bytes, which need not be aligned.
pub(crate) fn collect<T: bytemuck::Pod>(bytes: &[u8]) -> Result<Vec<T>> {
    if let Ok(elements) = bytemuck::try_cast_slice(bytes) {
        return copy(elements);
    }
    let mut elements = with_capacity(bytes.len() / size_of::<T>().max(1))?;
    elements.extend(bytes.chunks_exact(size_of::<T>().max(1)).map(bytemuck::pod_read_unaligned::<T>));
    Ok(elements)
}

/// An empty list with room for `len` elements.
pub(crate) fn with_capacity<T>(len: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    Error::reserve(&mut list, len)?;
    Ok(list)
}
