//! The threads that share the work of large runs.

use std::io;

/// A pool of threads. The thread that runs a program works too, so `count` threads are `count - 1` new ones.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    pool: Option<rayon::ThreadPool>,
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
                    .num_threads(count - 1)
                    .thread_name(|index| format!("sortie-cpu-{}", index + 1))
                    .build()
                    .map_err(io::Error::other)?,
            ),
        };
        Ok(Self { count, pool })
    }

    /// How many work together.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The pool of the others; `None` when there is one thread.
    #[must_use]
    pub fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }
}
