//! Indirect grids of native replays: checked on the device before each run of the dispatch, as wgpu checks them.
//!
//! Vulkan leaves it undefined what a grid over the device's limit does. A kernel copies the counts to memory of the
//! recording, and zeros in place of a grid that is too large; the dispatch takes them from there.
//!
//! Invariant: each indirect dispatch of a recording has [`GRID_BYTES`] of its own in that memory.

use ash::vk;
use smallvec::SmallVec;
use sortie_plan::Access;

use super::{
    descriptors::SlotOffsets,
    unsuitable,
    writer::{CommandWriter, GridSource, Set},
};
use crate::{
    backend::wgpu::{BoundRange, WgpuKernel},
    error::Result,
    kernel::{ImmediatesAs, Kernel, Variant},
    plan::GRID_BYTES,
};

/// The kernel that checks a grid.
const SOURCE: &str = include_str!("../../../kernels/check_grid.wgsl");

/// Its immediates are native even where parameters are in memory: Vulkan always has some.
pub(super) const VARIANT: Variant = Variant { immediates: ImmediatesAs::Native, wrapped: false };

impl CommandWriter<'_> {
    /// The kernel that checks a grid.
    pub(super) fn grid_check(&self) -> Result<Kernel> {
        self.on.kernels.generated(SOURCE)
    }

    /// Checks a grid, and returns where the dispatch finds it.
    pub(super) fn checked_grid(&mut self, counts: &Access) -> Result<GridSource> {
        let grids = self.frozen.staged.grids.clone().ok_or_else(unsuitable)?;
        let to = u64::from(self.grids) * GRID_BYTES;
        self.grids += 1;
        let kernel = self.grid_check()?;
        let compiled = self.variant(&kernel, VARIANT)?;
        // Counts start anywhere; their binding starts at the alignment before them.
        let skipped = counts.start % u64::from(self.on.limits.slice_alignment);
        let buffer = self.buffer(&grids);
        let all = BoundRange { buffer: grids.id(), offset: 0, bytes: grids.bytes() };
        let from = self.place(&Access { start: counts.start - skipped, ..*counts });
        let places: SlotOffsets = [from, (all, buffer)].into_iter().collect();
        let group = &WgpuKernel::of(&kernel)?.groups()[0];
        let set = self.descriptors.set(self.into, &group.layout, compiled.sets[group.number as usize], &places)?;
        let sets: [Set; 1] = [(group.number, set, SmallVec::new())];
        let most = self.on.gpu.limits().max_compute_workgroups_per_dimension;
        let words = [word(skipped), word(to), most];
        self.run(&compiled, &sets, Some(bytemuck::cast_slice(&words)), GridSource::Direct([1; 3]));
        self.barrier_before_grids();
        Ok(GridSource::Memory(buffer, to))
    }

    /// Grids written by dispatches are seen by indirect dispatches.
    fn barrier_before_grids(&self) {
        let memory = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::INDIRECT_COMMAND_READ);
        let [from, to] = [vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::DRAW_INDIRECT];
        let flags = vk::DependencyFlags::empty();
        // SAFETY: the commands are being recorded, outside of any render pass.
        unsafe { self.into.device.cmd_pipeline_barrier(self.commands, from, to, flags, &[memory], &[], &[]) };
    }
}

/// An offset in words.
fn word(bytes: u64) -> u32 {
    u32::try_from(bytes / 4).unwrap_or_else(|_| unreachable!("offsets are within a binding"))
}
