//! The inputs of one batch, sorted by operation, and its pending answers.
//!
//! Sizes are rounded up, so that batches of similar size find the buffers and bind groups of earlier ones. Padding is
//! uploaded but not computed beyond the last workgroup, and no caller sees it.

use bytemuck::{Pod, Zeroable};
use sortie::{Batch, Error, Reading};

use crate::{
    answer::Answer,
    blend::{Between, Blends},
    error::Result,
    gradient::Gradient,
    state::State,
    states::States,
    states_request::{Kind, Metric, StatesRequest},
};

/// Rows of the smallest buffer: one workgroup.
const MIN_ROWS: usize = 64;

/// Inputs of one batch. Reused from batch to batch, for its memory.
#[derive(Debug, Default)]
pub(crate) struct StagedInputs {
    gradients: Vec<State>,
    blends: Blends,
    /// By metric.
    pairs: [Vec<[State; 2]>; 2],
}

/// Readings of one batch, and which caller gets which rows.
#[derive(Debug)]
pub(crate) struct PendingAnswers {
    gradients: Option<Reading<Gradient>>,
    states: Option<Reading<State>>,
    /// By metric.
    distances: [Option<Reading<f32>>; 2],
    /// One per request, in order.
    shares: Vec<Share>,
}

/// The kind and the number of rows of one request's answer.
#[derive(Clone, Copy, Debug)]
enum Share {
    Gradients(usize),
    States(usize),
    Distances(Metric, usize),
}

impl StagedInputs {
    /// Stages the requests of a batch and records the dispatches that answer them.
    pub(crate) fn record(
        &mut self,
        states: &States,
        batch: &Batch,
        requests: &[StatesRequest],
    ) -> sortie::Result<PendingAnswers> {
        self.clear();
        let shares = requests.iter().map(|request| self.stage(request));
        let shares = shares.collect::<Result<_>>().map_err(|error| Error::input(error.reason()))?;
        let Self { gradients, blends, pairs } = self;
        let mut distances = |metric: Metric| {
            let pairs = &mut pairs[metric as usize];
            padded(pairs).map(|count| states.load_distance(batch, metric, pairs, count))
        };
        let distances = [distances(Metric::State), distances(Metric::Geodesic)];
        pad(&mut blends.points);
        Ok(PendingAnswers {
            gradients: padded(gradients).map(|count| states.load_gradients(batch, gradients, count)),
            states: padded(&mut blends.blends).map(|count| states.load_blends(batch, "between states", blends, count)),
            distances,
            shares,
        })
    }

    fn clear(&mut self) {
        self.gradients.clear();
        self.blends.points.clear();
        self.blends.blends.clear();
        self.pairs.iter_mut().for_each(Vec::clear);
    }

    fn stage(&mut self, request: &StatesRequest) -> Result<Share> {
        let rows = request.rows();
        let blends = &mut self.blends;
        match &request.0 {
            Kind::Gradients(states) => {
                self.gradients.extend(states);
                return Ok(Share::Gradients(rows));
            }
            Kind::Distance(metric, pairs) => {
                self.pairs[*metric as usize].extend(pairs);
                return Ok(Share::Distances(*metric, rows));
            }
            Kind::Interpolation(request) => request.add_to(blends, 0)?,
            Kind::Frames(sequence, range) => sequence.add_frames_to(blends, 0, range.clone())?,
            Kind::Quadratic(request) => request.add_to(blends, 0)?,
            Kind::Cubic(request) => request.add_to(blends, 0)?,
        }
        Ok(Share::States(rows))
    }
}

/// Pads with zeros and returns the number of rows before; `None` if there are none.
fn padded<T: Zeroable + Clone>(rows: &mut Vec<T>) -> Option<usize> {
    let count = rows.len();
    pad(rows);
    (count > 0).then_some(count)
}

/// Pads to a multiple of an eighth of the next power of two: at most a quarter more, from 256 rows on.
fn pad<T: Zeroable + Clone>(rows: &mut Vec<T>) {
    let step = (rows.len().next_power_of_two() / 8).max(MIN_ROWS);
    rows.resize(rows.len().next_multiple_of(step), T::zeroed());
}

impl PendingAnswers {
    /// The answer of each request, once the batch is done.
    pub(crate) fn answers(self) -> sortie::Result<Vec<sortie::Result<Answer>>> {
        let [state, geodesic] = self.distances;
        let (gradients, states) = (wait(self.gradients)?, wait(self.states)?);
        let distances = [wait(state)?, wait(geodesic)?];
        let (mut gradients, mut states) = (&gradients[..], &states[..]);
        let mut distances = distances.each_ref().map(Vec::as_slice);
        let own = |share: &Share| match *share {
            Share::Gradients(rows) => Answer::Gradients(take_front(&mut gradients, rows)),
            Share::States(rows) => Answer::States(take_front(&mut states, rows)),
            Share::Distances(metric, rows) => Answer::Distances(take_front(&mut distances[metric as usize], rows)),
        };
        Ok(self.shares.iter().map(own).map(Ok).collect())
    }
}

/// The rows of a reading; none without one.
fn wait<T: Pod>(reading: Option<Reading<T>>) -> sortie::Result<Vec<T>> {
    reading.map_or_else(|| Ok(Vec::new()), Reading::wait)
}

/// Removes the first `rows` elements.
fn take_front<T: Clone>(rest: &mut &[T], rows: usize) -> Vec<T> {
    let (own, others) = rest.split_at(rows);
    *rest = others;
    own.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_at_most_a_quarter_from_256_rows_on_and_leaves_few_lengths() {
        let mut lengths = std::collections::BTreeSet::new();
        for count in 1..=4096_usize {
            let mut rows = vec![1_u8; count];
            assert_eq!(padded(&mut rows), Some(count));
            assert!(rows[..count].iter().all(|row| *row == 1) && rows[count..].iter().all(|row| *row == 0));
            assert!(count < 256 || 4 * rows.len() <= 5 * count + 4, "{count}: {}", rows.len());
            lengths.insert(rows.len());
        }
        assert!(lengths.len() <= 24, "{lengths:?}");
        assert_eq!(padded(&mut Vec::<u8>::new()), None);
    }
}
