//! `sortie bench`: the cost of an op by the number of ops in a submission.

use std::{error::Error, io::Write, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use sortie::device::DeviceInfo;

use crate::{
    chain::{Chain, Ops},
    curve::{self, Contender, Curve},
    device::{DeviceArgs, DevicePair},
    machine, number,
    output::OutputFile,
    plot::{self, Chart, Line},
    progress::Progress,
    rounds::RoundBudget,
    table::table,
};

/// Measure the cost of an op by the number of ops in a submission: dispatches, tensor ops, fused, replayed.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    device: DeviceArgs,
    /// How many numbers each op works on
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
    /// Fewer lengths and rounds: seconds instead of a minute
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
    /// Also draw the curves
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,
}

/// A contender and how its results are shown.
struct Row {
    case: &'static str,
    contender: Contender,
    /// The row that it is compared with.
    baseline: usize,
    /// Its name and colour in the picture.
    line: Option<(&'static str, usize)>,
}

const fn row(
    case: &'static str,
    name: &'static str,
    ops: Ops,
    baseline: usize,
    line: Option<(&'static str, usize)>,
) -> Row {
    let together = !matches!(name.as_bytes(), b"submission-each");
    Row { case, contender: Contender { name, ops, together }, baseline, line }
}

/// `batched-again` is the control: its ratio is 1.0 but for noise, and the other ratios are as noisy.
const ROWS: [Row; 7] = [
    row("dispatch", "submission-each", Ops::Dispatches, 0, None),
    row("dispatch", "batched", Ops::Dispatches, 0, Some(("dispatches, batched", 1))),
    row("dispatch", "batched-again", Ops::Dispatches, 1, None),
    row("tensor", "submission-each", Ops::Tensors, 3, Some(("one submission each", 0))),
    row("tensor", "batched", Ops::Tensors, 3, Some(("tensor ops, batched", 4))),
    row("tensor", "fused", Ops::Fused, 3, Some(("tensor ops, fused", 2))),
    row("tensor", "replayed", Ops::Replayed, 3, Some(("tensor ops, replayed", 3))),
];

impl Bench {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        // Before the work, so that a missing folder is reported first.
        let svg = self.svg.as_deref().map(OutputFile::create).transpose()?;
        let pair = DevicePair::open(&self.device)?;
        let chain = Chain::new(&pair, self.items as usize)?;
        let (factor, min_ops, seconds, min_rounds, max_rounds) =
            if self.quick { (4, 256, 1.0, 3, 15) } else { (2, 1024, 5.0, 5, 25) };
        let lengths = curve::lengths(factor, 4096);
        let budget = RoundBudget { time: Duration::from_secs_f64(seconds), min_rounds, max_rounds };
        let contenders = ROWS.map(|row| row.contender);
        let mut progress = Progress::of(lengths.len());
        let curves = curve::measure(&chain, &contenders, &lengths, min_ops, budget, &mut progress)?;
        drop(progress);

        let info = pair.fusing.info();
        if self.json {
            json(info, &curves).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        } else {
            let items = number::whole(self.items);
            writeln!(out, "µs per op on {items} numbers, and speed-up over one submission each, on {info}")?;
            writeln!(out, "{}", text(&curves))?;
            writeln!(
                out,
                "medians of at least {min_rounds} rounds; every answer checked; the control, again/batched, is 1.0 but for noise; quartiles: --json"
            )?;
        }
        if let Some(mut svg) = svg {
            svg.put(self.picture(info, &curves).as_bytes())?;
            svg.keep()?;
        }
        Ok(())
    }

    fn picture(&self, info: &DeviceInfo, curves: &[Curve]) -> String {
        let line = |(row, curve): (&Row, &Curve)| row.line.map(|(name, colour)| curve.line(name, colour));
        let lines: Vec<Line> = ROWS.iter().zip(curves).filter_map(line).collect();
        let title = format!("Cost of one op on {} numbers on {}", number::whole(self.items), machine::device(info));
        plot::alone(&Chart { title: Some(&title), lines: &lines }.draw())
    }
}

/// One object for each curve and length.
fn json(info: &DeviceInfo, curves: &[Curve]) -> Vec<Value> {
    let mut lines = Vec::new();
    for (row, curve) in ROWS.iter().zip(curves) {
        let baseline = &curves[row.baseline];
        for (point, base) in curve.points.iter().zip(&baseline.points) {
            let micros = point.micros_per_op;
            lines.push(json!({
                "bench": "curve",
                "device": info.name,
                "case": row.case,
                "n": point.ops,
                "contender": curve.name,
                "metric": "us_per_op",
                "value": micros.median,
                "quartiles": [micros.lower, micros.upper],
                "baseline": baseline.name,
                "ratio": micros.median / base.micros_per_op.median,
            }));
        }
    }
    lines
}

fn text(curves: &[Curve]) -> String {
    let lengths = curves.first().map_or(&[][..], |curve| &curve.points);
    let mut rows = vec![
        ["", "dispatches", "", "", "tensor ops", "", "", ""].map(String::from).to_vec(),
        ["ops", "each", "batched", "again/batched", "each", "batched", "fused", "replayed"].map(String::from).to_vec(),
    ];
    for (at, point) in lengths.iter().enumerate() {
        let mut cells = vec![number::whole(point.ops)];
        for (row, curve) in ROWS.iter().zip(curves) {
            let [own, base] = [curve, &curves[row.baseline]].map(|curve| curve.points[at].micros_per_op.median);
            cells.push(match curve.name {
                "submission-each" => number::rough(own),
                "batched-again" => format!("{:.2}", own / base),
                _ => format!("{} ({}×)", number::rough(own), number::rough(base / own)),
            });
        }
        rows.push(cells);
    }
    table(rows, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{curve::Point, rounds::Quartiles};

    fn curves() -> Vec<Curve> {
        let points = |micros: f64| {
            [1, 64]
                .map(|ops| Point { ops, micros_per_op: Quartiles { lower: micros, median: micros, upper: micros } })
                .to_vec()
        };
        let micros = [10.0, 5.0, 5.5, 8.0, 4.0, 2.0, 1.0];
        ROWS.iter()
            .zip(micros)
            .map(|(row, micros)| Curve { name: row.contender.name, points: points(micros) })
            .collect()
    }

    #[test]
    fn a_ratio_is_taken_of_the_baseline_of_the_same_case() -> Result<(), sortie::Error> {
        let lines = json(sortie::Device::cpu()?.info(), &curves());
        assert_eq!(lines.len(), 14);
        let last = &lines[13];
        assert_eq!((&last["case"], &last["contender"], &last["n"]), (&"tensor".into(), &"replayed".into(), &64.into()));
        assert_eq!((&last["value"], &last["ratio"]), (&1.0.into(), &0.125.into()));
        assert_eq!((&lines[4]["contender"], &lines[4]["baseline"]), (&"batched-again".into(), &"batched".into()));
        assert_eq!(lines[4]["ratio"], 1.1);
        Ok(())
    }

    #[test]
    fn the_table_has_a_line_for_each_length() {
        let text = text(&curves());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        let cells: Vec<&str> = lines[3].split_whitespace().collect();
        assert_eq!(
            cells,
            ["64", "10.0", "5.00", "(2.00×)", "1.10", "8.00", "4.00", "(2.00×)", "2.00", "(4.00×)", "1.00", "(8.00×)"]
        );
    }
}
