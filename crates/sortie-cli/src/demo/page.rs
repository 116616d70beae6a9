//! All findings as one page: nothing but itself is needed to show it.

use super::{
    table::served,
    timeline,
    work::{Finding, Outcome},
};
use crate::{
    chain::Ops,
    curve::{Contender, Curve},
    json::Json,
    machine::Machine,
    number,
    plot::{self, Chart, Frame, Lane, Lanes, Line, escaped},
};

const TEMPLATE: &str = include_str!("page.html");

/// Beneath the time line.
const LANES_NOTE: &str = "Above, in each lane, the host; below, the device, as profiles of the batches tell. All lanes share one axis. Each is the median of \
                          several rounds; profiling adds a little of its own to each submission. The built-in CPU submits to nobody: it is at work at once.";

/// Whose curves there are, in colours that the ways have too.
pub(super) const CURVES: [(Contender, usize); 4] = [
    (Contender { name: "dispatches", ops: Ops::Dispatches, together: true }, 4),
    (Contender { name: "tensor ops", ops: Ops::Tensors, together: true }, 1),
    (Contender { name: "fused", ops: Ops::Fused, together: true }, 2),
    (Contender { name: "fused and replayed", ops: Ops::Replayed, together: true }, 3),
];

/// A bar shorter than this has its number beside it, not within.
const ROOM_WITHIN: f64 = 24.0;

/// What there is to show.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) findings: &'a [Finding],
    pub(super) lanes: &'a [Lane],
    pub(super) curves: &'a [Curve],
    /// How the curves were measured.
    pub(super) curve_note: &'a str,
    pub(super) machine: &'a Machine,
}

impl Page<'_> {
    pub(super) fn html(&self) -> String {
        let lines: Vec<Line> = self.curves.iter().enumerate().map(|(at, curve)| curve.line(CURVES[at].1)).collect();
        let chart = Chart { title: None, across: "ops in a submission (log)", up: "µs per op (log)", lines: &lines };
        let lanes = Lanes { lanes: self.lanes, legend: &timeline::LEGEND };
        let notes: Vec<String> = self.lanes.iter().map(|lane| format!("{}: {}", lane.name, lane.note)).collect();
        let parts = [
            ("style", plot::STYLE.to_owned()),
            ("headline", escaped(&self.headline().join(" "))),
            ("heading", self.headline().map(|part| format!("<span>{}</span>", escaped(&part))).join(" ")),
            ("device", escaped(&self.machine.device)),
            ("tiles", self.findings.iter().map(tile).collect()),
            ("works", self.findings.iter().map(section).collect()),
            ("lane_ops", timeline::OPS.to_string()),
            ("lanes_wide", lanes.draw(Frame::WIDE)),
            ("lanes_narrow", lanes.draw(Frame::NARROW)),
            ("lanes_caption", escaped(&format!("{}. {}", notes.join("; "), LANES_NOTE))),
            ("curve_wide", chart.draw(Frame::WIDE)),
            ("curve_narrow", chart.draw(Frame::NARROW)),
            ("curve_caption", escaped(self.curve_note)),
            ("machine", self.machine.facts().iter().map(|(name, fact)| row(name, fact)).collect()),
            ("data", self.data()),
        ];
        filled(&parts)
    }

    /// The largest gain of all, in two parts that are better not broken.
    fn headline(&self) -> [String; 2] {
        let best = self.findings.iter().filter_map(|finding| Some((finding, finding.best()?)));
        match best.max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio)) {
            Some((finding, best)) => {
                [format!("{},", finding.title), format!("{}× faster together", number::rough(best.ratio))]
            }
            None => ["Nothing", "was measured"].map(Into::into),
        }
    }

    fn data(&self) -> String {
        let works = self.findings.iter().map(|finding| {
            let ways = finding.outcomes.iter().map(|outcome| {
                let (trial, lap) = (&outcome.trial, &outcome.trial.lap);
                let json = Json::object()
                    .text("way", outcome.way.key())
                    .count("count", trial.count as u64)
                    .number("us", lap.time.as_secs_f64() * 1e6)
                    .number("us_per_unit", outcome.micros_per_unit())
                    .number("ratio", outcome.ratio)
                    .count("submissions", lap.submissions)
                    .count("dispatches", lap.dispatches);
                match trial.service {
                    None => json,
                    Some(service) => json
                        .number("p50_us", service.p50.as_secs_f64() * 1e6)
                        .number("p99_us", service.p99.as_secs_f64() * 1e6)
                        .number("fill", service.fill.unwrap_or(f64::NAN)),
                }
            });
            Json::object()
                .text("title", &finding.title)
                .text("unit", finding.unit)
                .count("count", finding.count as u64)
                .count("rounds", finding.rounds as u64)
                .put("ways", Json::array(ways))
        });
        let lanes = self.lanes.iter().map(|lane| {
            let spans = lane.spans.iter().map(|span| {
                Json::object().text("name", &span.name).number("begin_us", span.begin).number("us", span.time)
            });
            Json::object().text("name", &lane.name).put("spans", Json::array(spans))
        });
        let curves = self.curves.iter().map(|curve| {
            let points = curve
                .points
                .iter()
                .map(|point| Json::object().count("ops", point.ops as u64).number("us_per_op", point.micros_per_op));
            Json::object().text("name", curve.name).put("points", Json::array(points))
        });
        let machine = self.machine.facts().iter().fold(Json::object(), |json, (name, fact)| json.text(name, fact));
        Json::object()
            .put("machine", machine)
            .put("works", Json::array(works))
            .put("lanes", Json::array(lanes))
            .put("curves", Json::array(curves))
            .end()
    }
}

fn tile(finding: &Finding) -> String {
    let (Some(first), Some(best)) = (finding.outcomes.first(), finding.best()) else { return String::new() };
    let [before, after] = [first, best].map(|outcome| number::micros(outcome.micros_per_unit()));
    format!(
        "<div class=\"tile\"><strong>{}</strong><b>{}<i>×</i></b><small>{before} → {after} per {}<br>{}</small></div>",
        escaped(&finding.title),
        number::rough(best.ratio),
        finding.unit,
        escaped(&best.way.to_string()),
    )
}

fn section(finding: &Finding) -> String {
    let longest = finding.outcomes.iter().map(Outcome::micros_per_unit).fold(f64::MIN_POSITIVE, f64::max);
    let bars: String = finding.outcomes.iter().map(|outcome| bar(finding, outcome, longest)).collect();
    format!(
        "<section><h2>{}</h2><p class=\"about\">{}</p><div class=\"bars\">{bars}</div>\
         <p class=\"scale\">Bars: µs per {}, linear, shorter is better. At the right: how many times faster than one submission each. Median of {} rounds.</p></section>\n",
        escaped(&finding.title),
        escaped(&finding.about),
        finding.unit,
        finding.rounds,
    )
}

fn bar(finding: &Finding, outcome: &Outcome, longest: f64) -> String {
    let micros = outcome.micros_per_unit();
    let percent = 100.0 * micros / longest;
    let lap = &outcome.trial.lap;
    let (class, left) =
        if percent < ROOM_WITHIN { ("value", format!("{percent:.2}%")) } else { ("value in", "0".into()) };
    let part = match outcome.trial.count {
        count if count == finding.count => String::new(),
        count => format!("only {} {}s were run; ", number::whole(count), finding.unit),
    };
    let (submissions, dispatches) = (number::whole(lap.submissions), number::whole(lap.dispatches));
    let small = format!(
        "{} in all; {submissions} submission{}, {dispatches} dispatch{}",
        number::micros(lap.time.as_secs_f64() * 1e6),
        if lap.submissions == 1 { "" } else { "s" },
        if lap.dispatches == 1 { "" } else { "es" },
    );
    let served = served(finding, outcome).map(|served| format!("; {served}")).unwrap_or_default();
    let mut html = format!(
        "<div class=\"bar w-{}\"><div class=\"who\">{}</div><div class=\"track\"><div class=\"fill\" style=\"width:{percent:.2}%\"></div>\
         <div class=\"{class}\" style=\"left:{left}\">{}</div></div>",
        outcome.way.key(),
        escaped(&outcome.way.to_string()),
        number::micros(micros),
    );
    html += &format!(
        "<div class=\"ratio\">{}×</div><div class=\"more\">{part}{small}; checked{}</div></div>",
        number::rough(outcome.ratio),
        escaped(&served),
    );
    html
}

fn row(name: &str, fact: &str) -> String {
    let fact = escaped(fact);
    let fact = if name == "command" { format!("<code>{fact}</code>") } else { fact };
    format!("<tr><th>{name}</th><td>{fact}</td></tr>")
}

/// The template with its places filled: in one go, so that nothing that is put in is taken for a place.
fn filled(parts: &[(&str, String)]) -> String {
    let mut page = String::with_capacity(TEMPLATE.len() * 4);
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            unreachable!("the template's places end");
        };
        match parts.iter().find(|(known, _)| *known == name) {
            Some((_, part)) => page.push_str(part),
            None => unreachable!("the template has a place {name:?} that nothing fills"),
        }
        rest = after;
    }
    page.push_str(rest);
    page
}
