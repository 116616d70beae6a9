//! Contenders take turns, round by round.
//!
//! Load that comes and goes slows a whole round, so a ratio is taken within each round. Each round has another order:
//! what a contender finds in caches depends on which one it follows.

use std::time::{Duration, Instant};

use crate::{
    Outcome,
    stats::{median, quantile},
};

/// How many rounds there are: at least `min`, then more until `budget` is used up, at most `max`.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Rounds that are run in any case.
    pub min: usize,
    /// Rounds after which no more are run.
    pub max: usize,
    /// Time after which no more than `min` rounds are run.
    pub budget: Duration,
}

impl Rounds {
    /// Exactly `count` rounds.
    pub fn new(count: usize) -> Self {
        Self { min: count, max: count, budget: Duration::ZERO }
    }

    /// At least `min` rounds, and as many as fit into `budget`, up to 2,000.
    pub fn within(budget: Duration, min: usize) -> Self {
        Self { min, max: 2_000, budget }
    }

    /// Measures contenders by turns. `turn` is given the index of a contender and the round, and returns one value per
    /// metric. A value that is not a number stands for an absent sample.
    ///
    /// # Errors
    ///
    /// The first error of a turn.
    pub fn run<const METRICS: usize>(
        self,
        contenders: usize,
        mut turn: impl FnMut(usize, usize) -> Outcome<[f64; METRICS]>,
    ) -> Outcome<Samples<METRICS>> {
        let mut samples = vec![Vec::new(); contenders];
        let mut order: Vec<usize> = (0..contenders).collect();
        // The same orders in every process.
        let (mut random, start) = (fastrand::Rng::with_seed(1), Instant::now());
        let mut round = 0;
        while round < self.min || (round < self.max && start.elapsed() < self.budget) {
            random.shuffle(&mut order);
            for &contender in &order {
                samples[contender].push(turn(contender, round)?);
            }
            round += 1;
        }
        Ok(Samples(samples))
    }
}

/// What each contender took in each round, for each metric.
#[derive(Debug)]
pub struct Samples<const METRICS: usize>(Vec<Vec<[f64; METRICS]>>);

impl<const METRICS: usize> Samples<METRICS> {
    /// The median of a contender's own samples.
    pub fn median(&self, contender: usize, metric: usize) -> f64 {
        median(self.0[contender].iter().map(|sample| sample[metric]))
    }

    /// The median ratio to the baseline within a round.
    pub fn ratio(&self, contender: usize, baseline: usize, metric: usize) -> f64 {
        median(self.ratios(contender, baseline, metric))
    }

    /// The lower and the upper quartile of the ratio within a round.
    pub fn quartiles(&self, contender: usize, baseline: usize, metric: usize) -> [f64; 2] {
        [0.25, 0.75].map(|share| quantile(self.ratios(contender, baseline, metric), share))
    }

    /// The median of the baseline times the ratio to it. Load on the machine changes this less than the contender's own
    /// median, which it is where there is no ratio.
    pub fn value(&self, contender: usize, baseline: usize, metric: usize) -> f64 {
        let value = self.median(baseline, metric) * self.ratio(contender, baseline, metric);
        if value.is_finite() { value } else { self.median(contender, metric) }
    }

    /// The number of samples of a contender.
    pub fn count(&self, contender: usize) -> usize {
        self.0[contender].iter().filter(|sample| sample.iter().any(|value| value.is_finite())).count()
    }

    fn ratios(&self, contender: usize, baseline: usize, metric: usize) -> impl Iterator<Item = f64> {
        let pairs = self.0[contender].iter().zip(&self.0[baseline]);
        pairs.map(move |(own, base)| own[metric] / base[metric])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_has_one_turn_in_each_round() {
        let mut turns = vec![[0; 3]; 5];
        let samples = Rounds::new(5).run(3, |contender, round| {
            turns[round][contender] += 1;
            Ok([contender as f64])
        });
        assert_eq!((turns, samples.expect("no error").count(2)), (vec![[1; 3]; 5], 5));
    }

    #[test]
    fn a_ratio_is_taken_within_rounds_in_which_both_took_part() {
        let turn = |contender: usize, round: usize| {
            let load = [1.0, 10.0, 1.0][round];
            Ok([if contender == 1 && round == 2 { f64::NAN } else { load * (1 + contender) as f64 }])
        };
        let samples = Rounds::new(3).run(2, turn).expect("no error");
        assert_eq!((samples.ratio(1, 0, 0), samples.value(1, 0, 0), samples.count(1)), (2.0, 2.0, 2));
        assert_eq!(samples.quartiles(1, 0, 0), [2.0, 2.0]);
    }
}
