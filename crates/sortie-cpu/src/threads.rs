//! The threads that share the work of large runs.

use std::{
    io,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use crate::matmul_algorithm::MatmulAlgorithm;

/// A pool of threads. The thread that runs a program works too, and wakes all but one of them; a product of matrices may wait for all.
#[derive(Debug)]
pub struct Threads {
    count: usize,
    pool: Option<rayon::ThreadPool>,
    /// What multiplies large matrices, by its index in [`MatmulAlgorithm::ALL`].
    library: AtomicUsize,
    /// Products of matrices so far.
    products: AtomicU64,
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
        Ok(Self { count, pool, library: AtomicUsize::new(MatmulAlgorithm::Gemm as usize), products: AtomicU64::new(0) })
    }

    /// How many work together.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The library that multiplies large matrices on them: `gemm`, unless another was [set](Self::set_matmul_algorithm).
    #[must_use]
    pub fn matmul_algorithm(&self) -> MatmulAlgorithm {
        MatmulAlgorithm::ALL[self.library.load(Ordering::Relaxed)]
    }

    /// Has large products computed by another library, from the next one on.
    pub fn set_matmul_algorithm(&self, library: MatmulAlgorithm) {
        self.library.store(library as usize, Ordering::Relaxed);
    }

    /// Products of matrices that a library has computed on them.
    #[must_use]
    pub fn products(&self) -> u64 {
        self.products.load(Ordering::Relaxed)
    }

    pub(crate) fn count_product(&self) {
        self.products.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs `work` on `count` threads of the pool at once, this one included.
    pub fn share(pool: &rayon::ThreadPool, count: usize, work: impl Fn() + Sync) {
        pool.in_place_scope(|scope| {
            (1..count).for_each(|_| scope.spawn(|_| work()));
            work();
        });
    }

    /// The pool; `None` when there is one thread.
    #[must_use]
    pub fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }
}
