//! Requests of many callers become batches: sortie's batcher, those of other crates, and a hand-written one, in one
//! process.
//!
//! n tasks each send a number, wait for the answer, check it, and send the next one. Contenders take turns; a ratio is the
//! median ratio to `sortie` within a round. A lost or wrong answer ends the program.
//!
//! `cargo run --release -p peers-batcher [-- --quick] [--json] [--limit ROWS] [--callers N,..] [--case NAME]
//! [--only NAME,..] [--rounds N]`

#![expect(clippy::print_stderr, reason = "notes go to stderr")]

// The code that `batched` generates names its crate: see `attribute`.
extern crate self as batched;

mod aint_one;
mod attribute;
mod blocking;
mod callers;
mod channels;
mod comparison;
mod contenders;
mod device;
mod engine;
mod histogram;
mod ours;
mod ultra;

pub(crate) use attribute::tracing;

use std::time::Duration;

use sortie_bench::{Args, Report};
use tokio::runtime::Builder;

use crate::comparison::{Outcome, Turns};
use crate::contenders::Contenders;
use crate::device::Case;

/// Threads of the runtime that callers and contenders share.
const WORKERS: usize = 2;

/// Notes on the figures.
const NOTES: &str = "\
sortie-again is the control: its distance from 1 is the error of the figures.
direct has no callers: a thread runs full batches on the device, one after the other.
allocs are those of the whole process during a contender's turn.";

fn main() -> Outcome<()> {
    let args = Args::read(&["--limit=", "--callers=", "--case=", "--rounds="]);
    let one = |option, default| args.list::<usize>(option).map_or(default, |values| values[0].max(1));
    let (rounds, ms) = if args.quick { (3, 60) } else { (11, 120) };
    let (warm_up, measured) = (Duration::from_millis(20), Duration::from_millis(ms));
    let turns = Turns { rounds: one("--rounds", rounds), warm_up, measured };
    let callers = args.list("--callers").unwrap_or_else(|| vec![1, 64, 1024]);
    if callers.contains(&0) {
        return Err("--callers: at least one caller is needed".into());
    }
    // Before other threads start: they inherit the timer setting.
    let spin = device::lateness();
    let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_time().build()?;
    let mut report = Report::new("batcher", args.json);
    for case in Case::ALL.into_iter().filter(|case| args.value("--case").is_none_or(|name| name == case.name())) {
        for &n in &callers {
            let contenders = Contenders { runtime: &runtime, case, spin, n, limit: one("--limit", 256), args: &args };
            contenders.open()?.run(turns, &mut report)?;
        }
    }
    eprintln!(
        "{NOTES}\nThe device spins for the last {} µs of a run, as long as sleeps end late here.",
        spin.as_micros()
    );
    Ok(())
}
