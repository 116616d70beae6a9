//! The loop that turns waves into wgpu commands.
//!
//! Two walks over the plan in the same order: [`Encoding::resolve`] finds the bind groups (skipped when the buffers are those of the
//! last run), [`Encoding::run`] encodes. Invariant: both produce and consume group refs in the same sequence.

use std::{
    iter::Peekable,
    ops::Range,
    sync::{Arc, atomic::AtomicU64},
};

use smallvec::SmallVec;
use sortie_plan::{Access, Clear, Lane, Op, OpKind, PhysicalId, SlotId};

use super::{
    fill,
    frozen::Laid,
    groups::{Bound, GroupCache, GroupKey, GroupRef, Groups},
    plans::Resolved,
    stamps::Stamps,
};
use crate::{
    device::Shared,
    error::Result,
    kernel::{GRID_BLOCK, Kernel, Layout, Pipeline, fold},
    memory::Block,
    metrics::{Count, Counters},
    profile::What,
};

/// Everything the two walks look at.
pub(super) struct Encoding<'a> {
    pub(super) device: &'a wgpu::Device,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) laid: &'a Laid<'a>,
    /// Present when scratch must be zeroed in the middle.
    pub(super) fill: Option<&'a Kernel>,
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
        let kernel = &self.laid.payload.kernels[op.kernel as usize];
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
    fn clears_in_pass(&self, clear: &Clear, lane: Lane) -> Option<&'a Kernel> {
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
                commands.immediates = &[];
                commands.pass().set_immediates(0, &fill::immediates(0, words, &[0; 4]));
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
        let kernel = &self.laid.payload.kernels[op.kernel as usize];
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

fn pipeline(kernel: &Kernel, wrapped: bool) -> &Pipeline {
    kernel.compiled(wrapped).unwrap_or_else(|| unreachable!("pipelines are compiled before encoding"))
}

/// What to dispatch for a grid over the limit, or a share of one.
pub(super) fn folded(op: &Op, most: u32) -> [u32; 3] {
    let groups = if op.share.len > 0 { [u64::from(op.share.len), 1, 1] } else { op.grid.map(u64::from) };
    fold(groups, most).unwrap_or_else(|| unreachable!("checked while recording")).dispatch
}

/// What a profile calls it.
const ZEROING: What = What::Other("zeroing of scratch");

/// One encoder and its open pass, with what is set in it: setting the same again would cost wgpu's time for nothing.
struct Commands<'a, 's> {
    encoder: wgpu::CommandEncoder,
    pass: Option<wgpu::ComputePass<'static>>,
    groups: &'a Groups,
    now: u64,
    pipeline: Option<((u64, bool), &'a Pipeline)>,
    set: [GroupRef; SET],
    /// Those of the last dispatch, while its pipeline is set.
    immediates: &'a [u8],
    passes: u64,
    dispatches: u64,
    transfers: u64,
    /// Where somebody wants to know what takes how long.
    stamps: Option<&'s mut Stamps>,
}

/// Group numbers whose state is remembered; devices have 4 to 8.
const SET: usize = 8;

impl<'a, 's> Commands<'a, 's> {
    fn new(device: &wgpu::Device, groups: &'a Groups, now: u64, stamps: Option<&'s mut Stamps>) -> Self {
        Self {
            encoder: device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("sortie") }),
            pass: None,
            groups,
            now,
            pipeline: None,
            set: [GroupRef::NONE; SET],
            immediates: &[],
            passes: 0,
            dispatches: 0,
            transfers: 0,
            stamps,
        }
    }

    /// It is for this submission of the batch.
    fn begin(&mut self, part: usize) {
        if let Some(stamps) = &mut self.stamps {
            stamps.begin(part);
        }
    }

    /// This has just been encoded, in the open pass or outside.
    #[inline]
    fn did(&mut self, what: What) {
        if self.stamps.is_some() {
            self.stamp(what);
        }
    }

    /// Apart, so that encoding without a profile does not carry it along.
    #[cold]
    fn stamp(&mut self, what: What) {
        if let Some(stamps) = &mut self.stamps {
            match &mut self.pass {
                Some(pass) => stamps.ran_inside(what, pass),
                None => stamps.ran_outside(what, &mut self.encoder),
            }
        }
    }

    fn close(&mut self) {
        let open = self.pass.take().is_some();
        if let Some(stamps) = self.stamps.as_mut().filter(|_| open) {
            stamps.closed();
        }
    }

    /// The encoder, for one command outside a pass.
    fn transfer(&mut self) -> &mut wgpu::CommandEncoder {
        self.close();
        if let Some(stamps) = &mut self.stamps {
            stamps.outside(&mut self.encoder);
        }
        self.transfers += 1;
        &mut self.encoder
    }

    /// The open pass.
    #[inline]
    fn pass(&mut self) -> &mut wgpu::ComputePass<'static> {
        if self.pass.is_none() {
            self.open();
        }
        self.pass.as_mut().unwrap_or_else(|| unreachable!("just opened"))
    }

    fn open(&mut self) {
        self.passes += 1;
        self.pipeline = None;
        self.set = [GroupRef::NONE; SET];
        self.immediates = &[];
        let timestamp_writes = self.stamps.as_mut().and_then(|stamps| stamps.pass_writes());
        let descriptor = wgpu::ComputePassDescriptor { label: None, timestamp_writes };
        let mut pass = self.encoder.begin_compute_pass(&descriptor).forget_lifetime();
        if let Some(stamps) = &mut self.stamps {
            stamps.opened(&mut pass);
        }
        self.pass = Some(pass);
    }

    #[inline]
    fn pipeline(&mut self, kernel: &'a Kernel, wrapped: bool) -> &'a Pipeline {
        let wanted = (kernel.id(), wrapped);
        match self.pipeline {
            Some((set, pipeline)) if set == wanted && self.pass.is_some() => pipeline,
            _ => {
                let pipeline = pipeline(kernel, wrapped);
                self.pass().set_pipeline(&pipeline.raw);
                self.pipeline = Some((wanted, pipeline));
                // Another layout may have other immediates.
                self.immediates = &[];
                pipeline
            }
        }
    }

    #[inline]
    fn group(&mut self, number: u32, named: GroupRef) {
        if self.set.get(number as usize) == Some(&named) {
            return;
        }
        self.set_group(number, named, &[]);
        if let Some(set) = self.set.get_mut(number as usize) {
            *set = named;
        }
    }

    /// Hidden parameters differ from op to op by their offset.
    fn hidden(&mut self, number: u32, named: GroupRef, offsets: &[u32]) {
        self.set_group(number, named, offsets);
        if let Some(set) = self.set.get_mut(number as usize) {
            *set = GroupRef::NONE;
        }
    }

    #[inline]
    fn set_group(&mut self, number: u32, named: GroupRef, offsets: &[u32]) {
        let group =
            self.groups.get(named, self.now).unwrap_or_else(|| unreachable!("groups stay while the guard is held"));
        self.pass().set_bind_group(number, group, offsets);
    }

    #[inline]
    fn immediates(&mut self, bytes: &'a [u8]) {
        if self.immediates != bytes {
            self.immediates = bytes;
            self.pass().set_immediates(0, bytes);
        }
    }

    #[inline]
    fn dispatch(&mut self, [x, y, z]: [u32; 3]) {
        self.dispatches += 1;
        self.pass().dispatch_workgroups(x, y, z);
    }

    fn dispatch_indirect(&mut self, from: &Block, offset: u64) {
        self.dispatches += 1;
        self.pass().dispatch_workgroups_indirect(from.buffer(), offset);
    }

    fn end(mut self, counters: &Counters) -> wgpu::CommandEncoder {
        self.close();
        if let Some(stamps) = &mut self.stamps {
            stamps.end(&mut self.encoder);
        }
        let count = |counter: &AtomicU64, n| counter.add(n);
        count(&counters.passes, self.passes);
        count(&counters.dispatches, self.dispatches);
        count(&counters.transfers, self.transfers);
        self.encoder
    }
}
