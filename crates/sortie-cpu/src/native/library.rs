//! The libraries that multiply large matrices, and which of them is the fastest here.

use std::time::{Duration, Instant};

use ndarray::{ArrayView2, ArrayViewMut2};

use super::matmul::multiply;
use crate::Threads;

/// What computes a large product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// `gemm`.
    Gemm,
    /// `matrixmultiply`, strips of columns shared between threads.
    Strips,
    /// `matrixmultiply`, in one piece: built with its feature `threading` it shares the work itself.
    Whole,
}

impl Library {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gemm, Self::Strips, Self::Whole];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Strips => "matrixmultiply strips",
            Self::Whole => "matrixmultiply",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|library| library.name() == name)
    }
}

/// Multiplies matrices of 256 × 256 by each library in turns, about 5 ms in all. Returns the median time of each; changes nothing.
///
/// ```
/// use sortie_cpu::{Threads, native};
/// let threads = Threads::new(None)?;
/// let times = native::time_libraries(&threads);
/// if let Some((fastest, _)) = times.into_iter().min_by_key(|(_, time)| *time) {
///     threads.set_library(fastest);
///     assert_eq!(threads.library(), fastest);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn time_libraries(threads: &Threads) -> [(Library, Duration); 3] {
    const SIDE: usize = 256;
    const ROUNDS: usize = 7;
    let ones = vec![1.0; SIDE * SIDE];
    let mut product = vec![0.0; SIDE * SIDE];
    let mut times = [[Duration::ZERO; ROUNDS]; 3];
    for round in 0..ROUNDS {
        for (library, times) in Library::ALL.into_iter().zip(&mut times) {
            let operand = ArrayView2::from_shape((SIDE, SIDE), &ones);
            let result = ArrayViewMut2::from_shape((SIDE, SIDE), &mut product);
            let (Ok(operand), Ok(mut result)) = (operand, result) else { unreachable!("as long as said") };
            let start = Instant::now();
            multiply(library, &operand, &operand, &mut result, threads, true);
            times[round] = start.elapsed();
        }
    }
    times.iter_mut().for_each(|times| times.sort());
    [0, 1, 2].map(|at| (Library::ALL[at], times[at][ROUNDS / 2]))
}
