//! Options of calls: they hold if they are set before the request is sent.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use sortie_batcher::{
    Action, BatchConfig, BatchFn, Batcher, CallOptions, ErrorKind, Priority, RequestFuture, Worker, batch_fn,
};

type Echo = BatchFn<fn(&[u32]) -> Vec<u32>, u32, u32>;

/// A batcher for one row at a time, whose worker the test drives.
fn echo() -> (Batcher<Echo>, Worker<Echo>) {
    let config = BatchConfig::default().with_max_batch_size(1).with_in_flight(1);
    let job: Echo = batch_fn(<[u32]>::to_vec);
    let (batcher, mut workers) = Batcher::without_driver([()], job, config).expect("a batcher");
    (batcher, workers.pop().expect("one worker"))
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn steps(worker: &mut Worker<Echo>) {
    while !matches!(worker.step(false), Action::Wait(_) | Action::End) {}
}

/// Which of two requests, sent in this order, is answered first.
fn first(requests: [RequestFuture<Echo>; 2], worker: &mut Worker<Echo>) -> usize {
    let mut responses = requests.map(RequestFuture::send);
    loop {
        let _ = worker.step(false);
        if let Some(first) = responses.iter_mut().position(|response| poll(response).is_ready()) {
            steps(worker);
            return first;
        }
    }
}

#[test]
fn a_priority_set_on_the_future_is_that_of_the_request() {
    let (batcher, mut worker) = echo();
    assert_eq!(first([batcher.call(1), batcher.call(2)], &mut worker), 0);
    assert_eq!(first([batcher.call(1), batcher.call(2).priority(Priority::High)], &mut worker), 1);
    let stored = CallOptions { priority: Priority::High, ..CallOptions::default() };
    assert_eq!(first([batcher.call(1), batcher.call(2).with(stored)], &mut worker), 1);
}

#[test]
fn a_request_expires_within_its_time() {
    let (batcher, mut worker) = echo();
    let late = batcher.call(1).within(Duration::ZERO).wait();
    assert_eq!(late.map_err(|error| error.kind()), Err(ErrorKind::Expired));
    // The last option counts, and a time beyond what the clock holds is no deadline.
    let response = batcher.call(2).within(Duration::ZERO).within(Duration::MAX).send();
    steps(&mut worker);
    assert_eq!(response.wait().expect("an answer"), 2);
    let past = CallOptions { deadline: Some(Instant::now()), ..CallOptions::default() };
    let response = batcher.call(3).within(Duration::MAX).with(past).send();
    assert_eq!(response.wait().map_err(|error| error.kind()), Err(ErrorKind::Expired));
    assert_eq!(batcher.metrics().expired, 2);
}

#[test]
fn an_option_set_after_the_first_poll_changes_nothing() {
    let (batcher, mut worker) = echo();
    let mut request = batcher.call(1);
    assert!(poll(&mut request).is_pending());
    let request = request.within(Duration::ZERO);
    steps(&mut worker);
    assert_eq!(request.wait().expect("an answer"), 1);
}

#[test]
fn a_request_that_was_polled_and_then_sent_is_sent_once() {
    let (batcher, mut worker) = echo();
    let mut request = batcher.call(7);
    assert!(poll(&mut request).is_pending());
    let response = request.send();
    steps(&mut worker);
    assert_eq!((response.wait().expect("an answer"), batcher.metrics().requests), (7, 1));
}

#[test]
fn a_request_that_is_never_polled_is_never_sent() {
    let (batcher, mut worker) = echo();
    drop(batcher.call(1).priority(Priority::High));
    steps(&mut worker);
    assert_eq!(batcher.metrics().requests, 0);
}

#[test]
fn an_answer_is_taken_once() {
    let (batcher, _worker) = echo();
    let mut late = pin!(batcher.call(1).within(Duration::ZERO));
    let mut kind = || match poll(&mut late) {
        Poll::Ready(answer) => answer.expect_err("no answer").kind(),
        Poll::Pending => unreachable!("it has expired"),
    };
    assert_eq!([kind(), kind()], [ErrorKind::Expired, ErrorKind::Canceled]);
}
