//! Describes a plan by names, for profiles.

use std::sync::Arc;

use smallvec::SmallVec;
use sortie_plan::{Access, BarrierKind, Mode, Op, OpGrid, OpId, OpKind, Recording, Step};

use super::{CachedPlan, OpNames, Resources};
use crate::{
    clock::Instant,
    kernel::Kernel,
    profile::{OpOutline, PlanOutline, ScopeOutline, StepOutline},
};

/// Most kinds of operations in the name of a fused kernel.
const MAX_KINDS: usize = 8;

/// Everything needed to describe a plan later.
pub(crate) struct PlanDescription {
    planned: Arc<CachedPlan>,
    names: OpNames,
    kernels: Vec<Kernel>,
    /// The zero point of recording times.
    zero: Instant,
}

impl PlanDescription {
    pub(crate) fn new(planned: &Arc<CachedPlan>, resources: &Resources, zero: Instant) -> Self {
        Self { planned: planned.clone(), names: resources.names.clone(), kernels: resources.kernels.clone(), zero }
    }

    pub(crate) fn outline(&self) -> PlanOutline {
        let (key, recorded) = (self.planned.key(), self.planned.recorded());
        let ops = self.names.ops().map(|(index, op)| OpOutline {
            what: recorded.get(index).map_or_else(|| "op".into(), |op| what(key, op)),
            label: op.label.to_owned(),
            at: op.at,
            scope: op.scope,
            recorded: op
                .recorded
                .map(|at| u64::try_from(at.saturating_duration_since(self.zero).as_nanos()).unwrap_or(u64::MAX)),
        });
        let scopes = self.names.scopes().map(|(label, outer, ops)| ScopeOutline {
            label: label.to_owned(),
            outer,
            start: ops.start,
            end: ops.end,
        });
        PlanOutline { ops: ops.collect(), scopes: scopes.collect(), steps: self.steps(&recorded) }
    }

    fn steps(&self, recorded: &[Op]) -> Vec<StepOutline> {
        let plan = &self.planned.plan;
        let mut steps = Vec::with_capacity(plan.steps.len());
        let mut wave = 0;
        for section in &plan.sections {
            for step in &plan.steps[section.steps.range()] {
                wave += u32::from(step.is_wave_end());
                steps.push(match plan.op_of(*step) {
                    Some(op) => StepOutline { wave: Some(wave), ..self.step(*step, op, recorded) },
                    None => StepOutline { name: added(*step).into(), ..StepOutline::default() },
                });
            }
            wave += 1;
        }
        steps
    }

    fn step(&self, step: Step, number: OpId, recorded: &[Op]) -> StepOutline {
        let (planned, key) = (&self.planned, self.planned.key());
        let op = &planned.recording.ops[number.0 as usize];
        let origin = planned.origin(number.0 as usize);
        let kernel = match step {
            Step::Dispatch(id) => self.kernels.get(planned.plan[id].kernel.0 as usize),
            _ => None,
        };
        let [bytes_read, bytes_written] = self.bytes(step, op, kernel);
        let called = recorded.get(origin).unwrap_or(op);
        let stacks = matches!(step, Step::Copy(_)) && op_is_tensor(called);
        let fused = planned.fused(origin).filter(|_| !stacks && op_is_tensor(called));
        let (name, ops, flops) = match fused {
            Some(fused) => {
                let ops = fused.ops.iter().map(|op| self.names.number(*op as usize)).collect();
                (kinds(key, &fused.ops), ops, Some(share(op, fused.flops)).filter(|flops| *flops > 0))
            }
            // Rows of an operand, which a joined operation reads side by side.
            None if stacks => ("stacking".into(), SmallVec::from_elem(self.names.number(origin), 1), None),
            None => {
                let name = kernel.map_or_else(|| what(key, called), |kernel| kernel.entry().into());
                let ops = SmallVec::from_elem(self.names.number(origin), 1);
                (name, ops, self.names.flops(origin).map(|flops| share(op, flops)))
            }
        };
        StepOutline { name, ops, bytes_read, bytes_written, flops, wave: None }
    }

    /// Bytes that a step reads and writes.
    fn bytes(&self, step: Step, op: &Op, kernel: Option<&Kernel>) -> [u64; 2] {
        // A long fill is several steps.
        let part = match step {
            Step::Fill(id) => Some(self.planned.plan[id].to),
            _ => None,
        };
        let accesses: &[Access] =
            part.as_ref().map_or_else(|| self.planned.recording.accesses_of(op), std::slice::from_ref);
        let mut bytes = [0, 0];
        for (binding, access) in accesses.iter().enumerate() {
            let moves = match kernel {
                Some(kernel) => kernel.moves(binding),
                None => [access.mode != Mode::Write, access.mode != Mode::Read],
            };
            let length = share(op, access.end - access.start);
            bytes.iter_mut().zip(moves).filter(|(_, moves)| *moves).for_each(|(bytes, _)| *bytes += length);
        }
        bytes
    }
}

/// The name of a step that the planner added.
fn added(step: Step) -> &'static str {
    match step {
        Step::Params => "parameters",
        Step::Zero(_) | Step::Barrier(BarrierKind::Zeroed) => "zeroing of scratch",
        Step::Input(_) => "input of the run",
        Step::Output(_) => "output of the run",
        _ => "barrier",
    }
}

fn op_is_tensor(op: &Op) -> bool {
    matches!(op.kind, OpKind::Tensor { .. })
}

/// The share of an amount that belongs to a piece of a divided dispatch.
fn share(op: &Op, amount: u64) -> u64 {
    let OpKind::Dispatch { grid: OpGrid::Wrapped { groups, share }, .. } = op.kind else { return amount };
    if share.len == 0 {
        return amount;
    }
    let all = groups.iter().fold(1_u128, |all, groups| all.saturating_mul(u128::from(*groups)));
    u64::try_from(u128::from(amount) * u128::from(share.len) / all.max(1)).unwrap_or(amount)
}

/// The method that recorded an op.
fn what(key: &Recording, op: &Op) -> Arc<str> {
    match op.kind {
        OpKind::Dispatch { .. } => "dispatch".into(),
        OpKind::Tensor { tensor, .. } => key.tensors[tensor.0 as usize].kind.to_string().into(),
        OpKind::Copy => "copy".into(),
        OpKind::Fill { .. } => "fill".into(),
        OpKind::Write { .. } => "write".into(),
        OpKind::Read { .. } => "read".into(),
        OpKind::Barrier => "barrier".into(),
        OpKind::Split => "split".into(),
    }
}

/// The name of a fused kernel: `matmul+add+gelu`, `add×12`.
fn kinds(key: &Recording, ops: &[u32]) -> Arc<str> {
    let mut kinds: Vec<(Arc<str>, usize)> = Vec::new();
    for op in ops {
        let kind = what(key, &key.ops[*op as usize]);
        match kinds.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => kinds.push((kind, 1)),
        }
    }
    let more = kinds.len().saturating_sub(MAX_KINDS);
    let part = |(kind, count)| if count == 1 { format!("{kind}") } else { format!("{kind}×{count}") };
    let mut parts: Vec<String> = kinds.into_iter().take(MAX_KINDS).map(part).collect();
    parts.extend((more > 0).then(|| format!("{more} more")));
    parts.join("+").into()
}
