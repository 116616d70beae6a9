//! Loads the elements of inputs that a block of a chain reads.

use smallvec::SmallVec;
use sortie_cpu::native;
use sortie_plan::fuse::Indexing;

/// An input of a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub(super) number: usize,
    pub(super) halves: bool,
}

/// The offset of a block in an input, if the block is contiguous there.
pub(super) fn lies(at: &Indexing, scalars: &[u32], start: usize, len: usize) -> Option<usize> {
    let Indexing::Strided { dims, .. } = at else { return Some(start) };
    match dims.last() {
        Some((length, 1)) if start % *length as usize + len <= *length as usize => {
            StridedCursor::new(at, scalars, start).map(|walk| walk.at)
        }
        _ => None,
    }
}

/// Walks a strided input, one row of its innermost dimension after the other.
struct StridedCursor<'a> {
    dims: &'a [(u32, u32)],
    /// The index in each dimension.
    index: SmallVec<[usize; 6]>,
    /// The element at that index.
    at: usize,
}

impl<'a> StridedCursor<'a> {
    /// Starts at element `start` of the output; `None` if there are no dimensions.
    fn new(at: &'a Indexing, scalars: &[u32], start: usize) -> Option<Self> {
        let Indexing::Strided { dims, .. } = at else { return None };
        let mut walk = Self { dims, index: SmallVec::from_elem(0, dims.len()), at: at.first(scalars) };
        let mut rest = start;
        for (index, (length, stride)) in walk.index.iter_mut().zip(dims).rev() {
            *index = rest % *length as usize;
            rest /= *length as usize;
            walk.at += *index * *stride as usize;
        }
        (!dims.is_empty()).then_some(walk)
    }

    /// At most `most` elements of the current row: their first element, stride and number.
    fn run(&mut self, most: usize) -> (usize, usize, usize) {
        let (length, stride) = self.dims.last().map_or((1, 0), |(length, stride)| (*length as usize, *stride as usize));
        let mut level = self.dims.len() - 1;
        let (start, len) = (self.at, most.min(length - self.index[level]));
        self.index[level] += len;
        self.at += len * stride;
        while self.index[level] == self.dims[level].0 as usize && level > 0 {
            self.at -= self.index[level] * self.dims[level].1 as usize;
            self.index[level] = 0;
            level -= 1;
            self.index[level] += 1;
            self.at += self.dims[level].1 as usize;
        }
        (start, stride, len)
    }
}

pub(super) fn load(inputs: &[&[u32]], input: Input, at: &Indexing, scalars: &[u32], start: usize, to: &mut [u32]) {
    let Some(mut walk) = StridedCursor::new(at, scalars, start) else {
        return match at {
            Indexing::Same => copy(inputs, input, start, 1, to),
            Indexing::Strided { .. } => copy(inputs, input, at.first(scalars), 0, to),
        };
    };
    let mut rest = to;
    while !rest.is_empty() {
        let (first, stride, len) = walk.run(rest.len());
        let (run, behind) = std::mem::take(&mut rest).split_at_mut(len);
        copy(inputs, input, first, stride, run);
        rest = behind;
    }
}

/// Copies elements of an input, `stride` apart.
fn copy(inputs: &[&[u32]], input: Input, first: usize, stride: usize, to: &mut [u32]) {
    let words = inputs[input.number];
    match (input.halves, stride) {
        (false, 0) => to.fill(words[first]),
        (false, 1) => to.copy_from_slice(&words[first..first + to.len()]),
        (false, _) => to.iter_mut().zip(words[first..].iter().step_by(stride)).for_each(|(to, word)| *to = *word),
        (true, 1) => native::widen(words, first, to),
        (true, _) => {
            for (at, to) in to.chunks_mut(1).enumerate() {
                native::widen(words, first + at * stride, to);
            }
        }
    }
}

/// Copies rows of a table, by one index per element; zeros for a row that does not exist.
pub(super) fn gather(
    inputs: &[&[u32]],
    table: Input,
    index: &[u32],
    [rows, row]: [usize; 2],
    start: usize,
    to: &mut [u32],
) {
    let mut done = 0;
    while done < to.len() {
        let column = (start + done) % row;
        let len = (row - column).min(to.len() - done);
        let (chosen, run) = (index[done] as usize, &mut to[done..done + len]);
        if chosen < rows {
            copy(inputs, table, chosen * row + column, 1, run);
        } else {
            run.fill(0);
        }
        done += len;
    }
}

/// Interleaves pieces of two inputs.
pub(super) fn join(inputs: &[&[u32]], of: [Input; 2], pieces: [usize; 2], start: usize, to: &mut [u32]) {
    let both = pieces[0] + pieces[1];
    let mut done = 0;
    while done < to.len() {
        let (turn, within) = ((start + done) / both, (start + done) % both);
        let side = usize::from(within >= pieces[0]);
        let within = within - side * pieces[0];
        let len = (pieces[side] - within).min(to.len() - done);
        copy(inputs, of[side], turn * pieces[side] + within, 1, &mut to[done..done + len]);
        done += len;
    }
}
