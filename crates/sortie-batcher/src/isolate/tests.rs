//! The table of verdicts, and batches with culprits in every place.

use std::iter;

use super::*;

fn left(attempts: usize) -> Attempts {
    Attempts(Arc::new(AtomicUsize::new(attempts)))
}

#[test]
fn a_failure_that_one_request_may_cause_is_halved_while_attempts_are_left() {
    for (isolates, requests, attempts, expected) in [
        (true, 10, 64, Verdict::Halve(5)),
        (true, 7, 64, Verdict::Halve(4)),
        (true, 2, 2, Verdict::Halve(1)),
        // A culprit.
        (true, 1, 64, Verdict::Fail),
        // No attempts are left.
        (true, 10, 1, Verdict::Fail),
        (true, 10, 0, Verdict::Fail),
        // The failure concerns all requests.
        (false, 10, 64, Verdict::Fail),
    ] {
        let before = left(attempts);
        assert_eq!(verdict(isolates, requests, &before), expected, "{isolates} {requests} {attempts}");
        let taken = if expected == Verdict::Fail { 0 } else { 2 };
        assert_eq!(before.0.load(Ordering::Relaxed), attempts - taken, "{isolates} {requests}");
    }
}

/// The failing ones of `n` requests with these culprits, and the number of further attempts.
fn isolated(n: usize, is_culprit: impl Fn(usize) -> bool) -> (Vec<usize>, usize) {
    let (attempts, mut parts) = (Attempts::new(n), Vec::from_iter(iter::once(0..n)));
    let (mut failed, mut made) = (Vec::new(), 0);
    while let Some(part) = parts.pop() {
        made += 1;
        if !part.clone().any(&is_culprit) {
            continue;
        }
        match verdict(true, part.len(), &attempts) {
            Verdict::Fail => failed.extend(part),
            Verdict::Halve(at) => parts.extend([part.start + at..part.end, part.start..part.start + at]),
        }
    }
    (failed, made - 1)
}

#[test]
fn culprits_alone_fail_after_at_most_two_attempts_for_each_halving() {
    for n in 1..=33 {
        for culprits in 0..1_u64 << n.min(10) {
            let spread = |at: usize| culprits >> (at % 10) & 1 == 1 && at % 7 < 3;
            let expected: Vec<usize> = (0..n).filter(|at| spread(*at)).collect();
            let (failed, made) = isolated(n, spread);
            assert_eq!(failed, expected, "of {n}");
            let halvings = n.next_power_of_two().trailing_zeros() as usize;
            assert!(made <= 2 * expected.len() * halvings && made <= max_attempts(n), "{made} for {expected:?} of {n}");
        }
    }
}

#[test]
fn a_large_batch_with_three_percent_of_culprits_is_isolated_completely() {
    for n in [256, 1024, 2048, 10_000] {
        for step in [33, 34, 37, 100] {
            let culprit = |at: usize| at % step == step / 2;
            let (failed, made) = isolated(n, culprit);
            assert_eq!(failed, (0..n).filter(|at| culprit(*at)).collect::<Vec<_>>(), "each {step}th of {n}");
            assert!(made <= max_attempts(n), "{made}");
        }
    }
}

#[test]
fn a_batch_of_nothing_but_culprits_ends_after_its_attempts() {
    for n in [34, 100, 1024, 5000] {
        let (failed, made) = isolated(n, |_| true);
        assert_eq!(failed, (0..n).collect::<Vec<_>>(), "all, in order");
        assert!(made <= max_attempts(n), "{made} of {}", max_attempts(n));
    }
}
