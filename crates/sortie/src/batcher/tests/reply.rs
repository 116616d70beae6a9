//! Desks. Not in `reply.rs`, which the concurrency tests compile with other locks.

use std::task::{Context, Poll, Waker};

use super::super::reply::{Address, Desk, PLACES, Reply};
use crate::error::Result;

fn poll<O>(reply: &mut Reply<O>) -> Poll<Result<O>> {
    reply.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn an_answer_is_taken_once() {
    let mut desk = Desk::new();
    let (mut reply, address) = Desk::place(&mut desk, Waker::noop().clone());
    assert!(poll(&mut reply).is_pending());
    address.answer(Ok(7));
    assert!(matches!(poll(&mut reply), Poll::Ready(Ok(7))));
    assert!(matches!(poll(&mut reply), Poll::Ready(Err(_))));
}

#[test]
fn a_caller_that_goes_is_known_to_have_gone() {
    let mut desk = Desk::<u32>::new();
    let (reply, address) = Desk::place(&mut desk, Waker::noop().clone());
    assert!(!address.is_gone());
    drop(reply);
    assert!(address.is_gone());
    address.answer(Ok(1));
}

#[test]
fn a_request_that_is_dropped_is_an_error_for_its_caller() {
    let mut desk = Desk::<u32>::new();
    let (mut reply, address) = Desk::place(&mut desk, Waker::noop().clone());
    drop(address);
    assert!(matches!(poll(&mut reply), Poll::Ready(Err(_))));
}

#[test]
fn many_requests_spread_over_desks_and_each_gets_its_own_answer() {
    let mut desk = Desk::new();
    let (mut replies, addresses): (Vec<_>, Vec<_>) =
        (0..3 * PLACES + 7).map(|_| Desk::place(&mut desk, Waker::noop().clone())).unzip();
    let answers = addresses.into_iter().enumerate().map(|(number, address)| (address, Ok(number)));
    let mut wakers = Vec::new();
    Address::answer_all(answers, &mut wakers);
    assert!(wakers.is_empty());
    for (number, reply) in replies.iter_mut().enumerate() {
        assert!(matches!(poll(reply), Poll::Ready(Ok(answer)) if answer == number));
    }
}
