//! Stores answers until their callers take them.
//!
//! Consecutive requests share a [`ReplySlab`], so that a request costs no allocation of its own, and answering a batch
//! takes one lock per slab and not per caller. Callers also wake each other: the worker wakes one caller of a slab, and
//! every caller that takes its answer wakes some more, because a runtime wakes its own tasks more cheaply than another
//! thread does. The worker must [wake the rest](ReplySlab::wake_all) before it sleeps, in case a caller does not run.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Waker},
};

use smallvec::SmallVec;

use crate::{
    error::{Error, ErrorKind},
    sync::Mutex,
};

/// Number of others that a caller wakes.
const WAKES: usize = 8;
/// Requests of one slab.
pub(crate) const SLOTS: usize = 256;

enum ReplySlot<R> {
    /// Not answered yet.
    Waiting(Waker),
    /// Not answered yet; its caller is to run the next batch.
    Leading(Waker),
    Answered(R),
    /// The caller has taken the answer, or was dropped.
    Left,
}

/// Slots for the answers of some requests.
pub(crate) struct ReplySlab<R> {
    state: Mutex<SlabState<R>>,
    /// Number of callers dropped without an answer. If it is 0, as usual, the slots need not be checked for them.
    gone: AtomicUsize,
    /// The same for all slabs of a batcher.
    all_gone: Arc<AtomicUsize>,
    /// Turns an error of the batcher into an answer.
    refuse: fn(Error) -> R,
}

struct SlabState<R> {
    slots: Vec<ReplySlot<R>>,
    /// Answered callers that have not been woken yet.
    unwoken: Vec<Waker>,
}

/// What a caller finds in its slot.
pub(crate) enum Reply<R> {
    Answered(R),
    Waiting,
    /// It is to run the next batch.
    Lead,
}

/// Some wakers of answered callers.
type WakeList = SmallVec<[Waker; WAKES]>;

/// The caller's end of a request.
pub(crate) struct Receiver<R> {
    slab: Arc<ReplySlab<R>>,
    index: usize,
    /// The answer has been taken.
    over: bool,
}

/// The worker's end of a request. Dropped without an answer, it answers with an error.
pub(crate) struct Sender<R> {
    slab: Arc<ReplySlab<R>>,
    index: usize,
    answered: bool,
}

impl<R> ReplySlab<R> {
    /// A slab that also counts callers dropped without an answer in `all_gone`.
    pub(crate) fn new(all_gone: Arc<AtomicUsize>, refuse: fn(Error) -> R) -> Arc<Self> {
        let state = SlabState { slots: Vec::with_capacity(SLOTS), unwoken: Vec::with_capacity(SLOTS / 4) };
        Arc::new(Self { state: Mutex::new(state), gone: AtomicUsize::new(0), all_gone, refuse })
    }

    /// Wakes every answered caller. `spare` is empty before and after: it is passed for its memory.
    pub(crate) fn wake_all(&self, spare: &mut Vec<Waker>) {
        std::mem::swap(spare, &mut self.state.lock().unwoken);
        wake(spare.drain(..));
    }

    /// Adds a slot for a caller, who is woken when it is answered; on a new slab if this one is full.
    pub(crate) fn insert(slab: &mut Arc<Self>, waker: Waker) -> (Receiver<R>, Sender<R>) {
        let mut state = slab.state.lock();
        if state.slots.len() == SLOTS {
            drop(state);
            *slab = Self::new(slab.all_gone.clone(), slab.refuse);
            return Self::insert(slab, waker);
        }
        let index = state.slots.len();
        state.slots.push(ReplySlot::Waiting(waker));
        drop(state);
        let receiver = Receiver { slab: slab.clone(), index, over: false };
        (receiver, Sender { slab: slab.clone(), index, answered: false })
    }
}

impl<R> SlabState<R> {
    /// A caller gives up its slot, and takes some wakers to call.
    fn leave(&mut self, index: usize, others: &mut WakeList) -> ReplySlot<R> {
        if !self.unwoken.is_empty() {
            let rest = self.unwoken.len().saturating_sub(WAKES);
            others.extend(self.unwoken.drain(rest..));
        }
        std::mem::replace(&mut self.slots[index], ReplySlot::Left)
    }
}

/// Calls wakers. A panic of a waker is ignored.
fn wake(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        drop(catch_unwind(AssertUnwindSafe(|| waker.wake())));
    }
}

impl<R> Receiver<R> {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Reply<R> {
        if self.over {
            let taken = Error::new(ErrorKind::Canceled, "the answer has been taken already");
            return Reply::Answered((self.slab.refuse)(taken));
        }
        let mut state = self.slab.state.lock();
        let slot = &mut state.slots[self.index];
        let leads = matches!(slot, ReplySlot::Leading(_));
        if let ReplySlot::Waiting(waker) | ReplySlot::Leading(waker) = slot {
            let changed = !waker.will_wake(cx.waker());
            let before = changed.then(|| std::mem::replace(waker, cx.waker().clone()));
            if leads && let ReplySlot::Leading(waker) = std::mem::replace(slot, ReplySlot::Left) {
                *slot = ReplySlot::Waiting(waker);
            }
            drop(state);
            // Outside the lock: dropping a waker may drop another caller of this slab.
            drop(before);
            return if leads { Reply::Lead } else { Reply::Waiting };
        }
        let mut others = WakeList::new();
        let slot = state.leave(self.index, &mut others);
        drop(state);
        self.over = true;
        wake(others.drain(..));
        match slot {
            ReplySlot::Answered(answer) => Reply::Answered(answer),
            _ => unreachable!("only this caller leaves its slot"),
        }
    }

    /// Its caller is to run the next batch when it polls again.
    pub(crate) fn lead(&self) {
        let slot = &mut self.slab.state.lock().slots[self.index];
        *slot = match std::mem::replace(slot, ReplySlot::Left) {
            ReplySlot::Waiting(waker) => ReplySlot::Leading(waker),
            other => other,
        };
    }

    /// The caller runs its batch itself, so its waker need not be called.
    pub(crate) fn mute(&self) {
        let mut state = self.slab.state.lock();
        let before = match &mut state.slots[self.index] {
            ReplySlot::Waiting(waker) => std::mem::replace(waker, Waker::noop().clone()),
            _ => return,
        };
        drop(state);
        drop(before);
    }

    /// Its caller goes. Returns whether it was to run the next batch.
    pub(crate) fn leave(&mut self) -> bool {
        if std::mem::replace(&mut self.over, true) {
            return false;
        }
        let mut others = WakeList::new();
        let left = self.slab.state.lock().leave(self.index, &mut others);
        let leads = matches!(left, ReplySlot::Leading(_));
        if leads || matches!(left, ReplySlot::Waiting(_)) {
            self.slab.gone.fetch_add(1, Ordering::Relaxed);
            self.slab.all_gone.fetch_add(1, Ordering::Relaxed);
        }
        // Outside the lock: dropping an answer or a waker may run arbitrary code.
        drop(left);
        wake(others.drain(..));
        leads
    }
}

impl<R> Drop for Receiver<R> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl<R> Sender<R> {
    /// Whether the caller has gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.slab.gone.load(Ordering::Relaxed) > 0
            && matches!(self.slab.state.lock().slots[self.index], ReplySlot::Left)
    }

    /// An error of the batcher, as an answer.
    pub(crate) fn refuse(&self, error: Error) -> R {
        (self.slab.refuse)(error)
    }

    /// Answers several requests, in order, and wakes one caller of each slab. The slabs are added to `unsettled`: their
    /// other callers must still be woken.
    pub(crate) fn answer_all(answers: impl IntoIterator<Item = (Self, R)>, unsettled: &mut Vec<Arc<ReplySlab<R>>>) {
        let mut answers = answers.into_iter().peekable();
        while let Some((mut first, answer)) = answers.next() {
            first.answered = true;
            let slab = &first.slab;
            let mut guard = slab.state.lock();
            let SlabState { slots, unwoken } = &mut *guard;
            // Answers without a caller are dropped outside the lock.
            let mut unwanted = Vec::new();
            let mut put = |index: usize, answer: R| match &mut slots[index] {
                slot @ (ReplySlot::Waiting(_) | ReplySlot::Leading(_)) => {
                    let before = std::mem::replace(slot, ReplySlot::Answered(answer));
                    if let ReplySlot::Waiting(waker) | ReplySlot::Leading(waker) = before {
                        unwoken.push(waker);
                    }
                }
                ReplySlot::Answered(_) | ReplySlot::Left => unwanted.push(answer),
            };
            put(first.index, answer);
            while let Some((mut next, answer)) = answers.next_if(|(next, _)| Arc::ptr_eq(&next.slab, slab)) {
                next.answered = true;
                put(next.index, answer);
            }
            let one = unwoken.pop();
            if !unwoken.is_empty() {
                unsettled.push(slab.clone());
            }
            drop(guard);
            wake(one);
        }
    }

    pub(crate) fn answer(self, answer: R) {
        let mut unsettled = Vec::new();
        Self::answer_all([(self, answer)], &mut unsettled);
        unsettled.iter().for_each(|slab| slab.wake_all(&mut Vec::new()));
    }
}

impl<R> Drop for Sender<R> {
    fn drop(&mut self) {
        if !self.answered {
            let lost = Self { slab: self.slab.clone(), index: self.index, answered: true };
            let answer = lost.refuse(Error::internal("a request was lost without an answer; please report it"));
            lost.answer(answer);
        }
    }
}
