//! The answer to one request.

use crate::{gradient::Gradient, state::State};

/// The answer to an [`StatesRequest`](crate::StatesRequest).
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device};
/// use sortie_states::{Answer, StatesRequest, State, StatesJob};
///
/// let batcher = Batcher::new(&Device::cpu()?, StatesJob, BatchConfig::default())?;
/// match batcher.call_blocking(StatesRequest::gradients(vec![State::from_byte(0x40)]))? {
///     Answer::Gradients(gradients) => assert_eq!(gradients.len(), 1),
///     other => panic!("not gradients: {other:?}"),
/// }
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Gradients: one for each state.
    Gradients(Vec<Gradient>),
    /// States: of an interpolation or a curve, or all frames of a sequence in order.
    States(Vec<State>),
    /// Distances: one for each pair.
    Distances(Vec<f32>),
}

impl Answer {
    /// Concatenates the answers to the parts of one request.
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
        if let Self::Gradients(gradients) = self { gradients } else { unreachable!("the request was for gradients") }
    }

    pub(crate) fn into_states(self) -> Vec<State> {
        if let Self::States(states) = self { states } else { unreachable!("the request was for states") }
    }

    pub(crate) fn into_distances(self) -> Vec<f32> {
        if let Self::Distances(distances) = self { distances } else { unreachable!("the request was for distances") }
    }
}
