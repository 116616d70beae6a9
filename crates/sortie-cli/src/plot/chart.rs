//! Curves of microseconds per op against ops in a submission, on two logarithmic axes, with their names at their ends.

use super::{scale::Scale, svg::Svg};
use crate::number;

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 178.0;
const BOTTOM: f64 = HEIGHT - 52.0;

/// The smallest distance between two names.
const LEADING: f64 = 17.0;

const ACROSS: &str = "ops in a submission (log)";
const UP: &str = "µs per op (log)";

/// One curve, in one of the colours of the style.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) colour: usize,
    /// Ops in a submission, and microseconds per op.
    pub(crate) points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Chart<'a> {
    /// Drawn above the chart; `None` if the page has one.
    pub(crate) title: Option<&'a str>,
    pub(crate) lines: &'a [Line],
}

impl Chart<'_> {
    pub(crate) fn draw(&self) -> String {
        let top = if self.title.is_some() { 62.0 } else { 34.0 };
        let points = self.lines.iter().flat_map(|line| line.points.iter());
        let counts = points.clone().map(|point| point.0);
        let [least, most] = [counts.clone().fold(f64::INFINITY, f64::min), counts.fold(1.0, f64::max)];
        let across = Scale::between([least.min(most / 2.0), most], [LEFT + 8.0, RIGHT - 8.0]);
        let up = Scale::around(points.map(|point| point.1), [BOTTOM, top]);

        let mut svg = Svg::new(WIDTH, HEIGHT, &format!("{}: {UP} against {ACROSS}", self.title.unwrap_or(UP)));
        svg.text("title", (16.0, 26.0), "start", self.title.unwrap_or_default());
        svg.text("name", (16.0, top - 14.0), "start", UP);
        let (ticks, fine) = up.ticks();
        for value in fine {
            svg.line("fine", (LEFT, up.place(value)), (RIGHT, up.place(value)));
        }
        for value in ticks {
            svg.line("grid", (LEFT, up.place(value)), (RIGHT, up.place(value)));
            svg.text("", (LEFT - 8.0, up.place(value) + 4.5), "end", &plain(value));
        }
        svg.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
        for count in std::iter::successors(Some(least.max(1.0)), |count| Some(2.0 * count)).take_while(|c| *c <= most) {
            let x = across.place(count);
            svg.line("axis", (x, BOTTOM), (x, BOTTOM + 5.0));
            svg.text("", (x, BOTTOM + 20.0), "middle", &number::whole(count as u64));
        }
        svg.text("name", (f64::midpoint(LEFT, RIGHT), BOTTOM + 42.0), "middle", ACROSS);

        for line in self.lines {
            let places: Vec<_> = line.points.iter().map(|(x, y)| (across.place(*x), up.place(*y))).collect();
            svg.curve(&format!("s{}", line.colour), &places);
            for ((count, value), place) in line.points.iter().zip(&places) {
                let tooltip = format!("{}, {}: {} µs", line.name, number::whole(*count as u64), number::rough(*value));
                svg.dot(&format!("f{}", line.colour), *place, &tooltip);
            }
        }
        let ends = self.lines.iter().map(|line| line.points.last().map_or(BOTTOM, |point| up.place(point.1)));
        for (line, y) in self.lines.iter().zip(apart(ends.collect())) {
            svg.text(&format!("f{}", line.colour), (RIGHT + 6.0, y + 4.5), "start", &line.name);
        }
        svg.end()
    }
}

/// The label of a tick, without digits that say nothing.
fn plain(value: f64) -> String {
    if value >= 1000.0 { number::whole(value.round() as u64) } else { format!("{}", (value * 1e6).round() / 1e6) }
}

/// Moves heights until names do not overlap: pairs that are too close move apart, each by half of what is missing.
fn apart(mut heights: Vec<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|a, b| heights[*a].total_cmp(&heights[*b]));
    // Each pass shrinks what is missing; few names are settled long before the last one.
    for _ in 0..200 {
        for pair in order.windows(2) {
            let missing = LEADING - (heights[pair[1]] - heights[pair[0]]);
            if missing > 0.0 {
                heights[pair[0]] -= missing / 2.0;
                heights[pair[1]] += missing / 2.0;
            }
        }
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_distance() {
        for heights in [&[10.0, 12.0, 11.0, 90.0][..], &[5.0, 5.0, 5.0], &[1.0]] {
            let mut moved = apart(heights.to_vec());
            moved.sort_by(f64::total_cmp);
            assert!(moved.windows(2).all(|pair| pair[1] - pair[0] >= LEADING - 1e-9), "{moved:?}");
        }
    }

    #[test]
    fn every_point_is_drawn_within_the_frame() {
        let points = vec![(1.0, 70.0), (2.0, 40.0), (4.0, 0.3)];
        let lines = [Line { name: "a<b".into(), colour: 1, points }];
        let svg = Chart { title: None, lines: &lines }.draw();
        let places = svg.split("cx=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        let places: Vec<f64> = places.collect();
        assert_eq!(places.len(), 3);
        assert!(places.iter().all(|x| (0.0..WIDTH).contains(x)), "{places:?}");
        assert!(svg.contains("a&lt;b") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
