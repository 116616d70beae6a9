//! Decides which thread drives a submit queue.
//!
//! The queue says which work may happen next; a driver decides which thread does it: threads of its own, or, where none
//! are available, the thread that queued something. The rest of the crate does not depend on which driver a device has.

use std::{
    sync::{Arc, OnceLock, Weak},
    thread::{self, JoinHandle, ThreadId},
};

use crate::{
    error::{Error, Result},
    exit::{self, Quit},
    memory,
};

/// The work that a driver runs: a [`Submitter`](super::Submitter) of any device.
pub(crate) trait Turns: Quit {
    /// Takes the turn for the first queued item and submits it. If no item may be submitted now: waits for one if
    /// `wait`, else returns false. Also returns false once the queue is closed and empty.
    fn take(&self, wait: bool) -> bool;

    /// Completes the oldest submission in flight that no other thread waits for, if it is done. With `wait`: sleeps
    /// until one is in flight, then waits for it for a bounded time. Without: returns false if none was done. Also
    /// returns false once the queue is closed and empty.
    fn complete(&self, wait: bool) -> bool;

    /// Whether the device is lost.
    fn is_lost(&self) -> bool;
}

/// Which thread takes turns.
pub(crate) trait Driver: Send + Sync {
    /// Called once, before anything is queued. The threads it starts keep `turns` alive and end when [`Turns`] returns
    /// false.
    fn start(&self, turns: Arc<dyn Turns>) -> Result<()>;

    /// Called when an item was queued, a turn has ended, or a submission is no longer in flight.
    fn pushed(&self, turns: &dyn Turns);

    /// Called before the calling thread sleeps until `done`. If that thread is the one that takes turns, it does so
    /// here.
    fn help(&self, turns: &dyn Turns, done: &dyn Fn() -> bool);
}

/// A submit thread and a wait thread, for devices that run asynchronously.
#[derive(Debug)]
pub(crate) struct TwoThreads;

impl Driver for TwoThreads {
    fn start(&self, turns: Arc<dyn Turns>) -> Result<()> {
        // Registered one by one: if the second fails to start, closing the queue ends the first.
        register(&turns, spawn("sortie-submit", &turns, |turns| while turns.take(true) {})?);
        register(&turns, spawn("sortie-wait", &turns, |turns| while turns.complete(true) {})?);
        Ok(())
    }

    fn pushed(&self, _turns: &dyn Turns) {}

    fn help(&self, _turns: &dyn Turns, _done: &dyn Fn() -> bool) {}
}

/// A submit thread only, for the CPU device: a submission is done when `submit` returns.
#[derive(Debug, Default)]
pub(crate) struct OneThread {
    thread: OnceLock<ThreadId>,
}

impl Driver for OneThread {
    fn start(&self, turns: Arc<dyn Turns>) -> Result<()> {
        let thread = spawn("sortie-submit", &turns, |turns| while turns.take(true) {})?;
        self.thread.get_or_init(|| thread.thread().id());
        register(&turns, thread);
        Ok(())
    }

    fn pushed(&self, _turns: &dyn Turns) {}

    /// A waker that blocks on the submit thread would wait for the only thread that can run its work.
    fn help(&self, turns: &dyn Turns, done: &dyn Fn() -> bool) {
        if self.thread.get() == Some(&thread::current().id()) {
            while !done() && turns.take(true) {}
        }
    }
}

fn spawn(name: &str, turns: &Arc<dyn Turns>, run: fn(&dyn Turns)) -> Result<JoinHandle<()>> {
    let turns = turns.clone();
    let thread = thread::Builder::new().name(name.into()).spawn(move || {
        exit::begin_exempt();
        run(&*turns);
        let lost = turns.is_lost();
        drop(turns);
        if lost {
            // A service that loses devices must not grow: a device with many threads leaves a fragmented heap.
            memory::give_back();
        }
    });
    thread.map_err(|error| Error::internal(format!("the thread {name} did not start")).caused_by(error))
}

/// Makes the process wait for a thread when it exits.
fn register(turns: &Arc<dyn Turns>, thread: JoinHandle<()>) {
    let quit: Weak<dyn Quit> = Arc::<dyn Turns>::downgrade(turns);
    exit::register(quit, thread);
}

#[cfg(test)]
mod tests;
