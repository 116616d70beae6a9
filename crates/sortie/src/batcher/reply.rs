//! Where answers lie until their callers take them.
//!
//! Requests that arrive one after the other share a [`Desk`], so that a request costs no allocation of its own, and answering a batch takes a lock for
//! each desk and not for each caller.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use super::sync::Mutex;
use crate::error::{Error, ErrorKind, Result};

/// Requests of one desk.
pub(super) const PLACES: usize = 256;

#[derive(Debug)]
enum Place<O> {
    /// Nobody has answered yet.
    Waiting(Waker),
    Answered(Result<O>),
    /// The caller has taken the answer, or has gone.
    Left,
}

/// Places for the answers of some requests.
#[derive(Debug)]
pub(super) struct Desk<O> {
    places: Mutex<Vec<Place<O>>>,
    /// How many have gone without an answer. Mostly none, and then nobody has to look at the places for that.
    gone: AtomicUsize,
}

/// The caller's end of a request.
#[derive(Debug)]
pub(super) struct Reply<O> {
    desk: Arc<Desk<O>>,
    index: usize,
    /// The answer has been given out.
    over: bool,
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
        Arc::new(Self { places: Mutex::new(Vec::with_capacity(PLACES)), gone: AtomicUsize::new(0) })
    }

    /// One more place, for a caller that is woken when its answer is there; on a new desk when this one is full.
    pub(super) fn place(desk: &mut Arc<Self>, waker: Waker) -> (Reply<O>, Address<O>) {
        let mut places = desk.places.lock();
        if places.len() == PLACES {
            drop(places);
            *desk = Self::new();
            return Self::place(desk, waker);
        }
        let index = places.len();
        places.push(Place::Waiting(waker));
        drop(places);
        let reply = Reply { desk: desk.clone(), index, over: false };
        (reply, Address { desk: desk.clone(), index, answered: false })
    }
}

impl<O> Reply<O> {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<O>> {
        if self.over {
            return Poll::Ready(Err(Error::new(ErrorKind::Canceled, "the answer has been taken already")));
        }
        let mut places = self.desk.places.lock();
        let place = &mut places[self.index];
        if let Place::Waiting(waker) = place {
            if !waker.will_wake(cx.waker()) {
                let before = std::mem::replace(waker, cx.waker().clone());
                drop(places);
                // Foreign code, outside the lock: it may be the end of somebody else who waits here.
                drop(before);
            }
            return Poll::Pending;
        }
        let answered = std::mem::replace(place, Place::Left);
        drop(places);
        self.over = true;
        match answered {
            Place::Answered(answer) => Poll::Ready(answer),
            Place::Waiting(_) | Place::Left => unreachable!("only this caller leaves its place"),
        }
    }
}

impl<O> Drop for Reply<O> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let left = std::mem::replace(&mut self.desk.places.lock()[self.index], Place::Left);
        if let Place::Waiting(_) = left {
            self.desk.gone.fetch_add(1, Ordering::Relaxed);
        }
        // Foreign code, outside the lock.
        drop(left);
    }
}

impl<O> Address<O> {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.desk.gone.load(Ordering::Relaxed) > 0 && matches!(self.desk.places.lock()[self.index], Place::Left)
    }

    /// Answers several requests, in order, and then wakes whoever waits. `wakers` is empty before and after: it is passed for its memory.
    pub(super) fn answer_all(answers: impl IntoIterator<Item = (Self, Result<O>)>, wakers: &mut Vec<Waker>) {
        let mut answers = answers.into_iter().peekable();
        while let Some((mut first, answer)) = answers.next() {
            first.answered = true;
            let desk = &first.desk;
            let mut places = desk.places.lock();
            // Answers that nobody waits for are dropped outside the lock.
            let mut unwanted = Vec::new();
            let mut put = |index: usize, answer: Result<O>| match &mut places[index] {
                place @ Place::Waiting(_) => {
                    if let Place::Waiting(waker) = std::mem::replace(place, Place::Answered(answer)) {
                        wakers.push(waker);
                    }
                }
                Place::Answered(_) | Place::Left => unwanted.push(answer),
            };
            put(first.index, answer);
            while let Some((mut next, answer)) = answers.next_if(|(next, _)| Arc::ptr_eq(&next.desk, desk)) {
                next.answered = true;
                put(next.index, answer);
            }
            drop(places);
        }
        // A panic of theirs is not ours.
        let wake = |waker: Waker| drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| waker.wake())));
        wakers.drain(..).for_each(wake);
    }

    pub(super) fn answer(self, answer: Result<O>) {
        Self::answer_all([(self, answer)], &mut Vec::new());
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
