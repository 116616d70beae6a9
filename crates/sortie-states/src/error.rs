//! What can go wrong.

/// What every fallible call of this crate returns.
pub type Result<T, E = StatesError> = std::result::Result<T, E>;

/// An invalid request, named by its index in the call, or a failed device.
///
/// ```
/// use sortie_states::{Interpolation, State, States, StatesError};
///
/// # let states = States::new(&sortie::Device::cpu()?)?;
/// let fine = Interpolation { a: vec![State::default()], b: vec![State::default()], t: 0.5, slerp: true };
/// let short = Interpolation { b: vec![], ..fine.clone() };
/// let error = states.interpolate(&[fine, short]).unwrap_err();
/// assert_eq!(error.to_string(), "request 1: `a` has 1 state but `b` has 0");
/// assert!(matches!(error, StatesError::Lengths { request: 1, .. }));
/// # Ok::<(), StatesError>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatesError {
    /// Ends or control points that do not have equally many states.
    #[error("request {request}: {}", self.reason())]
    Lengths {
        /// Which request.
        request: usize,
        /// States of the first end or control point.
        first: usize,
        /// States of the one that has another number of them.
        other: usize,
        /// Which one that is: `b`, or `points[2]`.
        which: &'static str,
    },
    /// t is NaN.
    #[error("request {request}: {}", self.reason())]
    NotANumber {
        /// Which request.
        request: usize,
    },
    /// More states or frames than one batch can hold.
    #[error("request {request}: {}", self.reason())]
    TooMany {
        /// Which request passes the limit.
        request: usize,
        /// How many there can be in all.
        limit: usize,
    },
    /// The device refused the work or failed.
    #[error("{}", self.reason())]
    Device(#[from] sortie::Error),
}

impl StatesError {
    /// The reason, without the index of the request.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Lengths { first, other, which, .. } => {
                let one = if which.starts_with("points") { "points[0]" } else { "a" };
                format!("`{one}` has {first} state{} but `{which}` has {other}", if *first == 1 { "" } else { "s" })
            }
            Self::NotANumber { .. } => "t is not a number".into(),
            Self::TooMany { limit, .. } => {
                format!("with it there are more than {limit} states or frames in one batch")
            }
            Self::Device(_) => "the device could not answer".into(),
        }
    }
}
