//! The threads that share the work of large runs.

use std::{io, sync::OnceLock};

use crate::native::Means;

/// A pool of threads. The thread that runs a program works too, and wakes all but one of them; a product of matrices may wait for all.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    pool: Option<rayon::ThreadPool>,
    /// How they multiply large matrices.
    means: OnceLock<Means>,
}

impl Threads {
    /// As many as said, at least one; `None`: one for each core.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn new(count: Option<usize>) -> io::Result<Self> {
        let count = count.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into)).max(1);
        let pool = match count {
            1 => None,
            _ => Some(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(count)
                    .thread_name(|index| format!("sortie-cpu-{}", index + 1))
                    .build()
                    .map_err(io::Error::other)?,
            ),
        };
        Ok(Self { count, pool, means: OnceLock::new() })
    }

    /// How many work together.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn means(&self, measure: impl FnOnce() -> Means) -> Means {
        *self.means.get_or_init(measure)
    }

    /// The pool; `None` when there is one thread.
    #[must_use]
    pub fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }
}
