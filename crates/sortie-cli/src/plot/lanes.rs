//! What happened when: lanes above each other on one axis of time.

use super::{
    scale::Scale,
    svg::{Anchor, Frame, Svg},
};
use crate::number;

/// Something that took from one moment to another, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) colour: usize,
    /// Whether it is in the lower half of its lane.
    pub(crate) below: bool,
    pub(crate) begin: f64,
    pub(crate) time: f64,
}

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) name: String,
    /// At its right: what it came to.
    pub(crate) note: String,
    pub(crate) spans: Vec<Span>,
}

/// All of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<'a> {
    pub(crate) lanes: &'a [Lane],
    /// What the colours stand for.
    pub(crate) legend: &'a [(&'a str, usize)],
}

const HALF: f64 = 18.0;
const HEIGHT: f64 = 2.0 * HALF + 2.0;
const STEP: f64 = HEIGHT + 30.0;

impl Lanes<'_> {
    /// As high as it needs to be.
    pub(crate) fn draw(&self, frame: Frame) -> String {
        let narrow = frame.is_narrow();
        let rows = if narrow { self.legend.len().div_ceil(2) } else { 1 };
        let above = 14.0 + 20.0 * rows as f64;
        let bottom = above + STEP * self.lanes.len() as f64 + 4.0;
        let frame = Frame { height: bottom + 48.0, ..frame };
        let (left, right) = (16.0, frame.width - 16.0);
        let spans = self.lanes.iter().flat_map(|lane| &lane.spans);
        let end = spans.map(|span| span.begin + span.time).fold(1.0, f64::max);
        let scale = Scale::linear([0.0, end], [left, right]);

        let mut svg = Svg::new(frame, "time line, both lanes on the same linear axis");
        let mut next = left;
        for (at, (name, colour)) in self.legend.iter().enumerate() {
            let half = left + (right - left) / 2.0 * (at % 2) as f64;
            let (x, y) = if narrow { (half, 16.0 + 20.0 * (at / 2) as f64) } else { (next, 16.0) };
            // Letters are about this wide.
            next += 44.0 + 7.2 * name.chars().count() as f64;
            svg.rect(&format!("f{colour}"), (x, y - 9.0), (14.0, 10.0), 2.0);
            svg.text("", (x + 20.0, y), Anchor::Start, name);
        }
        for value in scale.ticks().0 {
            let x = scale.place(value);
            svg.line("grid", (x, above), (x, bottom));
            // The last one must not run out of the picture.
            let anchor = if x > right - 24.0 {
                Anchor::End
            } else if x < left + 12.0 {
                Anchor::Start
            } else {
                Anchor::Middle
            };
            svg.text("", (x, bottom + 18.0), anchor, &number::whole(value.round() as u64));
        }
        svg.text("name", (right, bottom + 40.0), Anchor::End, "µs since the first op was recorded (linear)");
        for (at, lane) in self.lanes.iter().enumerate() {
            let y = above + STEP * at as f64 + 22.0;
            svg.text("name", (left, y - 8.0), Anchor::Start, &lane.name);
            if !narrow {
                svg.text("", (right, y - 8.0), Anchor::End, &lane.note);
            }
            for top in [y, y + HEIGHT - HALF] {
                svg.rect("bed", (left, top), (right - left, HALF), 2.0);
            }
            for span in &lane.spans {
                let (from, to) = (scale.place(span.begin), scale.place(span.begin + span.time));
                let told = format!("{}: {}", span.name, number::micros(span.time));
                let y = if span.below { y + HEIGHT - HALF } else { y };
                svg.told_rect(&format!("f{}", span.colour), (from, y), ((to - from).max(0.4), HALF), &told);
            }
        }
        svg.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_share_an_axis() {
        let span = |begin, time| Span { name: "a".into(), colour: 1, below: true, begin, time };
        let lane = |spans| Lane { name: "lane".into(), note: String::new(), spans };
        let lanes = [lane(vec![span(0.0, 100.0)]), lane(vec![span(0.0, 50.0)])];
        let svg = Lanes { lanes: &lanes, legend: &[("a", 1)] }.draw(Frame::WIDE);
        let widths = svg
            .split("class=\"f1\"")
            .skip(2)
            .filter_map(|rest| rest.split("width=\"").nth(1)?.split('"').next()?.parse::<f64>().ok());
        let widths: Vec<f64> = widths.collect();
        assert!(widths.len() == 2 && (widths[0] - 2.0 * widths[1]).abs() < 0.1, "{widths:?}");
    }
}
