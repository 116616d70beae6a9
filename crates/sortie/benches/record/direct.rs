//! What submitting native replays directly to Vulkan's queue gains over submitting them through wgpu.
//!
//! Both contenders run the same native replay of `n` dispatches, without inputs and outputs. `direct` is a device of our
//! own, whose runs go to Vulkan's queue. `through-wgpu` is the same after `Device::wgpu`, from when on its runs are
//! submitted by wgpu, because the application may use the queue too; both wait for the same timeline semaphore. Since the
//! queue is shared, `through-wgpu` also registers a completion callback in each run, which is part of its cost. The rows
//! `-again` are controls.
//!
//! `cpu_us_per_run`: CPU time of the calling thread, which submits and waits; the driver's threads run the kernels.

use std::time::Duration;

use sortie_bench::{Case, Clock, Contender, Cost, Outcome, Report, Rounds};

use super::{Dispatches, Replayed, Runner, open};

pub(super) fn bench(device: &str, quick: bool, report: &mut Report) -> Outcome<()> {
    let names = ["through-wgpu", "direct", "direct-again", "through-wgpu-again"];
    for n in [1, 10, 100] {
        let mut contenders = Vec::new();
        for name in names {
            let mut replayed = Replayed::new(open(device, true)?, Dispatches::chain())?;
            if name.starts_with("through-wgpu") {
                replayed.recorded.device.wgpu().ok_or("not a wgpu device")?;
            }
            for _ in 0..10 {
                replayed.run(n)?;
            }
            let before = replayed.recorded.device.metrics();
            replayed.run(n)?;
            assert_eq!((replayed.recorded.device.metrics() - before).native_runs, 1, "{name}");
            contenders.push(replayed);
        }
        let rounds = Rounds::within(Duration::from_millis(if quick { 600 } else { 4_000 }), 20);
        let samples = rounds.run(contenders.len(), |at, _| {
            let cost = Cost::of(Clock::Thread, || contenders[at].run(n))?;
            Ok([cost.cpu_us, cost.wall_us, cost.allocations])
        })?;
        let metrics = ["cpu_us_per_run", "total_us_per_run", "allocs_per_run"];
        report.rows(&Case { device, case: "direct", n, metrics }, &Contender::all(&names), &samples);
    }
    Ok(())
}
