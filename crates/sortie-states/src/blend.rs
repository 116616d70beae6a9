//! Requests laid out for the device: control points once, and for each state of an answer the index of its control points
//! and their weights.

use std::{iter::once, ops::Range};

use bytemuck::{Pod, Zeroable};

use crate::{
    error::{Result, StatesError},
    request::{Bezier, Interpolation, Sequence},
    state::State,
    weights::Weights,
};

/// A batch uploads at most 4 GiB, and an entry is 32 bytes.
pub(crate) const MAX_ENTRIES: usize = 1 << 27;

/// One state of an answer, as `kernels/blend.wgsl` has it.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Blend {
    weights: [u32; 3],
    whole: u32,
    first: u32,
    stride: u32,
    degree: u32,
    arc: u32,
}

/// All requests of one dispatch.
#[derive(Debug, Default)]
pub(crate) struct Blends {
    pub(crate) points: Vec<State>,
    pub(crate) blends: Vec<Blend>,
}

impl Blends {
    /// Adds one request: control points of one length, and the weights of each frame asked for.
    pub(crate) fn add<const N: usize>(
        &mut self,
        request: usize,
        points: [&[State]; N],
        frames: impl ExactSizeIterator<Item = Weights>,
        arc: bool,
    ) -> Result<()> {
        let len = points[0].len();
        let too_many = StatesError::TooMany { request, limit: MAX_ENTRIES };
        let room = |used: usize, times: usize| len.checked_mul(times).is_some_and(|more| more <= MAX_ENTRIES - used);
        if !room(self.points.len(), N) || !room(self.blends.len(), frames.len()) {
            return Err(too_many);
        }
        let first = to_u32(self.points.len());
        points.iter().for_each(|point| self.points.extend_from_slice(point));
        let (stride, degree) = (to_u32(len), to_u32(N - 1));
        for Weights { weights, whole } in frames {
            let states = first..first + stride;
            self.blends.extend(states.map(|first| Blend { weights, whole, first, stride, degree, arc: arc.into() }));
        }
        Ok(())
    }
}

/// A request whose answer is states between control points.
pub(crate) trait Between {
    /// Checks the request and adds it. Errors name it by its index.
    fn add_to(&self, all: &mut Blends, request: usize) -> Result<()>;
}

impl Between for Interpolation {
    fn add_to(&self, all: &mut Blends, request: usize) -> Result<()> {
        self.check(request)?;
        all.add(request, [&self.a, &self.b], once(Weights::linear(self.t)), self.slerp)
    }
}

/// All frames, in order.
impl Between for Sequence {
    fn add_to(&self, all: &mut Blends, request: usize) -> Result<()> {
        self.add_frames_to(all, request, 0..self.frames)
    }
}

impl Sequence {
    pub(crate) fn add_frames_to(&self, all: &mut Blends, request: usize, range: Range<usize>) -> Result<()> {
        let frames = self.check(request)?;
        let weights = range.map(|frame| Weights::frame(to_u32(frame), frames));
        all.add(request, [&self.a, &self.b], weights, self.slerp)
    }
}

impl<const N: usize> Between for Bezier<N> {
    fn add_to(&self, all: &mut Blends, request: usize) -> Result<()> {
        self.check(request)?;
        all.add(request, self.points.each_ref().map(Vec::as_slice), once(Weights::bezier::<N>(self.t)), true)
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or_else(|_| unreachable!("counts are at most {MAX_ENTRIES}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_no_batch_can_hold_is_refused_before_it_is_laid_out() {
        let mut all = Blends::default();
        let states = [State::default(); 1 << 10];
        let frames = (0..1 << 20_u32).map(|frame| Weights::frame(frame, 1 << 20));
        let error = all.add(7, [&states, &states], frames, true);
        assert!(matches!(error, Err(StatesError::TooMany { request: 7, limit: MAX_ENTRIES })), "{error:?}");
        assert!(all.points.is_empty() && all.blends.is_empty());
    }
}
