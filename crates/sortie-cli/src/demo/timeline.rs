//! The same few ops, one submission each and as one batch, on one axis of time.
//!
//! What the host did is timed by its own clock, what the device did is read off the batches' profiles.

use std::{error::Error, time::Instant};

use sortie::{Device, DeviceKind, Profile, Reading};

use crate::{
    chain::{Chain, Ops},
    contest::{Pace, contest, median},
    lap::most_under_way,
    number,
    pair::Pair,
    plot::{Lane, Span},
};

/// As many as can be told apart in a picture.
pub(super) const OPS: usize = 40;

/// What the colours stand for, by [`Stage`].
pub(super) const LEGEND: [(&str, usize); 5] =
    [("record", 4), ("plan", 5), ("encode", 3), ("submit", 2), ("device at work", 1)];

/// The lanes: which ops, and how many to a submission.
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

/// One submission as it was seen: three moments of the host, in microseconds, and the profile to come.
struct Seen {
    what: String,
    begin: f64,
    recorded: f64,
    given: f64,
    profile: Reading<Profile>,
}

/// The median of each lane, of rounds in which they took turns.
pub(super) fn measure(pair: &Pair, chain: &Chain, pace: Pace) -> Result<Vec<Lane>, Box<dyn Error>> {
    let runs = contest(LANES.len(), pace, |lane, _| {
        let (name, ops, each) = LANES[lane];
        run(pair, chain, name, ops, each)
    })?;
    let medians = runs.into_iter().filter_map(|mut lanes| median(&mut lanes, |(total, _)| *total as u64).cloned());
    Ok(medians.map(|(_, lane)| lane).collect())
}

/// The lane, and what it took in all.
fn run(pair: &Pair, chain: &Chain, name: &str, ops: Ops, each: usize) -> Result<(f64, Lane), Box<dyn Error>> {
    let device = if ops == Ops::Fused { &pair.fusing } else { &pair.plain };
    // As in what was measured: only the built-in CPU has nothing under way.
    let wait = most_under_way(device) == 0;
    let start = Instant::now();
    let now = || start.elapsed().as_secs_f64() * 1e6;
    let (mut seen, mut tickets) = (Vec::new(), Vec::new());
    for (turn, first) in (0..OPS).step_by(each).enumerate() {
        let begin = now();
        let mut batch = device.batch();
        let profile = batch.profile();
        chain.record(&mut batch, ops, turn, first..first + each);
        let recorded = now();
        if wait {
            batch.submit()?;
        } else {
            tickets.push(batch.submit_async()?);
        }
        let what = if each == 1 { format!("op {first}") } else { format!("{each} ops") };
        seen.push(Seen { what, begin, recorded, given: now(), profile });
    }
    for ticket in tickets {
        ticket.wait()?;
    }
    let total = now();
    let mut spans = Vec::new();
    for seen in seen {
        spans.extend(seen.spans(device, total)?);
    }
    let note = format!("{OPS} ops in {}", number::micros(total));
    Ok((total, Lane { name: name.to_owned(), note, spans }))
}

impl Seen {
    fn spans(self, device: &Device, total: f64) -> sortie::Result<Vec<Span>> {
        let profile = self.profile.wait()?;
        let stages = profile.stages();
        let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
        let planned = self.recorded + micros(stages.plan);
        let encoded = planned + micros(stages.encode);
        let span = |stage: Stage, name: &str, begin: f64, end: f64| {
            let (stage_name, colour) = LEGEND[stage as usize];
            let name = format!("{stage_name}, {name}");
            Span { name, colour, below: matches!(stage, Stage::Work), begin, time: (end.min(total) - begin).max(0.0) }
        };
        let mut spans = vec![
            span(Stage::Record, &self.what, self.begin, self.recorded),
            span(Stage::Plan, &self.what, self.recorded, planned),
            span(Stage::Encode, &self.what, planned, encoded),
        ];
        // The built-in CPU is the host: what it submits it does.
        if device.info().kind != DeviceKind::Cpu {
            spans.push(span(Stage::Submit, &self.what, encoded, self.given.max(encoded)));
        }
        let known = profile.steps().iter().filter_map(|step| Some((step.name(), step.begin()?, step.time()?)));
        let known: Vec<_> = known.collect();
        for (name, begin, time) in &known {
            let begin = self.begin + micros(*begin);
            spans.push(span(Stage::Work, name, begin, begin + micros(*time)));
        }
        if known.is_empty() {
            // A device without a clock was at work, as far as anybody knows, from when it was given something until it was done.
            let given = self.given.max(encoded);
            spans.push(span(Stage::Work, &self.what, given, given + micros(stages.wait)));
        }
        Ok(spans)
    }
}
