//! Joins independent tensor operations of one signature: recorded for one input, run for all.
//!
//! [`join`] replaces units that compute the same of different rows by one unit over stacked rows, before fusion. A
//! *unit* is a product, look-up, norm or reduction by itself, or a connected set of elementwise operations (a cell). Its
//! *signature* is all that its code depends on except the rows: kinds, shapes without the leading rows, element types,
//! numbers, and the identity of operands that all rows share. Of the signatures that are ready, the one whose remaining
//! units are the least deep on average is run first (Neubig, Goldberg, Dyer, NeurIPS 2017).
//!
//! The output of a group is one slot, and its members are ranges of it. An operand whose rows follow each other in one
//! slot is read there; otherwise its rows are copied together, one copy per run of neighbours.
//!
//! A group lies within a *stretch* that no barrier, split, dispatch or fill interrupts. Invariant: each value is
//! computed from the same values by the same operations as in the recording.

mod emit;
mod stretch;
mod unit;

use self::{emit::Emitter, stretch::Stretches};
use crate::{Caps, Recording, Span};

/// A recording with groups.
#[derive(Debug, Clone)]
pub struct Joined {
    /// Its slots begin with those of the original.
    pub recording: Recording,
    /// For each op, the op of the original that names it.
    pub origin: Vec<u32>,
    /// For each op, the ops of the original that it stands for: a span of `ops`. Empty if it is the original op itself.
    pub members: Vec<Span>,
    /// Ops of the original, group by group.
    pub ops: Vec<u32>,
    /// Number of groups.
    pub groups: usize,
}

/// Joins what is alike. `None` if nothing is, or if [`Caps::join`] is 0.
#[must_use]
pub fn join(recording: &Recording, caps: &Caps) -> Option<Joined> {
    if caps.join == 0 || recording.tensors.len() < 2 {
        return None;
    }
    let mut emitter = Emitter::new(recording, caps);
    let mut stretches = Stretches::new(recording);
    while let Some(stretch) = stretches.next() {
        unit::run(&mut emitter, &stretch);
    }
    emitter.finish()
}
