//! Cutting by estimates of how long things take.

use std::time::Duration;

use sortie::{Grid, Split};

use crate::{Chain, LEN, devices, expected, on, printed};

#[test]
fn a_hundred_thousand_ops_are_cut_within_the_budget_and_leave_the_same_bits() {
    const OPS: u32 = 100_000;
    let budget = Duration::from_millis(5);
    let expected = expected(OPS);
    on(devices(), |name, device| {
        let chain = Chain::new(device)?;
        let mut batch = device.batch();
        chain.record(&mut batch, OPS);
        batch.split_by(Split::Never);
        assert_eq!(batch.plan()?.submissions(), 1, "{name}");
        batch.submit()?;
        assert_eq!(chain.result(OPS)?, expected, "{name}, whole");

        // From here on it is known how long they take.
        let mut batch = device.batch();
        chain.record(&mut batch, OPS);
        batch.split_by(Split::Adaptive { budget });
        let plan = batch.plan()?;
        assert!(plan.estimate() > budget, "{name}: {plan:?}");
        assert!(plan.longest() <= budget, "{name}: {plan:?}");
        let least = plan.estimate().as_nanos().div_ceil(budget.as_nanos());
        assert!(plan.submissions() as u128 >= least.max(5), "{name}: {plan:?}");
        let before = device.metrics();
        batch.submit()?;
        let made = device.metrics() - before;
        assert_eq!(made.submissions, plan.submissions() as u64, "{name}");
        assert_eq!(made.cuts + 1, made.submissions, "{name}");
        assert_eq!(chain.result(OPS)?, expected, "{name}, cut");
        printed(&format!(
            "{name}: {OPS} ops, estimated {:?}, in {} submissions of {:?} at most; {} took longer than {budget:?}, by {} µs in all",
            plan.estimate(),
            made.submissions,
            plan.longest(),
            made.overruns,
            made.overrun_us,
        ));
        Ok(())
    });
}

#[test]
fn what_is_within_the_budget_stays_whole() {
    on(devices(), |name, device| {
        let chain = Chain::new(device)?;
        for _ in 0..3 {
            let mut batch = device.batch();
            chain.record(&mut batch, 100);
            batch.split_by(Split::Adaptive { budget: Duration::from_secs(3600) });
            let plan = batch.plan()?;
            assert_eq!(plan.submissions(), 1, "{name}");
            assert!(plan.estimate() > Duration::ZERO, "{name}");
            batch.submit()?;
        }
        assert_eq!(device.metrics().cuts, 0, "{name}");
        Ok(())
    });
}

#[test]
fn a_kernel_that_turns_out_to_be_slow_is_estimated_so() {
    const SLOW: &str = "
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            var a = x[id.x];
            for (var i = 0u; i < 200000u; i++) { a = a * 1664525u + 1013904223u; }
            x[id.x] = a;
        }";
    on(devices(), |name, device| {
        let (slow, x) = (device.kernel(SLOW)?, device.zeros::<u32>(LEN)?);
        let mut estimates = Vec::new();
        for _ in 0..2 {
            let mut batch = device.batch();
            batch.dispatch(&slow, &[&x], Grid::items(LEN));
            estimates.push(batch.plan()?.estimate());
            batch.submit()?;
        }
        // 256 invocations of 200,000 steps each take more than a thousand times what 256 invocations of nothing are guessed to.
        assert!(estimates[1] > 100 * estimates[0], "{name}: {estimates:?}");
        Ok(())
    });
}
