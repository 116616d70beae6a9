//! What one batch brings and takes home: the requests of all its callers, sorted by what has to be done for them.
//!
//! Sizes are rounded up, so that batches of nearly as many rows find buffers and bind groups of the ones before. Padding goes along, is not
//! computed beyond the last workgroup, and nobody sees it.

use bytemuck::Zeroable;
use sortie::{Batch, Error, Reading};

use crate::{
    answer::Answer,
    ask::{Ask, Kind},
    blend::Blends,
    error::Result,
    gradient::Gradient,
    request::{Bezier, Interpolation, Sequence},
    state::State,
    states::States,
    weights::Weights,
};

/// The fewest rows of anything: a workgroup's worth.
const FEWEST: usize = 64;

/// Requests of one batch. Kept from batch to batch for its memory.
#[derive(Debug, Default)]
pub(crate) struct Load {
    gradients: Vec<State>,
    blends: Blends,
    state_pairs: Vec<[State; 2]>,
    geodesic_pairs: Vec<[State; 2]>,
}

/// What the answers of one batch are made of.
#[derive(Debug)]
pub(crate) struct Landing {
    gradients: Option<Reading<Gradient>>,
    states: Option<Reading<State>>,
    state_distances: Option<Reading<f32>>,
    geodesic_distances: Option<Reading<f32>>,
    /// Of each caller, in order.
    shares: Vec<Share>,
}

/// How many rows of which answers are whose.
#[derive(Clone, Copy, Debug)]
enum Share {
    Gradients(usize),
    States(usize),
    StateDistances(usize),
    GeodesicDistances(usize),
}

impl Load {
    /// Takes on the requests of a batch and records what answers them.
    pub(crate) fn record(&mut self, states: &States, batch: &mut Batch, asks: &[Ask]) -> sortie::Result<Landing> {
        self.clear();
        let shares = asks.iter().map(|ask| self.take(ask));
        let shares = shares.collect::<Result<_>>().map_err(|error| Error::input(error.reason()))?;
        let Self { gradients, blends, state_pairs, geodesic_pairs } = self;
        pad(&mut blends.points);
        Ok(Landing {
            gradients: padded(gradients).map(|count| states.load_gradients(batch, gradients, count)),
            states: padded(&mut blends.blends).map(|count| states.load_blends(batch, "between states", blends, count)),
            state_distances: padded(state_pairs).map(|count| states.load_state_distance(batch, state_pairs, count)),
            geodesic_distances: padded(geodesic_pairs)
                .map(|count| states.load_geodesic_distance(batch, geodesic_pairs, count)),
            shares,
        })
    }

    fn clear(&mut self) {
        self.gradients.clear();
        self.blends.points.clear();
        self.blends.blends.clear();
        self.state_pairs.clear();
        self.geodesic_pairs.clear();
    }

    fn take(&mut self, ask: &Ask) -> Result<Share> {
        let rows = ask.rows();
        let blends = &mut self.blends;
        match &ask.0 {
            Kind::Gradients(states) => {
                self.gradients.extend(states);
                return Ok(Share::Gradients(rows));
            }
            Kind::StateDistance(pairs) => {
                self.state_pairs.extend(pairs);
                return Ok(Share::StateDistances(rows));
            }
            Kind::GeodesicDistance(pairs) => {
                self.geodesic_pairs.extend(pairs);
                return Ok(Share::GeodesicDistances(rows));
            }
            Kind::Interpolation(Interpolation { a, b, t, slerp }) => {
                blends.add(0, [a, b], std::iter::once(Weights::linear(*t)), *slerp)?;
            }
            Kind::Frames(sequence, range) => {
                let frames = sequence.check(0)?;
                let Sequence { a, b, slerp, .. } = sequence;
                let weights = range.clone().map(|frame| Weights::frame(crate::blend::small(frame), frames));
                blends.add(0, [a, b], weights, *slerp)?;
            }
            Kind::Quadratic(request) => curve(blends, request)?,
            Kind::Cubic(request) => curve(blends, request)?,
        }
        Ok(Share::States(rows))
    }
}

fn curve<const N: usize>(blends: &mut Blends, Bezier { points, t }: &Bezier<N>) -> Result<()> {
    let points = points.each_ref().map(Vec::as_slice);
    blends.add(0, points, std::iter::once(Weights::bezier::<N>(*t)), true)
}

/// How many there are, before so many zeros are added that few lengths remain; `None` of nothing.
fn padded<T: Zeroable + Clone>(rows: &mut Vec<T>) -> Option<usize> {
    let count = rows.len();
    pad(rows);
    (count > 0).then_some(count)
}

/// To a multiple of an eighth of the next power of two: at most a quarter more, from 256 on.
fn pad<T: Zeroable + Clone>(rows: &mut Vec<T>) {
    let step = (rows.len().next_power_of_two() / 8).max(FEWEST);
    rows.resize(rows.len().next_multiple_of(step), T::zeroed());
}

impl Landing {
    /// Each caller's own, once the batch is done.
    pub(crate) fn answers(self) -> sortie::Result<Vec<sortie::Result<Answer>>> {
        let gradients = self.gradients.map_or_else(|| Ok(Vec::new()), Reading::wait)?;
        let states = self.states.map_or_else(|| Ok(Vec::new()), Reading::wait)?;
        let distances = |reading: Option<Reading<f32>>| reading.map_or_else(|| Ok(Vec::new()), Reading::wait);
        let state_distances = distances(self.state_distances)?;
        let geodesic_distances = distances(self.geodesic_distances)?;
        let (mut gradients, mut states) = (&gradients[..], &states[..]);
        let (mut state_distances, mut geodesic_distances) = (&state_distances[..], &geodesic_distances[..]);
        let own = |share: &Share| match *share {
            Share::Gradients(rows) => Answer::Gradients(front(&mut gradients, rows)),
            Share::States(rows) => Answer::States(front(&mut states, rows)),
            Share::StateDistances(rows) => Answer::Distances(front(&mut state_distances, rows)),
            Share::GeodesicDistances(rows) => Answer::Distances(front(&mut geodesic_distances, rows)),
        };
        Ok(self.shares.iter().map(own).map(Ok).collect())
    }
}

/// Takes the first so many away.
fn front<T: Clone>(rest: &mut &[T], rows: usize) -> Vec<T> {
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
