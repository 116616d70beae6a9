//! Cutting by estimates of how long things take.

use std::time::Duration;

use sortie::{Grid, policy::Split};

use crate::{Chain, LEN, devices, drivers, expected, on, printed};

#[test]
fn a_hundred_thousand_ops_are_cut_within_the_budget_and_leave_the_same_bits() {
    const OPS: u32 = 100_000;
    let budget = Duration::from_millis(20);
    let expected = expected(OPS);
    on(devices(), |name, device| {
        let chain = Chain::new(device)?;
        let batch = device.batch();
        chain.record(&batch, OPS);
        batch.split_by(Split::Never);
        assert_eq!(batch.plan()?.submissions(), 1, "{name}");
        batch.submit()?;
        assert_eq!(chain.result(OPS)?, expected, "{name}, whole");

        // From here on it is known how long they take.
        let batch = device.batch();
        chain.record(&batch, OPS);
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
            let batch = device.batch();
            chain.record(&batch, 100);
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
        // 256 invocations of 65,000 steps (lavapipe ends loops there) take more than a thousand times what 256
        // invocations of nothing are guessed to. The first run may have the driver's compilation in it, and each
        // further one that is measured raises the estimate to the geometric middle at least. On a busy machine some
        // completions are seen too late to be measured.
        let known = |estimates: &[Duration]| estimates.iter().any(|now| *now > 100 * estimates[0]);
        while !known(&estimates) && estimates.len() < 100 {
            let batch = device.batch();
            batch.dispatch(&slow, &[&x], Grid::items(LEN));
            estimates.push(batch.plan()?.estimate());
            batch.submit()?;
        }
        assert!(known(&estimates), "{name}: {estimates:?}");
        Ok(())
    });
}

#[test]
fn a_budget_below_a_millisecond_counts_as_one() {
    on(devices(), |name, device| {
        let chain = Chain::new(device)?;
        let plan = |micros| -> sortie::Result<_> {
            let batch = device.batch();
            chain.record(&batch, 10_000);
            batch.split_by(Split::Adaptive { budget: Duration::from_micros(micros) });
            Ok(batch.plan()?.submissions())
        };
        let [none, least] = [plan(0)?, plan(1000)?];
        assert!(none == least && least > 1, "{name}: {none} and {least} submissions");
        Ok(())
    });
}

/// The compilation of as many kernels takes a driver longer than the default budget, and running them far less.
#[test]
fn the_drivers_compilation_is_in_no_estimate() {
    on(drivers(), |name, device| {
        // The driver has seen none of these, in this process or before.
        let salt =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let kernel = |number: u32| {
            let source = format!(
                "@group(0) @binding(0) var<storage, read_write> y: array<u32>;
                 @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
                     if id.x < arrayLength(&y) {{ y[id.x] = (y[id.x] ^ {salt}u) * {number}u + {number}u; }}
                 }}"
            );
            device.kernel(&source)
        };
        let kernels = (0..50).map(kernel).collect::<sortie::Result<Vec<_>>>()?;
        let y = device.zeros::<u32>(LEN)?;
        let mut submissions = Vec::new();
        for _ in 0..5 {
            let batch = device.batch();
            for kernel in &kernels {
                batch.dispatch(kernel, &[&y], Grid::items(LEN));
            }
            let before = device.metrics().submissions;
            batch.submit()?;
            submissions.push(device.metrics().submissions - before);
        }
        assert_eq!(submissions, [1; 5], "{name}");
        Ok(())
    });
}

/// Estimates that were learned from submissions as short as a wait for them still cut what is long.
#[test]
fn what_ran_in_short_submissions_is_cut_by_the_default_policy() {
    const LONG: &str = "
        @group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            var a = id.x;
            for (var i = 0u; i < 500u; i++) { a = a * 1664525u + 1013904223u; }
            x[id.x] += a;
        }";
    const ITEMS: usize = 1 << 16;
    on(drivers(), |name, device| {
        let (long, x) = (device.kernel(LONG)?, device.zeros::<u32>(ITEMS)?);
        let batch = |ops: usize, split: Split| {
            let batch = device.batch();
            for _ in 0..ops {
                batch.dispatch(&long, &[&x], Grid::items(ITEMS));
            }
            batch.split_by(split);
            batch
        };
        let takes_long = |ops: &usize| {
            batch(*ops, Split::Never).submit().expect("a batch");
            let plan = batch(*ops, Split::Never).plan().expect("a plan");
            plan.estimate() > Duration::from_millis(1500)
        };
        let ops = (3..).map(|power| 1 << power).find(takes_long).unwrap_or_default();
        for _ in 0..2 {
            batch(ops, Split::Adaptive { budget: Duration::from_millis(1) }).submit()?;
        }
        let (cut, before) = (batch(ops, Split::default()), device.metrics());
        let (plan, profile) = (cut.plan()?, cut.profile());
        cut.submit()?;
        let made = device.metrics() - before;
        let mut times = vec![Duration::ZERO; plan.submissions()];
        profile.wait()?.steps().iter().for_each(|step| times[step.submission()] += step.time().unwrap_or_default());
        let longest = times.into_iter().max().unwrap_or_default();
        printed(&format!(
            "{name}: {ops} dispatches, estimated {:?}, in {} submissions of {:?} at most; the longest took {longest:?}",
            plan.estimate(),
            made.submissions,
            plan.longest(),
        ));
        assert!(plan.longest() <= Duration::from_millis(100), "{name}: {plan:?}");
        // As many as 250 ms each would make.
        assert!(made.submissions >= 6, "{name}: {plan:?}");
        Ok(())
    });
}
