//! What recording costs: the CPU time of `n` small dispatches from recording to completion, against hand-written wgpu.
//!
//! All contenders take turns in one process, each on a device of its own (wgpu's cost of a pass depends on what its
//! device has done before). `wgpu-best` is what an expert writes by hand: one encoder, one pass, bind groups made once,
//! nothing set twice. `wgpu-best-again` is the same code on another device, a control that must read 1.0×. `sortie`
//! records every run; `sortie-replay` has recorded once and encodes every run; `sortie-native` is a native replay, on
//! Vulkan.
//!
//! `cpu_us_per_op`: CPU time of the whole process on noop; of the calling thread on a real driver, whose own threads run
//! the kernels. `total_allocs_per_op`: heap allocations.
//!
//! `chain`: every op reads what the one before wrote. `immediates`: the same, each with immediates of its own.
//! `direct.rs` has native replays submitted to Vulkan's queue against the same submitted through wgpu's. `work.rs` has
//! larger kernels, with workgroup memory, loads and arithmetic: native replays against encoded ones, until done.
//!
//! `cargo bench -p sortie --bench record [-- --quick] [--json] [--only chain,immediates,direct,work]`

#![expect(clippy::print_stderr, reason = "a missing driver is named on stderr")]
#![expect(unsafe_code, reason = "setting an environment variable")]

mod by_hand;
mod direct;
#[expect(dead_code, reason = "peers/overhead has contenders that begin with zeros")]
mod dispatches;
mod ours;
mod work;

use std::time::Duration;

use sortie::Device;
use sortie_bench::{Args, Case, Clock, Contender, Cost, CountingAllocator, Outcome, Report, Rounds};

use self::{
    by_hand::{ByHand, How},
    dispatches::{Dispatches, Runner},
    ours::{Recorded, Replayed, open},
};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const ADD: &str = "
    var<immediate> amount: vec4<u32>;
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = x[id.x] + amount.x; }
    }
";

/// The chain, and the same with immediates for each op.
fn cases() -> [(&'static str, Dispatches); 2] {
    let amount = |op: usize| [u32::try_from(op % 7).unwrap_or(0), 0, 0, 0];
    let immediates = Dispatches { source: ADD, immediates: Some(amount), ..Dispatches::chain() };
    [("chain", Dispatches::chain()), ("immediates", immediates)]
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
    let mut contenders: Vec<(&str, Box<dyn Runner>)> = vec![
        ("wgpu-best", by_hand(How::Best)?),
        ("sortie", Box::new(Recorded::new(open(device, true)?, dispatches.clone())?)),
        ("sortie-replay", replayed(false)?),
        ("wgpu-best-again", by_hand(How::Best)?),
        ("wgpu-new-groups", by_hand(How::NewGroups)?),
    ];
    // A round of 10,000 takes a second on a driver, and its cost per op does not change any more.
    if !quick || n <= 1_000 {
        contenders.push(("wgpu-submit-per-op", by_hand(How::SubmitPerOp)?));
    }
    if !noop {
        contenders.push(("sortie-native", replayed(true)?));
    }
    for (_, contender) in &mut contenders {
        // Twice: the first run compiles and plans, the second finds caches filled and ends where it began.
        contender.run(n)?;
        contender.run(n)?;
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
