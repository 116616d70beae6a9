//! Pictures of measurements: SVG that takes its colours from [`STYLE`], alone or within a page, in light and dark.

mod chart;
mod scale;
mod svg;

pub(crate) use self::{
    chart::{Chart, Line},
    svg::escaped,
};

/// The colours and sizes of all pictures. A picture in its own file contains it.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// A picture as a file of its own.
pub(crate) fn alone(svg: &str) -> String {
    let style = format!("<style>{STYLE} svg{{background:var(--paper)}}</style>");
    let (open, rest) = svg.split_once('>').unwrap_or((svg, ""));
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{open}>{style}{rest}\n")
}
