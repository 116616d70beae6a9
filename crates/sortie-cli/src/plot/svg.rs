//! SVG as text.

use std::fmt::Display;

/// How large a picture is, in pixels at its natural size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Frame {
    /// For a desk.
    pub(crate) const WIDE: Self = Self { width: 920.0, height: 440.0 };
    /// For a phone: the same letters on less room.
    pub(crate) const NARROW: Self = Self { width: 360.0, height: 380.0 };

    pub(crate) fn is_narrow(self) -> bool {
        self.width < 600.0
    }
}

/// A picture being drawn.
#[derive(Debug)]
pub(super) struct Svg(String);

/// Where a text stands in respect to its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// `told` is the picture in words.
    pub(super) fn new(frame: Frame, told: &str) -> Self {
        let Frame { width, height } = frame;
        let told = escaped(told);
        Self(format!(
            "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{told}\">"
        ))
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"));
    }

    pub(super) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), round: f64) {
        let ((x, y), (width, height)) = (at, size);
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" rx=\"{round}\"/>"
        ));
    }

    /// With a word for whoever points at it.
    pub(super) fn told_rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), told: &str) {
        let ((x, y), (width, height), told) = (at, size, escaped(told));
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\"><title>{told}</title></rect>"
        ));
    }

    pub(super) fn dot(&mut self, class: &str, at: (f64, f64), told: &str) {
        let ((x, y), told) = (at, escaped(told));
        self.add(format_args!(
            "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"><title>{told}</title></circle>"
        ));
    }

    pub(super) fn curve(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!("<polyline class=\"curve {class}\" points=\"{}\"/>", points.join(" ")));
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        let ((x, y), text) = (at, escaped(text));
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub(super) fn end(self) -> String {
        self.0 + "</svg>"
    }

    fn add(&mut self, element: impl Display) {
        self.0 += &element.to_string();
    }
}

/// Text that is nothing but text, in an element or an attribute.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let mut svg = Svg::new(Frame::WIDE, "a \"b\"");
        svg.text("c", (1.0, 2.0), Anchor::End, "<script>&");
        let text = svg.end();
        assert!(text.contains("aria-label=\"a &quot;b&quot;\"") && text.ends_with(">&lt;script&gt;&amp;</text></svg>"));
    }
}
