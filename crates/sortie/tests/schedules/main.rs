//! The submit queue, completion and the recordings of batches under `shuttle`, which runs them in thousands of random schedules.
//!
//! Their files are compiled here as they stand, with shuttle's locks in the place of `parking_lot`'s. A lost wake-up is a deadlock, which
//! shuttle reports with the schedule that led to it.

/// The clock: shuttle has none of its own.
mod clock {
    pub(crate) use std::time::Instant;
}

/// What they need of the crate's errors.
mod error {
    #[derive(Clone, Debug, PartialEq)]
    pub(crate) struct Error(pub(crate) ErrorKind);

    #[derive(Clone, Debug, PartialEq)]
    pub(crate) enum ErrorKind {
        Canceled,
        NotSubmitted,
        Timeout,
    }

    pub(crate) type Result<T> = std::result::Result<T, Error>;

    impl Error {
        pub(crate) fn new(kind: ErrorKind, _message: impl Into<String>) -> Self {
            Self(kind)
        }
    }
}

#[path = "../../src/finish"]
mod finish {
    pub(crate) mod completion;
    pub(crate) use self::completion::Completion;
    pub(crate) use crate::sync;
}

/// What recordings of batches need of memory.
mod memory {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct BufferId(pub(crate) u64);

    #[derive(Debug)]
    pub(crate) struct Block(pub(crate) u64);

    impl Block {
        pub(crate) fn id(&self) -> BufferId {
            BufferId(self.0)
        }
    }
}

#[path = "../../src/plan"]
mod plan {
    use std::sync::Arc;

    pub(crate) mod recorded_batches;

    #[derive(Debug)]
    pub(crate) struct CachedPlan;

    #[derive(Debug)]
    pub(crate) struct Cuts {
        pub(crate) list: Vec<u32>,
    }

    /// Knows the buffer and the immediates that it was recorded with.
    #[derive(Debug)]
    pub(crate) struct FrozenPlan {
        pub(crate) buffer: u64,
        pub(crate) immediates: Option<Vec<u8>>,
    }

    impl FrozenPlan {
        pub(crate) fn last_used(&self) -> u64 {
            self.buffer
        }

        pub(crate) fn fits_budget_of(&self, wanted: &Cuts) -> bool {
            wanted.list == [1]
        }
    }

    #[derive(Debug)]
    pub(crate) struct Resources {
        pub(crate) blocks: Vec<Option<Arc<crate::memory::Block>>>,
        pub(crate) immediates: Vec<u8>,
    }
}

#[path = "../../src/submit"]
mod submit {
    pub(crate) mod queue;
}

mod completion;
mod queue;
mod recordings;
#[path = "../../../sortie-batcher/tests/schedules/sync.rs"]
#[expect(unused_imports, reason = "the schedules of `sortie-batcher` use all of it")]
mod sync;

use shuttle::{Config, Runner, scheduler::RandomScheduler};

/// Runs a scenario in many schedules: the same ones every time, twenty times as many with `SORTIE_CASES=full`.
fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let full = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    let scheduler = RandomScheduler::new_from_seed(0x50_4f_52_54, if full { 20_000 } else { 1_000 });
    Runner::new(scheduler, Config::default()).run(scenario);
}
