//! A line of the table.

use crate::device::Case;

/// What is measured.
pub(crate) const METRICS: [&str; 4] = ["requests_per_s", "share_of_ideal", "p99_us", "allocs_per_request"];

/// One value for each of [`METRICS`]; not a number where there is none.
pub(crate) type Sample = [f64; METRICS.len()];

/// What one contender did with so many callers.
pub(crate) struct Row {
    /// How long a run took.
    pub(crate) case: Case,
    /// How many callers there were.
    pub(crate) n: usize,
    /// The contender's name.
    pub(crate) contender: &'static str,
    /// The baseline's name.
    pub(crate) baseline: &'static str,
    /// For each of [`METRICS`].
    pub(crate) values: Sample,
    /// Of values to the baseline's.
    pub(crate) ratios: Sample,
}

impl Row {
    /// What stands above the rows.
    pub(crate) fn heading() -> String {
        format!(
            "{:<6} {:>5}  {:<15} {:>12} {:>7} {:>9} {:>10} {:>7} {:>15}",
            "case", "n", "contender", "requests/s", "ratio", "of ideal", "p99 µs", "ratio", "allocs/request"
        )
    }

    /// The row for a reader.
    pub(crate) fn text(&self) -> String {
        let Self { case, n, contender, values, ratios, .. } = self;
        let [rate, share, p99, allocs] = values;
        let share = if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { String::new() };
        format!(
            "{:<6} {n:>5}  {contender:<15} {rate:>12.0} {:>6.2}x {share:>9} {p99:>10.1} {:>6.2}x {allocs:>15.3}",
            case.name(),
            ratios[0],
            ratios[2]
        )
    }

    /// The row for a program: one line for each metric that has a value.
    pub(crate) fn json(&self) -> Vec<String> {
        let Self { case, n, contender, baseline, .. } = self;
        let line = |((metric, value), ratio): ((&str, f64), f64)| {
            // Nothing is so many times nothing.
            let ratio = if ratio.is_finite() { format!("{ratio:.4}") } else { "null".into() };
            format!(
                "{{\"bench\":\"batcher\",\"device\":\"simulated\",\"case\":\"{}\",\"n\":{n},\"contender\":\"{contender}\",\"metric\":\"{metric}\",\"value\":{value:.4},\"baseline\":\"{baseline}\",\"ratio\":{ratio}}}",
                case.name()
            )
        };
        let figures = METRICS.into_iter().zip(self.values).zip(self.ratios);
        figures.filter(|((_, value), _)| value.is_finite()).map(line).collect()
    }
}
