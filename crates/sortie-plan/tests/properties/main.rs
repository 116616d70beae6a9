//! What every plan keeps, whatever was recorded.
//!
//! The seed is fixed, so a run is the same every time. `SORTIE_CASES=full` runs ten times as many cases.

mod machine;
mod recordings;

use std::collections::HashMap;

use machine::{Outcome, run_in_order, run_planned};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use recordings::{recordings, sliced_recordings};
use sortie_plan::{
    Caps, Cut, CutRule, GRID_BLOCK, Op, OpGrid, OpKind, ParamBlock, Plan, Recording, Step, StepId, cut, divide, plan,
};

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

/// Each combination of switches, with limits so small that grids fold and fills are several steps.
fn caps() -> [Caps; 4] {
    [(false, false), (false, true), (true, false), (true, true)].map(|(reorder, reuse)| {
        let limits = Caps { max_groups: 3, fill_binding_bytes: 20, params_align: ALIGN, ..Caps::default() };
        Caps { reorder, reuse, ..limits }
    })
}

fn plans(recording: &Recording) -> [Plan; 4] {
    caps().map(|caps| plan(recording, &caps))
}

/// Runs every plan of a recording, cut in every way that `cuts` gives.
fn run_all(recording: &Recording, origin: &[u32], cuts: impl Fn(&Plan) -> Vec<Vec<Cut>>) -> Vec<Outcome> {
    let outcomes = caps().into_iter().flat_map(|caps| {
        let plan = plan(recording, &caps);
        let cuts = cuts(&plan);
        cuts.into_iter().map(|cuts| run_planned(recording, &plan, &cuts, &caps, origin)).collect::<Vec<_>>()
    });
    outcomes.collect()
}

fn as_recorded(recording: &Recording) -> Vec<u32> {
    (0..).take(recording.ops.len()).collect()
}

/// The wave of each op that is in the plan, and the section of each wave.
fn waves(plan: &Plan) -> (HashMap<u32, usize>, Vec<usize>) {
    let (mut wave_of, mut section_of) = (HashMap::new(), Vec::new());
    for (section, whole) in plan.sections.iter().enumerate() {
        section_of.push(section);
        for step in &plan.steps[whole.steps.range()] {
            if step.is_wave_end() {
                section_of.push(section);
            }
            if let Some(op) = plan.op_of(*step) {
                wave_of.insert(op.0, section_of.len() - 1);
            }
        }
    }
    (wave_of, section_of)
}

/// The ops of a plan in the order they run, a fill in several steps once for each.
fn order(plan: &Plan) -> Vec<u32> {
    plan.steps.iter().filter_map(|step| plan.op_of(*step)).map(|op| op.0).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_planned_run_gives_the_bits_of_a_run_in_recorded_order(recording in recordings()) {
        let expected = run_in_order(&recording);
        for outcome in run_all(&recording, &as_recorded(&recording), |plan| vec![plan.whole()]) {
            prop_assert_eq!(&outcome, &expected);
        }
    }

    #[test]
    fn a_buffer_in_many_slices_gives_the_same_bits_too(recording in sliced_recordings()) {
        let expected = run_in_order(&recording);
        for outcome in run_all(&recording, &as_recorded(&recording), |plan| vec![plan.whole()]) {
            prop_assert_eq!(&outcome, &expected);
        }
    }

    #[test]
    fn however_it_is_cut_it_gives_the_same_bits(recording in recordings(), every in 1..5_u32, limit in 0..200_u64) {
        let expected = run_in_order(&recording);
        let cost = |step: StepId| u64::from(step.0) * 7 % 60;
        let cuts = |plan: &Plan| {
            [CutRule::Every(1), CutRule::Every(every), CutRule::Budget(limit)].map(|rule| cut(plan, rule, cost)).into()
        };
        for outcome in run_all(&recording, &as_recorded(&recording), cuts) {
            prop_assert_eq!(&outcome, &expected);
        }
    }

    #[test]
    fn with_every_dispatch_divided_it_gives_the_same_bits(recording in recordings(), most in 2..6_u32) {
        let expected = run_in_order(&recording);
        let pieces = |(number, op): (u32, &Op)| match op.kind {
            OpKind::Dispatch { grid: OpGrid::Direct(groups) | OpGrid::Wrapped { groups, .. }, .. } => {
                Some((number, most.min(groups.iter().product()))).filter(|(_, count)| *count > 1)
            }
            _ => None,
        };
        let pieces: Vec<_> = (0..).zip(&recording.ops).filter_map(pieces).collect();
        let (divided, origin) = divide(&recording, &pieces);
        for outcome in run_all(&divided, &origin, |plan| vec![plan.whole(), cut(plan, CutRule::Every(1), |_| 0)]) {
            prop_assert_eq!(&outcome, &expected);
        }
    }

    #[test]
    fn every_op_with_something_to_do_is_in_the_list_and_no_other(recording in recordings()) {
        let runs = |op: &Op| !op.is_fence() && !op.is_empty();
        let expected: Vec<u32> = (0..).zip(&recording.ops).filter(|(_, op)| runs(op)).map(|(number, _)| number).collect();
        for plan in plans(&recording) {
            let mut order = order(&plan);
            order.sort_unstable();
            order.dedup();
            prop_assert_eq!(&order, &expected);
            let steps: Vec<usize> = plan.sections.iter().flat_map(|section| section.steps.range()).collect();
            prop_assert!(steps.into_iter().eq(0..plan.steps.len()));
        }
    }

    #[test]
    fn the_steps_of_a_fill_cover_it_in_whole_patterns(recording in recordings()) {
        for plan in plans(&recording) {
            for (number, op) in (0..).zip(&recording.ops) {
                let steps: Vec<_> = plan.fills.iter().filter(|fill| fill.op.0 == number).collect();
                let (OpKind::Fill { pattern, .. }, [to]) = (op.kind, recording.accesses_of(op)) else { continue };
                let mut start = to.start;
                for fill in steps {
                    prop_assert_eq!(fill.to.start, start);
                    prop_assert!(pattern.len == 0 || (start - to.start).is_multiple_of(u64::from(pattern.len)));
                    start = fill.to.end;
                }
                prop_assert_eq!(start, to.end);
            }
        }
    }

    #[test]
    fn recorded_order_stays_where_reordering_is_off(recording in recordings()) {
        let [in_order, in_order_reusing, ..] = plans(&recording);
        prop_assert!(order(&in_order).is_sorted());
        prop_assert!(order(&in_order_reusing).is_sorted());
    }

    #[test]
    fn all_before_a_fence_runs_in_earlier_waves_than_all_after(recording in recordings()) {
        for plan in plans(&recording) {
            let (wave_of, section_of) = waves(&plan);
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
                    OpKind::Split => prop_assert!(section_of[last] < section_of[next]),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_section_ends_only_at_a_split(recording in recordings()) {
        let stretches = recording.ops.split(|op| op.kind == OpKind::Split);
        let with_work = stretches.filter(|ops| ops.iter().any(|op| !op.is_fence() && !op.is_empty()));
        let expected = with_work.count().max(usize::from(!recording.outputs.is_empty()));
        for plan in plans(&recording) {
            prop_assert_eq!(plan.sections.len(), expected);
        }
    }

    #[test]
    fn parameter_blocks_are_aligned_and_disjoint(recording in recordings()) {
        for plan in plans(&recording) {
            prop_assert_eq!(plan.steps.contains(&Step::Params), !plan.params.is_empty());
            let mut free_from = 0;
            for block in &plan.params {
                let (at, len) = match *block {
                    ParamBlock::Immediates { at, bytes } => (at, bytes.len),
                    ParamBlock::Grid { at, .. } => (at, GRID_BLOCK as u32),
                    ParamBlock::Fill { at, .. } => (at, 1),
                };
                prop_assert_eq!(at % ALIGN, 0);
                prop_assert!(at >= free_from);
                free_from = at + len;
            }
            prop_assert!(plan.params_bytes >= free_from);
        }
    }

    #[test]
    fn reordering_never_adds_a_pass_and_reuse_never_adds_memory(recording in recordings()) {
        let [in_order, in_order_reusing, free, free_reusing] = plans(&recording);
        prop_assert!(free.passes(&free.whole()) <= in_order.passes(&in_order.whole()));
        prop_assert!(in_order_reusing.peak_bytes() <= in_order.peak_bytes());
        prop_assert!(free_reusing.peak_bytes() <= free.peak_bytes());
    }

    #[test]
    fn reordering_a_buffer_in_many_slices_never_adds_a_pass(recording in sliced_recordings()) {
        let [in_order, _, free, _] = plans(&recording);
        prop_assert!(free.passes(&free.whole()) <= in_order.passes(&in_order.whole()));
    }

    #[test]
    fn submissions_are_the_list_cut_where_the_rule_says(
        recording in recordings(),
        every in 1..5_u32,
        limit in 0..200_u64,
        costs in prop::collection::vec(0..60_u64, 64),
    ) {
        let cost = |step: StepId| costs[step.0 as usize % costs.len()];
        for plan in plans(&recording) {
            for rule in [CutRule::Never, CutRule::Every(every), CutRule::Budget(limit)] {
                let mut at = 0;
                for cut in cut(&plan, rule, cost) {
                    let steps = cut.steps.range();
                    // Only a barrier at which it was cut may be left out.
                    prop_assert!(plan.steps[at..steps.start].iter().all(|step| step.is_wave_end()));
                    prop_assert!(steps.start - at <= 1);
                    let around = plan.sections[cut.section as usize].steps.range();
                    prop_assert!(around.start <= steps.start && steps.end <= around.end);
                    let ops = plan.steps_of(&cut).filter(|(_, step)| plan.op_of(*step).is_some());
                    let costs: Vec<u64> = ops.map(|(id, _)| cost(id)).collect();
                    prop_assert_eq!(costs.len(), cut.ops as usize);
                    let barriers = plan.steps[steps.clone()].iter().filter(|step| step.is_wave_end()).count();
                    prop_assert_eq!(barriers, cut.barriers as usize);
                    match rule {
                        CutRule::Never => prop_assert_eq!(steps.clone(), around),
                        CutRule::Every(ops) => prop_assert!(cut.ops <= ops),
                        CutRule::Budget(limit) => prop_assert!(cut.ops <= 1 || costs.iter().sum::<u64>() <= limit),
                    }
                    at = steps.end;
                }
                prop_assert_eq!(at, plan.steps.len());
            }
        }
    }
}
