//! Drivers call [`Worker::step`]: by default a thread for each worker.

use std::{
    fmt,
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;

use crate::{error::Error, job::Job, state::Action, worker::Worker};

/// Drives the workers of a batcher: calls [`Worker::step`] until it returns [`Action::End`].
///
/// ```
/// use std::{sync::Mutex, time::Duration};
/// use sortie_batcher::{Action, BatchConfig, Batcher, Driver, Error, Job, Worker, batch_fn};
///
/// /// Steps workers on tasks of a runtime that may block.
/// struct Tasks(tokio::runtime::Runtime);
///
/// impl<J: Job> Driver<J> for Tasks {
///     fn start(&self, mut worker: Worker<J>) -> Result<(), Error> {
///         self.0.spawn_blocking(move || while worker.step(true) != Action::End {});
///         Ok(())
///     }
/// }
///
/// let square = batch_fn(|numbers: &[u64]| numbers.iter().map(|x| x * x).collect());
/// let tasks = Tasks(tokio::runtime::Builder::new_multi_thread().build().map_err(Error::other)?);
/// let batcher = Batcher::with_driver([()], square, BatchConfig::default(), Box::new(tasks))?;
/// assert_eq!(batcher.call_blocking(12)?, 144);
/// # Ok::<(), Error>(())
/// ```
pub trait Driver<J: Job>: Send + Sync {
    /// Takes over a worker of a new batcher.
    ///
    /// # Errors
    /// The worker cannot be driven: the batcher is not created.
    fn start(&self, worker: Worker<J>) -> Result<(), Error>;

    /// The last handle of the batcher was dropped: its workers answer the admitted requests, and end.
    fn closed(&self) {}
}

/// A thread for each worker.
///
/// While a thread sleeps, a caller may run its own batch on the calling thread, because waking another thread takes
/// longer than many batches. It does so only if requests have not met lately, the batch would start at once, and it
///
/// - blocks for the answer, and the batch is expected to take less than a millisecond;
/// - or is polled by an executor, the job [allows it](Job::runs_in_polls), and the batch is expected to take less than
///   50 µs. Every 100 µs it lets the executor's other tasks run first.
///
/// If the batch is not finished then, the thread takes over. A job whose worker is bound to its thread needs
/// [`exclusive`](Threads::exclusive) threads.
///
/// Threads end by themselves; dropping a batcher does not wait for them. [`on_start`](Threads::on_start) and
/// [`on_close`](Threads::on_close) are for programs that must track them, for example because the process may not exit
/// while a device driver is in use.
pub struct Threads {
    name: String,
    on_start: Arc<dyn Fn() + Send + Sync>,
    on_close: Box<dyn Fn(JoinHandle<()>) + Send + Sync>,
    exclusive: bool,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            name: "sortie-batcher".into(),
            on_start: Arc::new(|| {}),
            on_close: Box::new(drop),
            exclusive: false,
            running: Mutex::default(),
        }
    }
}

impl Threads {
    /// Threads of this name.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Batches run on these threads only, never on a caller's.
    #[must_use]
    pub fn exclusive(self) -> Self {
        Self { exclusive: true, ..self }
    }

    /// Called on each thread when it starts.
    #[must_use]
    pub fn on_start(self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self { on_start: Arc::new(hook), ..self }
    }

    /// Called with each thread when the last handle of the batcher is dropped. The thread ends when it has answered the
    /// admitted requests.
    #[must_use]
    pub fn on_close(self, hook: impl Fn(JoinHandle<()>) + Send + Sync + 'static) -> Self {
        Self { on_close: Box::new(hook), ..self }
    }
}

impl<J: Job> Driver<J> for Threads {
    fn start(&self, mut worker: Worker<J>) -> Result<(), Error> {
        let on_start = self.on_start.clone();
        if !self.exclusive {
            worker.lend();
        }
        let thread = thread::Builder::new().name(self.name.clone()).spawn(move || {
            on_start();
            while worker.step(true) != Action::End {}
        });
        let not_started = |error| Error::internal(format!("the thread {} did not start", self.name)).with_source(error);
        self.running.lock().push(thread.map_err(not_started)?);
        Ok(())
    }

    fn closed(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        running.into_iter().for_each(&self.on_close);
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("name", &self.name).finish_non_exhaustive()
    }
}
