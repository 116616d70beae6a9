//! All findings as one HTML page that needs no other file.

use serde_json::{Map, Value, json};

use super::{
    table::{latency, quartiles, rounds},
    timeline::{self, Lane},
    work::{Finding, MIN_HEADLINE_ROUNDS, Outcome},
};
use crate::{
    chain::Ops,
    curve::{Contender, Curve},
    machine::Machine,
    number,
    plot::{self, Chart, Line, escaped},
};

const TEMPLATE: &str = include_str!("page.html");

/// The curves and their colours, which the strategies have too.
pub(super) const CURVES: [(Contender, usize); 4] = [
    (Contender { name: "dispatches", ops: Ops::Dispatches, together: true }, 4),
    (Contender { name: "tensor ops", ops: Ops::Tensors, together: true }, 1),
    (Contender { name: "fused", ops: Ops::Fused, together: true }, 2),
    (Contender { name: "fused and replayed", ops: Ops::Replayed, together: true }, 3),
];

/// A bar shorter than this has its number beside it.
const MIN_BAR_PERCENT: f64 = 24.0;

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
        let lines = self.curves.iter().zip(CURVES).map(|(curve, (_, colour))| curve.line(curve.name, colour));
        let headline = self.headline();
        let parts = [
            ("style", plot::STYLE.to_owned()),
            ("headline", escaped(&headline.join(" "))),
            ("heading", headline.map(|part| format!("<span>{}</span>", escaped(&part))).join(" ")),
            ("device", escaped(&self.machine[0].1)),
            ("tiles", self.findings.iter().map(tile).collect()),
            ("works", self.findings.iter().map(section).collect()),
            ("lane_ops", timeline::OPS.to_string()),
            ("lanes", timeline::html(self.lanes)),
            ("curve", Chart { title: None, lines: &lines.collect::<Vec<Line>>() }.draw()),
            ("curve_caption", escaped(self.curve_note)),
            ("machine", self.machine.iter().map(|(name, fact)| row(name, fact)).collect()),
            // `<` could end the script element that holds the data.
            ("data", self.data().to_string().replace('<', "\\u003c")),
        ];
        filled(&parts)
    }

    /// The largest speed-up of those measured in enough rounds, in two parts that are not broken.
    fn headline(&self) -> [String; 2] {
        let enough = self.findings.iter().filter(|finding| finding.rounds >= MIN_HEADLINE_ROUNDS);
        let best = enough.filter_map(|finding| Some((finding, finding.best()?)));
        match best.max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio)) {
            Some((finding, best)) => {
                [format!("{},", finding.title), format!("{}× faster together", number::rough(best.ratio))]
            }
            None => ["The same work,", "one submission at a time and together"].map(Into::into),
        }
    }

    fn data(&self) -> Value {
        let strategy = |outcome: &Outcome| {
            let trial = &outcome.trials.median;
            let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
            json!({
                "strategy": outcome.strategy.key(),
                "count": trial.count,
                "us": trial.measurement.micros(),
                "us_per_unit": outcome.micros_per_unit(),
                "quartiles": [outcome.trials.lower.micros_per_unit(), outcome.trials.upper.micros_per_unit()],
                "ratio": outcome.ratio,
                "submissions": trial.measurement.submissions,
                "dispatches": trial.measurement.dispatches,
                "p50_us": trial.latency.map(|latency| micros(latency.p50)),
                "p99_us": trial.latency.map(|latency| micros(latency.p99)),
                "fill": trial.latency.and_then(|latency| latency.fill),
            })
        };
        let work = |finding: &Finding| {
            json!({
                "title": finding.title,
                "unit": finding.unit,
                "count": finding.count,
                "rounds": finding.rounds,
                "strategies": finding.outcomes.iter().map(strategy).collect::<Vec<_>>(),
            })
        };
        let curve = |curve: &Curve| {
            let points = curve.points.iter().map(|point| {
                let micros = point.micros_per_op;
                json!({ "ops": point.ops, "us_per_op": micros.median, "quartiles": [micros.lower, micros.upper] })
            });
            json!({ "name": curve.name, "points": points.collect::<Vec<_>>() })
        };
        let machine = self.machine.iter().map(|(name, fact)| (String::from(*name), Value::from(fact.as_str())));
        json!({
            "machine": machine.collect::<Map<_, _>>(),
            "works": self.findings.iter().map(work).collect::<Vec<_>>(),
            "lanes": self.lanes.iter().map(Lane::json).collect::<Vec<_>>(),
            "curves": self.curves.iter().map(curve).collect::<Vec<_>>(),
        })
    }
}

fn tile(finding: &Finding) -> String {
    let (Some(first), Some(best)) = (finding.outcomes.first(), finding.best()) else { return String::new() };
    let [before, after] = [first, best].map(|outcome| number::micros(outcome.micros_per_unit()));
    let ratio = match finding.rounds {
        MIN_HEADLINE_ROUNDS.. => format!("<b>{}<i>×</i></b>", number::rough(best.ratio)),
        _ => format!("<b><i>{}: too few for a ratio</i></b>", rounds(finding)),
    };
    format!(
        "<div class=\"tile\"><strong>{}</strong>{ratio}<small>{before} → {after} per {}<br>{}</small></div>",
        escaped(&finding.title),
        finding.unit,
        escaped(&best.strategy.to_string()),
    )
}

fn section(finding: &Finding) -> String {
    let longest = finding.outcomes.iter().map(Outcome::micros_per_unit).fold(f64::MIN_POSITIVE, f64::max);
    let bars: String = finding.outcomes.iter().map(|outcome| bar(finding, outcome, longest)).collect();
    format!(
        "<section><h2>{}</h2><p class=\"about\">{}</p><div class=\"bars\">{bars}</div>\
         <p class=\"scale\">Bars: median µs per {} of {}, linear, shorter is better. At the right: speed-up over one submission each.</p></section>\n",
        escaped(&finding.title),
        escaped(&finding.about),
        finding.unit,
        rounds(finding),
    )
}

fn bar(finding: &Finding, outcome: &Outcome, longest: f64) -> String {
    let micros = outcome.micros_per_unit();
    let percent = 100.0 * micros / longest;
    let (class, left) =
        if percent < MIN_BAR_PERCENT { ("value", format!("{percent:.2}%")) } else { ("value in", "0".into()) };
    let median = &outcome.trials.median;
    let part = match median.count {
        count if count == finding.count => String::new(),
        count => format!("only {} run; ", number::counted(count, finding.unit)),
    };
    let latency = latency(finding, outcome).map(|latency| format!("; {latency}")).unwrap_or_default();
    let details = format!(
        "quartiles {} µs; {part}{} in total; {}, {}{latency}",
        quartiles(outcome),
        number::micros(median.measurement.micros()),
        number::counted(median.measurement.submissions, "submission"),
        number::counted(median.measurement.dispatches, "dispatch"),
    );
    format!(
        "<div class=\"bar w-{}\"><div class=\"who\">{}</div><div class=\"track\"><div class=\"fill\" style=\"width:{percent:.2}%\"></div>\
         <div class=\"{class}\" style=\"left:{left}\">{}</div></div><div class=\"ratio\">{}×</div><div class=\"more\">{}</div></div>",
        outcome.strategy.key(),
        escaped(&outcome.strategy.to_string()),
        number::micros(micros),
        number::rough(outcome.ratio),
        escaped(&details),
    )
}

fn row(name: &str, fact: &str) -> String {
    let fact = escaped(fact);
    let fact = if name == "command" { format!("<code>{fact}</code>") } else { fact };
    format!("<tr><th>{name}</th><td>{fact}</td></tr>")
}

/// Fills the template in one pass, so that a part that contains `{{` is not taken for a place.
fn filled(parts: &[(&str, String)]) -> String {
    let mut page = String::with_capacity(TEMPLATE.len() * 4);
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            unreachable!("every {{ of the template has its }}");
        };
        match parts.iter().find(|(known, _)| *known == name) {
            Some((_, part)) => page.push_str(part),
            None => unreachable!("the template has an unknown place {name:?}"),
        }
        rest = after;
    }
    page.push_str(rest);
    page
}
