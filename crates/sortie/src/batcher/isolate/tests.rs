//! The table of verdicts, and batches with culprits in every place.

use std::iter;

use super::*;

fn left(attempts: usize) -> Attempts {
    Attempts(Arc::new(AtomicUsize::new(attempts)))
}

#[test]
fn what_may_be_caused_by_one_input_is_halved_and_what_concerns_all_is_not() {
    let out_of_memory = ErrorKind::OutOfMemory { wanted: 2, budget: 1 };
    let too_large = ErrorKind::TooLarge { wanted: 2, limit: 1 };
    for (stage, kind, requests, attempts, expected) in [
        (Stage::Start, ErrorKind::Input, 10, 64, Verdict::Halve(5)),
        (Stage::Start, ErrorKind::JobPanicked, 7, 64, Verdict::Halve(4)),
        (Stage::Start, ErrorKind::Shape, 2, 2, Verdict::Halve(1)),
        (Stage::Start, too_large, 3, 64, Verdict::Halve(2)),
        (Stage::Start, ErrorKind::Internal, 3, 64, Verdict::Halve(2)),
        (Stage::Answers, ErrorKind::Shape, 10, 64, Verdict::Halve(5)),
        (Stage::Answers, ErrorKind::JobPanicked, 10, 64, Verdict::Halve(5)),
        // A culprit.
        (Stage::Start, ErrorKind::Input, 1, 64, Verdict::Fail),
        (Stage::Answers, ErrorKind::Shape, 1, 64, Verdict::Fail),
        // No attempts are left.
        (Stage::Start, ErrorKind::Input, 10, 1, Verdict::Fail),
        (Stage::Answers, ErrorKind::Shape, 10, 0, Verdict::Fail),
        // Of the device, the memory, the machine.
        (Stage::Start, ErrorKind::DeviceLost, 10, 64, Verdict::Fail),
        (Stage::Start, out_of_memory, 10, 64, Verdict::Fail),
        (Stage::Start, ErrorKind::Timeout, 10, 64, Verdict::Fail),
        (Stage::Start, ErrorKind::Overloaded, 10, 64, Verdict::Fail),
        (Stage::Answers, ErrorKind::DeviceLost, 10, 64, Verdict::Fail),
        (Stage::Answers, ErrorKind::Canceled, 10, 64, Verdict::Fail),
        // The device ran it, or the job is not ready.
        (Stage::Execution, ErrorKind::Race, 10, 64, Verdict::Fail),
        (Stage::Execution, ErrorKind::Shape, 10, 64, Verdict::Fail),
        (Stage::Prepare, ErrorKind::JobPanicked, 10, 64, Verdict::Fail),
        (Stage::Prepare, ErrorKind::Shader, 10, 64, Verdict::Fail),
    ] {
        let before = left(attempts);
        assert_eq!(verdict(stage, &kind, requests, &before), expected, "{stage:?} {kind:?} {requests} {attempts}");
        let taken = if expected == Verdict::Fail { 0 } else { 2 };
        assert_eq!(before.0.load(Ordering::Relaxed), attempts - taken, "{stage:?} {kind:?} {requests}");
    }
}

/// Which of `n` requests fail when these are culprits, and the further attempts that it takes.
fn isolated(n: usize, is_culprit: impl Fn(usize) -> bool) -> (Vec<usize>, usize) {
    let (attempts, mut parts) = (Attempts::new(n), Vec::from_iter(iter::once(0..n)));
    let (mut failed, mut made) = (Vec::new(), 0);
    while let Some(part) = parts.pop() {
        made += 1;
        if !part.clone().any(&is_culprit) {
            continue;
        }
        match verdict(Stage::Start, &ErrorKind::Input, part.len(), &attempts) {
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
            assert!(made <= 2 * expected.len() * halvings && made <= most(n), "{made} for {expected:?} of {n}");
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
            assert!(made <= most(n), "{made}");
        }
    }
}

#[test]
fn a_batch_of_nothing_but_culprits_ends_after_its_attempts() {
    for n in [34, 100, 1024, 5000] {
        let (failed, made) = isolated(n, |_| true);
        assert_eq!(failed, (0..n).collect::<Vec<_>>(), "all, in order");
        assert!(made <= most(n), "{made} of {}", most(n));
    }
}
