//! Curves on two logarithmic axes.

use super::{
    scale::Scale,
    svg::{Anchor, Frame, Svg},
};
use crate::number;

/// One curve, in one of the colours of the style.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Curves of microseconds against a count that doubles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chart<'a> {
    /// Above it; none where the page has one.
    pub(crate) title: Option<&'a str>,
    pub(crate) across: &'a str,
    pub(crate) up: &'a str,
    pub(crate) lines: &'a [Line],
}

/// Letters of a label, at least so far apart.
const LEADING: f64 = 17.0;

impl Chart<'_> {
    pub(crate) fn draw(&self, frame: Frame) -> String {
        let narrow = frame.is_narrow();
        // Where there is room, curves are named at their ends.
        let above = 34.0
            + if self.title.is_some() { 28.0 } else { 0.0 }
            + if narrow { LEADING * self.lines.len() as f64 } else { 0.0 };
        let (left, right) = (58.0, frame.width - if narrow { 14.0 } else { 178.0 });
        let bottom = frame.height - 52.0;
        let points = self.lines.iter().flat_map(|line| line.points.iter());
        let counts = points.clone().map(|point| point.0);
        let [least, most] = [counts.clone().fold(f64::INFINITY, f64::min), counts.fold(1.0, f64::max)];
        let across = Scale::tight_log([least.min(most / 2.0), most], [left + 8.0, right - 8.0]);
        let up = Scale::log(points.map(|point| point.1), [bottom, above]);

        let told = self.title.unwrap_or(self.up);
        let mut svg = Svg::new(frame, &format!("{told}: {} against {}, both axes logarithmic", self.up, self.across));
        if let Some(title) = self.title {
            svg.text("title", (16.0, 26.0), Anchor::Start, title);
        }
        let (ticks, fine) = up.ticks();
        for value in fine {
            svg.line("fine", (left, up.place(value)), (right, up.place(value)));
        }
        for value in ticks {
            svg.line("grid", (left, up.place(value)), (right, up.place(value)));
            svg.text("", (left - 8.0, up.place(value) + 4.5), Anchor::End, &plain(value));
        }
        svg.text("name", (16.0, if self.title.is_some() { 50.0 } else { 18.0 }), Anchor::Start, self.up);
        svg.line("axis", (left, bottom), (right, bottom));
        let every = if narrow { 4.0 } else { 2.0 };
        let mut count = least.max(1.0);
        while count <= most {
            let x = across.place(count);
            svg.line("axis", (x, bottom), (x, bottom + 5.0));
            svg.text("", (x, bottom + 20.0), Anchor::Middle, &number::whole(count as u64));
            count *= every;
        }
        svg.text("name", ((left + right) / 2.0, bottom + 42.0), Anchor::Middle, self.across);

        for line in self.lines {
            let places: Vec<_> = line.points.iter().map(|(x, y)| (across.place(*x), up.place(*y))).collect();
            svg.curve(&format!("s{}", line.colour), &places);
            for ((count, value), place) in line.points.iter().zip(&places) {
                let told = format!("{}, {}: {} µs", line.name, number::whole(*count as u64), number::rough(*value));
                svg.dot(&format!("f{}", line.colour), *place, &told);
            }
        }
        if narrow {
            for (at, line) in self.lines.iter().enumerate() {
                let y = above - 10.0 - LEADING * (self.lines.len() - 1 - at) as f64;
                svg.rect(&format!("f{}", line.colour), (left, y - 9.0), (14.0, 8.0), 2.0);
                svg.text("", (left + 20.0, y), Anchor::Start, &line.name);
            }
        } else {
            let ends: Vec<f64> =
                self.lines.iter().map(|line| line.points.last().map_or(bottom, |point| up.place(point.1))).collect();
            for (line, y) in self.lines.iter().zip(apart(&ends)) {
                svg.text(&format!("f{}", line.colour), (right + 6.0, y + 4.5), Anchor::Start, &line.name);
            }
        }
        svg.end()
    }
}

/// A tick's label, without digits that say nothing.
fn plain(value: f64) -> String {
    if value >= 1000.0 { number::whole(value.round() as u64) } else { format!("{}", (value * 1e6).round() / 1e6) }
}

/// Heights moved so that labels do not cover each other, in their order.
fn apart(heights: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|a, b| heights[*a].total_cmp(&heights[*b]));
    let mut moved = heights.to_vec();
    for pair in order.windows(2) {
        moved[pair[1]] = moved[pair[1]].max(moved[pair[0]] + LEADING);
    }
    // What was pushed down pulls half of the way back up.
    let shift = order.iter().map(|at| moved[*at] - heights[*at]).fold(0.0, f64::max) / 2.0;
    for at in order {
        if moved[at] > heights[at] {
            moved[at] -= shift.min(moved[at] - heights[at]);
        }
    }
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|a, b| moved[*a].total_cmp(&moved[*b]));
    for pair in order.windows(2) {
        moved[pair[1]] = moved[pair[1]].max(moved[pair[0]] + LEADING);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance() {
        for heights in [&[10.0, 12.0, 11.0, 90.0][..], &[5.0, 5.0, 5.0], &[1.0]] {
            let mut moved = apart(heights);
            moved.sort_by(f64::total_cmp);
            assert!(moved.windows(2).all(|pair| pair[1] - pair[0] >= LEADING - 1e-9), "{moved:?}");
        }
    }

    #[test]
    fn every_point_is_drawn_within_the_frame() {
        let points = vec![(1.0, 70.0), (2.0, 40.0), (4.0, 0.3)];
        let lines = [Line { name: "a<b".into(), colour: 1, points }];
        for frame in [Frame::WIDE, Frame::NARROW] {
            let svg = Chart { title: None, across: "ops", up: "µs", lines: &lines }.draw(frame);
            let places = svg.split("cx=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
            let places: Vec<f64> = places.collect();
            assert_eq!(places.len(), 3);
            assert!(places.iter().all(|x| (0.0..frame.width).contains(x)), "{places:?}");
            assert!(svg.contains("a&lt;b") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
