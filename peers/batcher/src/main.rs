//! Requests of many callers put together into batches: sortie's batcher, those of other crates, and one written by hand, in one process.
//!
//! n tasks each send a number, wait for the answer, check it, and send the next one. Contenders take turns; a value is a median over rounds, a ratio the
//! median ratio to `sortie` within a round. A contender that loses or crosses an answer ends the program.
//!
//! `cargo run --release -p peers-batcher [-- --quick] [--json] [--limit ROWS] [--callers N,..] [--case NAME] [--only NAME,..] [--rounds N]`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

// The code that `batched` generates names its crate: see `attribute`.
extern crate self as batched;

mod aint_one;
mod attribute;
mod blocking;
mod channels;
mod contest;
mod device;
mod engine;
mod lane;
mod ledger;
mod meter;
mod options;
mod ours;
mod roster;
mod row;
mod ultra;

pub(crate) use attribute::tracing;

use tokio::runtime::Builder;

use crate::contest::Outcome;
use crate::options::Options;
use crate::roster::Roster;
use crate::row::Row;

/// Threads on which the callers run, and whatever a contender has tokio do.
const WORKERS: usize = 2;

/// What a reader has to know beside the figures.
const NOTES: &str = "\
sortie-again is sortie once more: how far it is from 1 is how far the figures are to be trusted.
direct has no callers: a thread has the device run full batches one after the other.
allocs are those of the whole process while it is a contender's turn.";

fn main() -> Outcome<()> {
    let Options { json, limit, callers, cases, only, turns } = Options::read()?;
    // Before there are other threads: they inherit what it asks for.
    let spin = device::lateness();
    let runtime = Builder::new_multi_thread().worker_threads(WORKERS).enable_time().build()?;
    if !json {
        println!("{}", Row::heading());
    }
    for &case in &cases {
        for &n in &callers {
            let roster = Roster { runtime: &runtime, case, spin, n, limit, only: &only };
            for row in roster.contest()?.hold(turns)? {
                let lines = if json { row.json() } else { vec![row.text()] };
                println!("{}", lines.join("\n"));
            }
        }
    }
    eprintln!(
        "{NOTES}\nThe device spins for the last {} µs of a run, as long as sleeps end late here.",
        spin.as_micros()
    );
    Ok(())
}
