//! Compile threads: with a stack large enough for naga, and a time budget. [`CompileThread`] decides where they run.
//!
//! A compilation cannot be stopped: naga and drivers have no way to. When the budget runs out the caller gets an error,
//! and the thread continues on its own data. Nothing waits for it, not even process exit. [`OVERDUE`] counts these
//! threads. While there are [`MAX_OVERDUE`], no compilation is started.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use crate::{
    clock::Instant,
    error::{Error, ErrorKind, Result},
};

/// naga and the drivers recurse over the source. Any source that [`super::source::check`] accepts fits in this, debug
/// builds included.
const STACK: usize = 128 << 20;

/// No compilation starts while there are this many overdue threads: each may hold a core and hundreds of megabytes.
/// Compilations already running may still become overdue.
const MAX_OVERDUE: usize = 2;

/// Number of compile threads whose caller already got an error.
static OVERDUE: AtomicUsize = AtomicUsize::new(0);

/// The deadline of a compilation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    budget: Duration,
    /// `None`: no deadline.
    at: Option<Instant>,
}

impl Deadline {
    /// This long from now.
    pub(crate) fn after(budget: Duration) -> Self {
        Self { budget, at: Instant::now().checked_add(budget) }
    }
}

/// A running compilation. The channel has no buffer: its thread either hands the result over, or learns that the caller
/// has stopped waiting. Then it is overdue until it ends.
pub(crate) struct Compiling<T> {
    receiver: mpsc::Receiver<thread::Result<T>>,
    is_received: bool,
}

impl<T> Drop for Compiling<T> {
    fn drop(&mut self) {
        // Before the channel is dropped, which the thread answers by counting down.
        if !self.is_received {
            OVERDUE.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<T: Send + 'static> Compiling<T> {
    /// Runs this on a new thread. The thread may outlive the caller, so it owns its data.
    pub(crate) fn start(run: impl FnOnce() -> T + Send + 'static) -> Result<Self> {
        if OVERDUE.load(Ordering::Relaxed) >= MAX_OVERDUE {
            let message = format!(
                "no kernel is compiled while {MAX_OVERDUE} that ran over their compile budget are still being compiled"
            );
            return Err(Error::new(ErrorKind::Overloaded, message));
        }
        let (sender, receiver) = mpsc::sync_channel(0);
        CompileThread::new().spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(run));
            if let Err(unwanted) = sender.send(result) {
                drop(unwanted);
                OVERDUE.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        Ok(Self { receiver, is_received: false })
    }

    /// Waits for the result. `what` names the kernel.
    pub(crate) fn wait(mut self, deadline: Deadline, what: &str) -> Result<T> {
        let received = match deadline.at {
            Some(at) => self.receiver.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => self.receiver.recv().map_err(Into::into),
        };
        self.is_received = !matches!(received, Err(RecvTimeoutError::Timeout));
        match received {
            Ok(Ok(value)) => Ok(value),
            Err(RecvTimeoutError::Timeout) => {
                let budget = deadline.budget;
                let message = format!("{what} was not compiled within its budget of {budget:?} (`compile_budget`)");
                Err(Error::new(ErrorKind::Timeout, message))
            }
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                Err(Error::internal("the compiler panicked on this kernel; please report it"))
            }
        }
    }
}

/// Runs this on a compile thread and waits for it until the deadline.
pub(crate) fn compile<T: Send + 'static>(
    deadline: Deadline,
    what: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    Compiling::start(run)?.wait(deadline, what)
}

/// Runs this on a thread with a stack large enough for naga, and waits without a deadline. For kernels that were
/// compiled before.
pub(crate) fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T> {
    CompileThread::new().run(run)
}

/// A thread for one compilation, with a large stack. For a platform without threads only this type changes: both ways
/// to start it would run the compilation on the calling thread.
struct CompileThread(thread::Builder);

impl CompileThread {
    fn new() -> Self {
        Self(thread::Builder::new().name("sortie-compile".into()).stack_size(STACK))
    }

    /// Starts it without waiting for it.
    fn spawn(self, run: impl FnOnce() + Send + 'static) -> Result<()> {
        self.0.spawn(run).map(drop).map_err(not_started)
    }

    /// Starts it and waits for its result.
    fn run<T: Send>(self, run: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let thread = self.0.spawn_scoped(scope, run).map_err(not_started)?;
            thread.join().map_err(|_| Error::internal("the compiler panicked on this kernel; please report it"))
        })
    }
}

fn not_started(error: std::io::Error) -> Error {
    Error::internal("the compile thread did not start").caused_by(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn two_may_outlive_their_budget_and_then_none_is_started_until_one_ends() {
        let soon = || Deadline::after(Duration::from_millis(1));
        let (release, held): (Vec<_>, Vec<_>) = (0..2).map(|_| mpsc::channel::<()>()).unzip();
        let held: Vec<_> = held.into_iter().map(|held| Arc::new(Mutex::new(held))).collect();
        for held in &held {
            let held = held.clone();
            let late = compile(soon(), "kernel \"slow\"", move || held.lock().recv().is_ok()).expect_err("held");
            assert_eq!(late.kind(), ErrorKind::Timeout);
            assert!(late.to_string().contains("\"slow\"") && late.to_string().contains("1ms"), "{late}");
        }
        let refused = compile(soon(), "another", || ()).expect_err("two are overdue");
        assert_eq!(refused.kind(), ErrorKind::Overloaded, "{refused}");
        release[0].send(()).expect("it listens");
        while OVERDUE.load(Ordering::Relaxed) == MAX_OVERDUE {
            thread::yield_now();
        }
        assert_eq!(compile(Deadline::after(Duration::MAX), "another", || 7).expect("there is room"), 7);
        release[1].send(()).expect("it listens");
    }

    #[test]
    fn a_panic_is_an_error_of_ours() {
        let error = compile(Deadline::after(Duration::MAX), "it", || panic!("on purpose")).expect_err("it panicked");
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}
