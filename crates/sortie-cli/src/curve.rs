//! What an op costs, against how many of them share a submission.

use std::error::Error;

use crate::{
    chain::{Chain, Ops},
    contest::{Pace, contest, median},
    lap::Lap,
    plot::Line,
    progress::Progress,
};

/// Who takes part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) ops: Ops,
    /// Whether as many ops as the length says share a submission, or each has its own at any length.
    pub(crate) together: bool,
}

/// One contender's curve.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<Point>,
}

/// The median of what was measured at one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// Ops in a submission.
    pub(crate) ops: usize,
    pub(crate) micros_per_op: f64,
}

impl Curve {
    /// As it is drawn.
    pub(crate) fn line(&self, colour: usize) -> Line {
        let points = self.points.iter().map(|point| (point.ops as f64, point.micros_per_op)).collect();
        Line { name: self.name.to_owned(), colour, points }
    }
}

/// Measures all contenders at each length. They take turns at every length, and each runs about `least` ops a turn, or as many as a
/// submission has.
pub(crate) fn measure(
    chain: &Chain,
    contenders: &[Contender],
    lengths: &[usize],
    least: usize,
    pace: Pace,
    progress: &mut Progress,
) -> Result<Vec<Curve>, Box<dyn Error>> {
    let mut curves: Vec<Curve> =
        contenders.iter().map(|contender| Curve { name: contender.name, points: Vec::new() }).collect();
    for &ops in lengths {
        let laps = contest(contenders.len(), pace, |contender, round| {
            let Contender { name, ops: kind, together } = contenders[contender];
            progress.tick(|| format!("{ops} to a submission: {name}, round {round}"));
            let each = if together { ops } else { 1 };
            let all = each * least.div_ceil(each);
            chain.run(kind, all, each).map(|lap| (lap, all)).map_err(|error| format!("{name}: {error}"))
        })?;
        for (curve, mut laps) in curves.iter_mut().zip(laps) {
            if let Some((Lap { time, .. }, all)) = median(&mut laps, |(lap, _)| lap.time) {
                curve.points.push(Point { ops, micros_per_op: time.as_secs_f64() * 1e6 / *all as f64 });
            }
        }
        progress.advance();
    }
    Ok(curves)
}

/// 1 and so many times as much each, up to the last that is no more than `most`.
pub(crate) fn lengths(times: usize, most: usize) -> Vec<usize> {
    std::iter::successors(Some(1), |n| Some(times * n)).take_while(|n| *n <= most).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pair::Pair;

    #[test]
    fn every_contender_has_a_point_at_every_length() -> Result<(), Box<dyn Error>> {
        let chain = Chain::new(&Pair::open(Some("cpu"))?, 8)?;
        let contenders = [
            Contender { name: "a", ops: Ops::Dispatches, together: true },
            Contender { name: "b", ops: Ops::Fused, together: false },
        ];
        let pace = Pace { budget: Duration::ZERO, rounds: [1, 1] };
        let curves = measure(&chain, &contenders, &lengths(2, 5), 6, pace, &mut Progress::new())?;
        for curve in curves {
            assert_eq!(curve.points.iter().map(|point| point.ops).collect::<Vec<_>>(), [1, 2, 4]);
            assert!(curve.points.iter().all(|point| point.micros_per_op > 0.0));
        }
        Ok(())
    }
}
