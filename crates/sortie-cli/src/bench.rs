//! `sortie bench`: what an op costs on a device, by how many of them share a submission.

use std::{error::Error, io::Write, path::PathBuf, time::Duration};

use sortie::DeviceInfo;

use crate::{
    chain::{Chain, Ops},
    contest::Pace,
    curve::{self, Contender, Curve},
    draft::Draft,
    input,
    json::Json,
    machine::Machine,
    number,
    pair::Pair,
    plot::{self, Chart, Frame, Line},
    progress::Progress,
};

/// Measure what an op costs by how many of them share a submission: dispatches, tensor ops, fused, replayed.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// A part of the device's name, its index in `sortie devices`, or `cpu`
    #[arg(long)]
    device: Option<String>,
    /// How many numbers each op works on
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
    /// Fewer lengths and rounds: seconds instead of a minute
    #[arg(long)]
    quick: bool,
    /// One object of JSON a line instead of a table
    #[arg(long)]
    json: bool,
    /// Also draw the curves
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,
}

/// A contender with its place in the results.
struct Row {
    case: &'static str,
    contender: Contender,
    /// Which of the rows it is compared with.
    baseline: usize,
    /// In the picture, where it is shown.
    colour: Option<usize>,
}

const fn row(
    case: &'static str,
    name: &'static str,
    ops: Ops,
    together: bool,
    baseline: usize,
    colour: Option<usize>,
) -> Row {
    Row { case, contender: Contender { name, ops, together }, baseline, colour }
}

/// The control is the row above it once more: whatever its ratio is off 1.0 by, the others may be too.
const ROWS: [Row; 7] = [
    row("dispatch", "submission-each", Ops::Dispatches, false, 0, None),
    row("dispatch", "batched", Ops::Dispatches, true, 0, Some(1)),
    row("dispatch", "batched-again", Ops::Dispatches, true, 1, None),
    row("tensor", "submission-each", Ops::Tensors, false, 3, Some(0)),
    row("tensor", "batched", Ops::Tensors, true, 3, Some(4)),
    row("tensor", "fused", Ops::Fused, true, 3, Some(2)),
    row("tensor", "replayed", Ops::Replayed, true, 3, Some(3)),
];

impl Bench {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        // Before the work: a folder that is not there is better known now.
        let svg = self.svg.as_ref().map(|path| Draft::beside(path)).transpose()?;
        let pair = Pair::open(self.device.as_deref())?;
        let chain = Chain::new(&pair, self.items as usize)?;
        let (lengths, least, seconds, rounds) = if self.quick {
            (curve::lengths(4, 4096), 256, 1.0, [2, 15])
        } else {
            (curve::lengths(2, 4096), 1024, 5.0, [3, 25])
        };
        let pace = Pace { budget: Duration::from_secs_f64(seconds), rounds };
        let contenders = ROWS.map(|row| row.contender);
        let mut progress = Progress::of(lengths.len());
        let curves = curve::measure(&chain, &contenders, &lengths, least, pace, &mut progress)?;
        drop(progress);

        let info = pair.fusing.info();
        if self.json {
            for line in json(info, &curves) {
                writeln!(out, "{line}")?;
            }
        } else {
            writeln!(
                out,
                "µs per op on {} numbers, and how many times less than a submission each, on {info}",
                self.items
            )?;
            for line in table(&curves) {
                writeln!(out, "{line}")?;
            }
            writeln!(
                out,
                "medians of {} rounds or more; every answer checked; again/batched is the control: 1.0 but for noise",
                rounds[0]
            )?;
        }
        if let (Some(mut draft), Some(path)) = (svg, &self.svg) {
            let text = self.picture(&Machine::here(info), &curves);
            draft.write_all(text.as_bytes()).map_err(|error| input::named(path, &error))?;
            draft.keep()?;
        }
        Ok(())
    }

    fn picture(&self, machine: &Machine, curves: &[Curve]) -> String {
        let line = |(row, curve): (&Row, &Curve)| Some(Line { name: title(row), ..curve.line(row.colour?) });
        let lines: Vec<Line> = ROWS.iter().zip(curves).filter_map(line).collect();
        let title = format!("What one op on {} numbers costs on {}", number::whole(self.items), machine.device);
        let chart =
            Chart { title: Some(&title), across: "ops in a submission (log)", up: "µs per op (log)", lines: &lines };
        plot::alone(&chart.draw(Frame { height: 470.0, ..Frame::WIDE }))
    }
}

fn title(row: &Row) -> String {
    match (row.case, row.contender.name) {
        (_, "submission-each") => "one submission each".into(),
        ("dispatch", _) => "dispatches, batched".into(),
        (_, name) => format!("tensor ops, {name}"),
    }
}

/// Of each curve and length.
fn json(info: &DeviceInfo, curves: &[Curve]) -> Vec<String> {
    let mut lines = Vec::new();
    for (row, curve) in ROWS.iter().zip(curves) {
        let baseline = &curves[row.baseline];
        for (point, base) in curve.points.iter().zip(&baseline.points) {
            let json = Json::object()
                .text("bench", "curve")
                .text("device", &info.name)
                .text("case", row.case)
                .count("n", point.ops as u64)
                .text("contender", row.contender.name)
                .text("metric", "us_per_op")
                .number("value", point.micros_per_op)
                .text("baseline", baseline.name)
                .number("ratio", point.micros_per_op / base.micros_per_op);
            lines.push(json.end());
        }
    }
    lines
}

fn table(curves: &[Curve]) -> Vec<String> {
    let lengths = curves.first().map_or(&[][..], |curve| &curve.points);
    let mut rows = vec![
        ["", "dispatches", "", "", "tensor ops", "", "", ""].map(String::from),
        ["ops", "each", "batched", "again/batched", "each", "batched", "fused", "replayed"].map(String::from),
    ];
    for (at, point) in lengths.iter().enumerate() {
        let mut cells = vec![number::whole(point.ops)];
        for (row, curve) in ROWS.iter().zip(curves) {
            let [own, base] = [curve, &curves[row.baseline]].map(|curve| curve.points[at].micros_per_op);
            cells.push(match row.contender.name {
                "submission-each" => number::rough(own),
                "batched-again" => format!("{:.2}", own / base),
                _ => format!("{} ({}×)", number::rough(own), number::rough(base / own)),
            });
        }
        rows.extend(<[String; 8]>::try_from(cells));
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Point;

    fn curves() -> Vec<Curve> {
        let points = |micros: f64| [1, 64].map(|ops| Point { ops, micros_per_op: micros }).to_vec();
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
        assert!(last.starts_with(r#"{"bench":"curve","device":"sortie CPU"#), "{last}");
        let rest = r#""case":"tensor","n":64,"contender":"replayed","metric":"us_per_op","value":1,"baseline":"submission-each","ratio":0.125}"#;
        assert!(last.ends_with(rest), "{last}");
        assert!(
            lines[4].contains(r#""contender":"batched-again""#)
                && lines[4].ends_with(r#""baseline":"batched","ratio":1.1}"#)
        );
        Ok(())
    }

    #[test]
    fn the_table_has_a_line_for_each_length() {
        let lines = table(&curves());
        assert_eq!(lines.len(), 4);
        let cells: Vec<&str> = lines[3].split_whitespace().collect();
        assert_eq!(
            cells,
            ["64", "10.0", "5.00", "(2.00×)", "1.10", "8.00", "4.00", "(2.00×)", "2.00", "(4.00×)", "1.00", "(8.00×)"]
        );
    }
}
