//! The work that a batcher runs.

use std::{fmt, future::Future, ops::Range, time::Instant};

use crate::{error::Error, isolate::Stage};

/// Work that is done for many requests at once: starts a batch, and returns a future of its answers. It can run on
/// anything: a GPU, an ONNX session, a database.
///
/// A job borrows its inputs, and the batcher keeps them until they are answered, because a batch may be started more
/// than once. If [`start`](Job::start) or the future fails or panics, or the number of answers is wrong, the batch is
/// started again in two halves, and these in halves, until the failing requests are isolated. They fail with their own
/// error, and all others are answered. `c` failing requests among `n` take at most `2 c ⌈log2 n⌉` further attempts, and
/// at most `max(n / 2, 64)` are made: a part that fails after that fails as a whole. Failures that concern all inputs
/// are not retried: see [`isolates`](Job::isolates). A job that knows which input is wrong reports it in
/// [`check`](Job::check) or in the answers, which costs no further attempt.
///
/// [`rows`](Job::rows), [`key`](Job::key), [`check`](Job::check), [`answer_immediately`](Job::answer_immediately),
/// [`split`](Job::split) and [`join`](Job::join) are called on the caller's thread. All others are called on the
/// worker's thread, or on the thread of a caller who runs its own batch: see [`Threads`](crate::Threads). None is called
/// under a lock. [`batch_fn`](crate::batch_fn) makes a job of a function.
///
/// ```
/// use std::{collections::HashMap, future::{Ready, ready}};
/// use sortie_batcher::{BatchConfig, Batcher, Error, Job};
///
/// /// Looks names up in a table: one scan for many names.
/// struct Lookup;
///
/// impl Job for Lookup {
///     type Input = String;
///     type Output = u32;
///     type Worker = HashMap<String, u32>;
///     type Answers = Vec<Result<u32, Error>>;
///     type Running = Ready<Result<Self::Answers, Error>>; // or the future of a database client
///     type Error = Error;
///
///     fn start(&self, table: &mut HashMap<String, u32>, names: &mut [String]) -> Result<Self::Running, Error> {
///         let found = |name: &String| table.get(name).copied().ok_or_else(|| Error::input("no such name"));
///         Ok(ready(Ok(names.iter().map(found).collect())))
///     }
/// }
///
/// let table = HashMap::from([("one".to_owned(), 1), ("two".to_owned(), 2)]);
/// let batcher = Batcher::new([table], Lookup, BatchConfig::default())?;
/// assert_eq!(batcher.call_blocking("two".into())?, 2);
/// assert!(batcher.call_blocking("three".into()).is_err());
/// # Ok::<(), Error>(())
/// ```
pub trait Job: Send + Sync + 'static {
    /// A request.
    type Input: Send + 'static;
    /// The answer to a request.
    type Output: Send + 'static;
    /// The state of a worker: a connection, a session, a device with its kernels.
    type Worker: Send + 'static;
    /// The answers of a batch, one per input in their order: a `Vec` of results, or anything else that yields them.
    type Answers: IntoAnswers<Self::Output, Self::Error> + Send + 'static;
    /// A running batch. Its storage is reused from batch to batch, so it costs no allocation and need not be `Unpin`.
    type Running: Future<Output = Result<Self::Answers, Self::Error>> + Send + 'static;
    /// The error of a request. Errors of the batcher convert into it.
    type Error: From<Error> + Clone + fmt::Display + Send + Sync + 'static;

    /// Its name in published metrics; by default the name of its type.
    fn name(&self) -> String {
        let name = std::any::type_name::<Self>();
        let plain = name.split('<').next().unwrap_or(name);
        plain.rsplit("::").next().unwrap_or(plain).to_owned()
    }

    /// Starts a batch. The future is polled at once, and whenever its waker is called.
    ///
    /// Only a job that cannot fail afterwards may change inputs, or take them out with [`std::mem::take`]: a failed
    /// batch is started again with the inputs as they were left.
    ///
    /// # Errors
    /// The batch is started again with fewer inputs, until the failing ones are isolated.
    fn start(&self, worker: &mut Self::Worker, inputs: &mut [Self::Input]) -> Result<Self::Running, Self::Error>;

    /// Starts a batch while nothing else is queued or in flight, and the batch is expected to take less than a
    /// millisecond: on the thread of its caller, or on the worker's. A job that passes its work to another thread saves
    /// time if it does the work here instead. By default as [`start`](Job::start).
    ///
    /// # Errors
    /// As [`start`](Job::start).
    fn start_here(&self, worker: &mut Self::Worker, inputs: &mut [Self::Input]) -> Result<Self::Running, Self::Error> {
        self.start(worker, inputs)
    }

    /// Whether batches that take less than about 50 µs may run inside an executor's poll of one of their callers. Return
    /// true only if nothing in the job blocks on an async runtime, because a runtime's own threads may not.
    ///
    /// Callers that block, such as [`call_blocking`](crate::Batcher::call_blocking), run batches in either case.
    fn runs_in_polls(&self) -> bool {
        false
    }

    /// Number of batch rows that an input takes.
    fn rows(&self, _input: &Self::Input) -> usize {
        1
    }

    /// Inputs with different keys never share a batch.
    fn key(&self, _input: &Self::Input) -> u64 {
        0
    }

    /// Checks an input. Runs on the caller's thread; only that caller gets the error.
    ///
    /// # Errors
    /// Why the input is invalid, for example [`Error::input`].
    fn check(&self, _input: &Self::Input) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The answer to a valid input that needs no worker, for example an empty one.
    fn answer_immediately(&self, _input: &Self::Input) -> Option<Self::Output> {
        None
    }

    /// Splits an input that has more rows than a batch allows. An input that is not split runs alone.
    fn split(&self, input: Self::Input, _rows: usize) -> Vec<Self::Input> {
        vec![input]
    }

    /// Joins the answers to the parts of a [split](Job::split) input, in their order.
    fn join(&self, mut parts: Vec<Self::Output>) -> Self::Output {
        parts.pop().unwrap_or_else(|| unreachable!("an input is split into parts"))
    }

    /// Whether one of the inputs may have caused a failure, so that the batch is started again in halves. Return false
    /// for failures that concern all inputs, such as a lost connection or a lack of memory: retrying would add to the
    /// load.
    fn isolates(&self, _stage: Stage, _error: &Self::Error) -> bool {
        true
    }

    /// Whether a batch failed because its worker failed. The worker then takes no batches until it has
    /// [recovered](Job::recover). Other workers continue.
    fn worker_failed(&self, _error: &Self::Error) -> bool {
        false
    }

    /// Repairs a worker that has [failed](Job::worker_failed): reopens a connection or a device. Called when no batch
    /// of the worker is in flight.
    ///
    /// # Errors
    /// The worker is given up. With the last one the batcher is closed, and its requests fail with this error.
    fn recover(&self, _worker: &mut Self::Worker, error: &Self::Error) -> Result<(), Self::Error> {
        Err(error.clone())
    }

    /// Makes a worker usable after the job has panicked, which may have left it inconsistent. Called before the next
    /// batch.
    ///
    /// # Errors
    /// That batch fails with it.
    fn reset(&self, _worker: &mut Self::Worker) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Whether to call [`trace_waits`](Job::trace_waits) and [`trace_batch`](Job::trace_batch).
    fn is_traced(&self, _worker: &Self::Worker) -> bool {
        false
    }

    /// Called when a batch starts, with the time that each of its requests was queued.
    fn trace_waits(&self, _worker: &Self::Worker, _waits: &mut dyn Iterator<Item = Range<Instant>>) {}

    /// Called when a batch of `rows` rows has finished, with its time.
    fn trace_batch(&self, _worker: &Self::Worker, _ran: Range<Instant>, _rows: usize) {}
}

/// The answers of a batch, one per input in their order. Implemented for everything that can be iterated over.
pub trait IntoAnswers<O, E> {
    /// Appends the answers. Called on the worker's thread, outside all locks.
    ///
    /// # Errors
    /// The batch has failed ([`Stage::Answers`]).
    fn append_to(self, answers: &mut Vec<Result<O, E>>) -> Result<(), E>;
}

impl<O, E, T: IntoIterator<Item = Result<O, E>>> IntoAnswers<O, E> for T {
    fn append_to(self, answers: &mut Vec<Result<O, E>>) -> Result<(), E> {
        answers.extend(self);
        Ok(())
    }
}
