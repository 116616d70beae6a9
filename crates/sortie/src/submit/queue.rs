//! Who goes to the queue next, and who waits for whom: the one lock that submitters, the submit thread and the wait thread share.
//!
//! | state of an item | leaves it by |
//! |---|---|
//! | behind a reservation | its end, which queues it |
//! | queued | [`SubmitQueue::next`] (the submit thread), which takes the turn |
//! | at the queue (the turn is taken) | [`SubmitQueue::started`] for what flies, then dropping the [`Turn`] |
//! | flying | [`SubmitQueue::finished`] |
//!
//! Invariants: one at a time has the turn; items leave in the order they came, those of a [`Reservation`] together; at most `in_flight` fly. Nothing foreign is called under the
//! lock: no wgpu, no waker, no drop of anything that was handed in.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::finish::sync::{Condvar, Mutex};

/// What goes to the queue in order.
pub(crate) trait Queued {
    /// Whether it counts as in flight until it lands.
    fn counts_in_flight(&self) -> bool;
}

/// Items of type `I` that become flights `L`, known to the device by `X`.
#[derive(Debug)]
pub(crate) struct SubmitQueue<I, L, X> {
    state: Mutex<State<I, L, X>>,
    /// For the submit thread: something was queued, the turn ended, something landed, or the line was closed.
    submit: Condvar,
    /// For the wait thread: something left that it must see home, or the line was closed.
    left: Condvar,
    in_flight: usize,
}

#[derive(Debug)]
struct State<I, L, X> {
    queued: VecDeque<I>,
    flying: VecDeque<InFlight<L, X>>,
    /// Somebody is at the queue.
    turn: bool,
    /// Somebody is queueing items one by one, and nothing may come between them.
    reserved: bool,
    /// What has come meanwhile.
    deferred: VecDeque<I>,
    closed: bool,
    /// The serial of the newest flight.
    started: u64,
}

#[derive(Debug)]
struct InFlight<L, X> {
    submission: L,
    index: X,
    serial: u64,
    /// Whoever submitted it waits for it too.
    attended: bool,
}

impl<I: Queued, L, X: Clone> SubmitQueue<I, L, X> {
    pub(crate) fn new(in_flight: usize) -> Self {
        let state = State {
            queued: VecDeque::new(),
            flying: VecDeque::new(),
            turn: false,
            reserved: false,
            deferred: VecDeque::new(),
            closed: false,
            started: 0,
        };
        Self { state: Mutex::new(state), submit: Condvar::new(), left: Condvar::new(), in_flight: in_flight.max(1) }
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

    /// Lets the caller queue items one by one with nothing between them; what others push comes behind. `None` where somebody is doing so.
    pub(crate) fn reserve(&self) -> Option<Reservation<'_, I, L, X>> {
        let taken = std::mem::replace(&mut self.state.lock().reserved, true);
        (!taken).then(|| Reservation { line: self })
    }

    fn end_reservation(&self) {
        let mut state = self.state.lock();
        state.reserved = false;
        let mut deferred = std::mem::take(&mut state.deferred);
        state.queued.append(&mut deferred);
        drop(state);
        self.submit.notify_one();
    }

    /// Takes the submit thread's place, if nobody is ahead and, for what flies, there is room.
    pub(crate) fn take_turn(&self, counts_in_flight: bool) -> Option<Turn<'_, I, L, X>> {
        let mut state = self.state.lock();
        let ahead = !state.queued.is_empty() || state.turn || state.reserved;
        let full = counts_in_flight && state.flying.len() >= self.in_flight;
        let free = !ahead && !full;
        state.turn |= free;
        drop(state);
        // Lazily: a turn that is made is a turn that ends.
        free.then(|| Turn { line: self })
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

    /// The next item, with the turn taken; `None` when the line is closed and empty. For the submit thread.
    pub(crate) fn next(&self) -> Option<(I, Turn<'_, I, L, X>)> {
        let mut state = self.state.lock();
        loop {
            if let Some(item) = state.take(self.in_flight) {
                drop(state);
                // Made outside the lock: letting go of it takes the lock again.
                return Some((item, Turn { line: self }));
            }
            if state.ended() {
                // The wait thread may be asleep waiting for what will not come.
                self.left.notify_all();
                return None;
            }
            self.submit.wait(&mut state);
        }
    }

    /// As [`SubmitQueue::next`], but never waits: `None` where another thread has the turn, or nothing may leave now.
    pub(crate) fn next_now(&self) -> Option<(I, Turn<'_, I, L, X>)> {
        let item = self.state.lock().take(self.in_flight)?;
        Some((item, Turn { line: self }))
    }

    /// A flight has left. Returns its serial. The caller has the turn.
    pub(crate) fn started(&self, submission: L, index: X, attended: bool) -> u64 {
        let mut state = self.state.lock();
        state.started += 1;
        let serial = state.started;
        state.flying.push_back(InFlight { submission, index, serial, attended });
        drop(state);
        if !attended {
            self.left.notify_one();
        }
        serial
    }

    /// The oldest flight that nobody waits for; `None` when the line is closed and empty. For the wait thread.
    pub(crate) fn next_unwaited(&self) -> Option<(X, u64)> {
        let mut state = self.state.lock();
        loop {
            if let Some(found) = state.next_unwaited() {
                return Some(found);
            }
            if state.ended() {
                return None;
            }
            self.left.wait(&mut state);
        }
    }

    /// As [`SubmitQueue::next_unwaited`], but never waits.
    pub(crate) fn unattended_now(&self) -> Option<(X, u64)> {
        self.state.lock().next_unwaited()
    }

    /// Takes the flights up to a serial off the line and makes room for the next ones. Each flight is handed out once, with what the device knows it by. Also
    /// says whether none is left.
    pub(crate) fn finished(&self, through: u64) -> (SmallVec<[(L, X); 2]>, bool) {
        let mut state = self.state.lock();
        let done = state.flying.iter().take_while(|flying| flying.serial <= through).count();
        let finished = state.flying.drain(..done).map(|flying| (flying.submission, flying.index)).collect();
        let (more, idle) = (!state.queued.is_empty(), state.flying.is_empty());
        drop(state);
        if more {
            self.submit.notify_one();
        }
        (finished, idle)
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.submit.notify_all();
        self.left.notify_all();
    }
}

/// The right to queue items with nothing between them; ends when dropped, also by a panic.
pub(crate) struct Reservation<'a, I: Queued, L, X: Clone> {
    line: &'a SubmitQueue<I, L, X>,
}

impl<I: Queued, L, X: Clone> Reservation<'_, I, L, X> {
    /// Appends items. Never waits.
    pub(crate) fn push(&self, items: impl IntoIterator<Item = I>) {
        self.line.state.lock().queued.extend(items);
        self.line.submit.notify_one();
    }
}

impl<I: Queued, L, X: Clone> Drop for Reservation<'_, I, L, X> {
    fn drop(&mut self) {
        self.line.end_reservation();
    }
}

/// The right to be at the queue; ends when dropped, also by a panic.
pub(crate) struct Turn<'a, I: Queued, L, X: Clone> {
    line: &'a SubmitQueue<I, L, X>,
}

impl<I: Queued, L, X: Clone> Drop for Turn<'_, I, L, X> {
    fn drop(&mut self) {
        self.line.end_turn();
    }
}

impl<I, L, X> State<I, L, X> {
    /// Nothing will be submitted any more.
    fn ended(&self) -> bool {
        self.closed && self.queued.is_empty() && !self.turn && !self.reserved
    }
}

impl<I, L, X: Clone> State<I, L, X> {
    fn next_unwaited(&self) -> Option<(X, u64)> {
        let flying = self.flying.iter().find(|flying| !flying.attended)?;
        Some((flying.index.clone(), flying.serial))
    }
}

impl<I: Queued, L, X> State<I, L, X> {
    /// Takes the first item and the turn, if it may leave now.
    fn take(&mut self, in_flight: usize) -> Option<I> {
        let room = self.flying.len() < in_flight;
        let ready = self.queued.front().is_some_and(|item| room || !item.counts_in_flight());
        if !ready || self.turn {
            return None;
        }
        self.turn = true;
        self.queued.pop_front()
    }
}
