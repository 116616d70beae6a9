//! Contenders measured in turns.
//!
//! The speed of a machine drifts: clocks change, other programs run. So contenders alternate, the order is reversed
//! from round to round, and results are medians and quartiles.

use std::time::{Duration, Instant};

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundBudget {
    /// Rounds are added while they are expected to end within this time.
    pub(crate) time: Duration,
    pub(crate) min_rounds: usize,
    pub(crate) max_rounds: usize,
}

/// Runs each contender once in every round and returns the results by contender. Round 0 warms up (compiles, plans,
/// fills caches); its results are dropped.
pub(crate) fn rounds<T, E>(
    contenders: usize,
    budget: RoundBudget,
    mut run: impl FnMut(usize, usize) -> Result<T, E>,
) -> Result<Vec<Vec<T>>, E> {
    for contender in 0..contenders {
        run(contender, 0)?;
    }
    let mut results: Vec<Vec<T>> = (0..contenders).map(|_| Vec::new()).collect();
    let start = Instant::now();
    for round in 1..=budget.max_rounds.max(1) {
        for turn in 0..contenders {
            let contender = if round % 2 == 1 { turn } else { contenders - 1 - turn };
            results[contender].push(run(contender, round)?);
        }
        if round >= budget.min_rounds && start.elapsed().mul_f64(1.0 + 1.0 / round as f64) > budget.time {
            break;
        }
    }
    Ok(results)
}

/// The median and the quartiles: results that happened, not means of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quartiles<T> {
    pub(crate) lower: T,
    pub(crate) median: T,
    pub(crate) upper: T,
}

/// `None` without results. For an even number, the median is the upper of the two in the middle.
pub(crate) fn quartiles<T: Clone, K: Ord>(mut results: Vec<T>, key: impl Fn(&T) -> K) -> Option<Quartiles<T>> {
    results.sort_by_key(key);
    let at = |quarter: usize| results.get(results.len() * quarter / 4).cloned();
    Some(Quartiles { lower: at(1)?, median: at(2)?, upper: at(3)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(time: Duration, min_rounds: usize, max_rounds: usize) -> RoundBudget {
        RoundBudget { time, min_rounds, max_rounds }
    }

    #[test]
    fn contenders_take_turns_and_the_first_round_is_dropped() {
        let mut runs = Vec::new();
        let results = rounds(2, budget(Duration::MAX, 1, 3), |contender, round| {
            runs.push((round, contender));
            Ok::<_, ()>(10 * round + contender)
        });
        assert_eq!(runs, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2, 0), (3, 0), (3, 1)]);
        assert_eq!(results, Ok(vec![vec![10, 20, 30], vec![11, 21, 31]]));
    }

    #[test]
    fn without_time_there_are_the_fewest_rounds() {
        let results = rounds(1, budget(Duration::ZERO, 3, 9), |_, round| Ok::<_, ()>(round));
        assert_eq!(results, Ok(vec![vec![1, 2, 3]]));
    }

    #[test]
    fn a_failure_ends_the_rounds() {
        let run = |contender, round| if contender == round { Err(round) } else { Ok(()) };
        assert_eq!(rounds(2, budget(Duration::MAX, 1, 9), run), Err(0));
    }

    #[test]
    fn the_median_is_the_middle_one_whatever_the_order() {
        let of = |results: &[u32]| quartiles(results.to_vec(), |n| *n);
        assert_eq!(of(&[9, 1, 5, 7, 3]), Some(Quartiles { lower: 3, median: 5, upper: 7 }));
        assert_eq!(of(&[4, 2]), Some(Quartiles { lower: 2, median: 4, upper: 4 }));
        assert_eq!(of(&[]), None);
    }
}
