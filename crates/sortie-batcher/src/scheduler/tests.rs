//! Several devices, and latency targets.

mod load;

use super::*;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

fn config() -> BatchConfig {
    BatchConfig::default().with_max_batch_size(100).with_max_wait(MS)
}

/// Measured devices with these times per row.
fn scheduler(each: &[u32]) -> Scheduler {
    let mut scheduler = Scheduler::new(config(), each.len());
    for (who, each) in each.iter().enumerate() {
        for rows in [1_u32, 50, 100, 20, 80, 10] {
            scheduler.dispatched(who, rows as usize, 0, Duration::ZERO);
            scheduler.workers[who].finished = Duration::ZERO;
            scheduler.finished(who, 0, *each * rows * US);
        }
        scheduler.workers[who].finished = Duration::ZERO;
        scheduler.sleeps(who, None);
    }
    scheduler
}

#[test]
fn a_device_that_is_alone_takes_whatever_there_is() {
    let mut scheduler = Scheduler::new(config(), 1);
    let capacity = Capacity { free: true, idle: true, linger: None, size: 100, reserved: 0, arrived_since: None };
    assert_eq!(scheduler.capacity(0, MS, 7), capacity);
    scheduler.dispatched(0, 7, 0, MS);
    assert_eq!(scheduler.capacity(0, 999 * MS, 7), Capacity { idle: false, ..capacity });
    scheduler.dispatched(0, 7, 0, MS);
    assert_eq!(scheduler.capacity(0, 999 * MS, 7), Capacity { idle: false, free: false, ..capacity });
}

#[test]
fn the_fastest_takes_what_is_there_and_others_what_is_left() {
    let scheduler = scheduler(&[40, 10]);
    let [slow, fast] = [0, 1].map(|who| scheduler.capacity(who, MS, 60));
    assert_eq!((fast.reserved, fast.size), (0, 100));
    // In the millisecond in which the fast one does a hundred.
    assert_eq!((slow.reserved, slow.size), (100, 25));
}

#[test]
fn who_is_busy_is_not_waited_for_longer_than_others_would_take() {
    let mut scheduler = scheduler(&[40, 10]);
    assert_eq!(scheduler.capacity(0, MS, 20).reserved, 100);
    // 2 ms in flight, and 20 rows: the other is done sooner.
    scheduler.dispatched(1, 100, 0, MS);
    scheduler.dispatched(1, 100, 0, MS);
    assert_eq!(scheduler.capacity(0, MS, 20).reserved, 0);
}

#[test]
fn who_does_no_row_in_time_gets_a_probe_now_and_then() {
    let mut scheduler = scheduler(&[5_000, 10]);
    let capacity = scheduler.capacity(0, 2 * PROBE_INTERVAL, 500);
    assert_eq!((capacity.free, capacity.size), (true, 1));
    scheduler.dispatched(0, 1, 0, 2 * PROBE_INTERVAL);
    scheduler.finished(0, 0, 2 * PROBE_INTERVAL + 5 * MS);
    let after = |time: Duration| scheduler.capacity(0, 2 * PROBE_INTERVAL + time, 500);
    assert!(!after(6 * MS).free && !after(PROBE_INTERVAL - MS).free && after(PROBE_INTERVAL).free);
    assert_eq!(scheduler.capacity(1, 2 * PROBE_INTERVAL, 500).reserved, 0, "nothing is left to one that is too slow");
}

#[test]
fn who_is_fast_again_is_found_out() {
    let mut scheduler = scheduler(&[5_000, 10]);
    let mut now = Duration::ZERO;
    for _ in 0..4 {
        now += 2 * PROBE_INTERVAL;
        assert!(scheduler.capacity(0, now, 500).free);
        scheduler.dispatched(0, 1, 0, now);
        scheduler.finished(0, 0, now + 10 * US);
    }
    scheduler.sleeps(0, None);
    assert!(scheduler.capacity(0, now + MS, 500).size > 50, "{scheduler:?}");
}

#[test]
fn who_does_not_land_or_is_lost_is_not_counted_on() {
    let mut scheduler = scheduler(&[10, 10]);
    assert_eq!(scheduler.capacity(1, MS, 50).reserved, 100);
    scheduler.dispatched(0, 10, 0, MS);
    assert!(scheduler.capacity(0, 2 * MS, 50).free);
    // Eight times its expected time, and `max_wait`.
    let overdue = 2 * MS + 801 * US;
    assert!(!scheduler.capacity(0, overdue, 50).free);
    assert_eq!(
        scheduler.capacity(1, overdue, 50),
        Capacity { free: true, idle: true, linger: None, size: 100, reserved: 0, arrived_since: None }
    );
    scheduler.finished(0, 0, overdue);
    assert!(scheduler.capacity(0, overdue, 50).free);
    scheduler.worker_failed(0);
    assert_eq!((scheduler.capacity(0, overdue, 50).free, scheduler.capacity(1, overdue, 50).reserved), (false, 0));
    scheduler.worker_recovered(0);
    // Its measurements were dropped.
    assert_eq!((scheduler.capacity(0, overdue, 50).size, scheduler.have_all_failed()), (12, false));
}

#[test]
fn who_is_long_at_work_is_not_waited_for() {
    let mut scheduler = scheduler(&[10, 10]);
    scheduler.wakes(0, MS);
    assert_eq!(scheduler.capacity(1, 2 * MS, 50).reserved, 100);
    assert_eq!(scheduler.capacity(1, 2 * MS + US, 50).reserved, 0);
}

/// A device with a target of 10 ms that has done batches of 100 rows in 2 ms, and of 10 rows in 1.1 ms: 1 ms, and 10 µs
/// a row.
fn with_a_target(overload: Overload) -> Scheduler {
    let sizing = BatchSizing::Target { p99: 10 * MS };
    let mut scheduler = Scheduler::new(config().with_sizing(sizing).with_overload(overload), 1);
    for batch in 0..40_u32 {
        let (rows, time) = if batch % 2 == 0 { (100, 2000) } else { (10, 1100) };
        scheduler.dispatched(0, rows, 0, batch * MS);
        scheduler.workers[0].finished = batch * MS;
        scheduler.finished(0, 0, batch * MS + time * US);
    }
    // Many more with the expected time.
    for batch in 40..4000_u32 {
        scheduler.dispatched(0, 100, 0, batch * MS);
        scheduler.workers[0].finished = batch * MS;
        scheduler.finished(0, 0, batch * MS + 2000 * US);
    }
    scheduler.workers[0].finished = Duration::ZERO;
    scheduler
}

#[test]
fn before_anything_is_known_one_request_at_a_time_is_let_in_where_others_are_rejected() {
    let sizing = BatchSizing::Target { p99: 10 * MS };
    let mut scheduler = Scheduler::new(config().with_sizing(sizing).with_overload(Overload::Reject), 1);
    for _ in 0..2 {
        assert_eq!((scheduler.is_in_time(MS, 0, 1), scheduler.is_in_time(MS, 1, 1)), (true, false));
        scheduler.dispatched(0, 1, 0, MS);
        assert!(!scheduler.is_in_time(2 * MS, 0, 1));
        // The first batch includes one-time setup, and says nothing about the next.
        scheduler.finished(0, 0, 2 * MS);
    }
    assert!(scheduler.is_in_time(2 * MS, 1, 1));
}

#[test]
fn what_is_under_way_and_what_waits_counts_against_the_target() {
    let mut scheduler = with_a_target(Overload::Reject);
    assert_eq!(scheduler.batch_size(), 100);
    // 9.5 ms are planned for: four full batches of 2 ms, and 50 rows in 1.5 ms.
    let room = |scheduler: &Scheduler, now| {
        let rows = (0..1000_u32).take_while(|waiting| scheduler.is_in_time(now, *waiting as usize, 1)).count();
        // The line is fitted to times that vary a little.
        (rows + 5) / 10 * 10
    };
    assert_eq!(room(&scheduler, 100 * MS), 450);
    scheduler.dispatched(0, 100, 0, 100 * MS);
    scheduler.dispatched(0, 100, 0, 100 * MS);
    // 4 ms of them are used, then 3 ms: 100 rows in 2 ms twice, and 50 in 1.5 ms; or three times, and none in 0.5 ms.
    assert_eq!((room(&scheduler, 100 * MS), room(&scheduler, 101 * MS)), (250, 300));
    // It should have finished 3 ms ago, and may take 3 ms more; then there is the other one, and 4.5 ms are left.
    assert_eq!(room(&scheduler, 105 * MS), 200);
    // It seems to be stuck.
    assert_eq!(room(&scheduler, 110 * MS), 0);
}

#[test]
fn what_has_waited_too_long_is_not_taken_where_others_are_rejected() {
    let since = |scheduler: &Scheduler| scheduler.capacity(0, 100 * MS, 100).arrived_since;
    assert_eq!(since(&with_a_target(Overload::Wait)), None);
    let mut scheduler = with_a_target(Overload::Reject);
    // Of 10 ms, 2 ms are for the batch itself.
    let near = |time: Duration| move |since: Duration| since.abs_diff(time) < 10 * US;
    assert!(since(&scheduler).is_some_and(near(92 * MS)), "{:?}", since(&scheduler));
    scheduler.dispatched(0, 100, 0, 99 * MS);
    assert!(since(&scheduler).is_some_and(near(93 * MS)), "{:?}", since(&scheduler));
    // It takes 20 ms already.
    scheduler.not_started(0);
    scheduler.dispatched(0, 100, 0, 80 * MS);
    assert!(since(&scheduler).is_some_and(near(100 * MS)), "{:?}", since(&scheduler));
}

#[test]
fn before_anything_is_known_as_many_may_wait_as_the_queue_holds() {
    let sizing = BatchSizing::Target { p99: 10 * MS };
    let mut scheduler = Scheduler::new(config().with_sizing(sizing), 1);
    assert_eq!((scheduler.batch_size(), scheduler.limits()), (1, Some((400, MS))));
    // One row took 1 ms: two are tried next, and a full batch may wait, because nothing yet indicates that it takes
    // longer.
    scheduler.dispatched(0, 1, 0, Duration::ZERO);
    scheduler.finished(0, 0, MS);
    assert_eq!((scheduler.batch_size(), scheduler.limits()), (2, Some((100, MS))));
}
