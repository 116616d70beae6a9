//! Number, label and line of every op: what an error says of the one it belongs to.

use std::{ops::Range, panic::Location};

use sortie_plan::Span;

use crate::{
    clock::Instant,
    error::{Error, OpName},
};

/// Its lists are reused from batch to batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpNames {
    /// Where each op of the recording was recorded.
    lines: Vec<&'static Location<'static>>,
    /// Labels by op, in order; most ops have none.
    labels: Vec<(u32, Span)>,
    scopes: Vec<Scope>,
    /// The innermost open scope.
    scope: Option<usize>,
    /// The text of labels and scopes.
    text: String,
    /// Ops that the user did not ask for one by one: fences, and the further ops of a call that takes several.
    uncounted: Vec<u32>,
    /// Operations on floats by op, in order, where the user said so.
    flops: Vec<(u32, u64)>,
    /// From which op on it is kept when each was recorded, and those times.
    times: Option<(usize, Vec<Instant>)>,
}

/// What is known of one op.
pub(super) struct NamedOp<'a> {
    pub(super) label: &'a str,
    pub(super) at: &'static Location<'static>,
    /// The innermost scope.
    pub(super) scope: Option<usize>,
    /// When it was recorded.
    pub(super) recorded: Option<Instant>,
}

/// A stretch of ops with a name. Outer scopes come before inner ones.
#[derive(Clone, Copy, Debug)]
struct Scope {
    label: Span,
    outer: Option<usize>,
    start: usize,
    /// `usize::MAX` while it is open.
    end: usize,
}

impl OpNames {
    /// The next op was recorded here. Returns its index in the recording.
    #[inline]
    pub(crate) fn push(&mut self, at: &'static Location<'static>) -> usize {
        let index = self.lines.len();
        self.lines.push(at);
        if self.times.is_some() {
            self.keep_time();
        }
        index
    }

    /// Apart, so that recording without a profile does not carry it along.
    #[cold]
    fn keep_time(&mut self) {
        if let Some((_, times)) = &mut self.times {
            times.push(Instant::now());
        }
    }

    /// From now on it is kept when ops are recorded.
    pub(crate) fn keep_times(&mut self) {
        let from = self.lines.len();
        self.times.get_or_insert_with(|| (from, Vec::new()));
    }

    /// What becomes of it is no matter of when it was recorded.
    pub(crate) fn forget_times(&mut self) {
        self.times = None;
    }

    pub(crate) fn set_flops(&mut self, op: usize, flops: u64) {
        self.flops.push((index(op), flops));
    }

    /// An op is not one of the user's.
    pub(crate) fn uncount(&mut self, op: usize) {
        self.uncounted.push(index(op));
    }

    pub(crate) fn label(&mut self, op: usize, label: &str) {
        let span = self.write(label);
        self.labels.push((index(op), span));
    }

    /// Opens a scope; its number closes it.
    pub(crate) fn open_scope(&mut self, label: &str) -> usize {
        let label = self.write(label);
        let outer = self.scope;
        self.scopes.push(Scope { label, outer, start: self.lines.len(), end: usize::MAX });
        self.scope = Some(self.scopes.len() - 1);
        self.scopes.len() - 1
    }

    pub(crate) fn close_scope(&mut self, scope: usize) {
        // Not there when the batch was swapped for another inside its own scope.
        if let Some(open) = self.scopes.get_mut(scope) {
            open.end = self.lines.len();
            self.scope = open.outer;
        }
    }

    /// An error of this op.
    pub(crate) fn attach(&self, op: usize, error: Error) -> Error {
        error.on(self.name(op)).at(self.lines[op])
    }

    /// Ops as the user counts them.
    pub(crate) fn count(&self) -> usize {
        self.lines.len() - self.uncounted.len()
    }

    /// Ops that fit without more memory.
    pub(crate) fn room(&self) -> usize {
        self.lines.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.labels.clear();
        self.scopes.clear();
        self.scope = None;
        self.text.clear();
        self.uncounted.clear();
        self.flops.clear();
        self.times = None;
    }

    /// The number of an op as the user counts; of one that does not count, that of the one before it.
    pub(super) fn number(&self, op: usize) -> u32 {
        index(op.saturating_sub(self.uncounted.partition_point(|at| *at as usize <= op)))
    }

    /// Operations on floats that the user said it takes.
    pub(super) fn flops(&self, op: usize) -> Option<u64> {
        last_of(&self.flops, op)
    }

    /// The ops that the user counts, by their index in the recording.
    pub(super) fn ops(&self) -> impl Iterator<Item = (usize, NamedOp<'_>)> {
        let counted = (0..self.lines.len()).filter(|op| self.uncounted.binary_search(&index(*op)).is_err());
        counted.map(|op| {
            let label = last_of(&self.labels, op).map_or("", |label| &self.text[label.range()]);
            let times = self.times.as_ref().and_then(|(from, times)| times.get(op.checked_sub(*from)?).copied());
            (op, NamedOp { label, at: self.lines[op], scope: self.around(op).next(), recorded: times })
        })
    }

    /// Names of scopes, the scopes around them, and their ops as the user counts.
    pub(super) fn scopes(&self) -> impl Iterator<Item = (&str, Option<usize>, Range<usize>)> {
        let before = |op: usize| op - self.uncounted.partition_point(|at| (*at as usize) < op);
        self.scopes.iter().map(move |scope| {
            let ops = before(scope.start)..before(scope.end.min(self.lines.len()));
            (&self.text[scope.label.range()], scope.outer, ops)
        })
    }

    /// The scopes around an op, the innermost first.
    fn around(&self, op: usize) -> impl Iterator<Item = usize> {
        // They nest: they are among the one opened last before it and those around that.
        let last = self.scopes.partition_point(|scope| scope.start <= op).checked_sub(1);
        std::iter::successors(last, |scope| self.scopes[*scope].outer).filter(move |scope| op < self.scopes[*scope].end)
    }

    /// Number and label of an op; scopes come before the label.
    fn name(&self, op: usize) -> OpName {
        let label = last_of(&self.labels, op);
        let scopes = self.around(op).map(|scope| self.scopes[scope].label);
        let parts: Vec<_> = label.into_iter().chain(scopes).map(|span| &self.text[span.range()]).collect();
        let parts: Vec<_> = parts.into_iter().rev().collect();
        OpName { index: self.number(op) as usize, label: parts.join("/") }
    }

    fn write(&mut self, text: &str) -> Span {
        let start = self.text.len();
        self.text.push_str(text);
        Span::new(start..self.text.len())
    }
}

/// What was said of an op, in a list in their order: what was said last holds.
fn last_of<T: Copy>(said: &[(u32, T)], op: usize) -> Option<T> {
    let until = said.partition_point(|(at, _)| *at as usize <= op);
    said[..until].last().filter(|(at, _)| *at as usize == op).map(|(_, said)| *said)
}

fn index(op: usize) -> u32 {
    u32::try_from(op).unwrap_or_else(|_| unreachable!("a recording is indexed by u32"))
}
