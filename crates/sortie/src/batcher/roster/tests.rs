//! Devices beside each other, and what a target allows.

mod load;

use super::*;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

fn config() -> BatchConfig {
    BatchConfig { max_batch_size: 100, max_wait: MS, ..BatchConfig::default() }
}

/// Devices that take so long for each row, and were measured.
fn roster(each: &[u32]) -> Roster {
    let mut roster = Roster::new(config(), each.len());
    for (who, each) in each.iter().enumerate() {
        for rows in [1_u32, 50, 100, 20, 80, 10] {
            roster.left(who, rows as usize, 0, Duration::ZERO);
            roster.members[who].landed = Duration::ZERO;
            roster.landed(who, 0, *each * rows * US);
        }
        roster.members[who].landed = Duration::ZERO;
        roster.sleeps(who, None);
    }
    roster
}

#[test]
fn a_device_that_is_alone_takes_whatever_there_is() {
    let mut roster = Roster::new(config(), 1);
    let taker = Taker { free: true, idle: true, waits: None, size: 100, left: 0, since: None };
    assert_eq!(roster.taker(0, MS, 7), taker);
    roster.left(0, 7, 0, MS);
    assert_eq!(roster.taker(0, 999 * MS, 7), Taker { idle: false, ..taker });
    roster.left(0, 7, 0, MS);
    assert_eq!(roster.taker(0, 999 * MS, 7), Taker { idle: false, free: false, ..taker });
}

#[test]
fn the_fastest_takes_what_is_there_and_others_what_is_left() {
    let roster = roster(&[40, 10]);
    let [slow, fast] = [0, 1].map(|who| roster.taker(who, MS, 60));
    assert_eq!((fast.left, fast.size), (0, 100));
    // In the millisecond in which the fast one does a hundred.
    assert_eq!((slow.left, slow.size), (100, 25));
}

#[test]
fn who_is_busy_is_not_waited_for_longer_than_others_would_take() {
    let mut roster = roster(&[40, 10]);
    assert_eq!(roster.taker(0, MS, 20).left, 100);
    // 2 ms under way, and 20 rows: the other is there sooner.
    roster.left(1, 100, 0, MS);
    roster.left(1, 100, 0, MS);
    assert_eq!(roster.taker(0, MS, 20).left, 0);
}

#[test]
fn who_does_no_row_in_time_gets_a_probe_now_and_then() {
    let mut roster = roster(&[5_000, 10]);
    let taker = roster.taker(0, 2 * PROBE, 500);
    assert_eq!((taker.free, taker.size), (true, 1));
    roster.left(0, 1, 0, 2 * PROBE);
    roster.landed(0, 0, 2 * PROBE + 5 * MS);
    let after = |time: Duration| roster.taker(0, 2 * PROBE + time, 500);
    assert!(!after(6 * MS).free && !after(PROBE - MS).free && after(PROBE).free);
    assert_eq!(roster.taker(1, 2 * PROBE, 500).left, 0, "nothing is left to one that is too slow");
}

#[test]
fn who_is_fast_again_is_found_out() {
    let mut roster = roster(&[5_000, 10]);
    let mut now = Duration::ZERO;
    for _ in 0..4 {
        now += 2 * PROBE;
        assert!(roster.taker(0, now, 500).free);
        roster.left(0, 1, 0, now);
        roster.landed(0, 0, now + 10 * US);
    }
    roster.sleeps(0, None);
    assert!(roster.taker(0, now + MS, 500).size > 50, "{roster:?}");
}

#[test]
fn who_does_not_land_or_is_lost_is_not_counted_on() {
    let mut roster = roster(&[10, 10]);
    assert_eq!(roster.taker(1, MS, 50).left, 100);
    roster.left(0, 10, 0, MS);
    assert!(roster.taker(0, 2 * MS, 50).free);
    // Eight times what it should take, and max_wait.
    let overdue = 2 * MS + 801 * US;
    assert!(!roster.taker(0, overdue, 50).free);
    assert_eq!(
        roster.taker(1, overdue, 50),
        Taker { free: true, idle: true, waits: None, size: 100, left: 0, since: None }
    );
    roster.landed(0, 0, overdue);
    assert!(roster.taker(0, overdue, 50).free);
    roster.lost(0);
    assert_eq!((roster.taker(0, overdue, 50).free, roster.taker(1, overdue, 50).left), (false, 0));
    roster.returned(0);
    // Nothing is known of it any more.
    assert_eq!((roster.taker(0, overdue, 50).size, roster.is_empty()), (12, false));
}

#[test]
fn who_is_long_at_work_is_not_waited_for() {
    let mut roster = roster(&[10, 10]);
    roster.wakes(0, MS);
    assert_eq!(roster.taker(1, 2 * MS, 50).left, 100);
    assert_eq!(roster.taker(1, 2 * MS + US, 50).left, 0);
}

/// A device with a target of 10 ms that has done batches of 100 rows in 2 ms, and of 10 rows in 1.1 ms: 1 ms, and 10 µs a row.
fn with_a_target(overload: Overload) -> Roster {
    let tuning = Tuning::Target { p99: 10 * MS };
    let mut roster = Roster::new(BatchConfig { tuning, overload, ..config() }, 1);
    for batch in 0..40_u32 {
        let (rows, time) = if batch % 2 == 0 { (100, 2000) } else { (10, 1100) };
        roster.left(0, rows, 0, batch * MS);
        roster.members[0].landed = batch * MS;
        roster.landed(0, 0, batch * MS + time * US);
    }
    // Many more that took what was thought.
    for batch in 40..4000_u32 {
        roster.left(0, 100, 0, batch * MS);
        roster.members[0].landed = batch * MS;
        roster.landed(0, 0, batch * MS + 2000 * US);
    }
    roster.members[0].landed = Duration::ZERO;
    roster
}

#[test]
fn before_anything_is_known_one_request_at_a_time_is_let_in_where_others_are_rejected() {
    let tuning = Tuning::Target { p99: 10 * MS };
    let mut roster = Roster::new(BatchConfig { tuning, overload: Overload::Reject, ..config() }, 1);
    for _ in 0..2 {
        assert_eq!((roster.is_in_time(MS, 0, 1), roster.is_in_time(MS, 1, 1)), (true, false));
        roster.left(0, 1, 0, MS);
        assert!(!roster.is_in_time(2 * MS, 0, 1));
        // The first one pays for what is made once, and says nothing about the next.
        roster.landed(0, 0, 2 * MS);
    }
    assert!(roster.is_in_time(2 * MS, 1, 1));
}

#[test]
fn what_is_under_way_and_what_waits_counts_against_the_target() {
    let mut roster = with_a_target(Overload::Reject);
    assert_eq!(roster.batch_size(), 100);
    // 9.5 ms are planned for: four full batches of 2 ms, and 50 rows in 1.5 ms.
    let room = |roster: &Roster, now| {
        let rows = (0..1000_u32).take_while(|waiting| roster.is_in_time(now, *waiting as usize, 1)).count();
        // Of a line through times that swing a little.
        (rows + 5) / 10 * 10
    };
    assert_eq!(room(&roster, 100 * MS), 450);
    roster.left(0, 100, 0, 100 * MS);
    roster.left(0, 100, 0, 100 * MS);
    // 4 ms of them are taken, then 3 ms: 100 rows in 2 ms twice, and 50 in 1.5 ms; or three times, and none in 0.5 ms.
    assert_eq!((room(&roster, 100 * MS), room(&roster, 101 * MS)), (250, 300));
    // It should have been over 3 ms ago, and may take 3 ms more; then there is the other one, and 4.5 ms are left.
    assert_eq!(room(&roster, 105 * MS), 200);
    // It seems to be stuck.
    assert_eq!(room(&roster, 110 * MS), 0);
}

#[test]
fn what_has_waited_too_long_is_not_taken_where_others_are_rejected() {
    let since = |roster: &Roster| roster.taker(0, 100 * MS, 100).since;
    assert_eq!(since(&with_a_target(Overload::Wait)), None);
    let mut roster = with_a_target(Overload::Reject);
    // 2 ms for the batch itself are left of 10 ms.
    let near = |time: Duration| move |since: Duration| since.abs_diff(time) < 10 * US;
    assert!(since(&roster).is_some_and(near(92 * MS)), "{:?}", since(&roster));
    roster.left(0, 100, 0, 99 * MS);
    assert!(since(&roster).is_some_and(near(93 * MS)), "{:?}", since(&roster));
    // It takes 20 ms already.
    roster.stayed(0);
    roster.left(0, 100, 0, 80 * MS);
    assert!(since(&roster).is_some_and(near(100 * MS)), "{:?}", since(&roster));
}

#[test]
fn before_anything_is_known_as_many_may_wait_as_the_queue_holds() {
    let tuning = Tuning::Target { p99: 10 * MS };
    let mut roster = Roster::new(BatchConfig { tuning, ..config() }, 1);
    assert_eq!((roster.batch_size(), roster.limits()), (1, Some((400, MS))));
    // One row took 1 ms: two are tried next, and a full batch may wait, for nothing says yet that it takes longer.
    roster.left(0, 1, 0, Duration::ZERO);
    roster.landed(0, 0, MS);
    assert_eq!((roster.batch_size(), roster.limits()), (2, Some((100, MS))));
}
