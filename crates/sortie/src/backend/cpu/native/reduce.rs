//! Reductions over any axes, with the steps that compute their elements and those that follow.
//!
//! The innermost two dimensions are a matrix, whose rows or columns are reduced; the results for each index of the outer
//! reduced dimensions are combined. Elements are computed block by block, in the order of memory.
//!
//! Invariant: the order in which the elements of a result are combined depends on the lengths of the reduced
//! dimensions, not on other results. So neither the number of rows nor their place changes any bit.

use smallvec::SmallVec;
use sortie_cpu::{
    BoundMemory, Halted, Stop, Threads,
    native::{NOWHERE, Partial, Reducer},
};
use sortie_plan::{
    ElementType,
    fuse::{Body, Program, Reduce},
};

use super::{
    matrices::Matrices,
    pieces::{PIECE, Piece, piece_len, share},
    registers::RegisterAssignment,
    steps::{BLOCK, Block, Steps, with_registers, words},
};

/// Rows of a matrix that are added up before they are added to the sum of their columns: a sum of sums is more exact.
const ROWS: usize = 128;

/// A program whose head is a reduction.
#[derive(Debug)]
pub(super) struct Reduction {
    reducer: Reducer,
    of: Matrices,
    /// Elements of a whole reduced set.
    each: u32,
    /// Elements of a part, and parts of a set.
    part: usize,
    parts: usize,
    body: Steps,
    tail: Steps,
    inputs: usize,
    outputs: Vec<ElementType>,
    len: usize,
}

impl Reduction {
    pub(super) fn new(program: &Program, reduce: &Reduce, body: &Body) -> Self {
        Self {
            reducer: Reducer::new(reduce.f, reduce.element),
            of: Matrices::new(&reduce.dims),
            each: reduce.each(),
            part: reduce.part() as usize,
            parts: reduce.parts.max(1) as usize,
            body: RegisterAssignment::of_body(program, body),
            tail: RegisterAssignment::of_tail(program),
            inputs: program.inputs.len(),
            outputs: program.outputs.iter().map(|output| output.element).collect(),
            len: program.len() as usize,
        }
    }

    /// Elements times steps.
    pub(super) fn work(&self) -> u64 {
        let elements = (self.len * self.part) as u64;
        elements * (2 + self.body.tasks.len()) as u64 + (self.len * self.tail.tasks.len()) as u64
    }

    /// Computes all outputs. `bound`: the inputs, then the outputs.
    pub(super) fn run(
        &self,
        bound: &mut [BoundMemory<'_>],
        scalars: &[u32],
        threads: &Threads,
        stop: Stop<'_>,
    ) -> Result<(), Halted> {
        let (read, written) = bound.split_at_mut(self.inputs);
        let inputs: SmallVec<[&[u32]; 8]> = read.iter().map(|input| words(input)).collect();
        let run = Run { of: self, inputs: &inputs, scalars };
        let each = self.piece_len(threads);
        if self.of.by_rows || self.parts == 1 {
            let pieces = Piece::cut(written, &self.outputs, self.len, each);
            return share(pieces.into_iter(), self.work(), threads, stop, |piece| run.piece(piece));
        }
        // The parts of a column are neighbours in the output, but rows of a matrix are read whole: results are
        // computed with the columns innermost, then transposed.
        let mut results = vec![0; self.len];
        let parts = results.chunks_mut(each).enumerate();
        let reduce = |(number, results): (usize, &mut [u32])| run.reduce_parts(number * each, results);
        share(parts, self.work(), threads, stop, reduce)?;
        let pieces = Piece::cut(written, &self.outputs, self.len, self.len.max(1));
        share(pieces.into_iter(), 0, threads, stop, |piece| run.transposed(&results, piece))
    }

    /// Results of a piece.
    fn piece_len(&self, threads: &Threads) -> usize {
        let most = PIECE.div_ceil(self.part.max(1)).min(self.len.max(1));
        if self.of.by_rows {
            return piece_len(self.len, most, 1, threads);
        }
        // Whole rows of the matrix if they are short, else as many columns as a call is worth.
        let unit = if self.of.inner < 64 { self.of.inner } else { 64 };
        piece_len(self.len, most.max(64), unit, threads)
    }
}

/// One run of a reduction.
#[derive(Clone, Copy)]
struct Run<'a> {
    of: &'a Reduction,
    inputs: &'a [&'a [u32]],
    scalars: &'a [u32],
}

/// The memory of one thread.
struct Scratch<'m> {
    body: &'m mut [u32],
    tail: &'m mut [u32],
    best: &'m mut [u32],
    at: &'m mut [u32],
    /// Sums of some rows.
    sums: &'m mut [u32],
}

impl Run<'_> {
    fn with_scratch(self, len: usize, f: impl FnOnce(Scratch<'_>)) {
        let of = self.of;
        with_registers(of.body.words() + of.tail.words() + 3 * BLOCK, |memory| {
            let (body, rest) = memory.split_at_mut(of.body.words());
            let (tail, rest) = rest.split_at_mut(of.tail.words());
            let (best, rest) = rest.split_at_mut(BLOCK);
            let (at, sums) = rest.split_at_mut(BLOCK);
            of.body.prepare(body, BLOCK, self.scalars);
            of.tail.prepare(tail, len, self.scalars);
            f(Scratch { body, tail, best, at, sums });
        });
    }

    /// Outputs whose results are in their order.
    fn piece(self, mut piece: Piece<'_>) {
        self.with_scratch(piece.len, |mut scratch| {
            let end = piece.start + piece.len;
            for start in (piece.start..end).step_by(BLOCK) {
                let len = BLOCK.min(end - start);
                self.reduce(start, len, &mut scratch);
                let results = if self.of.reducer.picks() { &*scratch.at } else { &*scratch.best };
                self.finish(start, &results[..len], scratch.tail, &mut piece);
            }
        });
    }

    /// Results `start..`, with the parts of a set before its columns.
    fn reduce_parts(self, start: usize, results: &mut [u32]) {
        self.with_scratch(0, |mut scratch| {
            for (number, results) in results.chunks_mut(BLOCK).enumerate() {
                self.reduce(start + number * BLOCK, results.len(), &mut scratch);
                let found = if self.of.reducer.picks() { &*scratch.at } else { &*scratch.best };
                results.copy_from_slice(&found[..results.len()]);
            }
        });
    }

    /// Outputs, of results with the parts of a set before its columns.
    fn transposed(self, results: &[u32], mut piece: Piece<'_>) {
        let (columns, parts) = (self.of.of.inner, self.of.parts);
        self.with_scratch(piece.len, |scratch| {
            let end = piece.start + piece.len;
            for start in (piece.start..end).step_by(BLOCK) {
                let len = BLOCK.min(end - start);
                for (to, output) in scratch.best[..len].iter_mut().zip(start..) {
                    let (set, part) = (output / parts, output % parts);
                    *to = results[(set / columns * parts + part) * columns + set % columns];
                }
                self.finish(start, &scratch.best[..len], scratch.tail, &mut piece);
            }
        });
    }

    /// Runs the tail over a block of results.
    fn finish(self, start: usize, results: &[u32], tail: &mut [u32], piece: &mut Piece<'_>) {
        let of = self.of;
        let mut places = of.tail.places(tail, results.len());
        places.extend(piece.block(start, results.len(), &of.outputs));
        let Some(head) = of.tail.head else { unreachable!("the tail of a head reads its result") };
        places[head].copy_from_slice(results);
        of.reducer.finish(of.each, places[head]);
        of.tail.run(Block { start, len: results.len(), inputs: self.inputs, scalars: self.scalars }, &mut places);
    }

    /// Results `start..start + len`, at most a block.
    fn reduce(self, start: usize, len: usize, scratch: &mut Scratch<'_>) {
        scratch.best[..len].fill(self.of.reducer.neutral());
        scratch.at[..len].fill(NOWHERE);
        if self.of.of.by_rows { self.rows(start, len, scratch) } else { self.columns(start, len, scratch) }
    }

    /// Results of rows: their sets in order, each with its parts.
    fn rows(self, start: usize, len: usize, scratch: &mut Scratch<'_>) {
        let (of, parts) = (&self.of.of, self.of.parts);
        let mut done = 0;
        while done < len {
            let (set, part) = ((start + done) / parts, (start + done) % parts);
            let (matrix, row) = (set / of.other, set % of.other);
            // Neighbouring rows at a time, unless they are in parts.
            let rows = if parts == 1 { (of.other - row).min(len - done) } else { 1 };
            for (outer, columns) in self.of.runs(part) {
                let first = of.start(matrix, outer) + row * of.inner + columns.start;
                let index = u32::try_from(outer * of.inner + columns.start).unwrap_or(u32::MAX);
                self.rows_at(first, [rows, columns.len()], index, done, scratch);
            }
            done += rows;
        }
    }

    /// Combines rows, from element `first` on, with results from number `done` on.
    fn rows_at(self, first: usize, [rows, row]: [usize; 2], index: u32, done: usize, scratch: &mut Scratch<'_>) {
        let (reducer, body) = (self.of.reducer, &self.of.body);
        let Scratch { best, at, .. } = scratch;
        let mut results = results(reducer, best, at);
        let each = (BLOCK / row).max(1);
        for from in (0..rows).step_by(each) {
            let count = each.min(rows - from);
            // A longer row is reduced block by block.
            for column in (0..row).step_by(BLOCK) {
                let width = BLOCK.min(row - column);
                let block = Block {
                    start: first + from * row + column,
                    len: count * width,
                    inputs: self.inputs,
                    scalars: self.scalars,
                };
                let mut places = body.places(scratch.body, block.len);
                let values = body.run_body(block, &mut places);
                reducer.rows(values, width, index + column as u32, &mut results.range(done + from, count));
            }
        }
    }

    /// Results of columns: for each matrix, its parts in order, each with its columns.
    fn columns(self, start: usize, len: usize, scratch: &mut Scratch<'_>) {
        let (of, parts) = (&self.of.of, self.of.parts);
        let mut done = 0;
        while done < len {
            let (set, column) = ((start + done) / of.inner, (start + done) % of.inner);
            let (matrix, part) = (set / parts, set % parts);
            let width = (of.inner - column).min(len - done);
            for (outer, rows) in self.of.runs(part) {
                let first = of.start(matrix, outer) + rows.start * of.inner + column;
                let index = u32::try_from(outer * of.other + rows.start).unwrap_or(u32::MAX);
                self.columns_at(first, [rows.len(), width], index, done, scratch);
            }
            done += width;
        }
    }

    /// Combines columns, from element `first` on, with results from number `done` on.
    fn columns_at(self, first: usize, [rows, width]: [usize; 2], index: u32, done: usize, scratch: &mut Scratch<'_>) {
        let (reducer, stride) = (self.of.reducer, self.of.of.inner);
        let Scratch { best, at, sums, .. } = scratch;
        let mut results = results(reducer, best, at);
        let mut results = results.range(done, width);
        for group in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - group);
            let (first, index) = (first + group * stride, index + group as u32);
            if reducer.picks() || rows <= ROWS {
                self.group(first, [count, width], index, &mut results, scratch.body);
            } else {
                let sums = &mut sums[..width];
                sums.fill(reducer.neutral());
                self.group(first, [count, width], index, &mut Partial::values(sums), scratch.body);
                reducer.columns(sums, width, 0, &mut results);
            }
        }
    }

    /// Combines some rows of a matrix.
    fn group(self, first: usize, [rows, width]: [usize; 2], index: u32, results: &mut Partial<'_>, memory: &mut [u32]) {
        let (reducer, body, stride) = (self.of.reducer, &self.of.body, self.of.of.inner);
        let all = Block { start: first, len: (rows - 1) * stride + width, inputs: self.inputs, scalars: self.scalars };
        if let Some(values) = body.lends(all) {
            return reducer.columns(values, stride, index, results);
        }
        // Whole rows follow each other in memory.
        let each = if width == stride { (BLOCK / width).max(1) } else { 1 };
        for row in (0..rows).step_by(each) {
            let count = each.min(rows - row);
            let block =
                Block { start: first + row * stride, len: count * width, inputs: self.inputs, scalars: self.scalars };
            let mut places = body.places(memory, block.len);
            let values = body.run_body(block, &mut places);
            reducer.columns(values, width, index + row as u32, results);
        }
    }
}

impl Reduction {
    /// The elements of a part: for each index of the outer reduced dimensions, a range of the inner one.
    fn runs(&self, part: usize) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + use<> {
        let inner = self.of.reduced();
        let (start, end) = (part * self.part, ((part + 1) * self.part).min(self.each as usize));
        let outers = start / inner..end.max(start).div_ceil(inner);
        let within =
            move |outer: usize, element: usize| element.clamp(outer * inner, (outer + 1) * inner) - outer * inner;
        outers.map(move |outer| (outer, within(outer, start)..within(outer, end))).filter(|(_, run)| !run.is_empty())
    }
}

fn results<'r>(reducer: Reducer, best: &'r mut [u32], at: &'r mut [u32]) -> Partial<'r> {
    if reducer.picks() { Partial::with_indices(best, at) } else { Partial::values(best) }
}
