//! Findings in the terminal.

use super::work::{Finding, Outcome};
use crate::number;

const HEADINGS: [&str; 6] = ["", "time", "", "faster", "submissions", "dispatches"];

/// A heading, what was done, and a line for each way.
pub(super) fn lines(finding: &Finding) -> Vec<String> {
    let mut headings = HEADINGS.map(String::from);
    headings[2] = format!("µs/{}", finding.unit);
    let rows: Vec<[String; 6]> = finding.outcomes.iter().map(|outcome| cells(finding, outcome)).collect();
    let all: Vec<&[String; 6]> = std::iter::once(&headings).chain(&rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let line = |row: &[String; 6], rest: &str| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            // Names to the left, numbers to the right.
            if column == 0 { format!("  {cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("   ");
        format!("{line}   {rest}").trim_end().to_owned()
    };
    let mut lines = vec![finding.title.clone(), line(&headings, "")];
    for (row, outcome) in rows.iter().zip(&finding.outcomes) {
        lines.push(line(row, "checked"));
        // Beneath, because it would make the table wider than terminals are.
        lines.extend(served(finding, outcome).map(|served| format!("    {served}")));
    }
    lines
}

fn cells(finding: &Finding, outcome: &Outcome) -> [String; 6] {
    let trial = &outcome.trial;
    let name = match trial.count {
        count if count == finding.count => outcome.way.to_string(),
        count => format!("{} ({} only)", outcome.way, number::whole(count)),
    };
    [
        name,
        number::micros(trial.lap.time.as_secs_f64() * 1e6),
        number::rough(outcome.micros_per_unit()),
        format!("{}×", number::rough(outcome.ratio)),
        number::whole(trial.lap.submissions),
        number::whole(trial.lap.dispatches),
    ]
}

/// How callers were served, where there are any.
pub(super) fn served(finding: &Finding, outcome: &Outcome) -> Option<String> {
    let service = outcome.trial.service?;
    let rate = number::whole((1e6 / outcome.micros_per_unit()) as u64);
    let [p50, p99] = [service.p50, service.p99].map(|time| number::micros(time.as_secs_f64() * 1e6));
    let fill = service.fill.map(|fill| format!("; batches {:.0} % full", 100.0 * fill)).unwrap_or_default();
    Some(format!("{rate} {}s/s; half answered within {p50}, 99 % within {p99}{fill}", finding.unit))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        demo::work::{Service, Strategy, Trial},
        lap::Lap,
    };

    fn outcome(way: Strategy, micros: u64, count: usize, ratio: f64) -> Outcome {
        let lap = Lap { time: Duration::from_micros(micros), submissions: 1, dispatches: 1234 };
        Outcome { way, trial: Trial { lap, count, service: None }, ratio }
    }

    #[test]
    fn numbers_line_up_and_what_was_done_only_in_part_says_so() {
        let mut batcher = outcome(Strategy::Batcher, 2000, 1000, 50.0);
        let ms = Duration::from_millis;
        batcher.trial.service = Some(Service { p50: ms(1), p99: ms(2), fill: Some(0.5) });
        let finding = Finding {
            title: "Work".into(),
            about: String::new(),
            unit: "request",
            count: 1000,
            rounds: 3,
            outcomes: vec![outcome(Strategy::Each, 10_000, 100, 1.0), batcher],
        };
        let expected = "\
Work
                                      time   µs/request   faster   submissions   dispatches
  one submission each (100 only)   10.0 ms          100    1.00×             1        1,234   checked
  through a Batcher                2.00 ms         2.00    50.0×             1        1,234   checked
    500,000 requests/s; half answered within 1.00 ms, 99 % within 2.00 ms; batches 50 % full";
        assert_eq!(lines(&finding).join("\n"), expected);
    }
}
