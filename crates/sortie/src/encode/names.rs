//! Number, label and line of every op: what an error says of the one it belongs to.

use std::panic::Location;

use sortie_plan::Span;

use crate::error::{Error, OpName};

/// Its lists are reused from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Names {
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

impl Names {
    /// The next op was recorded here. Returns its index in the recording.
    #[inline]
    pub(crate) fn push(&mut self, at: &'static Location<'static>) -> usize {
        let index = self.lines.len();
        self.lines.push(at);
        index
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
    pub(crate) fn place(&self, op: usize, error: Error) -> Error {
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
    }

    /// Number and label of an op; scopes come before the label.
    fn name(&self, op: usize) -> OpName {
        let mut parts = Vec::new();
        // Labels and uncounted ops are in order, and a later label of one op is the one that holds.
        let labels = self.labels.partition_point(|(at, _)| *at as usize <= op);
        parts.extend(self.labels[..labels].last().filter(|(at, _)| *at as usize == op).map(|(_, label)| *label));
        // Scopes nest: those around the op are among the one opened last before it and those around that.
        let mut scope = self.scopes.partition_point(|scope| scope.start <= op).checked_sub(1);
        while let Some(open) = scope.map(|index| self.scopes[index]) {
            parts.extend((op < open.end).then_some(open.label));
            scope = open.outer;
        }
        let parts: Vec<_> = parts.iter().rev().map(|span| &self.text[span.range()]).collect();
        let uncounted = self.uncounted.partition_point(|at| *at as usize <= op);
        OpName { index: op - uncounted, label: parts.join("/") }
    }

    fn write(&mut self, text: &str) -> Span {
        let start = self.text.len();
        self.text.push_str(text);
        Span::new(start..self.text.len())
    }
}

fn index(op: usize) -> u32 {
    u32::try_from(op).unwrap_or_else(|_| unreachable!("a recording is indexed by u32"))
}
