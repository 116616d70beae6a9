//! Threads that share large dispatches.

use std::{
    convert::Infallible,
    io,
    sync::{Mutex, OnceLock},
};

/// A thread pool. The calling thread takes part in a dispatch and wakes all but one of the pool's threads.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    pool: Option<rayon::ThreadPool>,
}

impl Threads {
    /// A pool of `count` threads, at least one; with `None`, one thread per core.
    ///
    /// # Errors
    /// The system cannot start the threads.
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
        Ok(Self { count, pool })
    }

    /// Number of threads.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Runs `work` on each task: on all threads if `shared`, else in order on the calling thread.
    pub fn each<T: Send>(&self, shared: bool, tasks: Vec<T>, work: impl Fn(T) + Sync) {
        let Ok(()) = self.try_each(shared, tasks, |task| {
            work(task);
            Ok::<(), Infallible>(())
        });
    }

    /// As [`each`](Self::each), until `work` fails.
    ///
    /// # Errors
    /// The first failure.
    pub fn try_each<T: Send, E: Send + Sync>(
        &self,
        shared: bool,
        tasks: Vec<T>,
        work: impl Fn(T) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        let Some(pool) = self.pool.as_ref().filter(|_| shared && tasks.len() > 1) else {
            return tasks.into_iter().try_for_each(work);
        };
        let count = self.count.min(tasks.len());
        let tasks = Mutex::new(tasks.into_iter());
        let next = || tasks.lock().ok().and_then(|mut tasks| tasks.next());
        let failed = OnceLock::new();
        // Each thread takes the next task when it is ready, so a thread that wakes up late delays no other.
        Self::share(pool, count, || {
            while failed.get().is_none()
                && let Some(task) = next()
            {
                if let Err(error) = work(task) {
                    failed.get_or_init(|| error);
                }
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    /// Runs `work` on `count` threads at once: the calling thread and others of the pool.
    pub fn share(pool: &rayon::ThreadPool, count: usize, work: impl Fn() + Sync) {
        pool.in_place_scope(|scope| {
            (1..count).for_each(|_| scope.spawn(|_| work()));
            work();
        });
    }

    /// The pool; `None` with one thread.
    #[must_use]
    pub fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }
}
