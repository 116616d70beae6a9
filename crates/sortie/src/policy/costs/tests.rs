//! The rules for changing estimates, one test each, on a virtual clock.

use super::*;
use crate::clock::Instant;

const MS: Duration = Duration::from_millis(1);

fn estimate(cost_keys: &[(u64, f64)]) -> Arc<WorkEstimate> {
    Arc::new(WorkEstimate::new(cost_keys.iter().map(|(kind, units)| CostKey {
        kind: *kind,
        units: *units,
        pipeline: 0,
    })))
}

/// One unit of work of a kind, with a pipeline that the driver compiles.
fn compiled(kind: u64, pipeline: u64) -> Arc<WorkEstimate> {
    Arc::new(WorkEstimate::new([CostKey { kind, units: 1.0, pipeline }]))
}

/// A device whose submissions complete when a test says so.
struct Clock {
    costs: Costs,
    zero: Instant,
    serial: u64,
}

impl Clock {
    fn new() -> Self {
        Self { costs: Costs::new(1.0), zero: Instant::now(), serial: 0 }
    }

    /// Completes the next submission. Times in ms: when it was submitted, and when its completion was seen. Others are
    /// in flight unless it is the last.
    fn record_finished(
        &mut self,
        estimate: &Arc<WorkEstimate>,
        [submitted, seen]: [u32; 2],
        on_time: bool,
        idle: bool,
    ) {
        self.serial += 1;
        self.landed_as([self.serial; 2], estimate, [submitted, seen], on_time, idle);
    }

    fn landed_as(&self, serials: [u64; 2], estimate: &Arc<WorkEstimate>, times: [u32; 2], on_time: bool, idle: bool) {
        let [submitted, at] = times.map(|time| self.zero + time * MS);
        self.told(serials, estimate, [Moment::new(submitted, None), Moment::new(at, None)], on_time, idle);
    }

    fn told(
        &self,
        serials: [u64; 2],
        estimate: &Arc<WorkEstimate>,
        [submitted, seen]: [Moment; 2],
        on_time: bool,
        idle: bool,
    ) {
        let estimates = [Some(estimate)];
        let landed = FinishedSubmissions {
            serials,
            submitted,
            seen,
            on_time,
            estimates: &estimates,
            compiled: 0,
            profiled: false,
            idle,
        };
        self.costs.record_finished(&landed);
    }

    fn estimate(&self, estimate: &Arc<WorkEstimate>) -> u64 {
        self.costs.estimate(estimate)
    }
}

#[test]
fn an_effort_has_each_kind_and_each_pipeline_once() {
    let cost_key = |(kind, units, pipeline): (u64, f64, u64)| CostKey { kind, units, pipeline };
    let estimate = WorkEstimate::new([(1, 1.0, 2), (2, 1.0, 3), (1, 2.0, 2), (1, 3.0, 0), (3, 0.0, 2)].map(cost_key));
    let kinds: Vec<_> = estimate.cost_keys.iter().map(|cost_key| (cost_key.kind, cost_key.units)).collect();
    assert_eq!((&kinds[..], &estimate.pipelines[..]), (&[(1, 6.0), (2, 1.0), (3, 0.0)][..], &[2, 3][..]));
}

#[test]
fn what_is_new_costs_what_was_measured_at_once() {
    let costs = Costs::new(1.0);
    let work = estimate(&[(1, 1000.0)]);
    assert_eq!(costs.estimate(&work), 1000);
    costs.record_alone(&work, 50 * MS, false);
    assert_eq!(costs.estimate(&work), 50_000_000);
}

#[test]
fn short_times_raise_nothing_but_lower_what_is_above_them() {
    let costs = Costs::new(1.0);
    let work = estimate(&[(1, 1000.0)]);
    costs.record_alone(&work, MS / 2, false);
    assert_eq!(costs.estimate(&work), 1000);
    costs.record_alone(&work, MS / 2000, false);
    assert_eq!(costs.estimate(&work), 750);
}

#[test]
fn one_long_time_does_not_replace_what_many_short_ones_agreed_with() {
    let costs = Costs::new(1.0);
    let work = estimate(&[(1, 1000.0)]);
    costs.record_alone(&work, MS / 20, false);
    costs.record_alone(&work, 200 * MS, false);
    assert!(costs.estimate(&work) < 1_000_000, "{}", costs.estimate(&work));
}

#[test]
fn what_is_known_rises_and_falls_by_half_of_the_distance() {
    let costs = Costs::new(1.0);
    let work = estimate(&[(1, 1.0)]);
    costs.record_alone(&work, 4 * MS, false);
    costs.record_alone(&work, 16 * MS, false);
    assert_eq!(costs.estimate(&work), 8_000_000);
    costs.record_alone(&work, 2 * MS, false);
    assert_eq!(costs.estimate(&work), 5_000_000);
    // No measurement, however short, lowers an estimate to less than half.
    costs.record_alone(&work, Duration::ZERO, false);
    assert_eq!(costs.estimate(&work), 2_500_000);
}

#[test]
fn what_was_profiled_raises_nothing_that_is_known() {
    let costs = Costs::new(1.0);
    let work = estimate(&[(1, 1.0)]);
    costs.record_alone(&work, 8 * MS, true);
    costs.record_alone(&work, 16 * MS, true);
    assert_eq!(costs.estimate(&work), 8_000_000);
    costs.record_alone(&work, 2 * MS, true);
    assert_eq!(costs.estimate(&work), 5_000_000);
}

#[test]
fn what_is_new_explains_what_the_known_does_not() {
    let costs = Costs::new(1.0);
    let (known, new) = (estimate(&[(1, 1.0)]), estimate(&[(2, 10.0)]));
    costs.record_alone(&known, 4 * MS, false);
    costs.record_alone(&estimate(&[(1, 1.0), (2, 10.0)]), 24 * MS, false);
    assert_eq!(costs.estimate(&known), 4_000_000);
    assert_eq!(costs.estimate(&new), 20_000_000);
}

#[test]
fn the_version_changes_only_with_what_matters() {
    let costs = Costs::new(1.0);
    let work = estimate(&[(1, 1.0)]);
    costs.record_alone(&work, 10 * MS, false);
    let version = costs.version();
    costs.record_alone(&work, 11 * MS, false);
    assert_eq!(costs.version(), version);
    costs.record_alone(&work, 20 * MS, false);
    assert_ne!(costs.version(), version);
}

#[test]
fn where_nothing_takes_time_nothing_is_learned() {
    let costs = Costs::new(0.0);
    let work = estimate(&[(1, 1000.0)]);
    costs.record_alone(&work, 50 * MS, false);
    assert_eq!(costs.estimate(&work), 0);
}

#[test]
fn time_before_the_completion_of_the_one_before_is_not_counted() {
    let (mut clock, work) = (Clock::new(), estimate(&[(1, 1000.0)]));
    clock.record_finished(&estimate(&[(2, 1.0)]), [0, 90], true, false);
    clock.record_finished(&work, [0, 140], true, true);
    assert_eq!(clock.estimate(&work), 30_000_000, "less what its end may have been seen late by");
}

#[test]
fn the_first_run_of_a_pipeline_teaches_nothing_that_compilation_explains() {
    let (mut clock, work) = (Clock::new(), compiled(1, 7));
    clock.record_finished(&work, [0, 400], true, true);
    assert_eq!(clock.estimate(&work), 1, "the guess");
    clock.record_finished(&work, [1000, 1030], true, true);
    assert_eq!(clock.estimate(&work), 10_000_000);
    // The same kernel as another pipeline, like that of a divided dispatch: no known estimate rises.
    clock.record_finished(&compiled(1, 8), [2000, 2300], true, true);
    assert_eq!(clock.estimate(&work), 10_000_000);
}

#[test]
fn what_compilation_does_not_explain_is_learned_until_it_is_measured() {
    let (mut clock, work) = (Clock::new(), compiled(1, 7));
    clock.record_finished(&work, [0, 1800], true, true);
    assert_eq!(clock.estimate(&work), 1_300_000_000);
    clock.record_finished(&work, [2000, 3720], true, true);
    assert_eq!(clock.estimate(&work), 1_700_000_000);
}

#[test]
fn a_first_run_that_turns_out_short_is_replaced_wholly_too() {
    let (mut clock, work) = (Clock::new(), compiled(1, 7));
    clock.record_finished(&work, [0, 1800], true, true);
    clock.record_finished(&work, [2000, 2010], true, true);
    assert_eq!(clock.estimate(&work), 10_000_000);
}

#[test]
fn later_parts_of_a_first_run_are_measured() {
    let (mut clock, work) = (Clock::new(), compiled(1, 7));
    clock.record_finished(&work, [0, 400], true, false);
    clock.record_finished(&work, [1, 450], true, false);
    assert_eq!(clock.estimate(&work), 30_000_000);
}

#[test]
fn an_interval_whose_start_was_seen_late_lowers_nothing() {
    let (mut clock, work) = (Clock::new(), estimate(&[(1, 1.0)]));
    clock.record_finished(&work, [0, 100], true, true);
    // The second was done long before it was seen, and most of the third was done too.
    clock.record_finished(&work, [200, 500], false, true);
    let before = clock.estimate(&work);
    clock.record_finished(&work, [210, 501], true, true);
    assert_eq!(clock.estimate(&work), before);
    clock.record_finished(&work, [600, 650], true, true);
    assert!(clock.estimate(&work) < before);
}

#[test]
fn an_interval_whose_end_was_seen_late_raises_little() {
    let (mut clock, work) = (Clock::new(), estimate(&[(1, 1.0)]));
    clock.record_finished(&work, [0, 30], true, true);
    clock.record_finished(&work, [100, 1000], false, true);
    assert_eq!(clock.estimate(&work), 20_000_000);
    clock.record_finished(&work, [2000, 2010], false, true);
    assert_eq!(clock.estimate(&work), 15_000_000, "it lowers as any other");
}

#[test]
fn what_was_only_ever_seen_late_is_learned_step_by_step_and_then_measured() {
    let (mut clock, work) = (Clock::new(), estimate(&[(1, 1e6)]));
    for (run, expected) in (0..).zip([2_000_000, 4_000_000, 8_000_000]) {
        clock.record_finished(&work, [1000 * run, 1000 * run + 300], false, true);
        assert_eq!(clock.estimate(&work), expected);
    }
    clock.record_finished(&work, [9000, 9300], true, true);
    assert_eq!(clock.estimate(&work), 280_000_000);
}

#[test]
fn short_submissions_that_follow_one_another_are_measured_together() {
    let (mut clock, work) = (Clock::new(), estimate(&[(1, 1.0)]));
    clock.costs.record_alone(&work, MS, false);
    // One per millisecond. A waiting thread sees each third one two milliseconds late, and the next ones at once.
    for run in 0..120_u32 {
        let at = 100 + run;
        clock.record_finished(&work, [at - 1, at / 3 * 3 + 2], true, run == 119);
        let estimate = clock.estimate(&work);
        assert!((900_000..=1_150_000).contains(&estimate), "{estimate} after {run}");
    }
}

#[test]
fn completions_that_were_all_found_late_do_not_bring_an_estimate_down() {
    let (mut clock, work) = (Clock::new(), estimate(&[(1, 1.0)]));
    clock.costs.record_alone(&work, 10 * MS, false);
    // Ten milliseconds each, seen a hundred at a time.
    for run in 0..1000_u32 {
        let at = 100 + 10 * (run + 1);
        clock.record_finished(&work, [at - 15, at.next_multiple_of(1000)], run % 100 == 0, false);
    }
    let estimate = clock.estimate(&work);
    assert!((8_000_000..=13_000_000).contains(&estimate), "{estimate}");
}

#[test]
fn completions_out_of_order_do_not_change_estimates() {
    let (clock, work) = (Clock::new(), estimate(&[(1, 1.0)]));
    clock.landed_as([1, 1], &work, [0, 100], true, true);
    clock.landed_as([3, 3], &work, [10, 300], true, true);
    clock.landed_as([2, 2], &work, [5, 200], true, true);
    assert_eq!(clock.estimate(&work), 80_000_000);
    clock.landed_as([4, 4], &work, [20, 500], true, true);
    assert_eq!(clock.estimate(&work), 126_491_106, "the interval since the third");
}

#[test]
fn a_submission_of_which_nothing_is_known_ends_what_is_measured() {
    let (mut clock, work) = (Clock::new(), estimate(&[(1, 1.0)]));
    clock.costs.record_alone(&work, 10 * MS, false);
    clock.record_finished(&work, [100, 105], true, false);
    let landed = FinishedSubmissions {
        serials: [2, 2],
        submitted: Moment::new(clock.zero + 101 * MS, None),
        seen: Moment::new(clock.zero + 900 * MS, None),
        on_time: true,
        estimates: &[None],
        compiled: 0,
        profiled: false,
        idle: true,
    };
    assert_eq!(clock.costs.record_finished(&landed), Some(795 * MS));
    assert_eq!(clock.estimate(&work), 7_500_000);
}

#[test]
fn what_a_software_driver_did_not_compute_is_not_counted() {
    let (clock, work) = (Clock::new(), estimate(&[(1, 1.0)]));
    // Other processes used the processors for most of the time.
    let moments = [(0, 500), (200, 530)].map(|(at, computed)| Moment::new(clock.zero + at * MS, Some(computed * MS)));
    clock.told([1, 1], &work, moments, true, true);
    assert_eq!(clock.estimate(&work), 10_000_000);
}

#[test]
fn a_first_measurement_that_a_late_thread_explains_is_not_taken_for_the_work() {
    let (mut clock, work) = (Clock::new(), estimate(&[(1, 1000.0)]));
    clock.record_finished(&work, [0, 19], true, true);
    assert!(clock.estimate(&work) < 1_000_000, "{}", clock.estimate(&work));
}
