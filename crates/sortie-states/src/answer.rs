//! What one caller of a batcher gets.

use crate::{gradient::Gradient, state::State};

/// The answer to an [`Ask`](crate::Ask).
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device};
/// use sortie_states::{Answer, Ask, State, StatesJob};
///
/// let batcher = Batcher::new(&Device::cpu()?, StatesJob, BatchConfig::default())?;
/// match batcher.call_blocking(Ask::gradients(vec![State::from_byte(0x40)]))? {
///     Answer::Gradients(gradients) => assert_eq!(gradients.len(), 1),
///     other => panic!("gradients were asked for: {other:?}"),
/// }
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To one for gradients: as many as states.
    Gradients(Vec<Gradient>),
    /// To an interpolation or a curve: a state for each. To a sequence: all states of the first frame, then those of the next.
    States(Vec<State>),
    /// To one for distances: as many as pairs.
    Distances(Vec<f32>),
}

impl Answer {
    /// Of parts of one request, in their order.
    pub(crate) fn join(parts: Vec<Self>) -> Self {
        let mut parts = parts.into_iter();
        let first = parts.next().unwrap_or_else(|| unreachable!("a request has parts"));
        parts.fold(first, |mut all, part| {
            match (&mut all, part) {
                (Self::Gradients(all), Self::Gradients(part)) => all.extend(part),
                (Self::States(all), Self::States(part)) => all.extend(part),
                (Self::Distances(all), Self::Distances(part)) => all.extend(part),
                _ => unreachable!("parts of a request are of its kind"),
            }
            all
        })
    }

    pub(crate) fn into_gradients(self) -> Vec<Gradient> {
        if let Self::Gradients(gradients) = self { gradients } else { unreachable!("gradients were asked for") }
    }

    pub(crate) fn into_states(self) -> Vec<State> {
        if let Self::States(states) = self { states } else { unreachable!("states were asked for") }
    }

    pub(crate) fn into_distances(self) -> Vec<f32> {
        if let Self::Distances(distances) = self { distances } else { unreachable!("distances were asked for") }
    }
}
