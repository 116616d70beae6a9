//! Findings in the terminal.

use super::work::{Finding, Outcome};
use crate::{number, table};

/// A heading, a line for each strategy, and a line for the latencies of each.
pub(super) fn text(finding: &Finding) -> String {
    let per_unit = format!("µs/{}", finding.unit);
    let header = ["", "time", &per_unit, "quartiles", "speed-up", "submissions", "dispatches"].map(String::from);
    let rows = finding.outcomes.iter().map(|outcome| {
        let median = &outcome.trials.median;
        let part = match median.count {
            count if count == finding.count => String::new(),
            count => format!(" ({} only)", number::whole(count)),
        };
        [
            format!("  {}{part}", outcome.strategy),
            number::micros(median.measurement.micros()),
            number::rough(outcome.micros_per_unit()),
            quartiles(outcome),
            format!("{}×", number::rough(outcome.ratio)),
            number::whole(median.measurement.submissions),
            number::whole(median.measurement.dispatches),
        ]
    });
    let rows = table::table(std::iter::once(header).chain(rows), 1);
    let latencies = finding.outcomes.iter().filter_map(|outcome| Some((outcome.strategy, latency(finding, outcome)?)));
    let latencies = latencies.map(|(strategy, latency)| format!("\n  {strategy}: {latency}"));
    format!("{}, median of {}\n{rows}{}", finding.title, rounds(finding), latencies.collect::<String>())
}

pub(super) fn rounds(finding: &Finding) -> String {
    number::counted(finding.rounds, "round")
}

/// The quartiles of the time per unit, in µs.
pub(super) fn quartiles(outcome: &Outcome) -> String {
    let [lower, upper] =
        [&outcome.trials.lower, &outcome.trials.upper].map(|trial| number::rough(trial.micros_per_unit()));
    format!("{lower}–{upper}")
}

/// How long callers waited, if the work has any.
pub(super) fn latency(finding: &Finding, outcome: &Outcome) -> Option<String> {
    let latency = outcome.trials.median.latency?;
    let rate = number::counted((1e6 / outcome.micros_per_unit()) as u64, finding.unit);
    let [p50, p99] = [latency.p50, latency.p99].map(|time| number::micros(time.as_secs_f64() * 1e6));
    let fill = latency.fill.map(|fill| format!("; batches {:.0} % full", 100.0 * fill)).unwrap_or_default();
    Some(format!("{rate}/s; latency p50 {p50}, p99 {p99}{fill}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        demo::work::{Latency, Strategy, Trial},
        measurement::Measurement,
        rounds::Quartiles,
    };

    fn outcome(strategy: Strategy, micros: u64, count: usize, ratio: f64) -> Outcome {
        let trial = |micros| {
            let measurement = Measurement { time: Duration::from_micros(micros), submissions: 1, dispatches: 1234 };
            Trial { measurement, count, latency: None }
        };
        let trials = Quartiles { lower: trial(micros / 2), median: trial(micros), upper: trial(2 * micros) };
        Outcome { strategy, trials, ratio }
    }

    #[test]
    fn numbers_line_up_and_a_part_of_the_work_is_marked() {
        let mut batcher = outcome(Strategy::Batcher, 2000, 1000, 50.0);
        let ms = Duration::from_millis;
        batcher.trials.median.latency = Some(Latency { p50: ms(1), p99: ms(2), fill: Some(0.5) });
        let finding = Finding {
            title: "Work".into(),
            about: String::new(),
            unit: "request",
            count: 1000,
            rounds: 3,
            outcomes: vec![outcome(Strategy::Each, 10_000, 100, 1.0), batcher],
        };
        let expected = "\
Work, median of 3 rounds
                                     time  µs/request  quartiles  speed-up  submissions  dispatches
  one submission each (100 only)  10.0 ms         100   50.0–200     1.00×            1       1,234
  through a Batcher               2.00 ms        2.00  1.00–4.00     50.0×            1       1,234
  through a Batcher: 500,000 requests/s; latency p50 1.00 ms, p99 2.00 ms; batches 50 % full";
        assert_eq!(text(&finding), expected);
    }
}
