//! The chain's CPU time against the number of ops, as a picture: both axes are logarithmic.

use std::fmt::Write;

use crate::case::Case;
use crate::comparison::Row;

const WIDTH: f64 = 940.0;
const HEIGHT: f64 = 620.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 560.0;
/// The smallest distance between two labels.
const LABEL: f64 = 16.0;
/// The contenders that are drawn: the others are in the table, and would only cover these. Those that record each run are solid lines, those that
/// replay are dashed.
const DRAWN: [(&str, bool); 8] = [
    ("wgpu-submit-per-op", true),
    ("wgpu-best", true),
    ("cubecl-launch", true),
    ("aprender-record", true),
    ("scry-gpu", true),
    ("sortie-record", true),
    ("sortie-native", false),
    ("vulkan-resubmit", false),
];

/// One line.
struct Curve {
    name: &'static str,
    records: bool,
    /// N and µs per op.
    points: Vec<(f64, f64)>,
}

/// Where numbers are in the picture.
struct Scale {
    most: f64,
    lowest: f64,
    highest: f64,
}

impl Scale {
    fn of(curves: &[Curve]) -> Self {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let lowest = points().map(|point| point.1).fold(f64::INFINITY, f64::min).max(1e-3);
        let highest = points().map(|point| point.1).fold(lowest, f64::max);
        let most = points().map(|point| point.0).fold(10.0, f64::max);
        Self { most: most.log10().ceil(), lowest: lowest.log10().floor(), highest: highest.log10().ceil() }
    }

    fn x(&self, n: f64) -> f64 {
        LEFT + n.log10() / self.most * (RIGHT - LEFT)
    }

    fn y(&self, microseconds: f64) -> f64 {
        let share = (microseconds.max(1e-3).log10() - self.lowest) / (self.highest - self.lowest);
        BOTTOM - share * (BOTTOM - TOP)
    }
}

/// The picture of the chain's rows.
pub(crate) fn svg(rows: &[Row]) -> String {
    let curves = curves(rows);
    let scale = Scale::of(&curves);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">CPU time per dispatch, without the driver's threads, chain of N, lavapipe; dashed: replays</text>\n"
    );
    grid(&mut out, &scale);
    let mut order: Vec<&Curve> = curves.iter().collect();
    order.sort_by(|a, b| end(b).1.total_cmp(&end(a).1));
    let longest = curves.iter().map(|curve| end(curve).0).fold(0.0, f64::max);
    // Labels that start at the same N must not cover each other.
    let mut last: Vec<(f64, f64)> = Vec::new();
    for curve in order {
        let (n, microseconds) = end(curve);
        let above = last.iter().rfind(|label| label.0 == n).map_or(TOP, |label| label.1 + LABEL);
        // A label within the picture stands above its line, where longer lines go on.
        let wanted = scale.y(microseconds) - if n < longest { LABEL } else { 0.0 };
        last.push((n, wanted.max(above)));
        line(&mut out, &scale, curve, last[last.len() - 1].1);
    }
    out.push_str("</svg>\n");
    out
}

fn curves(rows: &[Row]) -> Vec<Curve> {
    let curve = |(name, records)| {
        let rows = rows.iter().filter(|row| row.case == Case::Chain && row.contender == name);
        Curve { name, records, points: rows.map(|row| (row.n as f64, row.values[0])).collect() }
    };
    DRAWN.into_iter().map(curve).filter(|curve| !curve.points.is_empty()).collect()
}

fn end(curve: &Curve) -> (f64, f64) {
    curve.points.last().copied().unwrap_or((1.0, 1.0))
}

fn grid(out: &mut String, scale: &Scale) {
    let mut put = |text: String| out.push_str(&text);
    for power in 0..=scale.most as i32 {
        let n = 10f64.powi(power);
        let x = scale.x(n);
        put(format!("<path d=\"M{x:.1} {TOP}V{BOTTOM}\" stroke=\"#ddd\"/>\n"));
        put(format!("<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{n}</text>\n", BOTTOM + 18.0));
    }
    for power in scale.lowest as i32..=scale.highest as i32 {
        let microseconds = 10f64.powi(power);
        let y = scale.y(microseconds);
        put(format!("<path d=\"M{LEFT} {y:.1}H{RIGHT}\" stroke=\"#ddd\"/>\n"));
        put(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{microseconds}</text>\n", LEFT - 8.0, y + 4.0));
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    put(format!(
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">N, dispatches in a run</text>\n",
        BOTTOM + 40.0
    ));
    let middle = f64::midpoint(TOP, BOTTOM);
    put(format!(
        "<text transform=\"translate(22 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">CPU µs per dispatch</text>\n"
    ));
}

/// A colour for each of them: sortie's are red, hand-written wgpu's grey, raw Vulkan's black, and peers have one each.
fn colour(name: &str) -> &'static str {
    match name.split('-').next() {
        Some("sortie") => "#d62728",
        Some("wgpu") => "#8a8a8a",
        Some("vulkan") => "#000",
        Some("cubecl") => "#1f77b4",
        Some("aprender") => "#2ca02c",
        _ => "#9467bd",
    }
}

fn line(out: &mut String, scale: &Scale, curve: &Curve, label: f64) {
    let (name, colour) = (curve.name, colour(curve.name));
    let dashes = if curve.records { "" } else { " stroke-dasharray=\"6 4\"" };
    let points: Vec<String> = curve
        .points
        .iter()
        .map(|&(n, microseconds)| format!("{:.1},{:.1}", scale.x(n), scale.y(microseconds)))
        .collect();
    let (n, microseconds) = end(curve);
    let (x, y) = (scale.x(n), scale.y(microseconds));
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<g><title>{name}</title><polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.2\"{dashes}/>\
         <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\" font-size=\"13\" stroke=\"#fff\" stroke-width=\"4\" paint-order=\"stroke\">{name} {microseconds:.3} µs</text></g>",
        points.join(" "),
        x + 9.0,
        label + 4.5
    );
}
