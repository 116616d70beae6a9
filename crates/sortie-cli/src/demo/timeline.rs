//! The same few ops, one submission each and as one batch, on one axis of time.
//!
//! The host's part is timed by its own clock; the device's part comes from the profiles of the batches.

use std::{error::Error, time::Instant};

use serde_json::{Value, json};
use sortie::{Device, Reading, device::DeviceKind, profile::Profile};

use crate::{
    chain::{Chain, Ops},
    device::DevicePair,
    measurement::max_in_flight,
    number,
    plot::escaped,
    rounds::{RoundBudget, quartiles, rounds},
};

/// Maximum bars: more could not be distinguished in the picture.
pub(super) const OPS: usize = 40;

/// Names and colours, by [`Stage`].
const LEGEND: [(&str, usize); 5] = [("record", 4), ("plan", 5), ("encode", 3), ("submit", 2), ("device at work", 1)];

/// Names, ops, and ops in a submission.
const LANES: [(&str, Ops, usize); 3] =
    [("one submission each", Ops::Tensors, 1), ("one batch", Ops::Tensors, OPS), ("one batch, fused", Ops::Fused, OPS)];

#[derive(Clone, Copy, Debug)]
enum Stage {
    Record,
    Plan,
    Encode,
    Submit,
    Work,
}

/// Something with a begin and an end, in microseconds.
#[derive(Clone, Debug)]
struct Span {
    name: String,
    stage: Stage,
    begin: f64,
    end: f64,
}

/// All spans of one way to submit the ops.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    name: &'static str,
    micros: f64,
    spans: Vec<Span>,
}

/// One submission: three moments of the host, in microseconds, and its profile.
struct Submitted {
    what: String,
    begin: f64,
    recorded: f64,
    submitted: f64,
    profile: Reading<Profile>,
}

/// The median of each lane, of rounds in which they took turns.
pub(super) fn measure(pair: &DevicePair, chain: &Chain, budget: RoundBudget) -> Result<Vec<Lane>, Box<dyn Error>> {
    let lanes = rounds(LANES.len(), budget, |lane, _| {
        let (name, ops, each) = LANES[lane];
        run(pair, chain, name, ops, each)
    })?;
    let medians = lanes.into_iter().filter_map(|lanes| quartiles(lanes, |lane| lane.micros as u64));
    Ok(medians.map(|lanes| lanes.median).collect())
}

fn run(pair: &DevicePair, chain: &Chain, name: &'static str, ops: Ops, each: usize) -> Result<Lane, Box<dyn Error>> {
    let device = if ops == Ops::Fused { &pair.fusing } else { &pair.plain };
    let wait = max_in_flight(device) == 0;
    let start = Instant::now();
    let now = || start.elapsed().as_secs_f64() * 1e6;
    let (mut all, mut tickets) = (Vec::new(), Vec::new());
    for (turn, first) in (0..OPS).step_by(each).enumerate() {
        let begin = now();
        let batch = device.batch();
        let profile = batch.profile();
        chain.record(&batch, ops, turn, first..first + each);
        let recorded = now();
        if wait {
            batch.submit()?;
        } else {
            tickets.push(batch.submit_async()?);
        }
        let what = if each == 1 { format!("op {first}") } else { number::counted(each, "op") };
        all.push(Submitted { what, begin, recorded, submitted: now(), profile });
    }
    for ticket in tickets {
        ticket.wait()?;
    }
    let micros = now();
    let mut spans = Vec::new();
    for submitted in all {
        spans.extend(submitted.spans(device, micros)?);
    }
    Ok(Lane { name, micros, spans })
}

impl Submitted {
    fn spans(self, device: &Device, total: f64) -> sortie::Result<Vec<Span>> {
        let profile = self.profile.wait()?;
        let stages = profile.stages();
        let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
        let planned = self.recorded + micros(stages.plan);
        let encoded = planned + micros(stages.encode);
        let submitted = self.submitted.max(encoded);
        let span = |stage: Stage, what: &str, begin: f64, end: f64| {
            let name = format!("{}, {what}", LEGEND[stage as usize].0);
            Span { name, stage, begin, end: end.min(total).max(begin) }
        };
        let mut spans = vec![
            span(Stage::Record, &self.what, self.begin, self.recorded),
            span(Stage::Plan, &self.what, self.recorded, planned),
            span(Stage::Encode, &self.what, planned, encoded),
        ];
        // The built-in CPU runs on the host: submitting is running.
        if device.info().kind != DeviceKind::Cpu {
            spans.push(span(Stage::Submit, &self.what, encoded, submitted));
        }
        let host_spans = spans.len();
        for step in profile.steps() {
            if let (Some(begin), Some(time)) = (step.begin(), step.time()) {
                let begin = self.begin + micros(begin);
                spans.push(span(Stage::Work, step.name(), begin, begin + micros(time)));
            }
        }
        if spans.len() == host_spans {
            // Without timestamps, the device counts as busy from submission to completion.
            spans.push(span(Stage::Work, &self.what, submitted, submitted + micros(stages.wait)));
        }
        Ok(spans)
    }
}

impl Lane {
    pub(super) fn note(&self) -> String {
        format!("{}: {} in {}", self.name, number::counted(OPS, "op"), number::micros(self.micros))
    }

    pub(super) fn json(&self) -> Value {
        let span = |span: &Span| json!({ "name": span.name, "begin_us": span.begin, "us": span.end - span.begin });
        json!({ "name": self.name, "spans": self.spans.iter().map(span).collect::<Vec<_>>() })
    }
}

/// The lanes beneath each other, as HTML. In each, the upper track is the host and the lower one the device.
pub(super) fn html(lanes: &[Lane]) -> String {
    let total = lanes.iter().map(|lane| lane.micros).fold(1.0, f64::max);
    let track = |lane: &Lane, device: bool| {
        let spans = lane.spans.iter().filter(|span| matches!(span.stage, Stage::Work) == device);
        let spans = spans.map(|Span { name, stage, begin, end }| {
            let [left, width] = [begin, &(end - begin)].map(|micros| 100.0 * micros / total);
            let (colour, title) = (LEGEND[*stage as usize].1, format!("{name}: {}", number::micros(end - begin)));
            let title = escaped(&title);
            format!("<i class=\"b{colour}\" style=\"left:{left:.2}%;width:{width:.2}%\" title=\"{title}\"></i>")
        });
        format!("<div class=\"track\">{}</div>", spans.collect::<String>())
    };
    let legend = LEGEND.map(|(name, colour)| format!("<span><i class=\"b{colour}\"></i>{name}</span>")).concat();
    let rows = lanes.iter().map(|lane| {
        let note = escaped(&lane.note());
        format!("<div class=\"lane\"><b>{note}</b>{}{}</div>", track(lane, false), track(lane, true))
    });
    let ticks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| format!("<span>{}</span>", number::micros(share * total)));
    let (rows, ticks) = (rows.collect::<String>(), ticks.concat());
    format!("<div class=\"lanes\"><div class=\"legend\">{legend}</div>{rows}<div class=\"ticks\">{ticks}</div></div>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_share_an_axis() {
        let lane = |micros| {
            let span = Span { name: "a".into(), stage: Stage::Work, begin: 0.0, end: micros };
            Lane { name: "lane", micros, spans: vec![span] }
        };
        let html = html(&[lane(100.0), lane(50.0)]);
        assert!(html.contains("left:0.00%;width:100.00%") && html.contains("left:0.00%;width:50.00%"), "{html}");
    }
}
