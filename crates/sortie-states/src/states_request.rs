//! A request of any kind to a batcher.
//!
//! Invariant: a request that passes [`StatesRequest::check`] is valid, and so is every part that it is
//! [split](StatesRequest::split) into; the answers to the parts, concatenated, are the answer to the whole.

use std::ops::Range;

use sortie::Error;

use crate::{
    answer::Answer,
    blend::MAX_ENTRIES,
    error::{Result, StatesError},
    request::{Bezier, Interpolation, Sequence},
    state::State,
};

/// One request to a [`StatesJob`](crate::StatesJob): gradients, an interpolation, a sequence, a point of a curve, or
/// distances.
///
/// [`BatchedStates`](crate::BatchedStates) makes them. With a batcher of your own, make them here or convert them from an
/// [`Interpolation`], a [`Sequence`] or a [`Bezier`].
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device};
/// use sortie_states::{Answer, StatesRequest, Interpolation, State, StatesJob};
///
/// let batcher = Batcher::new(&Device::cpu()?, StatesJob, BatchConfig::default())?;
/// let between = Interpolation { a: vec![State::from_byte(0x00)], b: vec![State::from_byte(0x44)], t: 0.25, slerp: true };
/// assert_eq!(batcher.call_blocking(between.into())?, Answer::States(vec![State::from_byte(0x11)]));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StatesRequest(pub(crate) Kind);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Gradients(Vec<State>),
    Interpolation(Interpolation),
    /// These frames of a sequence.
    Frames(Sequence, Range<usize>),
    Quadratic(Bezier<3>),
    Cubic(Bezier<4>),
    Distance(Metric, Vec<[State; 2]>),
}

/// How a distance is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    State,
    Geodesic,
}

impl StatesRequest {
    /// For [gradients](crate::States::gradients).
    #[must_use]
    pub fn gradients(states: Vec<State>) -> Self {
        Self(Kind::Gradients(states))
    }

    /// For [distances](crate::reference::state_distance) between complex numbers.
    #[must_use]
    pub fn state_distance(pairs: Vec<[State; 2]>) -> Self {
        Self(Kind::Distance(Metric::State, pairs))
    }

    /// For [distances](crate::reference::geodesic_distance) in log-polar coordinates.
    #[must_use]
    pub fn geodesic_distance(pairs: Vec<[State; 2]>) -> Self {
        Self(Kind::Distance(Metric::Geodesic, pairs))
    }

    /// States, frames of states or distances of the answer.
    pub(crate) fn rows(&self) -> usize {
        match &self.0 {
            Kind::Gradients(states) => states.len(),
            Kind::Interpolation(request) => request.a.len(),
            Kind::Frames(sequence, range) => sequence.a.len().saturating_mul(range.len()),
            Kind::Quadratic(request) => request.points[0].len(),
            Kind::Cubic(request) => request.points[0].len(),
            Kind::Distance(_, pairs) => pairs.len(),
        }
    }

    /// Whether it is valid. There is one request, so errors do not name its index.
    pub(crate) fn check(&self) -> sortie::Result<()> {
        self.validate().map_err(|error| Error::input(error.reason()))
    }

    fn validate(&self) -> Result<()> {
        match &self.0 {
            Kind::Gradients(_) | Kind::Distance(..) => {}
            Kind::Interpolation(request) => request.check(0)?,
            Kind::Frames(sequence, _) => drop(sequence.check(0)?),
            Kind::Quadratic(request) => request.check(0)?,
            Kind::Cubic(request) => request.check(0)?,
        }
        if self.rows() > MAX_ENTRIES { Err(StatesError::TooMany { request: 0, limit: MAX_ENTRIES }) } else { Ok(()) }
    }

    /// The answer without rows.
    pub(crate) fn empty_answer(&self) -> Answer {
        match &self.0 {
            Kind::Gradients(_) => Answer::Gradients(Vec::new()),
            Kind::Interpolation(_) | Kind::Frames(..) | Kind::Quadratic(_) | Kind::Cubic(_) => {
                Answer::States(Vec::new())
            }
            Kind::Distance(..) => Answer::Distances(Vec::new()),
        }
    }

    /// Parts of at most `rows` rows.
    pub(crate) fn split(self, rows: usize) -> Vec<Self> {
        let rows = rows.max(1);
        let kinds: Vec<Kind> = match self.0 {
            Kind::Gradients(states) => states.chunks(rows).map(|part| Kind::Gradients(part.to_vec())).collect(),
            Kind::Interpolation(Interpolation { a, b, t, slerp }) => {
                let part = |[a, b]: [Vec<State>; 2]| Kind::Interpolation(Interpolation { a, b, t, slerp });
                chunks([&a, &b], rows).map(part).collect()
            }
            Kind::Frames(Sequence { a, b, frames, slerp }, range) => {
                let of = |[a, b]: [Vec<State>; 2], range| Kind::Frames(Sequence { a, b, frames, slerp }, range);
                let frames_per_part = (rows / a.len().max(1)).max(1);
                let starts = range.clone().step_by(frames_per_part);
                let ranges = starts.map(|start| start..range.end.min(start + frames_per_part));
                ranges.flat_map(|range| chunks([&a, &b], rows).map(move |ends| of(ends, range.clone()))).collect()
            }
            Kind::Quadratic(curve) => split_curve(&curve, rows).map(Kind::Quadratic).collect(),
            Kind::Cubic(curve) => split_curve(&curve, rows).map(Kind::Cubic).collect(),
            Kind::Distance(metric, pairs) => {
                pairs.chunks(rows).map(|part| Kind::Distance(metric, part.to_vec())).collect()
            }
        };
        kinds.into_iter().map(Self).collect()
    }
}

fn split_curve<const N: usize>(Bezier { points, t }: &Bezier<N>, rows: usize) -> impl Iterator<Item = Bezier<N>> {
    let points = points.each_ref().map(Vec::as_slice);
    chunks(points, rows).map(|points| Bezier { points, t: *t })
}

/// Lists of equal length, split at the same places.
fn chunks<const N: usize>(lists: [&[State]; N], rows: usize) -> impl Iterator<Item = [Vec<State>; N]> {
    let len = lists[0].len();
    (0..len).step_by(rows).map(move |start| lists.map(|list| list[start..len.min(start + rows)].to_vec()))
}

impl From<Interpolation> for StatesRequest {
    fn from(request: Interpolation) -> Self {
        Self(Kind::Interpolation(request))
    }
}

/// All frames, in order.
impl From<Sequence> for StatesRequest {
    fn from(request: Sequence) -> Self {
        let all = 0..request.frames;
        Self(Kind::Frames(request, all))
    }
}

impl From<Bezier<3>> for StatesRequest {
    fn from(request: Bezier<3>) -> Self {
        Self(Kind::Quadratic(request))
    }
}

impl From<Bezier<4>> for StatesRequest {
    fn from(request: Bezier<4>) -> Self {
        Self(Kind::Cubic(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(count: u8) -> Vec<State> {
        (0..count).map(State::from_byte).collect()
    }

    fn sequence(states_of_a_frame: u8, frames: usize) -> StatesRequest {
        let (a, b) = (states(states_of_a_frame), states(states_of_a_frame));
        Sequence { a, b, frames, slerp: true }.into()
    }

    /// Frames and first byte of each part.
    fn parts(request: StatesRequest, rows: usize) -> Vec<(Range<usize>, Vec<State>)> {
        let part = |part: StatesRequest| match part.0 {
            Kind::Frames(sequence, range) => (range, sequence.a),
            other => panic!("{other:?}"),
        };
        request.split(rows).into_iter().map(part).collect()
    }

    #[test]
    fn a_sequence_of_short_frames_is_cut_between_them() {
        let all = states(3);
        assert_eq!(parts(sequence(3, 5), 7), [(0..2, all.clone()), (2..4, all.clone()), (4..5, all)]);
    }

    #[test]
    fn a_sequence_of_long_frames_is_cut_within_them_frame_by_frame() {
        let (head, tail) = (states(2), states(3)[2..].to_vec());
        assert_eq!(parts(sequence(3, 2), 2), [(0..1, head.clone()), (0..1, tail.clone()), (1..2, head), (1..2, tail)]);
    }

    #[test]
    fn no_part_has_more_rows_than_it_may_and_none_are_lost() {
        for (len, frames, rows) in [(1, 100, 7), (5, 9, 5), (13, 4, 6), (8, 8, 64), (8, 8, 1)] {
            let request = sequence(len, frames);
            let all = request.rows();
            let parts = request.split(rows);
            assert!(parts.iter().all(|part| (1..=rows).contains(&part.rows())), "{len}, {frames}, {rows}");
            assert_eq!(parts.iter().map(StatesRequest::rows).sum::<usize>(), all);
        }
    }

    #[test]
    fn a_request_that_no_batch_can_hold_is_refused_and_its_rows_do_not_overflow() {
        let error = sequence(200, 1 << 28).check().expect_err("2³⁵ states");
        assert_eq!(error.kind(), sortie::ErrorKind::Input);
        assert_eq!(sequence(2, usize::MAX).rows(), usize::MAX);
    }
}
