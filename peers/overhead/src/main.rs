//! What many small dispatches cost the CPU: sortie, hand-written wgpu and Vulkan, and other crates, on the same adapter in one process.
//!
//! N dispatches of y\[i\] = x\[i\] + 1 over 1,024 elements, from recording to completion. Contenders take turns, each on a device of its own; a ratio
//! is the median ratio to `wgpu-best` within a round. Results are checked.
//!
//! `cargo run --release -p peers-overhead [-- --quick] [--json] [--svg FILE]`

#![expect(clippy::print_stderr, reason = "notes go to stderr")]

// The contenders that the bench `record` has too.
#[path = "../../../crates/sortie/benches/record/by_hand.rs"]
mod by_hand;
#[path = "../../../crates/sortie/benches/record/dispatches.rs"]
mod dispatches;
#[path = "../../../crates/sortie/benches/record/ours.rs"]
mod ours;

mod aprender;
mod case;
mod comparison;
mod cubes;
mod meter;
mod plot;
#[cfg(feature = "scry")]
mod scry;
mod threads;
mod vulkan;

use std::time::Duration;

use sortie_bench::{Args, Report};

use crate::aprender::Additions;
use crate::by_hand::{ByHand, How};
use crate::case::Case;
use crate::comparison::{Comparison, Outcome, Row};
use crate::cubes::{Captured, Launches};
use crate::ours::{Recorded, Replayed};
use crate::threads::ThreadList;
use crate::vulkan::{Vulkan, Way};

/// The adapter of all contenders, by a part of its name.
const ADAPTER: &str = "llvmpipe";
/// What the rows call it.
const DEVICE: &str = "lavapipe";
/// The slowest contenders are left out beyond this number of ops: their cost per op does not change any more.
const MAX_SLOW_OPS: usize = 1_000;

/// Notes on the figures.
const NOTES: &str = "\
cpu is the time of the calling thread and of all threads of the contender, without the driver's; caller is the calling thread's alone.
sortie-cpu runs the kernels too, on the calling thread; on lavapipe the driver's threads run them.
wgpu-best-again is the control: its distance from 1 is the error of the figures.
replay, native, again, graph and resubmit recorded before; all others record in every run.
aprender adds a vector of ones, and gives every op a buffer for its result.";

/// All contenders, each with a new device: wgpu's cost of a pass depends on what its device has done before.
fn contenders(case: Case, n: usize, threads: &mut ThreadList) -> Outcome<Comparison<'_>> {
    let dispatches = || case.dispatches();
    let by_hand = |how| ByHand::new(&ours::open(ADAPTER, true)?, how, dispatches());
    let mut all = Comparison::new(case, n, threads);
    all.add("wgpu-best", by_hand(How::Best)?)?;
    all.add("wgpu-best-again", by_hand(How::Best)?)?;
    all.add("wgpu-new-groups", by_hand(How::NewGroups)?)?;
    all.add("vulkan-record", Vulkan::new(ADAPTER, Way::Record, case)?)?;
    all.add("vulkan-resubmit", Vulkan::new(ADAPTER, Way::Resubmit, case)?)?;
    all.add("cubecl-launch", Launches::new(ADAPTER, case)?)?;
    all.add("cubecl-graph", Captured::new(ADAPTER, case)?)?;
    all.add("sortie-record", Recorded::new(ours::open(ADAPTER, true)?, dispatches())?)?;
    all.add("sortie-replay", Replayed::new(ours::open(ADAPTER, false)?, dispatches())?)?;
    all.add("sortie-native", Replayed::new(ours::open(ADAPTER, true)?, dispatches())?)?;
    all.add("sortie-cpu", Recorded::new(sortie::Device::cpu()?, dispatches())?)?;
    #[cfg(feature = "scry")]
    match scry::Scry::new(ADAPTER, case) {
        Ok(runner) => all.add("scry-gpu", runner)?,
        Err(error) => eprintln!("without scry-gpu: {error}"),
    }
    if n <= MAX_SLOW_OPS {
        all.add("wgpu-pass-per-op", by_hand(How::PassPerOp)?)?;
        all.add("wgpu-submit-per-op", by_hand(How::SubmitPerOp)?)?;
        all.add("aprender-record", Additions::new(ADAPTER, aprender::Way::Record, case)?)?;
        all.add("aprender-again", Additions::new(ADAPTER, aprender::Way::Again, case)?)?;
    }
    Ok(all)
}

fn main() -> Outcome<()> {
    meter::select_lavapipe_without_threads();
    let mut threads = ThreadList::new()?;
    let args = Args::read(&["--svg="]);
    let budget = Duration::from_millis(if args.quick { 400 } else { 8_000 });
    let mut report = Report::new("peers-overhead", args.json);
    let mut rows: Vec<Row> = Vec::new();
    for case in Case::ALL {
        for n in [1, 10, 100, 1_000, 10_000].into_iter().filter(|&n| !args.quick || n <= MAX_SLOW_OPS) {
            rows.extend(contenders(case, n, &mut threads)?.run(DEVICE, budget, &mut report)?);
        }
    }
    if let Some(file) = args.value("--svg") {
        std::fs::write(file, plot::svg(&rows))?;
    }
    eprintln!("{NOTES}\nleft out of cpu as the driver's: {}.", threads.driver_threads());
    Ok(())
}
