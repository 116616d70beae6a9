//! A plan described by name, for whoever profiles it.

use std::sync::Arc;

use smallvec::SmallVec;
use sortie_plan::{Mode, Op, OpKind, Recording};

use super::{Names, Payload, Planned};
use crate::{
    clock::Instant,
    kernel::Kernel,
    profile::{OpOutline, Outline, RunOutline, ScopeOutline},
};

/// Kinds of operations that the name of a fused kernel has at most.
const MOST_KINDS: usize = 8;

/// All that it takes to describe a plan later.
pub(crate) struct Described {
    planned: Arc<Planned>,
    names: Names,
    kernels: Vec<Kernel>,
    /// What times of recording count from.
    zero: Instant,
}

impl Described {
    pub(crate) fn new(planned: &Arc<Planned>, payload: &Payload, zero: Instant) -> Self {
        Self { planned: planned.clone(), names: payload.names.clone(), kernels: payload.kernels.clone(), zero }
    }

    pub(crate) fn outline(&self) -> Outline {
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
        Outline { ops: ops.collect(), scopes: scopes.collect(), runs: self.runs(&recorded) }
    }

    fn runs(&self, recorded: &[Op]) -> Vec<RunOutline> {
        let plan = &self.planned.plan;
        let mut waves = vec![None; self.planned.recording.ops.len()];
        for (wave, ops) in (0_u32..).zip(&plan.waves) {
            plan.order[ops.ops.range()].iter().for_each(|op| waves[*op as usize] = Some(wave));
        }
        let ops = self.planned.recording.ops.iter().enumerate();
        ops.map(|(number, op)| RunOutline { wave: waves[number], ..self.run(number, op, recorded) }).collect()
    }

    fn run(&self, number: usize, op: &Op, recorded: &[Op]) -> RunOutline {
        let (planned, key) = (&self.planned, self.planned.key());
        let origin = planned.origin(number);
        let kernel = self.kernels.get(op.kernel as usize).filter(|_| op.kind == OpKind::Dispatch);
        let mut bytes = [0, 0];
        for (binding, access) in planned.recording.accesses_of(op).iter().enumerate() {
            let moves = match kernel {
                Some(kernel) => kernel.moves(binding),
                None => [access.mode != Mode::Write, access.mode != Mode::Read],
            };
            let length = share(op, access.end - access.start);
            bytes.iter_mut().zip(moves).filter(|(_, moves)| *moves).for_each(|(bytes, _)| *bytes += length);
        }
        let called = recorded.get(origin).unwrap_or(op);
        let fused = planned.fused(origin).filter(|_| called.kind == OpKind::Tensor);
        let (name, ops, flops) = match fused {
            Some(fused) => {
                let ops = fused.ops.iter().map(|op| self.names.number(*op as usize)).collect();
                (kinds(key, &fused.ops), ops, Some(share(op, fused.flops)).filter(|flops| *flops > 0))
            }
            None => {
                let name = kernel.map_or_else(|| what(key, called), |kernel| kernel.entry().into());
                let ops = match op.kind {
                    OpKind::Barrier | OpKind::Split => SmallVec::new(),
                    _ => SmallVec::from_elem(self.names.number(origin), 1),
                };
                (name, ops, self.names.flops(origin).map(|flops| share(op, flops)))
            }
        };
        RunOutline { name, ops, bytes_read: bytes[0], bytes_written: bytes[1], flops, wave: None }
    }
}

/// The part of an amount that a piece of a divided dispatch has.
fn share(op: &Op, amount: u64) -> u64 {
    if op.share.len == 0 {
        return amount;
    }
    let groups = op.grid.iter().fold(1_u128, |all, groups| all.saturating_mul(u128::from(*groups)));
    u64::try_from(u128::from(amount) * u128::from(op.share.len) / groups.max(1)).unwrap_or(amount)
}

/// What was called to record an op.
fn what(key: &Recording, op: &Op) -> Arc<str> {
    match op.kind {
        OpKind::Dispatch => "dispatch".into(),
        OpKind::Tensor => key.tensors[op.kernel as usize].kind.to_string().into(),
        OpKind::Copy => "copy".into(),
        OpKind::Fill => "fill".into(),
        OpKind::Write => "write".into(),
        OpKind::Read => "read".into(),
        OpKind::Barrier => "barrier".into(),
        OpKind::Split => "split".into(),
    }
}

/// What a fused kernel is called: `matmul+add+gelu`, `add×12`.
fn kinds(key: &Recording, ops: &[u32]) -> Arc<str> {
    let mut kinds: Vec<(Arc<str>, usize)> = Vec::new();
    for op in ops {
        let kind = what(key, &key.ops[*op as usize]);
        match kinds.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => kinds.push((kind, 1)),
        }
    }
    let more = kinds.len().saturating_sub(MOST_KINDS);
    let mut parts: Vec<String> = kinds
        .into_iter()
        .take(MOST_KINDS)
        .map(|(kind, count)| if count == 1 { kind.to_string() } else { format!("{kind}×{count}") })
        .collect();
    parts.extend((more > 0).then(|| format!("{more} more")));
    parts.join("+").into()
}
