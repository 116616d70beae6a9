//! A profile as a table.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{OpProfile, Profile, ScopeProfile, StepProfile, step::Totals};

/// With more steps than this, the table has one row per kernel.
const MAX_ROWS: usize = 40;

/// Shown for unknown values.
const UNKNOWN: &str = "n/a";

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary(f)?;
        if !self.scopes().is_empty() {
            writeln!(f)?;
            self.scope_table().fmt(f)?;
        }
        if self.steps().is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        match f.alternate() || self.steps().len() <= MAX_ROWS {
            true => self.step_table().fmt(f),
            false => self.kernel_table().fmt(f),
        }
    }
}

impl Profile {
    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        let (ops, steps) = (counted(self.ops().len(), "op"), counted(self.steps().len(), "step"));
        let submissions = counted(self.submissions(), "submission");
        writeln!(f, "{ops} as {steps} in {submissions} on {}", self.device())?;
        let stages = self.stages();
        let record = stages.record.map_or_else(|| UNKNOWN.into(), time);
        let [plan, encode, submit, wait] = [stages.plan, stages.encode, stages.submit, stages.wait].map(time);
        writeln!(f, "host    record {record}, plan {plan}, encode {encode}, submit {submit}, wait {wait}")?;
        let device = self.device_time().map_or_else(|| UNKNOWN.into(), time);
        write!(f, "device  {device} ({})", self.tier())?;
        for why in self.caveats() {
            write!(f, "\ndisturbed by {why}")?;
        }
        writeln!(f)
    }

    fn share(&self, part: Option<Duration>) -> String {
        let whole = self.device_time().filter(|whole| !whole.is_zero());
        match part.zip(whole) {
            Some((part, whole)) => format!("{:.1}", 100.0 * part.as_secs_f64() / whole.as_secs_f64()),
            None => String::new(),
        }
    }

    fn scope_table(&self) -> Table {
        let headings = ["scope", "ops", "steps", "device", "%", "GB/s", "GFLOP/s", "record", "encode"];
        let row = |scope: &ScopeProfile| {
            // The scope's time is a lower bound.
            let more = if scope.is_complete() || scope.time().is_none() { "" } else { "≥ " };
            let shown = scope.time().map_or_else(|| UNKNOWN.into(), |known| format!("{more}{}", time(known)));
            let steps = match scope.straddling() {
                0 => scope.steps().to_string(),
                across => format!("{} + {across} shared", scope.steps()),
            };
            vec![
                format!("{}{}", "  ".repeat(scope.depth()), scope.label()),
                scope.ops().len().to_string(),
                steps,
                shown,
                self.share(scope.time()),
                giga(scope.bytes_per_second()),
                giga(scope.flops_per_second()),
                scope.record().map_or_else(|| UNKNOWN.into(), time),
                spent(scope.encode()),
            ]
        };
        Table::new(&headings, 1, self.scopes().iter().map(row))
    }

    fn step_table(&self) -> Table {
        let headings = ["step", "op", "kernel", "device", "%", "GB/s", "GFLOP/s", "encode"];
        let passes: Vec<_> = self.passes().collect();
        let mut shown = None;
        let row = |(number, step): (usize, &StepProfile)| {
            let device = match step.pass() {
                None => step.time().map_or_else(|| UNKNOWN.into(), time),
                // The time of a pass is shown once.
                Some(pass) if shown.replace(pass) != Some(pass) => {
                    let taken = passes.get(pass).copied().flatten().map_or_else(|| UNKNOWN.into(), time);
                    format!("pass {pass}: {taken}")
                }
                Some(pass) => format!("in pass {pass}"),
            };
            vec![
                number.to_string(),
                self.named(step),
                step.name().to_owned(),
                device,
                self.share(step.time()),
                giga(step.bytes_per_second()),
                giga(step.flops_per_second()),
                spent(step.encode()),
            ]
        };
        Table::new(&headings, 3, self.steps().iter().enumerate().map(row))
    }

    /// The ops of a step by number, and the last non-empty label among them.
    fn named(&self, step: &StepProfile) -> String {
        let numbers = match step.ops() {
            [] => return String::new(),
            [first, .., last] if *last - *first + 1 == step.ops().len() => format!("#{first}–{last}"),
            ops if ops.len() > 4 => format!("#{}, {} more", ops[0], ops.len() - 1),
            ops => ops.iter().map(|op| format!("#{op}")).collect::<Vec<_>>().join(" "),
        };
        let labels = step.ops().iter().rev().filter_map(|op| self.ops().get(*op)).map(OpProfile::label);
        match labels.into_iter().find(|label| !label.is_empty()) {
            Some(label) => format!("{numbers} {label}"),
            None => numbers,
        }
    }

    fn kernel_table(&self) -> Table {
        let mut kernels: BTreeMap<&str, Totals> = BTreeMap::new();
        for step in self.steps() {
            kernels.entry(step.name()).or_default().add(step);
        }
        let mut kernels: Vec<_> = kernels.into_iter().collect();
        kernels.sort_by_key(|(_, kernel)| std::cmp::Reverse((kernel.time, kernel.steps)));
        let row = |(name, kernel): &(&str, Totals)| {
            let known = u32::try_from(kernel.steps - kernel.unknown).unwrap_or(u32::MAX);
            let more = if kernel.unknown > 0 { "≥ " } else { "" };
            vec![
                (*name).to_owned(),
                kernel.steps.to_string(),
                kernel.time.map_or_else(|| UNKNOWN.into(), |all| format!("{more}{}", time(all))),
                kernel.time.map_or_else(|| UNKNOWN.into(), |all| time(all / known)),
                self.share(kernel.time),
                giga(kernel.bytes_per_second()),
                giga(kernel.flops_per_second()),
                spent(kernel.encode),
            ]
        };
        Table::new(&["kernel", "steps", "device", "each", "%", "GB/s", "GFLOP/s", "encode"], 1, kernels.iter().map(row))
    }
}

/// Columns as wide as their content: the first few left-aligned, figures right-aligned.
struct Table {
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Table {
    fn new(headings: &[&str], left: usize, rows: impl Iterator<Item = Vec<String>>) -> Self {
        let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
        Self { rows: [headings].into_iter().chain(rows).collect(), left }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column > 0 { "  " } else { "" };
                line += &match column < self.left {
                    true => format!("{gap}{cell:<width$}"),
                    false => format!("{gap}{cell:>width$}"),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn time(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1e3 => format!("{micros:.2} µs"),
        ..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// Empty for zero.
fn spent(spent: Duration) -> String {
    if spent.is_zero() { String::new() } else { time(spent) }
}

fn giga(rate: Option<f64>) -> String {
    rate.map_or_else(String::new, |rate| format!("{:.2}", rate / 1e9))
}
