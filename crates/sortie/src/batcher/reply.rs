//! Where answers lie until their callers take them.
//!
//! Requests that arrive one after the other share a [`Desk`], so that a request costs no allocation of its own, and answering a batch takes a lock for
//! each desk and not for each caller. Callers also wake each other: whoever answers wakes one of a desk, and everyone who takes an answer wakes some more, because a
//! runtime wakes its own for less than a stranger does. What is not woken yet is owed by whoever answered, who must [settle](Desk::settle) that before long:
//! some caller may not get around to it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use smallvec::SmallVec;

use super::sync::Mutex;
use crate::error::{Error, ErrorKind, Result};

/// How many others a caller wakes.
const WAKES: usize = 8;
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
    book: Mutex<Book<O>>,
    /// How many have gone without an answer. Mostly none, and then nobody has to look at the places for that.
    gone: AtomicUsize,
    /// The same for all desks of a front.
    all_gone: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Book<O> {
    places: Vec<Place<O>>,
    /// Callers whose answers are there, and who do not know it yet.
    unwoken: Vec<Waker>,
}

/// Some of those who do not know yet.
type Few = SmallVec<[Waker; WAKES]>;

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
    /// One that also counts in `all_gone` who goes without an answer.
    pub(super) fn new(all_gone: Arc<AtomicUsize>) -> Arc<Self> {
        let book = Book { places: Vec::with_capacity(PLACES), unwoken: Vec::with_capacity(PLACES / 4) };
        Arc::new(Self { book: Mutex::new(book), gone: AtomicUsize::new(0), all_gone })
    }

    /// Wakes everybody whose answer is there. `spare` is empty before and after: it is passed for its memory.
    pub(super) fn settle(&self, spare: &mut Vec<Waker>) {
        std::mem::swap(spare, &mut self.book.lock().unwoken);
        wake(spare.drain(..));
    }

    /// One more place, for a caller that is woken when its answer is there; on a new desk when this one is full.
    pub(super) fn place(desk: &mut Arc<Self>, waker: Waker) -> (Reply<O>, Address<O>) {
        let mut book = desk.book.lock();
        if book.places.len() == PLACES {
            drop(book);
            *desk = Self::new(desk.all_gone.clone());
            return Self::place(desk, waker);
        }
        let index = book.places.len();
        book.places.push(Place::Waiting(waker));
        drop(book);
        let reply = Reply { desk: desk.clone(), index, over: false };
        (reply, Address { desk: desk.clone(), index, answered: false })
    }
}

impl<O> Book<O> {
    /// Somebody leaves, and takes along whom to wake.
    fn leave(&mut self, index: usize) -> (Place<O>, Few) {
        let rest = self.unwoken.len().saturating_sub(WAKES);
        (std::mem::replace(&mut self.places[index], Place::Left), self.unwoken.drain(rest..).collect())
    }
}

/// Wakes them. A panic of theirs is not ours.
fn wake(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
    }
}

impl<O> Reply<O> {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<O>> {
        if self.over {
            return Poll::Ready(Err(Error::new(ErrorKind::Canceled, "the answer has been taken already")));
        }
        let mut book = self.desk.book.lock();
        if let Place::Waiting(waker) = &mut book.places[self.index] {
            if !waker.will_wake(cx.waker()) {
                let before = std::mem::replace(waker, cx.waker().clone());
                drop(book);
                // Foreign code, outside the lock: it may be the end of somebody else who waits here.
                drop(before);
            }
            return Poll::Pending;
        }
        let (answered, others) = book.leave(self.index);
        drop(book);
        self.over = true;
        wake(others);
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
        let (left, others) = self.desk.book.lock().leave(self.index);
        if let Place::Waiting(_) = left {
            self.desk.gone.fetch_add(1, Ordering::Relaxed);
            self.desk.all_gone.fetch_add(1, Ordering::Relaxed);
        }
        // Foreign code, outside the lock.
        drop(left);
        wake(others);
    }
}

impl<O> Address<O> {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        self.desk.gone.load(Ordering::Relaxed) > 0 && matches!(self.desk.book.lock().places[self.index], Place::Left)
    }

    /// Answers several requests, in order, and wakes one caller of each desk. The desks are added to those that are owed the rest.
    pub(super) fn answer_all(answers: impl IntoIterator<Item = (Self, Result<O>)>, owed: &mut Vec<Arc<Desk<O>>>) {
        let mut answers = answers.into_iter().peekable();
        while let Some((mut first, answer)) = answers.next() {
            first.answered = true;
            let desk = &first.desk;
            let mut guard = desk.book.lock();
            let Book { places, unwoken } = &mut *guard;
            // Answers that nobody waits for are dropped outside the lock.
            let mut unwanted = Vec::new();
            let mut put = |index: usize, answer: Result<O>| match &mut places[index] {
                place @ Place::Waiting(_) => {
                    if let Place::Waiting(waker) = std::mem::replace(place, Place::Answered(answer)) {
                        unwoken.push(waker);
                    }
                }
                Place::Answered(_) | Place::Left => unwanted.push(answer),
            };
            put(first.index, answer);
            while let Some((mut next, answer)) = answers.next_if(|(next, _)| Arc::ptr_eq(&next.desk, desk)) {
                next.answered = true;
                put(next.index, answer);
            }
            let one = unwoken.pop();
            if !unwoken.is_empty() {
                owed.push(desk.clone());
            }
            drop(guard);
            wake(one);
        }
    }

    pub(super) fn answer(self, answer: Result<O>) {
        let mut owed = Vec::new();
        Self::answer_all([(self, answer)], &mut owed);
        owed.iter().for_each(|desk| desk.settle(&mut Vec::new()));
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
