//! Rows, room, deadlines and priorities.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use sortie::{
    BatchConfig, Batcher, Device, ErrorKind, Fleet,
    batcher::{BatchSizing, CallOptions, OnDevice, Overload, RequestFuture},
};

use crate::{Ask, Gate, Triple, one, tripled};

/// A batcher whose thread is held up until the gate opens, with one request already there.
struct Held {
    batcher: Batcher<OnDevice<Triple>>,
    gate: Arc<Gate>,
    first: Pin<Box<RequestFuture<OnDevice<Triple>>>>,
    /// Most requests of a batch.
    most: Arc<AtomicUsize>,
}

fn held(config: BatchConfig) -> Held {
    let job = Triple::default();
    let (gate, most) = (job.gate.clone(), job.most.clone());
    gate.set(true);
    let device = Device::cpu().expect("the CPU");
    let batcher = Batcher::new(&device, job, config).expect("a batcher");
    let mut first = Box::pin(batcher.call(one(0)));
    assert!(poll(first.as_mut()).is_pending());
    while batcher.metrics().batches == 0 {
        std::thread::yield_now();
    }
    Held { batcher, gate, first, most }
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_batch_has_as_many_rows_as_it_may_and_one_too_large_flies_alone() {
    let config = BatchConfig::default().with_max_batch_size(4).with_queue_capacity(100).with_in_flight(1);
    let Held { batcher, gate, first, most } = held(config);
    let mut calls: Vec<_> = (1..=8).map(|number| Box::pin(batcher.call(one(number)))).collect();
    calls.iter_mut().for_each(|call| assert!(poll(call.as_mut()).is_pending()));
    let numbers: Vec<u32> = (0..9).collect();
    let mut large = pin!(batcher.call(Ask::Numbers(numbers.clone())));
    assert!(poll(large.as_mut()).is_pending());
    gate.set(false);
    assert_eq!(pollster(first), [1]);
    for (number, call) in (1..=8).zip(calls) {
        assert_eq!(pollster(call), tripled(&[number]));
    }
    assert_eq!(block_on(large).expect("an answer"), tripled(&numbers));
    assert_eq!(most.load(Ordering::Relaxed), 4);
    let metrics = batcher.metrics();
    assert_eq!((metrics.batches, metrics.rows), (4, 18), "{metrics:?}");
}

#[test]
fn without_room_a_request_is_rejected_or_waits_its_turn() {
    let config = BatchConfig::default().with_max_batch_size(2).with_queue_capacity(3).with_in_flight(1);
    for overload in [Overload::Reject, Overload::Wait] {
        let Held { batcher, gate, first, .. } = held(config.with_overload(overload));
        let mut calls: Vec<_> = (1..=6).map(|number| Box::pin(batcher.call(one(number)))).collect();
        let outcomes: Vec<_> = calls.iter_mut().map(|call| poll(call.as_mut())).collect();
        let refused = outcomes
            .iter()
            .filter(|outcome| matches!(outcome, Poll::Ready(Err(error)) if error.kind() == ErrorKind::Overloaded));
        match overload {
            Overload::Reject => {
                assert_eq!(refused.count(), 3);
                assert_eq!(batcher.metrics().rejected, 3);
                calls.truncate(3);
            }
            _ => assert!(outcomes.iter().all(Poll::is_pending)),
        }
        assert_eq!(batcher.metrics().queued_rows, 3);
        gate.set(false);
        assert_eq!(pollster(first), [1]);
        for (number, call) in (1..).zip(calls) {
            assert_eq!(pollster(call), tripled(&[number]));
        }
    }
}

#[test]
fn a_deadline_is_kept_at_arrival_and_in_the_queue() {
    let Held { batcher, gate, first, .. } = held(BatchConfig::default().with_in_flight(1));
    let error = block_on(pin!(batcher.call(one(1)).within(Duration::ZERO))).expect_err("too late");
    assert_eq!(error.kind(), ErrorKind::Expired);
    let deadline = Instant::now() + Duration::from_millis(100);
    let mut call = pin!(batcher.call(one(2)).with(CallOptions { deadline: Some(deadline), ..CallOptions::default() }));
    // On a busy machine it may be late already.
    let polled = poll(call.as_mut());
    std::thread::sleep(deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
    gate.set(false);
    let outcome = match polled {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => block_on(call),
    };
    assert_eq!(outcome.expect_err("too late").kind(), ErrorKind::Expired);
    assert_eq!(pollster(first), [1]);
    assert_eq!(batcher.metrics().expired, 2);
}

#[test]
fn a_dropped_caller_is_not_part_of_the_batch() {
    let Held { batcher, gate, first, most } = held(BatchConfig::default().with_in_flight(1));
    let mut calls: Vec<_> = (1..=3).map(|number| Box::pin(batcher.call(one(number)))).collect();
    calls.iter_mut().for_each(|call| assert!(poll(call.as_mut()).is_pending()));
    let last = calls.pop().expect("three");
    drop(calls);
    gate.set(false);
    assert_eq!(pollster(last), tripled(&[3]));
    assert_eq!(pollster(first), [1]);
    assert_eq!((batcher.metrics().canceled, most.load(Ordering::Relaxed)), (2, 1));
}

#[test]
fn closing_answers_queued_requests_and_refuses_new_ones() {
    let Held { batcher, gate, first, .. } =
        held(BatchConfig::default().with_greedy(false).with_max_wait(Duration::from_micros(1)));
    let mut call = pin!(batcher.call(one(1)));
    assert!(poll(call.as_mut()).is_pending());
    batcher.close();
    assert_eq!(batcher.call_blocking(one(2)).expect_err("it is closed").kind(), ErrorKind::Canceled);
    gate.set(false);
    assert_eq!(block_on(call).expect("an answer"), tripled(&[1]));
    assert_eq!(pollster(first), [1]);
    // The last handle may be dropped while a caller waits.
    let late = batcher.call(one(3));
    drop(batcher);
    assert_eq!(block_on(pin!(late)).expect_err("it is closed").kind(), ErrorKind::Canceled);
}

fn pollster(call: Pin<Box<RequestFuture<OnDevice<Triple>>>>) -> Vec<u32> {
    block_on(call).expect("an answer")
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

#[test]
fn limits_that_are_none_are_allowed() {
    for greedy in [true, false] {
        let (max_batch_size, max_wait) = (usize::MAX, Duration::MAX);
        let sizing = BatchSizing::Target { p99: Duration::MAX };
        for sizing in [BatchSizing::Fixed, sizing] {
            let config = BatchConfig::default()
                .with_max_batch_size(max_batch_size)
                .with_max_wait(max_wait)
                .with_greedy(greedy)
                .with_sizing(sizing);
            let fleet = Fleet::new([0, 1].map(|_| Device::cpu().expect("the CPU"))).expect("two");
            let batcher = Batcher::new(fleet, Triple::default(), config).expect("a batcher");
            let calls: Vec<_> = (0..20).map(|number| batcher.call(one(number)).send()).collect();
            // Without greed no batch would become full, and no request has waited long enough.
            batcher.close();
            for (number, call) in (0..).zip(calls) {
                assert_eq!(call.wait().expect("an answer"), tripled(&[number]), "{config:?}");
            }
        }
    }
}
