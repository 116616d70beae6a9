//! The order of submissions: the one lock that submitters, the submit thread and the wait thread share.
//!
//! | state of an item | left by |
//! |---|---|
//! | deferred behind a reservation | the end of the reservation, which queues it |
//! | queued | [`SubmitQueue::next`] (the submit thread), which takes the turn |
//! | being submitted (the turn is taken) | [`SubmitQueue::started`] for submissions, then dropping the [`Turn`] |
//! | in flight | [`SubmitQueue::finished`] |
//!
//! Invariants: one thread at a time has the turn. Items are submitted in the order they were pushed, those of a
//! [`Reservation`] together. At most `in_flight` submissions are in flight. No foreign code runs under the lock: no
//! wgpu call, no waker, no drop of an item.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::finish::sync::{Condvar, Mutex};

/// An item of a [`SubmitQueue`].
pub(crate) trait Queued {
    /// Whether it counts as in flight until it is done.
    fn counts_in_flight(&self) -> bool;
}

/// Items `I`, which become submissions `L` in flight with wait points `X`.
#[derive(Debug)]
pub(crate) struct SubmitQueue<I, L, X> {
    state: Mutex<State<I, L, X>>,
    /// Wakes the submit thread: an item was queued, the turn ended, a submission finished, or the queue was closed.
    submit: Condvar,
    /// Wakes the wait thread: a submission that it must wait for is in flight, or the queue was closed.
    wait: Condvar,
    in_flight: usize,
}

#[derive(Debug)]
struct State<I, L, X> {
    queued: VecDeque<I>,
    in_flight: VecDeque<InFlight<L, X>>,
    /// Whether a thread has the turn.
    turn: bool,
    /// Whether a reservation exists: its items must stay together.
    reserved: bool,
    /// Items that others pushed during the reservation.
    deferred: VecDeque<I>,
    closed: bool,
    /// The serial of the newest submission in flight.
    started: u64,
}

#[derive(Debug)]
struct InFlight<L, X> {
    submission: L,
    index: X,
    serial: u64,
    /// The thread that submitted it also waits for it.
    attended: bool,
}

impl<I: Queued, L, X: Clone> SubmitQueue<I, L, X> {
    pub(crate) fn new(in_flight: usize) -> Self {
        let state = State {
            queued: VecDeque::new(),
            in_flight: VecDeque::new(),
            turn: false,
            reserved: false,
            deferred: VecDeque::new(),
            closed: false,
            started: 0,
        };
        Self { state: Mutex::new(state), submit: Condvar::new(), wait: Condvar::new(), in_flight: in_flight.max(1) }
    }

    /// Appends items. Never waits.
    pub(crate) fn push(&self, items: impl IntoIterator<Item = I>) {
        let mut state = self.state.lock();
        if state.reserved {
            state.deferred.extend(items);
            return;
        }
        state.queued.extend(items);
        drop(state);
        self.submit.notify_one();
    }

    /// Lets the caller queue items one by one with nothing between them; items that others push come after. `None` if
    /// another thread holds the reservation.
    pub(crate) fn reserve(&self) -> Option<Reservation<'_, I, L, X>> {
        let taken = std::mem::replace(&mut self.state.lock().reserved, true);
        (!taken).then(|| Reservation { queue: self })
    }

    fn end_reservation(&self) {
        let mut state = self.state.lock();
        state.reserved = false;
        let mut deferred = std::mem::take(&mut state.deferred);
        state.queued.append(&mut deferred);
        drop(state);
        self.submit.notify_one();
    }

    /// Takes the turn on the calling thread, if no item is ahead and, for submissions, there is room in flight.
    pub(crate) fn take_turn(&self, counts_in_flight: bool) -> Option<Turn<'_, I, L, X>> {
        let mut state = self.state.lock();
        let ahead = !state.queued.is_empty() || state.turn || state.reserved;
        let full = counts_in_flight && state.in_flight.len() >= self.in_flight;
        let free = !ahead && !full;
        state.turn |= free;
        drop(state);
        // Lazily: dropping a `Turn` ends the turn, so none may be made unless it is taken.
        free.then(|| Turn { queue: self })
    }

    /// As [`SubmitQueue::take_turn`], if nothing is in flight either.
    pub(crate) fn take_idle_turn(&self) -> Option<Turn<'_, I, L, X>> {
        let mut state = self.state.lock();
        let free = state.queued.is_empty() && !state.turn && !state.reserved && state.in_flight.is_empty();
        state.turn |= free;
        drop(state);
        free.then(|| Turn { queue: self })
    }

    fn end_turn(&self) {
        let mut state = self.state.lock();
        state.turn = false;
        let more = !state.queued.is_empty() || state.closed;
        drop(state);
        if more {
            self.submit.notify_one();
        }
    }

    /// The next item, with the turn taken; `None` when the queue is closed and empty. For the submit thread.
    pub(crate) fn next(&self) -> Option<(I, Turn<'_, I, L, X>)> {
        let mut state = self.state.lock();
        loop {
            if let Some(item) = state.take(self.in_flight) {
                drop(state);
                // Made outside the lock: dropping a `Turn` takes the lock again.
                return Some((item, Turn { queue: self }));
            }
            if state.ended() {
                // The wait thread may be asleep; nothing else will wake it.
                self.wait.notify_all();
                return None;
            }
            self.submit.wait(&mut state);
        }
    }

    /// As [`SubmitQueue::next`], but never waits: `None` if another thread has the turn, or no item may be submitted
    /// now.
    pub(crate) fn next_now(&self) -> Option<(I, Turn<'_, I, L, X>)> {
        let item = self.state.lock().take(self.in_flight)?;
        Some((item, Turn { queue: self }))
    }

    /// Adds a submission in flight and returns its serial. The caller has the turn.
    pub(crate) fn started(&self, submission: L, index: X, attended: bool) -> u64 {
        let mut state = self.state.lock();
        state.started += 1;
        let serial = state.started;
        state.in_flight.push_back(InFlight { submission, index, serial, attended });
        drop(state);
        if !attended {
            self.wait.notify_one();
        }
        serial
    }

    /// The oldest submission in flight that no thread waits for; `None` when the queue is closed and empty. For the
    /// wait thread.
    pub(crate) fn next_unwaited(&self) -> Option<(X, u64)> {
        let mut state = self.state.lock();
        loop {
            if let Some(found) = state.next_unwaited() {
                return Some(found);
            }
            if state.ended() {
                return None;
            }
            self.wait.wait(&mut state);
        }
    }

    /// As [`SubmitQueue::next_unwaited`], but never waits.
    pub(crate) fn unattended_now(&self) -> Option<(X, u64)> {
        self.state.lock().next_unwaited()
    }

    /// Removes the submissions up to a serial, which makes room for the next ones. Each is returned once, with its wait
    /// point. Also returns whether none is left in flight.
    pub(crate) fn finished(&self, through: u64) -> (SmallVec<[(L, X); 2]>, bool) {
        let mut state = self.state.lock();
        let done = state.in_flight.iter().take_while(|in_flight| in_flight.serial <= through).count();
        let finished = state.in_flight.drain(..done).map(|in_flight| (in_flight.submission, in_flight.index)).collect();
        let (more, idle) = (!state.queued.is_empty(), state.in_flight.is_empty());
        drop(state);
        if more {
            self.submit.notify_one();
        }
        (finished, idle)
    }

    /// No more items will be pushed.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.submit.notify_all();
        self.wait.notify_all();
    }
}

/// The right to queue items with nothing between them; ends when dropped, also by a panic.
pub(crate) struct Reservation<'a, I: Queued, L, X: Clone> {
    queue: &'a SubmitQueue<I, L, X>,
}

impl<I: Queued, L, X: Clone> Reservation<'_, I, L, X> {
    /// Appends items. Never waits.
    pub(crate) fn push(&self, items: impl IntoIterator<Item = I>) {
        self.queue.state.lock().queued.extend(items);
        self.queue.submit.notify_one();
    }
}

impl<I: Queued, L, X: Clone> Drop for Reservation<'_, I, L, X> {
    fn drop(&mut self) {
        self.queue.end_reservation();
    }
}

/// The right to submit; ends when dropped, also by a panic.
pub(crate) struct Turn<'a, I: Queued, L, X: Clone> {
    queue: &'a SubmitQueue<I, L, X>,
}

impl<I: Queued, L, X: Clone> Drop for Turn<'_, I, L, X> {
    fn drop(&mut self) {
        self.queue.end_turn();
    }
}

impl<I, L, X> State<I, L, X> {
    /// Whether nothing will be submitted any more.
    fn ended(&self) -> bool {
        self.closed && self.queued.is_empty() && !self.turn && !self.reserved
    }
}

impl<I, L, X: Clone> State<I, L, X> {
    fn next_unwaited(&self) -> Option<(X, u64)> {
        let in_flight = self.in_flight.iter().find(|in_flight| !in_flight.attended)?;
        Some((in_flight.index.clone(), in_flight.serial))
    }
}

impl<I: Queued, L, X> State<I, L, X> {
    /// Takes the first item and the turn, if the item may be submitted now.
    fn take(&mut self, in_flight: usize) -> Option<I> {
        let room = self.in_flight.len() < in_flight;
        let ready = self.queued.front().is_some_and(|item| room || !item.counts_in_flight());
        if !ready || self.turn {
            return None;
        }
        self.turn = true;
        self.queued.pop_front()
    }
}
