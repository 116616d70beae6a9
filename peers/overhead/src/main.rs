//! What many small dispatches cost the CPU: sortie, hand-written wgpu and Vulkan, and other crates, on the same adapter in one process.
//!
//! N dispatches of y\[i\] = x\[i\] + 1 over 1,024 elements, from recording to completion. Contenders take turns, each on a device of its own; a ratio
//! is the median ratio to `wgpu-best` within a round. Results are checked.
//!
//! `cargo run --release -p peers-overhead [-- --quick] [--json] [--svg FILE]`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod aprender;
mod by_hand;
mod case;
mod contest;
mod cubes;
mod meter;
mod ours;
mod plot;
#[cfg(feature = "scry")]
mod scry;
mod vulkan;

use std::time::Duration;

use crate::aprender::Additions;
use crate::by_hand::{ByHand, How};
use crate::case::Case;
use crate::contest::{Contender, Contest, Outcome, Row};
use crate::cubes::{Captured, Launches};
use crate::ours::{Recorded, Replayed};
use crate::vulkan::{Vulkan, Way};

/// The adapter everyone runs on: Mesa's lavapipe calls itself this.
const ADAPTER: &str = "llvmpipe";
/// What the rows call it.
const DEVICE: &str = "lavapipe";
/// Beyond this many ops those that take longest stay away: their cost per op does not change any more.
const LONG: usize = 1_000;

/// What a reader has to know beside the figures.
const NOTES: &str = "\
cpu is the calling thread's: cubecl encodes on a thread of its own, whose time is not in it; see total.
sortie-cpu runs the kernels too, on the calling thread; on lavapipe the driver's threads run them.
wgpu-best-again is wgpu-best once more: how far it is from 1 is how far the figures are to be trusted.
replay, native, again, graph and resubmit recorded before; all others record in every run.
aprender adds a vector of ones, and gives every op a buffer for its result.";

/// Everyone, each with a new device: wgpu's cost of a pass depends on what its device has seen.
fn contenders(case: Case, n: usize) -> Outcome<Vec<Contender>> {
    let by_hand = |how| ByHand::new(&ours::open(ADAPTER, true)?, how, case);
    let mut all = vec![
        Contender::new("wgpu-best", by_hand(How::Best)?),
        Contender::new("wgpu-best-again", by_hand(How::Best)?),
        Contender::new("wgpu-new-groups", by_hand(How::NewGroups)?),
        Contender::new("vulkan-record", Vulkan::new(ADAPTER, Way::Record, case)?),
        Contender::new("vulkan-resubmit", Vulkan::new(ADAPTER, Way::Resubmit, case)?),
        Contender::new("cubecl-launch", Launches::new(ADAPTER, case)?),
        Contender::new("cubecl-graph", Captured::new(ADAPTER, case)?),
        Contender::new("sortie-record", Recorded::new(ours::open(ADAPTER, true)?, case)?),
        Contender::new("sortie-replay", Replayed::new(ours::open(ADAPTER, false)?, case)?),
        Contender::new("sortie-native", Replayed::new(ours::open(ADAPTER, true)?, case)?),
        Contender::new("sortie-cpu", Recorded::new(sortie::Device::cpu()?, case)?),
    ];
    #[cfg(feature = "scry")]
    match scry::Scry::new(ADAPTER, case) {
        Ok(runner) => all.push(Contender::new("scry-gpu", runner)),
        Err(error) => eprintln!("without scry-gpu: {error}"),
    }
    if n <= LONG {
        all.push(Contender::new("wgpu-pass-per-op", by_hand(How::PassPerOp)?));
        all.push(Contender::new("wgpu-submit-per-op", by_hand(How::SubmitPerOp)?));
        all.push(Contender::new("aprender-record", Additions::new(ADAPTER, aprender::Way::Record, case)?));
        all.push(Contender::new("aprender-again", Additions::new(ADAPTER, aprender::Way::Again, case)?));
    }
    Ok(all)
}

fn main() -> Outcome<()> {
    meter::still_lavapipe();
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let (quick, json) = (has("--quick"), has("--json"));
    let picture = arguments.iter().position(|argument| argument == "--svg");
    let picture = picture.map(|at| arguments.get(at + 1).ok_or("--svg takes a file")).transpose()?;
    let budget = Duration::from_millis(if quick { 400 } else { 8_000 });
    let mut rows: Vec<Row> = Vec::new();
    if !json {
        println!("{}", Row::heading());
    }
    for case in Case::ALL {
        for n in [1, 10, 100, 1_000, 10_000].into_iter().filter(|&n| !quick || n <= LONG) {
            let contest = Contest { case, n, contenders: contenders(case, n)? };
            for row in contest.hold(budget)? {
                let lines = if json { row.json(DEVICE) } else { vec![row.text()] };
                println!("{}", lines.join("\n"));
                rows.push(row);
            }
        }
    }
    if let Some(file) = picture {
        std::fs::write(file, plot::svg(&rows))?;
    }
    eprintln!("{NOTES}");
    Ok(())
}
