//! Measures which algorithm is fastest for large matrix products.

use std::time::{Duration, Instant};

use ndarray::{ArrayView2, ArrayViewMut2};

use super::matmul::multiply;
use crate::{MatmulAlgorithm, Threads};

/// Multiplies 256 × 256 matrices with each algorithm in turn, about 5 ms in all. Returns the median time of each; does
/// not set the algorithm.
///
/// ```
/// use sortie_cpu::{Threads, native};
/// let threads = Threads::new(None)?;
/// let times = native::time_matmul_algorithms(&threads);
/// if let Some((fastest, _)) = times.into_iter().min_by_key(|(_, time)| *time) {
///     threads.set_matmul_algorithm(fastest);
///     assert_eq!(threads.matmul_algorithm(), fastest);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn time_matmul_algorithms(threads: &Threads) -> [(MatmulAlgorithm, Duration); 3] {
    const SIDE: usize = 256;
    const ROUNDS: usize = 7;
    let ones = vec![1.0; SIDE * SIDE];
    let mut product = vec![0.0; SIDE * SIDE];
    let mut times = [[Duration::ZERO; ROUNDS]; 3];
    for round in 0..ROUNDS {
        for (library, times) in MatmulAlgorithm::ALL.into_iter().zip(&mut times) {
            let operand = ArrayView2::from_shape((SIDE, SIDE), &ones);
            let result = ArrayViewMut2::from_shape((SIDE, SIDE), &mut product);
            let (Ok(operand), Ok(mut result)) = (operand, result) else { unreachable!("as long as said") };
            let start = Instant::now();
            multiply(library, &operand, &operand, &mut result, threads, true);
            times[round] = start.elapsed();
        }
    }
    times.iter_mut().for_each(|times| times.sort());
    [0, 1, 2].map(|at| (MatmulAlgorithm::ALL[at], times[at][ROUNDS / 2]))
}
