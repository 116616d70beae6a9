//! Number, label and source line of every op, for errors and profiles.

use std::ops::Range;

use sortie_plan::Span;

use crate::{
    clock::Instant,
    error::{CallSite, Error, OpName},
};

/// Its lists are reused from batch to batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpNames {
    /// The source line of each op.
    lines: Vec<CallSite>,
    /// Labels by op, in order; most ops have none.
    labels: Vec<(u32, Span)>,
    scopes: Vec<Scope>,
    /// The innermost open scope.
    scope: Option<usize>,
    /// The text of labels and scopes.
    text: String,
    /// Ops that the user did not record one by one: fences, and the further ops of a call that records several.
    uncounted: Vec<u32>,
    /// Floating-point operations by op, in order, where the user gave them.
    flops: Vec<(u32, u64)>,
    /// Recording times: the first op that has one, and the times from there on.
    times: Option<(usize, Vec<Instant>)>,
}

/// Names and line of one op.
pub(super) struct NamedOp<'a> {
    pub(super) label: &'a str,
    pub(super) at: CallSite,
    /// The innermost scope.
    pub(super) scope: Option<usize>,
    /// When it was recorded.
    pub(super) recorded: Option<Instant>,
}

/// A named range of ops. Outer scopes come before inner ones.
#[derive(Clone, Copy, Debug)]
struct Scope {
    label: Span,
    outer: Option<usize>,
    start: usize,
    /// `usize::MAX` while it is open.
    end: usize,
}

impl OpNames {
    /// Adds an op recorded at this line. Returns its index in the recording.
    #[inline]
    pub(crate) fn push(&mut self, at: CallSite) -> usize {
        let index = self.lines.len();
        self.lines.push(at);
        if self.times.is_some() {
            self.keep_time();
        }
        index
    }

    /// Out of line, so that recording without a profile does not pay for it.
    #[cold]
    fn keep_time(&mut self) {
        if let Some((_, times)) = &mut self.times {
            times.push(Instant::now());
        }
    }

    /// Keeps the recording times of ops from now on.
    pub(crate) fn keep_times(&mut self) {
        let from = self.lines.len();
        self.times.get_or_insert_with(|| (from, Vec::new()));
    }

    /// Drops the recording times, which a replay does not need.
    pub(crate) fn forget_times(&mut self) {
        self.times = None;
    }

    pub(crate) fn set_flops(&mut self, op: usize, flops: u64) {
        self.flops.push((index(op), flops));
    }

    /// Does not count an op as one of the user's.
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
        // Absent if the batch was replaced by another inside its own scope.
        if let Some(open) = self.scopes.get_mut(scope) {
            open.end = self.lines.len();
            self.scope = open.outer;
        }
    }

    /// Adds this op's name and line to an error.
    pub(crate) fn attach(&self, op: usize, error: Error) -> Error {
        error.on(self.name(op)).at(self.lines[op])
    }

    /// Ops as the user counts them.
    pub(crate) fn count(&self) -> usize {
        self.lines.len() - self.uncounted.len()
    }

    /// Ops that fit without reallocating.
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

    /// The number of an op as the user counts. An uncounted op has the number of the one before it.
    pub(super) fn number(&self, op: usize) -> usize {
        op.saturating_sub(self.uncounted.partition_point(|at| *at as usize <= op))
    }

    /// Floating-point operations of an op, as given by the user.
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
        // Scopes nest: candidates are the scope opened last before the op and the scopes around that.
        let last = self.scopes.partition_point(|scope| scope.start <= op).checked_sub(1);
        std::iter::successors(last, |scope| self.scopes[*scope].outer).filter(move |scope| op < self.scopes[*scope].end)
    }

    /// Number and label of an op; scopes come before the label.
    fn name(&self, op: usize) -> OpName {
        let label = last_of(&self.labels, op);
        let scopes = self.around(op).map(|scope| self.scopes[scope].label);
        let parts: Vec<_> = label.into_iter().chain(scopes).map(|span| &self.text[span.range()]).collect();
        let parts: Vec<_> = parts.into_iter().rev().collect();
        OpName { index: self.number(op), label: parts.join("/") }
    }

    fn write(&mut self, text: &str) -> Span {
        let start = self.text.len();
        self.text.push_str(text);
        Span::new(start..self.text.len())
    }
}

/// The last value for an op in a list sorted by op.
fn last_of<T: Copy>(values: &[(u32, T)], op: usize) -> Option<T> {
    let until = values.partition_point(|(at, _)| *at as usize <= op);
    values[..until].last().filter(|(at, _)| *at as usize == op).map(|(_, value)| *value)
}

fn index(op: usize) -> u32 {
    u32::try_from(op).unwrap_or_else(|_| unreachable!("a recording is indexed by u32"))
}
