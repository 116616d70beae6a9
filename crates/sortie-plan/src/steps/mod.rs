//! A plan as a list of steps: everything that runs, in order, with the data that each step needs.
//!
//! [`plan`] orders a recording, assigns memory to its scratch slots and writes the list. Backends interpret it; costs,
//! profiles and summaries read it. A submission is a [range](Cut) of it.
//!
//! Ops with nothing to do have no step. The sections between the user's splits are ranges of the list. `sortie`
//! has an interpreter for each of wgpu, native Vulkan replays and the CPU device; a fourth, on plain bytes, is the
//! oracle of `tests/properties`. Conditions known only at run time (scratch that is already zero, outputs that a
//! run asks for) are decided by `PlacedPlan::wants` in `sortie`.

mod build;
mod cuts;
mod divide;
mod fold;
mod params;
mod plan;
mod step;
mod touch;

pub use self::{
    cuts::{Cut, CutRule, cut},
    divide::divide,
    fold::{FoldedGrid, GRID_BLOCK, fold, grid_block},
    params::ParamBlock,
    plan::Plan,
    step::{
        AccessId, BarrierKind, Copy, CopyId, Dispatch, DispatchId, Fill, FillId, Groups, HiddenAt, MemoryId, OpId,
        PortId, Read, ReadId, Step, StepId, Write, WriteId, Zero, ZeroId,
    },
    touch::{Touch, touches},
};
use crate::{Caps, Recording, order};

/// Plans a recording.
///
/// # Panics
///
/// If the aligned parameter blocks reach 4 GiB: that takes 16 million ops, which no batch records.
#[must_use]
pub fn plan(recording: &Recording, caps: &Caps) -> Plan {
    let schedule = order::order(recording, caps.reorder);
    let memory = order::place(recording, &schedule, caps.reuse);
    build::build(recording, caps, &schedule, memory)
}
