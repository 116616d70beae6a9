//! Writes from the host to memory of a wgpu device, outside batches.
//!
//! All writes go through the submit queue, because a queue write would jump ahead of unsubmitted work.

use std::sync::Arc;

use super::{backend::WgpuBackend, buffer, commands::WgpuWrite};
use crate::{
    error::{Error, Result},
    memory::Block,
    submit::WriteTarget,
};

/// Recycled memory up to this size is zeroed by a queue write, which goes with the next submission. Larger memory is
/// cleared on the device by its own submission, which saves copying the zeros there.
const ZEROED_BY_WRITE: u64 = 64 << 10;

/// Larger writes are copied by their own submission, from our own staging buffer. If that cannot be allocated, the
/// write returns an error; wgpu would lose the device if its own staging buffer could not be allocated.
const QUEUED: usize = 1 << 20;
/// Bytes of an upload that are staged at a time.
const PIECE: usize = 8 << 20;

impl WgpuBackend {
    /// Writes data to memory that no batch has used yet.
    pub(super) fn upload_block(&self, block: &Arc<Block>, data: &[u8]) -> Result<()> {
        // Piece by piece: no other work can see a half-written buffer.
        let mut pieces = (0_u64..).step_by(PIECE).zip(data.chunks(PIECE));
        pieces.try_for_each(|(start, piece)| self.write_block(block, start, piece, false))
    }

    /// Overwrites memory in order with the submissions, padded with zeros to 4 bytes. `whole`: it overwrites all of the
    /// block.
    pub(super) fn write_block(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()> {
        match data.len() {
            ..=QUEUED => self.queue_write(block, start, data, whole),
            _ => self.copy_in(block, start, data, whole),
        }
    }

    /// Zeroes recycled memory that no batch has used yet.
    pub(super) fn zero_block(&self, block: &Arc<Block>) -> Result<()> {
        static ZEROS: [u8; ZEROED_BY_WRITE as usize] = [0; ZEROED_BY_WRITE as usize];
        match block.bytes() {
            bytes @ ..=ZEROED_BY_WRITE => {
                self.queue_write(block, 0, &ZEROS[..usize::try_from(bytes).unwrap_or(ZEROS.len())], false)
            }
            _ => self.clear(block),
        }
    }

    fn copy_in(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()> {
        let (gpu, target) = (&self.gpu, buffer(block)?);
        let padded = (data.len() as u64).next_multiple_of(4);
        self.submitter.make_room(padded);
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
            .map_err(|error| Error::internal("wgpu returned no staging memory").caused_by(error))?;
        view.slice(..data.len()).copy_from_slice(data);
        drop(view);
        let scopes = gpu.scopes();
        staging.unmap();
        let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("sortie write") });
        encoder.copy_buffer_to_buffer(&staging, 0, target, start, padded);
        let commands = encoder.finish();
        scopes.pop(|| format!("a write of {padded} bytes"), padded)?;
        self.submitter.write_in_order(WgpuWrite::Copy(commands, padded), padded, WriteTarget::new(block, whole))
    }

    fn queue_write(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()> {
        let target = buffer(block)?;
        let padded = (data.len() as u64).next_multiple_of(4);
        let Some(size) = wgpu::BufferSize::new(padded) else { return Ok(()) };
        self.submitter.make_room(padded);
        let scopes = self.gpu.scopes();
        let view = self.queue.write_buffer_with(target, start, size);
        scopes.pop(|| format!("a write of {padded} bytes"), padded)?;
        let Some(mut view) = view else {
            self.lost.probe(&self.gpu);
            self.lost.check()?;
            return Err(Error::internal(format!("wgpu returned no staging memory for {padded} bytes")));
        };
        view.slice(..data.len()).copy_from_slice(data);
        for pad in data.len()..view.len() {
            view.slice(pad..=pad).copy_from_slice(&[0]);
        }
        self.submitter.write_in_order(WgpuWrite::View(view), padded, WriteTarget::new(block, whole))
    }

    fn clear(&self, block: &Arc<Block>) -> Result<()> {
        let target = buffer(block)?;
        let scopes = self.gpu.scopes();
        let descriptor = wgpu::CommandEncoderDescriptor { label: Some("sortie zeros") };
        let mut encoder = self.gpu.create_command_encoder(&descriptor);
        encoder.clear_buffer(target, 0, Some(block.bytes()));
        let commands = encoder.finish();
        scopes.pop(|| "the zeroing of recycled memory".into(), 0)?;
        self.submitter.queue_write(WgpuWrite::Clear(commands));
        Ok(())
    }
}
