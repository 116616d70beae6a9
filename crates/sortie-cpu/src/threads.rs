//! Threads that share large dispatches.

use std::{
    io,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::matmul_algorithm::MatmulAlgorithm;

/// A thread pool. The calling thread takes part in a dispatch and wakes all but one of the pool's threads; a matrix
/// product may use all of them.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    pool: Option<rayon::ThreadPool>,
    /// The algorithm for large matrix products, as an index into [`MatmulAlgorithm::ALL`].
    library: AtomicUsize,
    /// Matrix products computed so far.
    products: AtomicU64,
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
        Ok(Self { count, pool, library: AtomicUsize::new(MatmulAlgorithm::Gemm as usize), products: AtomicU64::new(0) })
    }

    /// Number of threads.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The algorithm for large matrix products: `gemm`, unless [`set_matmul_algorithm`](Self::set_matmul_algorithm) was
    /// called.
    #[must_use]
    pub fn matmul_algorithm(&self) -> MatmulAlgorithm {
        MatmulAlgorithm::ALL[self.library.load(Ordering::Relaxed)]
    }

    /// Sets the algorithm for large matrix products, from the next product on.
    pub fn set_matmul_algorithm(&self, library: MatmulAlgorithm) {
        self.library.store(library as usize, Ordering::Relaxed);
    }

    /// Matrix products computed on these threads so far.
    #[must_use]
    pub fn products(&self) -> u64 {
        self.products.load(Ordering::Relaxed)
    }

    pub(crate) fn count_product(&self) {
        self.products.fetch_add(1, Ordering::Relaxed);
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
