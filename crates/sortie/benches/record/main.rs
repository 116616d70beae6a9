//! What recording costs: the CPU time of `n` small dispatches from recording to completion, against hand-written wgpu.
//!
//! All contenders take turns in one process, each on a device of its own (wgpu's cost of a pass depends on what its
//! device has done before). `wgpu-best` is what an expert writes by hand: one encoder, one pass, bind groups made once,
//! nothing set twice. `wgpu-best-again` is the same code on another device, a control that must read 1.0×. `sortie`
//! records every run, and on Vulkan is resubmitted; `sortie-encoded` records and encodes every run; `sortie-replay` has
//! recorded once and encodes every run; `sortie-native` is a native replay, on Vulkan.
//!
//! `cpu_us_per_op`: CPU time of the whole process on noop; of the calling thread on a real driver, whose own threads run
//! the kernels. `total_allocs_per_op`: heap allocations.
//!
//! `chain`: every op reads what the one before wrote. `immediates`: the same, each with immediates of its own.
//! `changing`: immediates that also differ from run to run. `data`: every run writes 4 KiB first and reads them back.
//! `direct.rs` has native replays submitted to Vulkan's queue against the same submitted through wgpu's. `work.rs` has
//! larger kernels, with workgroup memory, loads and arithmetic: native replays against encoded ones, until done.
//!
//! `cargo bench -p sortie --bench record [-- --quick] [--json] [--only chain,immediates,changing,data,direct,work]`

#![expect(clippy::print_stderr, reason = "a missing driver is named on stderr")]
#![expect(unsafe_code, reason = "setting an environment variable")]

mod by_hand;
mod direct;
#[expect(dead_code, reason = "peers/overhead has contenders that begin with zeros")]
mod dispatches;
mod ours;
mod work;

use std::{thread, time::Duration};

use sortie::Device;
use sortie_bench::{Args, Case, Clock, Contender, Cost, CountingAllocator, Outcome, Report, Rounds};

use self::{
    by_hand::{ByHand, How},
    dispatches::{Dispatches, Runner},
    ours::{Recorded, Replayed, open, open_encoding},
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ADD: &str = include_str!("add.wgsl");

/// The chain, and the same with immediates for each op, for each op and run, and with data.
fn cases() -> [(&'static str, Dispatches); 4] {
    let chain = Dispatches::chain();
    let amount = |_, op: usize| [(op % 7) as u32, 0, 0, 0];
    let immediates = Dispatches { source: ADD, immediates: Some(amount), ..chain.clone() };
    let changing = Dispatches { immediates: Some(|run, op| [((op + run) % 7) as u32, 0, 0, 0]), ..immediates.clone() };
    let data = Dispatches { has_data: true, ..chain.clone() };
    [("chain", chain), ("immediates", immediates), ("changing", changing), ("data", data)]
}

fn main() -> Outcome<()> {
    let args = Args::read(&[]);
    // Small ops on lavapipe are dominated by futex calls of its thread pool: measure without it.
    // SAFETY: no other thread runs yet in this process.
    unsafe { std::env::set_var("LP_NUM_THREADS", "0") };
    let list = Device::list();
    let found = |driver: &str| {
        let found = list.iter().any(|info| info.name.to_lowercase().contains(driver) && info.backend == "vulkan");
        if !found {
            eprintln!("no {driver} on this machine (scripts/drivers installs it)");
        }
        found
    };
    let drivers: Vec<&str> = ["llvmpipe", "swiftshader"].into_iter().filter(|driver| found(driver)).collect();
    let mut report = Report::new("record", args.json);
    let small = ["noop"].into_iter().chain(drivers.iter().copied().filter(|driver| *driver == "llvmpipe"));
    for device in small {
        for (case, dispatches) in cases().iter().filter(|(case, _)| args.selects(case)) {
            for n in [1, 10, 100, 1_000, 10_000] {
                bench(device, case, dispatches, n, args.quick, &mut report)?;
            }
        }
    }
    if drivers.contains(&"swiftshader") && args.selects("data") {
        let [.., (case, dispatches)] = &cases();
        bench("swiftshader", case, dispatches, 1, args.quick, &mut report)?;
    }
    for device in drivers {
        if args.selects("direct") {
            direct::bench(device, args.quick, &mut report)?;
        }
        if args.selects("work") {
            work::bench(device, args.quick, &mut report)?;
        }
    }
    Ok(())
}

fn bench(device: &str, case: &str, dispatches: &Dispatches, n: usize, quick: bool, report: &mut Report) -> Outcome<()> {
    let noop = device == "noop";
    let by_hand = |how| {
        Ok::<_, Box<dyn std::error::Error>>(Box::new(ByHand::new(&open(device, true)?, how, dispatches.clone())?))
    };
    let replayed = |native| Ok::<_, sortie::Error>(Box::new(Replayed::new(open(device, native)?, dispatches.clone())?));
    let resubmitting = open(device, true)?;
    let mut contenders: Vec<(&str, Box<dyn Runner>)> = vec![
        ("wgpu-best", by_hand(How::Best)?),
        ("sortie", Box::new(Recorded::new(resubmitting.clone(), dispatches.clone())?)),
        ("wgpu-best-again", by_hand(How::Best)?),
    ];
    if !noop {
        contenders.push(("sortie-encoded", Box::new(Recorded::new(open_encoding(device)?, dispatches.clone())?)));
    }
    // A replay has neither the immediates nor the data of each run.
    let same_each_run = !dispatches.has_data && case != "changing";
    if same_each_run {
        contenders.push(("sortie-replay", replayed(false)?));
        contenders.push(("wgpu-new-groups", by_hand(How::NewGroups)?));
    }
    // A round of 10,000 takes a second on a driver, and its cost per op does not change any more.
    if same_each_run && (!quick || n <= 1_000) {
        contenders.push(("wgpu-submit-per-op", by_hand(How::SubmitPerOp)?));
    }
    if !noop && same_each_run {
        contenders.push(("sortie-native", replayed(true)?));
    }
    // The first run compiles and plans. In the fourth at the latest the batch is recorded for the device, and in the
    // sixth at the latest with immediates of each run.
    for round in 0..8 {
        contenders.iter_mut().try_for_each(|(_, contender)| contender.run(n))?;
        if !noop && round == 5 {
            let recorded = |_: &u32| resubmitting.metrics().batches_recorded > 0;
            let wait = |_: &u32| thread::sleep(Duration::from_millis(1));
            (0..2_000).inspect(wait).find(recorded);
        }
    }
    let clock = if noop { Clock::Process } else { Clock::Thread };
    let rounds = Rounds::within(Duration::from_millis(if quick { 250 } else { 3_500 }), 3);
    let samples = rounds.run(contenders.len(), |at, _| {
        let cost = Cost::of(clock, || contenders[at].1.run(n))?;
        Ok([cost.cpu_us, cost.wall_us, cost.allocations].map(|total| total / n as f64))
    })?;
    if !noop {
        // All contenders have done the same ops, so they have the same result.
        let expected = contenders[0].1.answer()?;
        for (name, contender) in &mut contenders {
            assert_eq!(contender.answer()?, expected, "{name}");
        }
    }
    let metrics = ["cpu_us_per_op", "total_us_per_op", "total_allocs_per_op"];
    let names: Vec<&str> = contenders.iter().map(|(name, _)| *name).collect();
    report.rows(&Case { device, case, n, metrics }, &Contender::all(&names), &samples);
    Ok(())
}
