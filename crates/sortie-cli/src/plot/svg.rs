//! SVG as text.

use std::fmt::Display;

/// A picture being drawn.
#[derive(Debug)]
pub(super) struct Svg(String);

/// A place in the picture.
pub(super) type Position = (f64, f64);

impl Svg {
    /// `label` describes the picture to screen readers.
    pub(super) fn new(width: f64, height: f64, label: &str) -> Self {
        let label = escaped(label);
        Self(format!(
            "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">"
        ))
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): Position, (x2, y2): Position) {
        self.add(format_args!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"));
    }

    /// A dot with a tooltip.
    pub(super) fn dot(&mut self, class: &str, (x, y): Position, tooltip: &str) {
        let tooltip = escaped(tooltip);
        self.add(format_args!(
            "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"><title>{tooltip}</title></circle>"
        ));
    }

    pub(super) fn curve(&mut self, class: &str, points: &[Position]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!("<polyline class=\"curve {class}\" points=\"{}\"/>", points.join(" ")));
    }

    /// `anchor` is `start`, `middle` or `end`.
    pub(super) fn text(&mut self, class: &str, (x, y): Position, anchor: &str, text: &str) {
        let text = escaped(text);
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

/// Text without markup, for an element or an attribute.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let mut svg = Svg::new(1.0, 2.0, "a \"b\"");
        svg.text("c", (1.0, 2.0), "end", "<script>&");
        let text = svg.end();
        assert!(text.contains("aria-label=\"a &quot;b&quot;\"") && text.ends_with(">&lt;script&gt;&amp;</text></svg>"));
    }
}
