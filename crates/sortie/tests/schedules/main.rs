//! The submit line and completion under `shuttle`, which runs them in thousands of random schedules.
//!
//! The two files are compiled here as they stand, with shuttle's locks in the place of `parking_lot`'s. A lost wake-up is a deadlock, which
//! shuttle reports with the schedule that led to it.

/// What `completion.rs` needs of the crate's errors.
mod error {
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Error(pub(crate) ErrorKind);

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) enum ErrorKind {
        Canceled,
        Timeout,
    }

    pub(crate) type Result<T> = std::result::Result<T, Error>;

    impl Error {
        pub(crate) fn new(kind: ErrorKind, _message: impl Into<String>) -> Self {
            Self(kind)
        }
    }
}

#[path = "../../src/submit"]
mod submit {
    pub(crate) mod completion;
    pub(crate) mod line;
    #[path = "../../tests/schedules/sync.rs"]
    pub(crate) mod sync;
}

mod completion;
mod line;

/// How many schedules a test runs.
fn schedules() -> usize {
    if std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full") { 10_000 } else { 1_000 }
}
