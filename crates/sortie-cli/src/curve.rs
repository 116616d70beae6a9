//! The cost of an op against the number of ops in a submission.

use std::error::Error;

use crate::{
    chain::{Chain, Ops},
    plot::Line,
    progress::Progress,
    rounds::{Quartiles, RoundBudget, quartiles, rounds},
};

/// One way of running the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) ops: Ops,
    /// Whether all ops of a length share a submission, or each has its own.
    pub(crate) together: bool,
}

/// One contender's curve.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<Point>,
}

/// The measurements at one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Ops in a submission.
    pub(crate) ops: usize,
    pub(crate) micros_per_op: Quartiles<f64>,
}

impl Curve {
    pub(crate) fn line(&self, name: &str, colour: usize) -> Line {
        let points = self.points.iter().map(|point| (point.ops as f64, point.micros_per_op.median)).collect();
        Line { name: name.to_owned(), colour, points }
    }
}

/// Measures all contenders at each length. They take turns, and each runs at least `min_ops` ops a turn, in whole
/// submissions.
pub(crate) fn measure(
    chain: &Chain,
    contenders: &[Contender],
    lengths: &[usize],
    min_ops: usize,
    budget: RoundBudget,
    progress: &mut Progress,
) -> Result<Vec<Curve>, Box<dyn Error>> {
    let mut curves: Vec<Curve> =
        contenders.iter().map(|contender| Curve { name: contender.name, points: Vec::new() }).collect();
    for &length in lengths {
        let results = rounds(contenders.len(), budget, |contender, round| {
            let Contender { name, ops, together } = contenders[contender];
            progress.tick(|| format!("{length} to a submission: {name}, round {round}"));
            let each = if together { length } else { 1 };
            let all = each * min_ops.div_ceil(each);
            let measurement = chain.run(ops, all, each).map_err(|error| format!("{name}: {error}"))?;
            Ok::<_, Box<dyn Error>>(measurement.micros() / all as f64)
        })?;
        for (curve, results) in curves.iter_mut().zip(results) {
            let micros_per_op = quartiles(results, |micros| (micros * 1e3) as u64);
            curve.points.extend(micros_per_op.map(|micros_per_op| Point { ops: length, micros_per_op }));
        }
        progress.advance();
    }
    Ok(curves)
}

/// 1, `factor`, `factor`² and so on, up to `max`.
pub(crate) fn lengths(factor: usize, max: usize) -> Vec<usize> {
    std::iter::successors(Some(1), |n| Some(factor * n)).take_while(|n| *n <= max).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::device::DevicePair;

    #[test]
    fn every_contender_has_a_point_at_every_length() -> Result<(), Box<dyn Error>> {
        let chain = Chain::new(&DevicePair::cpu()?, 8)?;
        let contenders = [
            Contender { name: "a", ops: Ops::Dispatches, together: true },
            Contender { name: "b", ops: Ops::Fused, together: false },
        ];
        let budget = RoundBudget { time: Duration::ZERO, min_rounds: 1, max_rounds: 1 };
        let curves = measure(&chain, &contenders, &lengths(2, 5), 6, budget, &mut Progress::new())?;
        for curve in curves {
            assert_eq!(curve.points.iter().map(|point| point.ops).collect::<Vec<_>>(), [1, 2, 4]);
            assert!(curve.points.iter().all(|point| point.micros_per_op.lower > 0.0));
        }
        Ok(())
    }
}
