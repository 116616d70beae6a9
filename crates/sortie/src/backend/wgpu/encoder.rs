//! The wgpu interpreter: encodes the steps of a plan.
//!
//! There are two passes over the steps in the same order. `bindings.rs` finds the bind groups (skipped when the buffers
//! are those of the last run), then [`PlanEncoder::run`] encodes. Invariant: both produce and consume group refs in the
//! same sequence.

use std::slice;

use smallvec::SmallVec;
use sortie_plan::{Dispatch, Fill, Groups as Workgroups, Lane, MemoryId, Port, SlotId, Step, StepId, Zero};

use super::{
    Gpu, WgpuKernel,
    bind_groups::{BindGroupCache, BindGroupRef, BoundGroups},
    fill,
    pass::PassEncoder,
    timestamps::TimestampWriter,
};
use crate::{
    backend::interpret::{Interpreter, interpret},
    error::Result,
    info::Limits,
    metrics::{AtomicCounter, Counters},
    plan::PlacedPlan,
};

/// The input of both passes.
pub(super) struct PlanEncoder<'a> {
    pub(super) gpu: &'a Gpu,
    /// Nanoseconds per tick of the device's timestamps.
    pub(super) timestamp_period: f32,
    pub(super) limits: &'a Limits,
    pub(super) placed: &'a PlacedPlan<'a>,
    /// By memory; `None` for a slot that nothing uses.
    pub(super) buffers: &'a [Option<&'a wgpu::Buffer>],
    /// By number.
    pub(super) kernels: &'a [&'a WgpuKernel],
    /// Set if the plan uses it.
    pub(super) fill: Option<&'a WgpuKernel>,
    pub(super) upload: Option<&'a wgpu::Buffer>,
    pub(super) readback: Option<wgpu::Buffer>,
    /// Offset of the timestamps in it.
    pub(super) stamps_start: u64,
    pub(super) groups: &'a BindGroupCache,
    pub(super) counters: &'a Counters,
}

impl<'a> PlanEncoder<'a> {
    /// Calls `each` for each submission, with whether it is the last one and a function that encodes it, until one
    /// fails.
    pub(super) fn run(
        &self,
        bound_groups: &mut BoundGroups,
        mut stamps: Option<&mut TimestampWriter>,
        mut each: impl FnMut(bool, &mut dyn FnMut(&mut wgpu::CommandEncoder) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let now = self.groups.tick();
        let matches = self.matches(bound_groups);
        let groups = if matches {
            Some(self.groups.read()).filter(|groups| groups.contains_all(&bound_groups.groups))
        } else {
            None
        };
        let groups = match groups {
            Some(groups) => {
                self.counters.bind_group_hits.add(bound_groups.groups.len() as u64);
                groups
            }
            None => {
                let scopes = self.gpu.scopes();
                let mut groups = self.groups.write();
                self.resolve(&mut groups, bound_groups, now)?;
                let groups = parking_lot::RwLockWriteGuard::downgrade(groups);
                scopes.pop(|| "a batch".into(), 0)?;
                groups
            }
        };
        let mut refs = bound_groups.groups.iter();
        for (number, cut) in self.placed.cuts.iter().enumerate() {
            let last = number + 1 == self.placed.cuts.len();
            each(last, &mut |into| {
                let mut commands = PassEncoder::new(into, &groups, now, stamps.as_deref_mut());
                commands.begin(number);
                let mut encoder = StepEncoder { of: self, commands, refs: &mut refs };
                interpret(self.placed, cut, &mut encoder)?;
                encoder.commands.end(self.counters);
                if let Some(stamps) = stamps.as_deref().filter(|_| last) {
                    stamps.read(into, self.readback.as_ref(), self.stamps_start, self.timestamp_period);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// A fill starts anywhere; its binding starts at the alignment before it.
    pub(super) fn aligned(&self, start: u64) -> u64 {
        start - start % u64::from(self.limits.slice_alignment)
    }

    /// The fill kernel, if the fill has a pattern.
    pub(super) fn fills_in_pass(&self, fill: &Fill) -> Option<&'a WgpuKernel> {
        self.fill.filter(|_| fill.lane() == Lane::Compute)
    }

    /// The fill kernel, if zeroing by dispatch keeps a pass open. The parameter buffer has no room for its immediates,
    /// so they must be native.
    pub(super) fn zeroes_in_pass(&self, zero: &Zero) -> Option<&'a WgpuKernel> {
        let bound = !zero.first && zero.bytes <= self.limits.binding_bytes;
        self.fill.filter(|fill| {
            bound && zero.lane == Lane::Compute && fill.pipeline(false).is_some_and(|fill| fill.hidden.is_none())
        })
    }
}

/// Encodes one submission.
struct StepEncoder<'e, 'a, 's, 'r> {
    of: &'e PlanEncoder<'a>,
    commands: PassEncoder<'e, 's>,
    /// The groups still to be set.
    refs: &'e mut slice::Iter<'r, BindGroupRef>,
}

impl Interpreter for StepEncoder<'_, '_, '_, '_> {
    #[inline]
    fn step(&mut self, step: Step) -> Result<()> {
        let placed = self.of.placed;
        let plan = placed.plan();
        match step {
            Step::Dispatch(id) => self.dispatch(&plan[id]),
            Step::Params => {
                let start = placed.resources.uploads.len() as u64;
                self.copy(self.upload(), start, self.memory(plan.params_memory()), 0, plan.params_bytes.into());
            }
            Step::Zero(id) => self.zero(&plan[id]),
            Step::Input(id) => {
                let port = id.of(&placed.planned.recording.inputs);
                self.copy(self.upload(), placed.data_start() + port.start, self.buffer(port.slot), 0, port.bytes);
            }
            Step::Copy(id) => {
                let (from, to) = (&plan[id].from, &plan[id].to);
                let bytes = to.end - to.start;
                self.copy(self.buffer(from.slot), from.start, self.buffer(to.slot), to.start, bytes);
            }
            Step::Fill(id) => self.fill(&plan[id]),
            Step::Write(id) => {
                let (to, data) = (&plan[id].to, plan[id].data);
                self.copy(self.upload(), data.start.into(), self.buffer(to.slot), to.start, to.end - to.start);
            }
            Step::Read(id) => {
                let (from, to) = (&plan[id].from, plan[id].to);
                self.read(self.buffer(from.slot), from.start, to.start.into(), from.end - from.start);
            }
            Step::Output(id) => {
                let Port { slot, start, bytes } = id.of(&placed.planned.recording.outputs);
                self.read(self.buffer(slot), 0, start, bytes);
            }
            // wgpu inserts its own barriers.
            Step::Barrier(_) => {}
        }
        Ok(())
    }

    #[inline]
    fn executed(&mut self, step: StepId) {
        self.commands.executed(step);
    }
}

impl<'e> StepEncoder<'e, '_, '_, '_> {
    #[inline]
    fn dispatch(&mut self, dispatch: &Dispatch) {
        let placed = self.of.placed;
        let kernel = self.of.kernels[dispatch.kernel.0 as usize];
        let pipeline = self.commands.pipeline(kernel, is_wrapped(dispatch));
        for group in kernel.groups() {
            let named = self.next();
            self.commands.group(group.number, named);
        }
        if pipeline.immediates {
            self.commands.immediates(&placed.resources.immediates[dispatch.immediates.range()]);
        }
        if let Some(hidden) = &pipeline.hidden {
            let at = dispatch.hidden;
            let offsets: SmallVec<[u32; 2]> =
                hidden.immediates.map(|_| at.immediates).into_iter().chain(hidden.grid.then_some(at.grid)).collect();
            let named = self.next();
            self.commands.hidden(hidden.number, named, &offsets);
        }
        match &dispatch.groups {
            Workgroups::Direct(groups) | Workgroups::Wrapped(groups) => self.commands.dispatch(*groups),
            Workgroups::Indirect(id) => {
                let from = &placed.planned.recording.accesses[id.0 as usize];
                self.commands.dispatch_indirect(self.buffer(from.slot), from.start);
            }
        }
    }

    fn fill(&mut self, fill: &Fill) {
        let Some(kernel) = self.of.fills_in_pass(fill) else {
            let (to, start, bytes) = (self.buffer(fill.to.slot), fill.to.start, fill.to.end - fill.to.start);
            self.commands.transfer().clear_buffer(to, start, Some(bytes));
            return;
        };
        let start = fill.to.start - self.of.aligned(fill.to.start);
        let pattern = &self.of.placed.resources.immediates[fill.pattern.range()];
        self.run_fill(kernel, start, fill.to.end - fill.to.start, pattern, fill.hidden_immediates);
    }

    fn zero(&mut self, zero: &Zero) {
        let bytes = zero.bytes.next_multiple_of(4);
        match self.of.zeroes_in_pass(zero) {
            Some(kernel) => self.run_fill(kernel, 0, bytes, &[0; 4], 0),
            None => {
                let buffer = self.memory(zero.memory);
                self.commands.transfer().clear_buffer(buffer, 0, Some(bytes));
            }
        }
    }

    /// Runs the fill kernel over bytes of its binding.
    fn run_fill(&mut self, kernel: &'e WgpuKernel, start: u64, bytes: u64, pattern: &[u8], hidden_at: u32) {
        let (start, count) = (fill::words(start), fill::words(bytes));
        let pipeline = self.commands.pipeline(kernel, false);
        let named = self.next();
        self.commands.group(0, named);
        if let Some(hidden) = &pipeline.hidden {
            let named = self.next();
            self.commands.hidden(hidden.number, named, &[hidden_at]);
        } else {
            self.commands.brief_immediates(&fill::immediates(start, count, pattern));
        }
        self.commands.dispatch(fill::grid(count, self.of.limits.groups));
    }

    fn copy(&mut self, from: &wgpu::Buffer, from_start: u64, to: &wgpu::Buffer, to_start: u64, bytes: u64) {
        self.commands.transfer().copy_buffer_to_buffer(from, from_start, to, to_start, bytes);
    }

    fn read(&mut self, from: &wgpu::Buffer, start: u64, to: u64, bytes: u64) {
        let of = self.of;
        let readback = of.readback.as_ref().unwrap_or_else(|| unreachable!("a read has room"));
        of.counters.bytes_read.add(bytes);
        self.copy(from, start, readback, to, bytes);
    }

    fn upload(&self) -> &'e wgpu::Buffer {
        self.of.upload.unwrap_or_else(|| unreachable!("what is uploaded has data"))
    }

    /// The buffer of a slot.
    fn buffer(&self, slot: SlotId) -> &'e wgpu::Buffer {
        self.memory(self.of.placed.plan().memory_of(slot))
    }

    fn memory(&self, memory: MemoryId) -> &'e wgpu::Buffer {
        self.of.buffers[memory.0 as usize].unwrap_or_else(|| unreachable!("memory in use has a buffer"))
    }

    #[inline]
    fn next(&mut self) -> BindGroupRef {
        *self.refs.next().unwrap_or_else(|| unreachable!("both walks see the same groups"))
    }
}

pub(super) fn is_wrapped(dispatch: &Dispatch) -> bool {
    matches!(dispatch.groups, Workgroups::Wrapped(_))
}
