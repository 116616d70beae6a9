//! The loop that turns waves into wgpu commands.
//!
//! Two walks over the plan in the same order: [`Encoding::resolve`] finds the bind groups (skipped when the buffers are those of the
//! last run), [`Encoding::run`] encodes. Invariant: both produce and consume group refs in the same sequence.

use std::{iter::Peekable, ops::Range, sync::Arc};

use smallvec::SmallVec;
use sortie_plan::{Access, Clear, Lane, Op, OpKind, PhysicalId, SlotId};

use super::{
    fill,
    frozen::Laid,
    groups::{Bound, GroupCache, GroupKey, GroupRef, Groups},
    open::{Commands, pipeline},
    plans::Resolved,
    stamps::Stamps,
};
use crate::{
    backend::wgpu::{kernel::WgpuKernel, layouts::Layout},
    device::Shared,
    error::Result,
    kernel::{GRID_BLOCK, fold},
    memory::Block,
    metrics::{Count, Counters},
    profile::What,
};

/// Everything the two walks look at.
pub(super) struct Encoding<'a> {
    pub(super) device: &'a wgpu::Device,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) laid: &'a Laid<'a>,
    /// By number.
    pub(super) kernels: &'a [&'a WgpuKernel],
    /// Present when scratch must be zeroed in the middle.
    pub(super) fill: Option<&'a WgpuKernel>,
    pub(super) upload: Option<&'a wgpu::Buffer>,
    pub(super) readback: Option<wgpu::Buffer>,
    /// Where timestamps go in it.
    pub(super) stamps_start: u64,
    pub(super) groups: &'a GroupCache,
    pub(super) counters: &'a Counters,
}

impl<'a> Encoding<'a> {
    /// Has `each` encode a submission, the last one or not, until one fails.
    pub(super) fn run(
        &self,
        resolved: &mut Resolved,
        mut stamps: Option<&mut Stamps>,
        mut each: impl FnMut(bool, &mut dyn FnMut() -> wgpu::CommandEncoder) -> Result<()>,
    ) -> Result<()> {
        let now = self.groups.tick();
        let fits = self.fits(resolved);
        let groups = if fits { Some(self.groups.read()).filter(|groups| groups.hold(&resolved.groups)) } else { None };
        let groups = match groups {
            Some(groups) => {
                self.counters.bind_group_hits.add(resolved.groups.len() as u64);
                groups
            }
            None => {
                let scopes = self.shared.gpu().scopes();
                let mut groups = self.groups.write();
                self.resolve(&mut groups, resolved, now);
                let groups = parking_lot::RwLockWriteGuard::downgrade(groups);
                scopes.pop(|| "a batch".into(), 0)?;
                groups
            }
        };
        let mut refs = resolved.groups.iter();
        let mut clears = self.laid.planned.plan.clears.iter().filter(|clear| !clear.first).peekable();
        for (number, part) in self.laid.parts.iter().enumerate() {
            let last = number + 1 == self.laid.parts.len();
            each(last, &mut || {
                let mut commands = Commands::new(self.device, &groups, now, stamps.as_deref_mut());
                commands.begin(number);
                if number == 0 {
                    self.prologue(&mut commands);
                }
                self.part(&mut commands, part.ops.range(), &mut clears, &mut refs);
                if last {
                    self.epilogue(&mut commands);
                }
                let mut encoder = commands.end(self.counters);
                if let Some(stamps) = stamps.as_deref().filter(|_| last) {
                    let period = self.shared.queue().get_timestamp_period();
                    stamps.read(&mut encoder, self.readback.as_ref(), self.stamps_start, period);
                }
                encoder
            })?;
        }
        Ok(())
    }

    /// A stretch of the order. Waves matter only to what must be zeroed between them.
    fn part<'r, 'c>(
        &self,
        commands: &mut Commands<'a, '_>,
        ops: Range<usize>,
        clears: &mut Peekable<impl Iterator<Item = &'c Clear>>,
        refs: &mut impl Iterator<Item = &'r GroupRef>,
    ) {
        let plan = &self.laid.planned.plan;
        let mut start = ops.start;
        let begins = |clear: &Clear| plan.waves[clear.wave as usize].ops.start as usize;
        while let Some(clear) = clears.next_if(|clear| begins(clear) < ops.end) {
            let before = start..begins(clear);
            start = before.end;
            self.ops(commands, &plan.order[before], refs);
            self.clear(commands, clear, plan.waves[clear.wave as usize].lane, refs);
        }
        self.ops(commands, &plan.order[start..ops.end], refs);
    }

    /// Whether the buffers are those of the last run.
    fn fits(&self, resolved: &Resolved) -> bool {
        let blocks = &self.laid.payload.blocks;
        resolved.buffers.len() == blocks.len()
            && resolved.params == self.laid.params.map(Block::id)
            && blocks
                .iter()
                .zip(&resolved.buffers)
                .all(|(block, id)| block.as_ref().is_none_or(|block| block.id() == *id))
    }

    /// Finds all bind groups.
    fn resolve(&self, groups: &mut Groups, resolved: &mut Resolved, now: u64) {
        let plan = &self.laid.planned.plan;
        let recording = &self.laid.planned.recording;
        resolved.groups.clear();
        resolved.buffers.clear();
        // A slot that no op uses has no buffer; any id will do.
        let unused = crate::memory::BufferId(0);
        resolved
            .buffers
            .extend(self.laid.payload.blocks.iter().map(|block| block.as_ref().map_or(unused, |block| block.id())));
        resolved.params = self.laid.params.map(Block::id);
        let mut clears = plan.clears.iter().filter(|clear| !clear.first).peekable();
        for (index, wave) in plan.waves.iter().enumerate() {
            while let Some(clear) = clears.next_if(|clear| clear.wave as usize <= index) {
                if let Some(fill) = self.clears_in_pass(clear, wave.lane) {
                    let block = self.physical(clear.physical);
                    let bound = Bound { buffer: block.id(), offset: 0, bytes: clear.bytes };
                    resolved.groups.push(self.find(groups, &fill.groups()[0].layout, &[(bound, block)], now));
                }
            }
            for op in &plan.order[wave.ops.range()] {
                let op = &recording.ops[*op as usize];
                if op.lane == Lane::Compute && runs(op) {
                    self.resolve_op(groups, resolved, op, recording.accesses_of(op), now);
                }
            }
        }
    }

    fn resolve_op(&self, groups: &mut Groups, resolved: &mut Resolved, op: &Op, accesses: &[Access], now: u64) {
        let kernel = self.kernels[op.kernel as usize];
        for group in kernel.groups() {
            let bound: SmallVec<[_; 8]> =
                accesses[group.bindings.clone()].iter().map(|access| self.bound(op, access)).collect();
            resolved.groups.push(self.find(groups, &group.layout, &bound, now));
        }
        let pipeline = pipeline(kernel, op.params[1] > 0);
        if let (Some(hidden), Some(params)) = (&pipeline.hidden, self.laid.params) {
            let sizes = hidden.immediates.into_iter().chain(hidden.grid.then_some(GRID_BLOCK));
            let bound: SmallVec<[_; 2]> = sizes
                .map(|bytes| (Bound { buffer: params.id(), offset: 0, bytes: bytes.next_multiple_of(4) }, params))
                .collect();
            resolved.groups.push(self.find(groups, &hidden.layout, &bound, now));
        }
    }

    fn bound(&self, op: &Op, access: &Access) -> (Bound, &Block) {
        let block = self.block(access);
        let offset = match op.kind {
            // A fill starts anywhere; its binding starts at the alignment before it.
            OpKind::Fill => access.start - access.start % u64::from(self.shared.limits().slice_alignment),
            _ => access.start,
        };
        (Bound { buffer: block.id(), offset, bytes: access.end - offset }, block)
    }

    fn find(&self, groups: &mut Groups, layout: &Layout, bound: &[(Bound, &Block)], now: u64) -> GroupRef {
        let key = GroupKey { layout: layout.id(), bound: bound.iter().map(|(bound, _)| *bound).collect() };
        let blocks: SmallVec<[&Block; 8]> = bound.iter().map(|(_, block)| *block).collect();
        self.groups.find(groups, self.device, key, layout, &blocks, now)
    }

    /// What a run of a replay asks for.
    fn epilogue(&self, commands: &mut Commands<'a, '_>) {
        for port in self.laid.outputs() {
            let readback = self.readback.as_ref().unwrap_or_else(|| unreachable!("a read has room"));
            self.counters.bytes_read.add(port.bytes);
            let from = self.slot(port.slot);
            commands.transfer().copy_buffer_to_buffer(from.buffer(), 0, readback, port.start, port.bytes);
            commands.did(What::Other("output of the run"));
        }
    }

    /// Parameters, zeros for scratch that was used before, and what a run of a replay brings.
    fn prologue(&self, commands: &mut Commands<'a, '_>) {
        if let (Some(params), Some(upload)) = (self.laid.params, self.upload) {
            let start = self.laid.payload.uploads.len() as u64;
            commands.transfer().copy_buffer_to_buffer(
                upload,
                start,
                params.buffer(),
                0,
                u64::from(self.laid.planned.plan.params_bytes),
            );
            commands.did(What::Other("parameters"));
        }
        for clear in self.laid.planned.plan.clears.iter().filter(|clear| clear.first) {
            let block = self.physical(clear.physical);
            if !block.fresh() {
                commands.transfer().clear_buffer(block.buffer(), 0, Some(clear.bytes.next_multiple_of(4)));
                commands.did(ZEROING);
            }
        }
        for port in self.laid.inputs() {
            let upload = self.upload.unwrap_or_else(|| unreachable!("an input has data"));
            let (to, start) = (self.slot(port.slot), self.laid.data_start() + port.start);
            commands.transfer().copy_buffer_to_buffer(upload, start, to.buffer(), 0, port.bytes);
            commands.did(What::Other("input of the run"));
        }
    }

    /// The fill kernel, where zeroing by dispatch keeps a pass open. Its immediates have no place in the parameter buffer.
    fn clears_in_pass(&self, clear: &Clear, lane: Lane) -> Option<&'a WgpuKernel> {
        let bound = clear.bytes <= self.shared.limits().binding_bytes;
        self.fill.filter(|fill| bound && lane == Lane::Compute && fill.hidden_immediates() == 0)
    }

    fn clear<'r>(
        &self,
        commands: &mut Commands<'a, '_>,
        clear: &Clear,
        lane: Lane,
        refs: &mut impl Iterator<Item = &'r GroupRef>,
    ) {
        let bytes = clear.bytes.next_multiple_of(4);
        match self.clears_in_pass(clear, lane) {
            Some(kernel) => {
                let words =
                    u32::try_from(bytes / 4).unwrap_or_else(|_| unreachable!("a binding is shorter than 16 GiB"));
                commands.pipeline(kernel, false);
                commands.group(0, next(refs));
                commands.brief_immediates(&fill::immediates(0, words, &[0; 4]));
                commands.dispatch(fill::grid(words, self.shared.limits().groups));
            }
            None => commands.transfer().clear_buffer(self.physical(clear.physical).buffer(), 0, Some(bytes)),
        }
        commands.did(ZEROING);
    }

    #[inline]
    fn ops<'r>(&self, commands: &mut Commands<'a, '_>, order: &[u32], refs: &mut impl Iterator<Item = &'r GroupRef>) {
        for index in order {
            let op = &self.laid.planned.recording.ops[*index as usize];
            match op.lane {
                Lane::Compute if runs(op) => self.dispatch(commands, *index as usize, op, refs),
                // An op of length 0 touches nothing, and does not close the pass either.
                Lane::Transfer if op.accesses.len > 0 => self.transfer(commands, op),
                // A grid of zero, too.
                Lane::Compute | Lane::Transfer => continue,
            }
            commands.did(What::Op(*index));
        }
    }

    fn transfer(&self, commands: &mut Commands<'a, '_>, op: &Op) {
        let accesses = self.laid.planned.recording.accesses_of(op);
        let encoder = commands.transfer();
        match (op.kind, accesses) {
            (OpKind::Copy, [from, to]) => {
                encoder.copy_buffer_to_buffer(
                    self.block(from).buffer(),
                    from.start,
                    self.block(to).buffer(),
                    to.start,
                    to.end - to.start,
                );
            }
            (OpKind::Fill, [to]) => encoder.clear_buffer(self.block(to).buffer(), to.start, Some(to.end - to.start)),
            (OpKind::Write, [to]) => {
                let upload = self.upload.unwrap_or_else(|| unreachable!("a write has data"));
                encoder.copy_buffer_to_buffer(
                    upload,
                    u64::from(op.data.start),
                    self.block(to).buffer(),
                    to.start,
                    to.end - to.start,
                );
            }
            (OpKind::Read, [from]) => {
                let readback = self.readback.as_ref().unwrap_or_else(|| unreachable!("a read has room"));
                let bytes = from.end - from.start;
                self.counters.bytes_read.add(bytes);
                encoder.copy_buffer_to_buffer(
                    self.block(from).buffer(),
                    from.start,
                    readback,
                    u64::from(op.data.start),
                    bytes,
                );
            }
            (kind, accesses) => unreachable!("{kind:?} with {} accesses", accesses.len()),
        }
    }

    #[inline]
    fn dispatch<'r>(
        &self,
        commands: &mut Commands<'a, '_>,
        index: usize,
        op: &Op,
        refs: &mut impl Iterator<Item = &'r GroupRef>,
    ) {
        let kernel = self.kernels[op.kernel as usize];
        let wrapped = op.params[1] > 0;
        let pipeline = commands.pipeline(kernel, wrapped);
        for group in kernel.groups() {
            commands.group(group.number, next(refs));
        }
        if pipeline.immediates {
            commands.immediates(&self.laid.payload.immediates[op.data.range()]);
        }
        if let Some(hidden) = &pipeline.hidden {
            let [immediates, grid] = self.laid.planned.plan.params[index];
            let offsets: SmallVec<[u32; 2]> =
                hidden.immediates.map(|_| immediates).into_iter().chain(hidden.grid.then_some(grid)).collect();
            commands.hidden(hidden.number, next(refs), &offsets);
        }
        if let Some(from) = op.indirect.then(|| self.laid.planned.recording.accesses_of(op).last()).flatten() {
            commands.dispatch_indirect(self.block(from), from.start);
        } else if wrapped {
            commands.dispatch(folded(op, self.shared.limits().groups));
        } else {
            commands.dispatch(op.grid);
        }
    }

    fn block(&self, access: &Access) -> &Block {
        self.slot(access.slot)
    }

    fn slot(&self, slot: SlotId) -> &Block {
        let block = self.laid.payload.blocks[slot.0 as usize].as_ref();
        block.unwrap_or_else(|| unreachable!("a slot in use has a block"))
    }

    fn physical(&self, id: PhysicalId) -> &Block {
        &self.laid.physical[id.0 as usize]
    }
}

/// A grid of zero is a no-op.
fn runs(op: &Op) -> bool {
    op.indirect || op.grid.iter().all(|groups| *groups > 0)
}

fn next<'r>(refs: &mut impl Iterator<Item = &'r GroupRef>) -> GroupRef {
    *refs.next().unwrap_or_else(|| unreachable!("both walks see the same groups"))
}

/// What to dispatch for a grid over the limit, or a share of one.
pub(super) fn folded(op: &Op, most: u32) -> [u32; 3] {
    let groups = if op.share.len > 0 { [u64::from(op.share.len), 1, 1] } else { op.grid.map(u64::from) };
    fold(groups, most).unwrap_or_else(|| unreachable!("checked while recording")).dispatch
}

/// What a profile calls it.
const ZEROING: What = What::Other("zeroing of scratch");
