//! Prints samples: a table, or with `--json` one object per line.

#![expect(clippy::print_stdout, reason = "a bench prints its report")]

use crate::rounds::Samples;

/// What was run, on which device and at which size, and what was measured.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a, const METRICS: usize> {
    /// The device's name.
    pub device: &'a str,
    /// The name of the work.
    pub case: &'a str,
    /// The size of the work.
    pub n: usize,
    /// What is measured; a rate ends in `_per_s`.
    pub metrics: [&'a str; METRICS],
}

/// One way to do the work.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// The index of the contender that it is compared with.
    pub baseline: usize,
}

impl Contender {
    /// A contender that is compared with the one at index `baseline`.
    pub fn new(name: impl Into<String>, baseline: usize) -> Self {
        Self { name: name.into(), baseline }
    }

    /// Contenders that are all compared with the first.
    pub fn all(names: &[&str]) -> Vec<Self> {
        names.iter().map(|name| Self::new(*name, 0)).collect()
    }
}

/// Where rows go.
#[derive(Debug)]
pub struct Report {
    bench: &'static str,
    json: bool,
    /// The heading that was printed last.
    heading: String,
}

impl Report {
    /// The report of a bench.
    pub fn new(bench: &'static str, json: bool) -> Self {
        Self { bench, json, heading: String::new() }
    }

    /// Prints a row for each contender. Quartiles are those of the first ratio.
    pub fn rows<const METRICS: usize>(
        &mut self,
        case: &Case<'_, METRICS>,
        contenders: &[Contender],
        samples: &Samples<METRICS>,
    ) {
        let Case { device, case, n, metrics } = *case;
        if !self.json {
            let columns = metrics.map(|metric| format!(" {metric:>19}   ratio")).join("");
            let heading = format!("\n{device}\n{:<15} {:>8}  {:<20}{columns}   quartiles", "case", "n", "contender");
            if self.heading != heading {
                println!("{heading}");
                self.heading = heading;
            }
        }
        for (at, Contender { name, baseline }) in contenders.iter().enumerate() {
            let of = |metric: usize| (samples.value(at, *baseline, metric), samples.ratio(at, *baseline, metric));
            if self.json {
                let texts = [device, case, name, &contenders[*baseline].name];
                let [device, case, contender, baseline] = texts.map(serde_json::Value::from);
                for (metric, (value, ratio)) in metrics.into_iter().zip((0..METRICS).map(of)) {
                    let ratio = if ratio.is_finite() { format!("{ratio:.4}") } else { "null".into() };
                    // An absent sample has no line.
                    if value.is_finite() {
                        println!(
                            "{{\"bench\":\"{}\",\"device\":{device},\"case\":{case},\"n\":{n},\
                             \"contender\":{contender},\"metric\":\"{metric}\",\"value\":{value:.4},\
                             \"baseline\":{baseline},\"ratio\":{ratio}}}",
                            self.bench
                        );
                    }
                }
            } else {
                let shown = |(value, ratio)| format!(" {} {}", figure(value, 19), figure(ratio, 7));
                let columns: String = (0..METRICS).map(of).map(shown).collect();
                let [low, high] = samples.quartiles(at, *baseline, 0);
                println!("{case:<15} {n:>8}  {name:<20}{columns}   {low:.2}–{high:.2}");
            }
        }
    }
}

/// About four digits; nothing for what is not a number.
fn figure(value: f64, width: usize) -> String {
    match value {
        _ if !value.is_finite() => " ".repeat(width),
        1000.0.. => format!("{value:>width$.0}"),
        10.0.. => format!("{value:>width$.1}"),
        _ => format!("{value:>width$.3}"),
    }
}
