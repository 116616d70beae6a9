//! Pictures of what was measured: SVG that takes its colours from [`STYLE`], alone or within a page, in light and in dark.

mod curves;
mod lanes;
mod scale;
mod svg;

pub(crate) use self::{
    curves::{Chart, Line},
    lanes::{Lane, Lanes, Span},
    svg::{Frame, escaped},
};

/// The colours and sizes of all pictures. A picture by itself carries it along.
pub(crate) const STYLE: &str = include_str!("plot.css");

/// A picture as a file of its own.
pub(crate) fn alone(svg: &str) -> String {
    let style = format!("<style>{STYLE} svg{{background:var(--paper)}}</style>");
    match svg.find('>') {
        Some(end) => {
            format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}{style}{}\n", &svg[..=end], &svg[end + 1..])
        }
        None => svg.to_owned(),
    }
}
