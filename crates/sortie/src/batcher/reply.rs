//! Where answers lie until their callers take them.
//!
//! Requests that arrive one after the other share a [`Desk`], so that a request costs no allocation of its own, and answering a batch takes a lock for
//! each desk and not for each caller.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};

/// Requests of one desk.
const PLACES: usize = 256;

#[derive(Debug)]
enum Place<O> {
    /// Nobody has answered yet.
    Waiting(Option<Waker>),
    Answered(Result<O>),
    /// The caller has taken the answer, or has gone.
    Left,
}

/// Places for the answers of some requests.
#[derive(Debug)]
pub(super) struct Desk<O> {
    places: Mutex<Vec<Place<O>>>,
}

/// The caller's end of a request.
#[derive(Debug)]
pub(super) struct Reply<O> {
    desk: Arc<Desk<O>>,
    index: usize,
}

/// The other end: where the answer goes. Dropped without one, it says so.
#[derive(Debug)]
pub(super) struct Address<O> {
    desk: Arc<Desk<O>>,
    index: usize,
    answered: bool,
}

impl<O> Desk<O> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { places: Mutex::new(Vec::with_capacity(PLACES)) })
    }

    /// One more place; on a new desk when this one is full.
    pub(super) fn place(desk: &mut Arc<Self>) -> (Reply<O>, Address<O>) {
        let mut places = desk.places.lock();
        if places.len() == PLACES {
            drop(places);
            *desk = Self::new();
            return Self::place(desk);
        }
        let index = places.len();
        places.push(Place::Waiting(None));
        drop(places);
        let reply = Reply { desk: desk.clone(), index };
        (reply, Address { desk: desk.clone(), index, answered: false })
    }
}

impl<O> Reply<O> {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<O>> {
        let mut places = self.desk.places.lock();
        match &mut places[self.index] {
            Place::Waiting(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            Place::Answered(_) | Place::Left => {}
        }
        match std::mem::replace(&mut places[self.index], Place::Left) {
            Place::Answered(answer) => Poll::Ready(answer),
            Place::Waiting(_) | Place::Left => {
                Poll::Ready(Err(Error::new(ErrorKind::Canceled, "the answer has been taken already")))
            }
        }
    }
}

impl<O> Drop for Reply<O> {
    fn drop(&mut self) {
        let left = std::mem::replace(&mut self.desk.places.lock()[self.index], Place::Left);
        // Foreign code, outside the lock.
        drop(left);
    }
}

impl<O> Address<O> {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self.desk.places.lock()[self.index], Place::Left)
    }

    /// Answers several requests, in order, and then wakes whoever waits.
    pub(super) fn answer_all(answers: impl IntoIterator<Item = (Self, Result<O>)>) {
        let mut wakers: Vec<Waker> = Vec::new();
        let mut answers = answers.into_iter().peekable();
        while let Some((mut first, answer)) = answers.next() {
            first.answered = true;
            let desk = first.desk.clone();
            let mut places = desk.places.lock();
            // Answers that nobody waits for are dropped outside the lock.
            let mut unwanted = Vec::new();
            let mut put = |index: usize, answer: Result<O>| match &mut places[index] {
                place @ Place::Waiting(_) => {
                    if let Place::Waiting(Some(waker)) = std::mem::replace(place, Place::Answered(answer)) {
                        wakers.push(waker);
                    }
                }
                Place::Answered(_) | Place::Left => unwanted.push(answer),
            };
            put(first.index, answer);
            while let Some((mut next, answer)) = answers.next_if(|(next, _)| Arc::ptr_eq(&next.desk, &desk)) {
                next.answered = true;
                put(next.index, answer);
            }
            drop(places);
        }
        // A panic of theirs is not ours.
        let wake = |waker: Waker| drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake())));
        wakers.into_iter().for_each(wake);
    }

    pub(super) fn answer(self, answer: Result<O>) {
        Self::answer_all([(self, answer)]);
    }
}

impl<O> Drop for Address<O> {
    fn drop(&mut self) {
        if !self.answered {
            let lost = Self { desk: self.desk.clone(), index: self.index, answered: true };
            lost.answer(Err(Error::internal("a request was lost on its way; please report it")));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn poll<O>(reply: &mut Reply<O>) -> Poll<Result<O>> {
        reply.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn an_answer_is_taken_once() {
        let mut desk = Desk::new();
        let (mut reply, address) = Desk::place(&mut desk);
        assert!(poll(&mut reply).is_pending());
        address.answer(Ok(7));
        assert!(matches!(poll(&mut reply), Poll::Ready(Ok(7))));
        assert!(matches!(poll(&mut reply), Poll::Ready(Err(_))));
    }

    #[test]
    fn a_caller_that_goes_is_known_to_have_gone() {
        let mut desk = Desk::<u32>::new();
        let (reply, address) = Desk::place(&mut desk);
        assert!(!address.is_gone());
        drop(reply);
        assert!(address.is_gone());
        address.answer(Ok(1));
    }

    #[test]
    fn a_request_that_is_dropped_is_an_error_for_its_caller() {
        let mut desk = Desk::<u32>::new();
        let (mut reply, address) = Desk::place(&mut desk);
        drop(address);
        assert!(matches!(poll(&mut reply), Poll::Ready(Err(_))));
    }

    #[test]
    fn many_requests_spread_over_desks_and_each_gets_its_own_answer() {
        let mut desk = Desk::new();
        let (mut replies, addresses): (Vec<_>, Vec<_>) = (0..3 * PLACES + 7).map(|_| Desk::place(&mut desk)).unzip();
        Address::answer_all(addresses.into_iter().enumerate().map(|(number, address)| (address, Ok(number))));
        for (number, reply) in replies.iter_mut().enumerate() {
            assert!(matches!(poll(reply), Poll::Ready(Ok(answer)) if answer == number));
        }
    }
}
