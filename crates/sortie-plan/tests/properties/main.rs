//! What every plan keeps, whatever was recorded.
//!
//! The seed is fixed, so a run is the same every time. `SORTIE_CASES=full` runs ten times as many cases.

mod machine;
mod recordings;

use std::collections::HashMap;

use machine::{run_in_order, run_planned};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use recordings::{recordings, sliced_recordings};
use sortie_plan::{Access, Caps, OpKind, Plan, Recording, Rule, plan, split};

const ALIGN: u32 = 16;

fn config() -> ProptestConfig {
    let full = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    ProptestConfig {
        cases: if full { 10_000 } else { 1_000 },
        rng_seed: RngSeed::Fixed(0x5027_1e00),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Plans with each combination of switches.
fn plans(recording: &Recording) -> [Plan; 4] {
    [(false, false), (false, true), (true, false), (true, true)].map(|(reorder, reuse)| {
        let caps = Caps { reorder, reuse, params_align: ALIGN, ..Caps::default() };
        plan(recording, &caps)
    })
}

/// What an op touches, with scratch named by the buffer it was placed on.
fn placed_accesses(recording: &Recording, plan: &Plan, op: u32) -> Vec<Access> {
    let externals = recording.slots.len();
    let mut accesses = recording.accesses_of(&recording.ops[op as usize]).to_vec();
    for access in &mut accesses {
        if let Some(physical) = plan.placement[access.slot.0 as usize] {
            let number = externals + physical.0 as usize;
            access.slot.0 = u32::try_from(number).expect("there are few slots");
        }
    }
    accesses
}

/// The wave of each op that is in the plan.
fn wave_of(plan: &Plan) -> HashMap<u32, usize> {
    let waves = plan.waves.iter().enumerate();
    waves
        .flat_map(|(wave, span)| {
            let ops = plan.order[span.ops.range()].iter();
            ops.map(move |op| (*op, wave))
        })
        .collect()
}

/// The submission of each wave.
fn submission_of(plan: &Plan) -> Vec<usize> {
    let submissions = plan.submissions.iter().enumerate();
    submissions.flat_map(|(number, waves)| waves.range().map(move |_| number)).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_planned_run_gives_the_bits_of_a_run_in_recorded_order(recording in recordings()) {
        let expected = run_in_order(&recording);
        for plan in plans(&recording) {
            prop_assert_eq!(&run_planned(&recording, &plan), &expected, "{:?}", plan);
        }
    }

    #[test]
    fn a_buffer_in_many_slices_gives_the_same_bits_too(recording in sliced_recordings()) {
        let expected = run_in_order(&recording);
        for plan in plans(&recording) {
            prop_assert_eq!(&run_planned(&recording, &plan), &expected, "{:?}", plan);
        }
    }

    #[test]
    fn ops_of_one_wave_share_a_lane_and_never_conflict(recording in recordings()) {
        for plan in plans(&recording) {
            for wave in &plan.waves {
                let ops = &plan.order[wave.ops.range()];
                for (number, left) in ops.iter().enumerate() {
                    prop_assert_eq!(recording.ops[*left as usize].lane, wave.lane);
                    let left = placed_accesses(&recording, &plan, *left);
                    for right in &ops[number + 1..] {
                        let right = placed_accesses(&recording, &plan, *right);
                        let conflict = left.iter().any(|l| right.iter().any(|r| l.conflicts(r)));
                        prop_assert!(!conflict, "{:?} and {:?}", left, right);
                    }
                }
            }
        }
    }

    #[test]
    fn every_op_but_the_fences_is_in_exactly_one_wave_and_submission(recording in recordings()) {
        let fence = |op: &u32| {
            let kind = recording.ops[*op as usize].kind;
            matches!(kind, OpKind::Barrier | OpKind::Split)
        };
        let expected: Vec<u32> = (0..).take(recording.ops.len()).filter(|op| !fence(op)).collect();
        for plan in plans(&recording) {
            let mut order = plan.order.clone();
            order.sort_unstable();
            prop_assert_eq!(&order, &expected);

            let ops: Vec<usize> = plan.waves.iter().flat_map(|wave| wave.ops.range()).collect();
            prop_assert!(ops.into_iter().eq(0..plan.order.len()));
            prop_assert!(plan.waves.iter().all(|wave| wave.ops.len > 0));

            let waves: Vec<usize> = plan.submissions.iter().flat_map(|s| s.range()).collect();
            prop_assert!(waves.into_iter().eq(0..plan.waves.len()));
            prop_assert!(plan.submissions.iter().all(|submission| submission.len > 0));
        }
    }

    #[test]
    fn recorded_order_stays_where_reordering_is_off(recording in recordings()) {
        let [in_order, in_order_reusing, ..] = plans(&recording);
        prop_assert!(in_order.order.is_sorted());
        prop_assert!(in_order_reusing.order.is_sorted());
    }

    #[test]
    fn all_before_a_fence_runs_in_earlier_waves_than_all_after(recording in recordings()) {
        for plan in plans(&recording) {
            let wave_of = wave_of(&plan);
            let submission_of = submission_of(&plan);
            for (fence, op) in recording.ops.iter().enumerate() {
                let side = |after: bool| {
                    let ops = wave_of.iter().filter(move |(op, _)| (**op as usize > fence) == after);
                    ops.map(|(_, wave)| *wave)
                };
                let (Some(last), Some(next)) = (side(false).max(), side(true).min()) else {
                    continue;
                };
                match op.kind {
                    OpKind::Barrier => prop_assert!(last < next),
                    OpKind::Split => prop_assert!(submission_of[last] < submission_of[next]),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_submission_ends_only_at_a_split(recording in recordings()) {
        let stretches = recording.ops.split(|op| op.kind == OpKind::Split);
        let with_work = stretches.filter(|ops| ops.iter().any(|op| op.kind != OpKind::Barrier));
        let expected = with_work.count();
        for plan in plans(&recording) {
            prop_assert_eq!(plan.submissions.len(), expected);
        }
    }

    #[test]
    fn parameter_blocks_are_aligned_and_disjoint(recording in recordings()) {
        for plan in plans(&recording) {
            let lengths = recording.ops.iter().flat_map(|op| op.params);
            let offsets = plan.params.iter().flatten().copied();
            let mut free_from = 0;
            for (offset, len) in offsets.zip(lengths).filter(|(_, len)| *len > 0) {
                prop_assert_eq!(offset % ALIGN, 0);
                prop_assert!(offset >= free_from);
                free_from = offset + len;
            }
            prop_assert!(plan.params_bytes >= free_from);
            prop_assert_eq!(plan.params.len(), recording.ops.len());
        }
    }

    #[test]
    fn reordering_never_adds_a_pass_and_reuse_never_adds_memory(recording in recordings()) {
        let [in_order, in_order_reusing, free, free_reusing] = plans(&recording);
        prop_assert!(free.passes() <= in_order.passes());
        prop_assert!(in_order_reusing.peak_bytes() <= in_order.peak_bytes());
        prop_assert!(free_reusing.peak_bytes() <= free.peak_bytes());
    }

    #[test]
    fn reordering_a_buffer_in_many_slices_never_adds_a_pass(recording in sliced_recordings()) {
        let [in_order, _, free, _] = plans(&recording);
        prop_assert!(free.passes() <= in_order.passes());
    }

    #[test]
    fn parts_are_the_order_cut_where_the_rule_says(
        recording in recordings(),
        every in 1..5_u32,
        limit in 0..200_u64,
        costs in prop::collection::vec(0..60_u64, 64),
    ) {
        let cost = |op: u32| costs[op as usize % costs.len()];
        for plan in plans(&recording) {
            let whole: Vec<_> = plan.parts().collect();
            prop_assert_eq!(&split(&plan, Rule::Never, cost), &whole);
            for rule in [Rule::Never, Rule::Every(every), Rule::Within(limit)] {
                let parts = split(&plan, rule, cost);
                let ops: Vec<usize> = parts.iter().flat_map(|part| part.ops.range()).collect();
                prop_assert_eq!(ops, (0..plan.order.len()).collect::<Vec<_>>());
                for part in &parts {
                    let around = whole[part.submission as usize].ops.range();
                    prop_assert!(around.start <= part.ops.range().start && part.ops.range().end <= around.end);
                    let costs = plan.order[part.ops.range()].iter().map(|op| cost(*op));
                    match rule {
                        Rule::Never => {}
                        Rule::Every(ops) => prop_assert!(part.ops.len <= ops),
                        Rule::Within(limit) => prop_assert!(part.ops.len == 1 || costs.sum::<u64>() <= limit),
                    }
                }
            }
        }
    }
}
