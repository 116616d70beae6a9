//! A batch of a program being recorded, with its expected results.

use std::ops::Range;

use sortie::{Batch, Buffer, Grid};

use super::{
    Choose, Program,
    expect::Readings,
    work::{affine, combine},
};

/// A batch being recorded.
pub(super) struct Draft {
    pub(super) batch: Batch,
    /// What the buffers hold after what has been recorded.
    pub(super) after: Vec<Vec<u32>>,
    pub(super) readings: Readings,
    pub(super) verdict: Verdict,
}

/// Whether a batch has to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Right,
    /// Depends on the device.
    Either,
    Wrong,
}

impl<C: Choose> Program<'_, C> {
    /// Records one op, mostly a right one.
    pub(super) fn record(&mut self, draft: &mut Draft) {
        let [at, other] = [(); 2].map(|()| self.choose.below(self.held.len()));
        let (buffer, len) = (self.held[at].buffer.clone(), self.held[at].data.len());
        let [start, end] = self.range(len);
        let inside = start <= end && end <= len;
        let grid = Grid::items(len);
        match self.choose.below(14) {
            0 => {
                let value = self.value();
                draft.batch.fill(buffer.slice(start..end), value);
                draft.unless(!inside);
                if inside {
                    draft.after[at][start..end].fill(value);
                }
            }
            1 => {
                let more = usize::from(self.choose.once_in(10));
                let data = self.data(end.saturating_sub(start) + more);
                draft.batch.write(buffer.slice(start..end), &data);
                draft.unless(!inside || data.len() != end - start);
                if inside && data.len() == end - start {
                    draft.after[at][start..end].copy_from_slice(&data);
                }
            }
            2 => self.record_copy(draft, at, other, start..end),
            3 | 4 => {
                draft.unless(!inside);
                let expected = if inside { draft.after[at][start..end].to_vec() } else { Vec::new() };
                draft.readings.push((draft.batch.read(buffer.slice(start..end)), expected));
            }
            5 | 6 => {
                draft.batch.dispatch(&self.kernels[0], &[&buffer], grid).label("affine");
                draft.maybe(len == 0);
                affine(&mut draft.after[at]);
            }
            7 => {
                let y = self.held[other].buffer.clone();
                draft.batch.dispatch(&self.kernels[1], &[&buffer, &y], Grid::items(y.len()));
                draft.maybe(len == 0 || y.is_empty());
                draft.unless(at == other && len > 0);
                if at != other && len > 0 {
                    let x = draft.after[at].clone();
                    combine(&x, &mut draft.after[other]);
                }
            }
            8 => {
                let by = self.value();
                draft.batch.dispatch(&self.kernels[2], &[&buffer], grid).immediates(&by);
                draft.maybe(len == 0);
                draft.after[at].iter_mut().for_each(|x| *x = x.wrapping_add(by));
            }
            9 => self.record_tensor(draft, at, other),
            10 => {
                let room = draft.batch.scratch::<u32>(1 + len);
                draft.batch.dispatch(&self.kernels[0], &[&room], Grid::items(1 + len));
                draft.readings.push((draft.batch.read(room), vec![1; 1 + len]));
            }
            11 => draft.batch.barrier(),
            12 => draft.batch.split(),
            _ => self.record_misuse(draft, &buffer),
        }
    }

    fn record_copy(&mut self, draft: &mut Draft, from: usize, to: usize, Range { start, end }: Range<usize>) {
        let [source, target] = [from, to].map(|at| self.held[at].buffer.clone());
        let begin = self.choose.below(target.len() + 1);
        let stop = begin + end.saturating_sub(start) + usize::from(self.choose.once_in(10));
        draft.batch.copy(source.slice(start..end), target.slice(begin..stop));
        let fits = start <= end && end <= source.len() && stop <= target.len();
        let right = fits && stop - begin == end - start;
        draft.unless(!right);
        if right {
            let data = draft.after[from][start..end].to_vec();
            draft.after[to][begin..stop].copy_from_slice(&data);
        }
    }

    /// Sums and products of whole buffers, stored to one of them.
    fn record_tensor(&mut self, draft: &mut Draft, at: usize, to: usize) {
        let [source, target] = [at, to].map(|at| self.held[at].buffer.clone());
        let batch = &draft.batch;
        let x = batch.tensor(&source, [source.len()]);
        ((x + x) * x).store(&target);
        draft.maybe(source.is_empty() || target.is_empty());
        draft.unless(source.len() != target.len());
        if source.len() == target.len() {
            draft.after[to] = draft.after[at].iter().map(|x| x.wrapping_add(*x).wrapping_mul(*x)).collect();
        }
    }

    /// What is always a mistake.
    fn record_misuse(&mut self, draft: &mut Draft, buffer: &Buffer<u32>) {
        let (foreign, kernel) = &self.foreign;
        let one = Grid::items(1);
        match self.choose.below(8) {
            0 => drop(draft.batch.dispatch(&self.kernels[0], &[], one)),
            1 => drop(draft.batch.dispatch(&self.kernels[0], &[foreign], one)),
            2 => drop(draft.batch.dispatch(kernel, &[buffer], one)),
            3 => drop(draft.batch.dispatch(&self.kernels[2], &[buffer], one)),
            4 => drop(draft.batch.dispatch(&self.kernels[2], &[buffer], one).immediates(&[1_u32; 5])),
            5 => draft.batch.fill(foreign, 3),
            6 => drop(draft.batch.dispatch(&self.kernels[0], &[buffer], Grid::items(-1))),
            _ => match self.stale {
                Some(stale) => draft.batch.fill(stale, 1),
                None => draft.readings.push((draft.batch.read(foreign), Vec::new())),
            },
        }
        draft.verdict = Verdict::Wrong;
    }
}

impl Draft {
    fn unless(&mut self, wrong: bool) {
        if wrong {
            self.verdict = Verdict::Wrong;
        }
    }

    fn maybe(&mut self, depends: bool) {
        if depends {
            self.verdict = self.verdict.max(Verdict::Either);
        }
    }
}
