//! Reply slabs. Not in `reply.rs`, which the concurrency tests compile with other locks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use crate::{
    error::Error,
    reply::{Receiver, Reply, ReplySlab, SLOTS, Sender},
};

type Answer<O> = Result<O, Error>;

fn slab<O>() -> Arc<ReplySlab<Answer<O>>> {
    ReplySlab::new(Arc::default(), Err)
}

fn poll<O>(reply: &mut Receiver<Answer<O>>) -> Poll<Answer<O>> {
    match reply.poll(&mut Context::from_waker(Waker::noop())) {
        Reply::Answered(answer) => Poll::Ready(answer),
        Reply::Waiting | Reply::Lead => Poll::Pending,
    }
}

#[test]
fn an_answer_is_taken_once() {
    let mut slab = slab();
    let (mut reply, sender) = ReplySlab::insert(&mut slab, Waker::noop().clone());
    assert!(poll(&mut reply).is_pending());
    sender.answer(Ok(7));
    assert!(matches!(poll(&mut reply), Poll::Ready(Ok(7))));
    assert!(matches!(poll(&mut reply), Poll::Ready(Err(_))));
}

#[test]
fn a_dropped_receiver_is_known_to_be_gone() {
    let mut slab = slab::<u32>();
    let (reply, sender) = ReplySlab::insert(&mut slab, Waker::noop().clone());
    assert!(!sender.is_gone());
    drop(reply);
    assert!(sender.is_gone());
    sender.answer(Ok(1));
}

#[test]
fn a_request_that_is_dropped_is_an_error_for_its_caller() {
    let mut slab = slab::<u32>();
    let (mut reply, sender) = ReplySlab::insert(&mut slab, Waker::noop().clone());
    drop(sender);
    assert!(matches!(poll(&mut reply), Poll::Ready(Err(_))));
}

#[test]
fn many_requests_spread_over_slabs_and_each_gets_its_own_answer() {
    let mut slab = slab();
    let (mut replies, senderes): (Vec<_>, Vec<_>) =
        (0..3 * SLOTS + 7).map(|_| ReplySlab::insert(&mut slab, Waker::noop().clone())).unzip();
    let answers = senderes.into_iter().enumerate().map(|(number, sender)| (sender, Ok(number)));
    let mut unsettled = Vec::new();
    Sender::answer_all(answers, &mut unsettled);
    assert_eq!(unsettled.len(), 4);
    for (number, reply) in replies.iter_mut().enumerate() {
        assert!(matches!(poll(reply), Poll::Ready(Ok(answer)) if answer == number));
    }
}

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn callers_wake_each_other_and_the_answering_thread_wakes_the_rest() {
    let (mut slab, mut unsettled) = (slab(), Vec::new());
    let counts: Vec<Arc<Count>> = (0..40).map(|_| Arc::default()).collect();
    let place = |count: &Arc<Count>| ReplySlab::insert(&mut slab, Waker::from(count.clone()));
    let (mut replies, senderes): (Vec<_>, Vec<_>) = counts.iter().map(place).unzip();
    let woken = || counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum::<usize>();
    Sender::answer_all(senderes.into_iter().map(|sender| (sender, Ok(7))), &mut unsettled);
    assert_eq!(woken(), 1);
    assert!(matches!(poll(&mut replies[0]), Poll::Ready(Ok(7))));
    assert_eq!(woken(), 9);
    // A caller that is dropped without polling wakes others too.
    drop(replies.pop());
    assert_eq!(woken(), 17);
    unsettled.iter().for_each(|slab| slab.wake_all(&mut Vec::new()));
    assert!(counts.iter().all(|count| count.0.load(Ordering::Relaxed) == 1), "each of them once");
}

/// A waker that owns another caller, until it is dropped.
struct Other(#[expect(dead_code, reason = "only its drop matters")] Receiver<Answer<u32>>);

impl Wake for Other {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_is_replaced_may_be_the_end_of_another_caller_of_the_slab() {
    let mut slab = slab();
    let (other, sender) = ReplySlab::insert(&mut slab, Waker::noop().clone());
    let (mut reply, _own) = ReplySlab::insert(&mut slab, Waker::from(Arc::new(Other(other))));
    // The first waker is dropped, and with it the other caller, who gives up its slot.
    assert!(poll(&mut reply).is_pending());
    assert!(sender.is_gone());
}
