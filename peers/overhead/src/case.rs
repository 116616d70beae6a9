//! What is dispatched: y\[i\] = x\[i\] + 1, over and over.

use crate::dispatches::{Dispatches, STEP};

/// Pairs of buffers in [`Case::Independent`]: op 64 has the pair of op 0.
const PAIRS: usize = 64;

/// How the dispatches depend on each other.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Case {
    /// Each reads what the one before wrote: to and fro between two buffers.
    Chain,
    /// Each has a pair of buffers of its own, until the pairs are used up.
    Independent,
}

impl Case {
    /// Both of them.
    pub(crate) const ALL: [Self; 2] = [Self::Chain, Self::Independent];

    /// What the table calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Independent => "independent",
        }
    }

    /// What is dispatched.
    pub(crate) fn dispatches(self) -> Dispatches {
        match self {
            Self::Chain => Dispatches::chain(),
            Self::Independent => {
                let routes = (0..PAIRS).map(|pair| (2 * pair, 2 * pair + 1)).collect();
                Dispatches { source: STEP, buffers: 2 * PAIRS, routes, answer: 1, immediates: None, has_data: false }
            }
        }
    }

    /// After how many ops those before must be done.
    pub(crate) fn apart(self) -> usize {
        match self {
            Self::Chain => 1,
            Self::Independent => PAIRS,
        }
    }

    /// The answer after `runs` runs of `n` ops each that began with zeros.
    pub(crate) fn expected(self, n: usize, runs: usize) -> u32 {
        let Dispatches { routes, buffers, answer, .. } = self.dispatches();
        let mut values = vec![0; buffers];
        for _ in 0..runs {
            for op in 0..n {
                let (from, to) = routes[op % routes.len()];
                values[to] = values[from] + 1;
            }
        }
        values[answer]
    }

    /// The answer of one that begins with zeros in every run, and gives what its last op wrote.
    pub(crate) fn last(self, n: usize) -> u32 {
        match self {
            Self::Chain => u32::try_from(n).unwrap_or(u32::MAX),
            Self::Independent => 1,
        }
    }
}
