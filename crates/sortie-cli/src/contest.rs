//! Ways of doing the same work, measured in turns.
//!
//! A machine is never the same for long: clocks change, others want the cores. So nobody runs twice in a row, who goes first
//! alternates, and what counts is the median.

use std::time::{Duration, Instant};

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Rounds are added while they are expected to end within this.
    pub(crate) budget: Duration,
    /// Rounds there are in any case, and never more than.
    pub(crate) rounds: [usize; 2],
}

/// Lets each of so many contenders run once in every round, and gives what each run came to, by contender. The first round warms up: it compiles,
/// plans and fills caches, and its results are dropped.
pub(crate) fn contest<T, E>(
    contenders: usize,
    pace: Pace,
    mut run: impl FnMut(usize, usize) -> Result<T, E>,
) -> Result<Vec<Vec<T>>, E> {
    for contender in 0..contenders {
        run(contender, 0)?;
    }
    let mut results: Vec<Vec<T>> = (0..contenders).map(|_| Vec::new()).collect();
    let start = Instant::now();
    let [least, most] = pace.rounds;
    for round in 1..=most.max(1) {
        for turn in 0..contenders {
            let contender = if round % 2 == 1 { turn } else { contenders - 1 - turn };
            results[contender].push(run(contender, round)?);
        }
        if round >= least && start.elapsed().mul_f64(1.0 + 1.0 / round as f64) > pace.budget {
            break;
        }
    }
    Ok(results)
}

/// The middle one by what `by` makes of them; of an even number, the upper of both: always one that happened.
pub(crate) fn median<T, K: Ord>(results: &mut [T], by: impl Fn(&T) -> K) -> Option<&T> {
    results.sort_by_key(by);
    results.get(results.len() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(budget: Duration, rounds: [usize; 2]) -> Pace {
        Pace { budget, rounds }
    }

    #[test]
    fn contenders_take_turns_and_the_first_round_is_dropped() {
        let mut runs = Vec::new();
        let results = contest(2, pace(Duration::MAX, [1, 3]), |contender, round| {
            runs.push((round, contender));
            Ok::<_, ()>(10 * round + contender)
        });
        assert_eq!(runs, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (2, 0), (3, 0), (3, 1)]);
        assert_eq!(results, Ok(vec![vec![10, 20, 30], vec![11, 21, 31]]));
    }

    #[test]
    fn without_a_budget_there_are_the_fewest_rounds() {
        let results = contest(1, pace(Duration::ZERO, [3, 9]), |_, round| Ok::<_, ()>(round));
        assert_eq!(results, Ok(vec![vec![1, 2, 3]]));
    }

    #[test]
    fn what_fails_ends_the_contest() {
        let results = contest(
            2,
            pace(Duration::MAX, [1, 9]),
            |contender, round| if contender == round { Err(round) } else { Ok(()) },
        );
        assert_eq!(results, Err(0));
    }

    #[test]
    fn the_median_is_the_middle_one_whatever_the_order() {
        assert_eq!(median(&mut [9, 1, 5], |n| *n), Some(&5));
        assert_eq!(median(&mut [4, 2], |n| *n), Some(&4));
        assert_eq!(median(&mut [0; 0], |n| *n), None);
    }
}
