//! `sortie demo`: what one submission instead of many gains on this machine.
//!
//! The same work is given to the device with several strategies, which take turns. Every answer is checked; a wrong one
//! ends the demo.

mod ffn;
mod links;
mod page;
mod requests;
mod table;
mod timeline;
mod work;

use std::{error::Error, io::Write, path::PathBuf, time::Duration};

use self::{page::Page, work::Finding};
use crate::{
    chain::Chain,
    curve,
    device::{DeviceArgs, DevicePair},
    machine, number,
    output::OutputFile,
    progress::Progress,
    rounds::RoundBudget,
    terminal,
};

/// Do the same work one submission at a time, batched, fused and replayed, and check the answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    #[command(flatten)]
    device: DeviceArgs,
    /// Number of ops of the chain
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    ops: u32,
    /// Number of integers that each op of the chain works on
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
    /// Number of requests
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,
    /// Less of everything: a tenth of the ops and requests, two rounds
    #[arg(long)]
    quick: bool,
    /// Also write an HTML page with bars, a timeline and a curve; it needs no other files
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
}

/// How much is measured.
struct Size {
    layers: usize,
    ops: usize,
    requests: usize,
    /// For each piece of work.
    budget: RoundBudget,
    /// For one submission for each request.
    max_each_time: Duration,
    /// The longest submission on the curve, and the number of ops in a turn.
    curve_ops: usize,
    /// For each length on the curve.
    curve_budget: RoundBudget,
}

impl Demo {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        // Before the work, so that a missing folder is reported first.
        let report = self.report.as_deref().map(OutputFile::create).transpose()?;
        let size = self.size();
        let pair = DevicePair::open(&self.device)?;
        let machine = machine::here(pair.fusing.info());
        writeln!(out, "{}", pair.fusing.info())?;
        let lengths = if report.is_some() { curve::lengths(2, size.curve_ops) } else { Vec::new() };
        let mut progress = Progress::of(3 + lengths.len());

        let chain = Chain::new(&pair, self.items as usize)?;
        let mut findings = Vec::new();
        for work in [
            links::work(&chain, size.ops),
            requests::work(&pair, size.requests, size.max_each_time)?,
            ffn::work(&pair, size.layers)?,
        ] {
            let finding = Finding::of(work, size.budget, &mut progress)?;
            progress.aside(|| writeln!(out, "{}", table::text(&finding)))?;
            progress.advance();
            findings.push(finding);
        }
        if let (Some(mut report), Some(path)) = (report, &self.report) {
            let contenders = page::CURVES.map(|(contender, _)| contender);
            let curves =
                curve::measure(&chain, &contenders, &lengths, size.curve_ops, size.curve_budget, &mut progress)?;
            let lanes = timeline::measure(&pair, &chain, size.curve_budget)?;
            let curve_note = format!(
                "Each point: at least {} on {} integers, in submissions of the given length; median of at least {}, in which all contenders took turns; every \
                 answer checked. Dispatches run a kernel written by hand. Tensor ops are one dispatch each; fused, up to 48 of them share one; replayed, \
                 they were recorded, planned and encoded once.",
                number::counted(size.curve_ops, "op"),
                number::whole(self.items),
                number::counted(size.curve_budget.min_rounds, "round"),
            );
            let page = Page {
                findings: &findings,
                lanes: &lanes,
                curves: &curves,
                curve_note: &curve_note,
                machine: &machine,
            };
            report.put(page.html().as_bytes())?;
            report.keep()?;
            progress.aside(|| writeln!(out, "report: {}", terminal::name(path)))?;
        }
        drop(progress);
        writeln!(out, "every answer of every strategy was checked")?;
        Ok(())
    }

    fn size(&self) -> Size {
        let seconds = Duration::from_secs_f64;
        let (ops, requests) = (self.ops as usize, self.requests as usize);
        let budget = |seconds, min_rounds, max_rounds| RoundBudget {
            time: Duration::from_secs_f64(seconds),
            min_rounds,
            max_rounds,
        };
        if self.quick {
            Size {
                layers: 4,
                ops: ops.div_ceil(10),
                requests: requests.div_ceil(10),
                budget: budget(0.0, 2, 2),
                max_each_time: seconds(0.3),
                curve_ops: 256,
                curve_budget: budget(0.0, 1, 1),
            }
        } else {
            Size {
                layers: 24,
                ops,
                requests,
                budget: budget(6.0, 5, 51),
                max_each_time: seconds(1.5),
                curve_ops: 1024,
                curve_budget: budget(0.7, 3, 15),
            }
        }
    }
}
