//! What takes the turns of a submit queue.
//!
//! The queue says what may happen next; a driver decides which thread does it: threads of its own, or, where there are none to be had, the
//! thread that has queued something. Nothing else in this crate knows which of them a device has.

use std::{
    fmt,
    sync::{Arc, OnceLock, Weak},
    thread::{self, JoinHandle, ThreadId},
};

use crate::{
    error::{Error, Result},
    exit::{self, Quit},
    memory,
};

/// What a driver drives: a [`Submitter`](super::Submitter) of any device.
pub(crate) trait Turns: Quit {
    /// Takes the turn of what is queued first, and submits it. Without anything that may leave now: waits for it if asked to, else returns false. False
    /// also when nothing will come any more.
    fn take(&self, wait: bool) -> bool;

    /// Looks for the end of what has been in flight longest, of those that no thread waits for, and completes what is done. If asked to, waits for something to be in
    /// flight, and then a moment for its end; else returns false where nothing has ended. False also when nothing will come any more.
    fn complete(&self, wait: bool) -> bool;

    /// Whether the device is lost.
    fn is_lost(&self) -> bool;
}

/// Which thread takes turns.
pub(crate) trait Driver: fmt::Debug + Send + Sync {
    /// Called once, before anything is queued. What it starts ends when [`Turns`] has nothing more to do, and keeps it alive until then.
    fn start(&self, turns: Arc<dyn Turns>) -> Result<()>;

    /// Something was queued, or a turn has ended, or there is room for more in flight.
    fn pushed(&self, turns: &dyn Turns);

    /// The calling thread is about to sleep until `done`. Where it is the one that has to take turns for that, it does so here.
    fn help(&self, turns: &dyn Turns, done: &dyn Fn() -> bool);
}

/// One thread submits, the other waits for what is in flight: for devices that work by themselves.
#[derive(Debug)]
pub(crate) struct TwoThreads;

impl Driver for TwoThreads {
    fn start(&self, turns: Arc<dyn Turns>) -> Result<()> {
        // Enlisted one by one: should the second not start, closing the queue ends the first.
        register(&turns, spawn("sortie-submit", &turns, |turns| while turns.take(true) {})?);
        register(&turns, spawn("sortie-wait", &turns, |turns| while turns.complete(true) {})?);
        Ok(())
    }

    fn pushed(&self, _turns: &dyn Turns) {}

    fn help(&self, _turns: &dyn Turns, _done: &dyn Fn() -> bool) {}
}

/// One thread submits, and what it submits is done then: for devices that are the host itself.
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

    /// A waker that waits on the submit thread waits for the only thread that would run what it waits for.
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
            // A service that loses devices must not grow: what a device of many threads had lies in pieces.
            memory::give_back();
        }
    });
    thread.map_err(|error| Error::internal(format!("the thread {name} did not start")).caused_by(error))
}

/// Has the process wait for a thread when it exits.
fn register(turns: &Arc<dyn Turns>, thread: JoinHandle<()>) {
    let quit: Weak<dyn Quit> = Arc::<dyn Turns>::downgrade(turns);
    exit::register(quit, thread);
}

#[cfg(test)]
mod tests;
