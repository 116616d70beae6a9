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
/// It would only cover the baseline.
const CONTROL: &str = "wgpu-best-again";
/// The height of a label.
const LABEL: f64 = 15.0;

/// One line.
struct Curve {
    name: &'static str,
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
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">CPU time per dispatch, without the driver's threads, chain of N, lavapipe</text>\n\
         <text x=\"{:.1}\" y=\"28\">µs at its largest N</text>\n",
        RIGHT + 24.0
    );
    grid(&mut out, &scale);
    let mut ends: Vec<(f64, usize)> = curves.iter().map(|curve| scale.y(end(curve).1)).zip(0..).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    for ((_, at), label) in ends.iter().zip(spread(&ends)) {
        line(&mut out, &scale, &curves[*at], *at, label);
    }
    out.push_str("</svg>\n");
    out
}

fn curves(rows: &[Row]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows.iter().filter(|row| row.case == Case::Chain && row.contender != CONTROL) {
        let point = (row.n as f64, row.values[0]);
        match curves.iter_mut().find(|curve| curve.name == row.contender) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name: row.contender, points: vec![point] }),
        }
    }
    curves
}

fn end(curve: &Curve) -> (f64, f64) {
    curve.points.last().copied().unwrap_or((1.0, 1.0))
}

/// Heights of labels that do not cover each other, from wanted heights in order.
fn spread(wanted: &[(f64, usize)]) -> Vec<f64> {
    let mut heights: Vec<f64> = Vec::new();
    for &(height, _) in wanted {
        let above = heights.last().map_or(TOP, |above| above + LABEL);
        heights.push(height.max(above));
    }
    // What went over the lower edge is pushed up again.
    let mut below = BOTTOM + LABEL;
    for height in heights.iter_mut().rev() {
        *height = height.min(below - LABEL);
        below = *height;
    }
    heights
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

fn line(out: &mut String, scale: &Scale, curve: &Curve, at: usize, label: f64) {
    let colour = colour(curve.name);
    let dashes = ["", "6 3", "2 3", "9 3 2 3"][at % 4];
    let mut path = String::new();
    let mut marks = String::new();
    for (index, &(n, microseconds)) in curve.points.iter().enumerate() {
        let (x, y) = (scale.x(n), scale.y(microseconds));
        let verb = if index == 0 { 'M' } else { 'L' };
        // Writing to a string does not fail.
        let _ = write!(path, "{verb}{x:.1} {y:.1}");
        let _ = write!(marks, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>");
    }
    let (n, microseconds) = end(curve);
    let (x, y) = (scale.x(n), scale.y(microseconds));
    let text = RIGHT + 24.0;
    let name = curve.name;
    let _ = writeln!(
        out,
        "<g><title>{name}</title>\
         <path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" stroke-dasharray=\"{dashes}\"/>{marks}\
         <path d=\"M{x:.1} {y:.1}L{:.1} {label:.1}\" stroke=\"{colour}\" stroke-width=\"0.7\" stroke-dasharray=\"1 3\"/>\
         <text x=\"{text:.1}\" y=\"{:.1}\" fill=\"{colour}\">{name} {microseconds:.3}</text></g>",
        text - 3.0,
        label + 4.0
    );
}
