//! A plan with all that its runs need, and one run of it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    Payload,
    plans::{Planned, Resolved},
};
use crate::memory::Block;

/// A planned recording that keeps its memory: every run uses the same, one after the other.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) planned: Arc<Planned>,
    /// Complete, but for the data of writes, which each run brings.
    pub(crate) payload: Payload,
    /// Scratch memory by physical id. None of it counts as fresh: a run finds what the last one left.
    pub(crate) physical: Vec<Arc<Block>>,
    pub(crate) params: Option<Arc<Block>>,
    /// Taken out while a run uses it.
    pub(super) resolved: Mutex<Resolved>,
}

impl Frozen {
    pub(crate) fn new(
        planned: Arc<Planned>,
        payload: Payload,
        physical: Vec<Arc<Block>>,
        params: Option<Arc<Block>>,
    ) -> Self {
        Self { planned, payload, physical, params, resolved: Mutex::default() }
    }

    /// Everything that a run must keep alive, by slot and then the rest.
    pub(crate) fn pins(&self) -> impl Iterator<Item = Option<Arc<Block>>> + '_ {
        self.payload.blocks.iter().cloned().chain(self.params.clone().map(Some))
    }
}

/// What one run brings, and asks for.
#[derive(Debug)]
pub(crate) struct Errand {
    /// Data of writes.
    pub(crate) uploads: Vec<u8>,
    /// Where the reads that somebody asked for are put, in any order.
    pub(crate) reads: Vec<u64>,
}

/// A plan that has been given memory and data.
#[derive(Clone, Copy)]
pub(super) struct Laid<'a> {
    pub(super) planned: &'a Planned,
    pub(super) payload: &'a Payload,
    /// Data of writes.
    pub(super) uploads: &'a [u8],
    /// The reads that somebody asked for; `None`: all.
    pub(super) reads: Option<&'a [u64]>,
    /// Scratch memory by physical id.
    pub(super) physical: &'a [Arc<Block>],
    pub(super) params: Option<&'a Block>,
}

impl Laid<'_> {
    /// Room that reads need.
    pub(super) fn read_bytes(&self) -> u64 {
        if self.reads.is_some_and(<[u64]>::is_empty) { 0 } else { self.payload.read_bytes }
    }

    /// Whether somebody asked for the read that is put there.
    pub(super) fn wants(&self, start: u64) -> bool {
        self.reads.is_none_or(|reads| reads.contains(&start))
    }
}
