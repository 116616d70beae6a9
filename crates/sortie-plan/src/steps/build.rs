//! Writes an ordered recording as steps.

use super::params::{Arena, ParamBlock};
use super::step::{
    AccessId, BarrierKind, Copy, CopyId, Dispatch, DispatchId, Fill, FillId, Groups, HiddenAt, MemoryId, OpId, PortId,
    Read, ReadId, Step, Write, WriteId, Zero, ZeroId,
};
use super::{Cut, Plan, fold};
use crate::order::{Memory, Schedule, Wave, Zeroing};
use crate::{Access, Caps, KernelIndex, Lane, Op, OpGrid, OpKind, Recording, Span};

pub(super) fn build(recording: &Recording, caps: &Caps, schedule: &Schedule, memory: Memory) -> Plan {
    let Memory { placement, scratch, zeroings } = memory;
    let ops = schedule.order.len();
    let first_scratch = index(placement.len());
    let memory = (0..).zip(&placement).map(|(slot, scratch)| MemoryId(scratch.map_or(slot, |at| first_scratch + at)));
    let mut builder = Builder {
        recording,
        caps,
        arena: Arena::new(caps.params_align),
        plan: Plan { memory: memory.collect(), scratch, ..Plan::default() },
        used: vec![[false; 2]; recording.kernels.len()],
        first_scratch,
        ops: 0,
        barriers: 0,
    };
    builder.plan.steps.reserve(2 * ops + 8);
    builder.plan.dispatches.reserve(ops);
    builder.sections(schedule, &zeroings);
    builder.finish()
}

struct Builder<'a> {
    recording: &'a Recording,
    caps: &'a Caps,
    arena: Arena,
    plan: Plan,
    /// Per kernel: whether its own entry point runs, and whether the wrapped one runs.
    used: Vec<[bool; 2]>,
    first_scratch: u32,
    /// Steps of ops, and ends of waves, so far.
    ops: u32,
    barriers: u32,
}

impl Builder<'_> {
    fn sections(&mut self, schedule: &Schedule, zeroings: &[Zeroing]) {
        let later: Vec<Zeroing> = zeroings.iter().filter(|zeroing| !zeroing.first).copied().collect();
        let mut later = &later[..];
        for (number, waves) in schedule.sections.iter().enumerate() {
            let (start, ops_before, barriers_before) = (self.plan.steps.len(), self.ops, self.barriers);
            if number == 0 {
                self.prologue(zeroings);
            }
            for wave in waves.range() {
                let due = later.iter().take_while(|zeroing| zeroing.wave as usize <= wave).count();
                let Wave { lane, ops } = schedule.waves[wave];
                self.wave(&schedule.order[ops.range()], lane, &later[..due], wave > waves.range().start);
                later = &later[due..];
            }
            if number + 1 == schedule.sections.len() {
                self.epilogue();
            }
            self.plan.sections.push(Cut {
                steps: Span::new(start..self.plan.steps.len()),
                ops: self.ops - ops_before,
                barriers: self.barriers - barriers_before,
                section: index(number),
            });
        }
        // A replay may only return its inputs.
        if schedule.sections.is_empty() && !self.recording.outputs.is_empty() {
            self.prologue(zeroings);
            self.epilogue();
            let steps = Span::new(0..self.plan.steps.len());
            self.plan.sections.push(Cut { steps, ops: 0, barriers: 0, section: 0 });
        }
    }

    /// Parameters, zeros for scratch that is used for the first time, and the inputs of a replay.
    fn prologue(&mut self, zeroings: &[Zeroing]) {
        if self.recording.ops.iter().any(|op| self.has_params(op)) {
            self.plan.steps.push(Step::Params);
        }
        let before = self.plan.steps.len();
        for zeroing in zeroings.iter().filter(|zeroing| zeroing.first) {
            self.zero(zeroing, Lane::Transfer);
        }
        if self.plan.steps.len() > before {
            self.plan.steps.push(Step::Barrier(BarrierKind::Zeroed));
        }
        let inputs = (0..).zip(self.recording.inputs.iter()).filter(|(_, port)| port.bytes > 0);
        self.plan.steps.extend(inputs.map(|(number, _)| Step::Input(PortId(number))));
    }

    fn has_params(&self, op: &Op) -> bool {
        let hidden = match op.kind {
            OpKind::Dispatch { grid: OpGrid::Wrapped { groups, share }, hidden_immediates, .. } => {
                hidden_immediates > 0 || self.needs_wrapper(groups, share)
            }
            OpKind::Dispatch { hidden_immediates, .. } | OpKind::Fill { hidden_immediates, .. } => {
                hidden_immediates > 0
            }
            _ => false,
        };
        hidden && !op.is_empty()
    }

    /// Whether a wrapped grid is a part of one, or exceeds the limit. The built-in CPU has no limit.
    fn needs_wrapper(&self, groups: [u32; 3], share: Span) -> bool {
        share.len > 0 || groups.iter().any(|side| *side > self.caps.max_groups)
    }

    fn epilogue(&mut self) {
        let outputs = (0..).take(self.recording.outputs.len());
        self.plan.steps.extend(outputs.map(|number| Step::Output(PortId(number))));
    }

    #[inline]
    fn wave(&mut self, ops: &[u32], lane: Lane, zeroings: &[Zeroing], wave_before: bool) {
        // Waves are not empty.
        if wave_before {
            self.plan.steps.push(Step::Barrier(BarrierKind::Wave));
            self.barriers += 1;
        }
        if !zeroings.is_empty() {
            zeroings.iter().for_each(|zeroing| self.zero(zeroing, lane));
            self.plan.steps.push(Step::Barrier(BarrierKind::Zeroed));
        }
        let before = self.plan.steps.len();
        for number in ops {
            self.op(OpId(*number), &self.recording.ops[*number as usize]);
        }
        self.ops += index(self.plan.steps.len() - before);
    }

    fn zero(&mut self, zeroing: &Zeroing, lane: Lane) {
        let Zeroing { scratch, bytes, first, .. } = *zeroing;
        self.plan.steps.push(Step::Zero(ZeroId(index(self.plan.zeros.len()))));
        self.plan.zeros.push(Zero { memory: MemoryId(self.first_scratch + scratch), bytes, first, lane });
    }

    #[inline]
    fn op(&mut self, number: OpId, op: &Op) {
        let accesses = self.recording.accesses_of(op);
        let plan = &mut self.plan;
        match (op.kind, accesses) {
            (OpKind::Dispatch { kernel, grid, immediates, hidden_immediates }, _) => {
                let mut hidden = HiddenAt::default();
                if hidden_immediates > 0 {
                    hidden.immediates = self.arena.take(hidden_immediates);
                    plan.params.push(ParamBlock::Immediates { at: hidden.immediates, bytes: immediates });
                }
                let groups = self.groups(grid, op.accesses, &mut hidden);
                let wrapped = matches!(groups, Groups::Wrapped(_));
                if let Some(used) = self.used.get_mut(kernel.0 as usize) {
                    used[usize::from(wrapped)] = true;
                }
                let mut bindings = op.accesses;
                bindings.len -= u32::from(grid == OpGrid::Indirect);
                self.plan.steps.push(Step::Dispatch(DispatchId(index(self.plan.dispatches.len()))));
                self.plan.dispatches.push(Dispatch { op: number, kernel, bindings, groups, immediates, hidden });
            }
            (OpKind::Copy, [from, to]) => {
                plan.steps.push(Step::Copy(CopyId(index(plan.copies.len()))));
                plan.copies.push(Copy { op: number, from: *from, to: *to });
            }
            (OpKind::Write { data }, [to]) => {
                plan.steps.push(Step::Write(WriteId(index(plan.writes.len()))));
                plan.writes.push(Write { op: number, to: *to, data });
            }
            (OpKind::Read { to }, [from]) => {
                plan.steps.push(Step::Read(ReadId(index(plan.reads.len()))));
                plan.reads.push(Read { op: number, from: *from, to });
            }
            (OpKind::Fill { pattern, hidden_immediates }, [to]) => {
                for to in self.chunks(*to, pattern) {
                    let id = FillId(index(self.plan.fills.len()));
                    let mut at = 0;
                    if hidden_immediates > 0 {
                        at = self.arena.take(hidden_immediates);
                        self.plan.params.push(ParamBlock::Fill { at, fill: id });
                    }
                    self.plan.steps.push(Step::Fill(id));
                    self.plan.fills.push(Fill { op: number, to, pattern, hidden_immediates: at });
                }
            }
            (kind, accesses) => unreachable!("{kind:?} with {} accesses", accesses.len()),
        }
    }

    /// The workgroups to dispatch. A wrapped grid takes a parameter block.
    #[inline]
    fn groups(&mut self, grid: OpGrid, accesses: Span, hidden: &mut HiddenAt) -> Groups {
        match grid {
            OpGrid::Direct(groups) => Groups::Direct(groups),
            OpGrid::Indirect => Groups::Indirect(AccessId(accesses.start + accesses.len - 1)),
            OpGrid::Wrapped { groups, share } if !self.needs_wrapper(groups, share) => Groups::Direct(groups),
            OpGrid::Wrapped { groups, share } => {
                hidden.grid = self.arena.take_grid();
                let (first, end) = match share.len {
                    0 => (0, groups.iter().product()),
                    len => (share.start, share.start + len),
                };
                self.plan.params.push(ParamBlock::Grid { at: hidden.grid, groups, first, end });
                let all = if share.len > 0 { [u64::from(share.len), 1, 1] } else { groups.map(u64::from) };
                let folded = fold(all, self.caps.max_groups).expect("checked while recording");
                Groups::Wrapped(folded.dispatch)
            }
        }
    }

    /// A fill in chunks that the fill kernel can bind, each a whole number of patterns. A fill with zeros is one chunk.
    fn chunks(&self, to: Access, pattern: Span) -> impl Iterator<Item = Access> + use<> {
        let most = match pattern.len {
            0 => u64::MAX,
            period => self.caps.fill_chunk(period),
        };
        let mut start = to.start;
        std::iter::from_fn(move || {
            let end = to.end.min(start.saturating_add(most));
            let chunk = (start < to.end).then_some(Access { start, end, ..to });
            start = end;
            chunk
        })
    }

    fn finish(mut self) -> Plan {
        self.plan.params_bytes = self.arena.bytes();
        for (kernel, used) in (0..).map(KernelIndex).zip(&self.used) {
            let variants = [false, true].into_iter().filter(|wrapped| used[usize::from(*wrapped)]);
            self.plan.pipelines.extend(variants.map(|wrapped| (kernel, wrapped)));
        }
        self.plan
    }
}

fn index(len: usize) -> u32 {
    u32::try_from(len).expect("lists are indexed by u32")
}
