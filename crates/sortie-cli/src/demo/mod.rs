//! `sortie demo`: what one submission instead of many does on this machine.
//!
//! The same work is given to the device in several ways, which take turns. Every answer of every way is checked; a wrong one ends the demo.

mod ffn;
mod links;
mod page;
mod requests;
mod table;
mod timeline;
mod work;

use std::{error::Error, io::Write, path::PathBuf, time::Duration};

use self::{
    ffn::Ffn,
    links::Links,
    page::Page,
    requests::Requests,
    work::{Finding, Work},
};
use crate::{
    chain::Chain, contest::Pace, curve, draft::Draft, input, machine::Machine, number, pair::Pair, progress::Progress,
    terminal,
};

/// Do the same work one submission at a time, batched, fused and replayed, and check the answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// A part of the device's name, its index in `sortie devices`, or `cpu`
    #[arg(long)]
    device: Option<String>,
    /// How many ops the chain has
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    ops: u32,
    /// How many numbers each op of the chain works on
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
    /// How many requests
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,
    /// Less of everything, for a look: a tenth of the ops and requests, two rounds
    #[arg(long)]
    quick: bool,
    /// Also write a page with bars, a time line and a curve; it needs nothing but itself
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
}

/// How much of everything there is.
struct Size {
    layers: usize,
    ops: usize,
    requests: usize,
    /// For each piece of work.
    pace: Pace,
    /// For a submission for each request.
    patience: Duration,
    /// Most ops to a submission on the curve, how many ops each turn runs, and its pace at each length.
    curve: (usize, usize, Pace),
}

impl Demo {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        // Before the work: a folder that is not there is better known now.
        let report = self.report.as_ref().map(|path| Draft::beside(path)).transpose()?;
        let size = self.size();
        let pair = Pair::open(self.device.as_deref())?;
        let machine = Machine::here(pair.fusing.info());
        writeln!(out, "{}", pair.fusing.info())?;
        let lengths = if report.is_some() { curve::lengths(2, size.curve.0) } else { Vec::new() };
        let mut progress = Progress::of(3 + lengths.len());

        let chain = Chain::new(&pair, self.items as usize)?;
        let mut findings = Vec::new();
        let mut ffn = Ffn::new(&pair, size.layers)?;
        let mut links = Links { chain: &chain, ops: size.ops };
        let mut requests = Requests::new(&pair, size.requests, size.patience)?;
        for work in [&mut links as &mut dyn Work, &mut requests, &mut ffn] {
            let finding = Finding::of(work, size.pace, &mut progress)?;
            let lines = table::lines(&finding);
            progress.aside(|| lines.iter().try_for_each(|line| writeln!(out, "{line}")))?;
            progress.advance();
            findings.push(finding);
        }
        if let (Some(mut report), Some(path)) = (report, &self.report) {
            let (_, least, pace) = size.curve;
            let contenders = page::CURVES.map(|(contender, _)| contender);
            let curves = curve::measure(&chain, &contenders, &lengths, least, pace, &mut progress)?;
            let lanes = timeline::measure(&pair, &chain, pace)?;
            let curve_note = format!(
                "Each point: at least {} ops on {} integers, cut into submissions of so many, median of at least {} rounds in which all took turns; every \
                 answer checked. Dispatches are of a kernel of our own; tensor ops are a dispatch each; fused, up to 48 of them share one; replayed, \
                 recording, planning and encoding were done once and for all.",
                number::whole(least),
                number::whole(self.items),
                pace.rounds[0],
            );
            let page = Page {
                findings: &findings,
                lanes: &lanes,
                curves: &curves,
                curve_note: &curve_note,
                machine: &machine,
            };
            report.write_all(page.html().as_bytes()).map_err(|error| input::named(path, &error))?;
            report.keep()?;
            drop(progress);
            writeln!(out, "report: {}", terminal::name(path))?;
        } else {
            drop(progress);
        }
        let rounds = findings.iter().map(|finding| finding.rounds).min().unwrap_or(0);
        writeln!(out, "medians of {rounds} rounds or more; every answer of every way was checked")?;
        Ok(())
    }

    fn size(&self) -> Size {
        let seconds = Duration::from_secs_f64;
        let (ops, requests) = (self.ops as usize, self.requests as usize);
        if self.quick {
            let pace = Pace { budget: Duration::ZERO, rounds: [2, 2] };
            return Size {
                layers: 4,
                ops: ops.div_ceil(10),
                requests: requests.div_ceil(10),
                pace,
                patience: seconds(0.3),
                curve: (256, 256, Pace { budget: Duration::ZERO, rounds: [1, 1] }),
            };
        }
        Size {
            layers: 24,
            ops,
            requests,
            pace: Pace { budget: seconds(6.0), rounds: [3, 51] },
            patience: seconds(1.5),
            curve: (1024, 1024, Pace { budget: seconds(0.7), rounds: [3, 15] }),
        }
    }
}
