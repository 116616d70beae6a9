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
mod threads;
mod vulkan;

use std::time::Duration;

use crate::aprender::Additions;
use crate::by_hand::{ByHand, How};
use crate::case::Case;
use crate::contest::{Contest, Outcome, Row};
use crate::cubes::{Captured, Launches};
use crate::ours::{Recorded, Replayed};
use crate::threads::Census;
use crate::vulkan::{Vulkan, Way};

/// The adapter everyone runs on: Mesa's lavapipe calls itself this.
const ADAPTER: &str = "llvmpipe";
/// What the rows call it.
const DEVICE: &str = "lavapipe";
/// Beyond this many ops those that take longest stay away: their cost per op does not change any more.
const LONG: usize = 1_000;

/// What a reader has to know beside the figures.
const NOTES: &str = "\
cpu is that of the calling thread and of all threads the contender has, without the driver's; caller is the calling thread's alone.
sortie-cpu runs the kernels too, on the calling thread; on lavapipe the driver's threads run them.
wgpu-best-again is wgpu-best once more: how far it is from 1 is how far the figures are to be trusted.
replay, native, again, graph and resubmit recorded before; all others record in every run.
aprender adds a vector of ones, and gives every op a buffer for its result.";

/// Everyone, each with a new device: wgpu's cost of a pass depends on what its device has seen.
fn contest(case: Case, n: usize, census: &mut Census) -> Outcome<Contest<'_>> {
    let by_hand = |how| ByHand::new(&ours::open(ADAPTER, true)?, how, case);
    let mut all = Contest::new(case, n, census);
    all.enter("wgpu-best", by_hand(How::Best)?)?;
    all.enter("wgpu-best-again", by_hand(How::Best)?)?;
    all.enter("wgpu-new-groups", by_hand(How::NewGroups)?)?;
    all.enter("vulkan-record", Vulkan::new(ADAPTER, Way::Record, case)?)?;
    all.enter("vulkan-resubmit", Vulkan::new(ADAPTER, Way::Resubmit, case)?)?;
    all.enter("cubecl-launch", Launches::new(ADAPTER, case)?)?;
    all.enter("cubecl-graph", Captured::new(ADAPTER, case)?)?;
    all.enter("sortie-record", Recorded::new(ours::open(ADAPTER, true)?, case)?)?;
    all.enter("sortie-replay", Replayed::new(ours::open(ADAPTER, false)?, case)?)?;
    all.enter("sortie-native", Replayed::new(ours::open(ADAPTER, true)?, case)?)?;
    all.enter("sortie-cpu", Recorded::new(sortie::Device::cpu()?, case)?)?;
    #[cfg(feature = "scry")]
    match scry::Scry::new(ADAPTER, case) {
        Ok(runner) => all.enter("scry-gpu", runner)?,
        Err(error) => eprintln!("without scry-gpu: {error}"),
    }
    if n <= LONG {
        all.enter("wgpu-pass-per-op", by_hand(How::PassPerOp)?)?;
        all.enter("wgpu-submit-per-op", by_hand(How::SubmitPerOp)?)?;
        all.enter("aprender-record", Additions::new(ADAPTER, aprender::Way::Record, case)?)?;
        all.enter("aprender-again", Additions::new(ADAPTER, aprender::Way::Again, case)?)?;
    }
    Ok(all)
}

fn main() -> Outcome<()> {
    meter::only_still_lavapipe();
    let mut census = Census::new()?;
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
            for row in contest(case, n, &mut census)?.hold(budget)? {
                let lines = if json { row.json(DEVICE) } else { vec![row.text()] };
                println!("{}", lines.join("\n"));
                rows.push(row);
            }
        }
    }
    if let Some(file) = picture {
        std::fs::write(file, plot::svg(&rows))?;
    }
    eprintln!("{NOTES}\nleft out of cpu as the driver's: {}.", census.left_out());
    Ok(())
}
