//! Desks. Not in `reply.rs`, which the concurrency tests compile with other locks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use super::super::reply::{Address, Desk, PLACES, Reply};
use crate::error::Result;

fn poll<O>(reply: &mut Reply<O>) -> Poll<Result<O>> {
    reply.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn an_answer_is_taken_once() {
    let mut desk = Desk::new(Arc::default());
    let (mut reply, address) = Desk::place(&mut desk, Waker::noop().clone());
    assert!(poll(&mut reply).is_pending());
    address.answer(Ok(7));
    assert!(matches!(poll(&mut reply), Poll::Ready(Ok(7))));
    assert!(matches!(poll(&mut reply), Poll::Ready(Err(_))));
}

#[test]
fn a_caller_that_goes_is_known_to_have_gone() {
    let mut desk = Desk::<u32>::new(Arc::default());
    let (reply, address) = Desk::place(&mut desk, Waker::noop().clone());
    assert!(!address.is_gone());
    drop(reply);
    assert!(address.is_gone());
    address.answer(Ok(1));
}

#[test]
fn a_request_that_is_dropped_is_an_error_for_its_caller() {
    let mut desk = Desk::<u32>::new(Arc::default());
    let (mut reply, address) = Desk::place(&mut desk, Waker::noop().clone());
    drop(address);
    assert!(matches!(poll(&mut reply), Poll::Ready(Err(_))));
}

#[test]
fn many_requests_spread_over_desks_and_each_gets_its_own_answer() {
    let mut desk = Desk::new(Arc::default());
    let (mut replies, addresses): (Vec<_>, Vec<_>) =
        (0..3 * PLACES + 7).map(|_| Desk::place(&mut desk, Waker::noop().clone())).unzip();
    let answers = addresses.into_iter().enumerate().map(|(number, address)| (address, Ok(number)));
    let mut owed = Vec::new();
    Address::answer_all(answers, &mut owed);
    assert_eq!(owed.len(), 4);
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
fn callers_wake_each_other_and_whoever_answered_wakes_the_rest() {
    let (mut desk, mut owed) = (Desk::new(Arc::default()), Vec::new());
    let counts: Vec<Arc<Count>> = (0..40).map(|_| Arc::default()).collect();
    let place = |count: &Arc<Count>| Desk::place(&mut desk, Waker::from(count.clone()));
    let (mut replies, addresses): (Vec<_>, Vec<_>) = counts.iter().map(place).unzip();
    let woken = || counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum::<usize>();
    Address::answer_all(addresses.into_iter().map(|address| (address, Ok(7))), &mut owed);
    assert_eq!(woken(), 1);
    assert!(matches!(poll(&mut replies[0]), Poll::Ready(Ok(7))));
    assert_eq!(woken(), 9);
    // Who goes without looking does it too.
    drop(replies.pop());
    assert_eq!(woken(), 17);
    owed.iter().for_each(|desk| desk.settle(&mut Vec::new()));
    assert!(counts.iter().all(|count| count.0.load(Ordering::Relaxed) == 1), "each of them once");
}

/// Somebody else who waits, for as long as it is there.
struct Other(#[expect(dead_code, reason = "it is there to be dropped")] Reply<u32>);

impl Wake for Other {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_that_is_replaced_may_be_the_end_of_another_caller_of_the_desk() {
    let mut desk = Desk::new(Arc::default());
    let (other, address) = Desk::place(&mut desk, Waker::noop().clone());
    let (mut reply, _own) = Desk::place(&mut desk, Waker::from(Arc::new(Other(other))));
    // The first waker goes, and with it the other caller, who leaves the desk.
    assert!(poll(&mut reply).is_pending());
    assert!(address.is_gone());
}
