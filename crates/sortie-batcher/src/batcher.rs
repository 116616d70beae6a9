//! The handle that callers clone.

use std::{fmt, sync::Arc};

use crate::{
    call::RequestFuture,
    config::BatchConfig,
    driver::{Driver, Threads},
    error::{Error, ErrorKind},
    handle::Handle,
    job::Job,
    metrics::{BatchMetrics, LiveMetrics},
    parked::Parked,
    scheduler::WorkerMetrics,
    state::{BatcherState, ReplyOf},
    worker::Worker,
};

/// Collects the requests of many callers and runs them as batches. Cheap to clone, usable from any thread and with any
/// executor.
///
/// A batcher closes when its last handle is dropped, or by [`close`](Batcher::close). Admitted requests are still
/// answered.
///
/// Its metrics are also published through the [`metrics`](https://docs.rs/metrics) facade, as `sortie_batcher_…` with
/// the [job's name](Job::name) as a label, to the recorder installed when the batcher is created.
///
/// ```
/// use std::thread;
/// use sortie_batcher::{BatchConfig, Batcher, batch_fn};
///
/// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
/// let batcher = Batcher::new([()], halve, BatchConfig::latency())?;
/// let callers = (0..8).map(|caller| {
///     let batcher = batcher.clone();
///     thread::spawn(move || batcher.call_blocking(caller as f32)) // or `batcher.call(..).await`
/// });
/// for (caller, answer) in callers.collect::<Vec<_>>().into_iter().enumerate() {
///     assert_eq!(answer.join().expect("no panic")?, 0.5 * caller as f32);
/// }
/// assert_eq!(batcher.metrics().rows, 8);
/// # Ok::<(), sortie_batcher::Error>(())
/// ```
pub struct Batcher<J: Job> {
    handle: Arc<Handle<J>>,
}

/// Converts into the workers of a batcher: a list of [`Job::Worker`]s for a [`Job`]; in `sortie`, devices for a job
/// that records batches.
pub trait IntoWorkers<T>: Sized {
    /// The job that the batcher runs.
    type Job: Job;

    /// Creates the job, and the state of each worker.
    ///
    /// # Errors
    /// The batcher is not created.
    #[expect(clippy::type_complexity, reason = "one list and one job")]
    fn into_workers(self, job: T) -> Result<(Vec<<Self::Job as Job>::Worker>, Self::Job), Error>;

    /// The driver of the workers: by default a thread for each.
    fn driver(&self) -> Box<dyn Driver<Self::Job>> {
        Box::new(Threads::default())
    }
}

impl<J: Job> IntoWorkers<J> for Vec<J::Worker> {
    type Job = J;

    fn into_workers(self, job: J) -> Result<(Vec<J::Worker>, J), Error> {
        Ok((self, job))
    }
}

impl<J: Job, const N: usize> IntoWorkers<J> for [J::Worker; N] {
    type Job = J;

    fn into_workers(self, job: J) -> Result<(Vec<J::Worker>, J), Error> {
        Ok((self.into(), job))
    }
}

impl<J: Job> Batcher<J> {
    /// Starts a batcher on these workers, with their default driver: a thread for each.
    ///
    /// # Errors
    /// Errors of [`IntoWorkers::into_workers`]; [`Input`](ErrorKind::Input) if there are no workers;
    /// [`Internal`](ErrorKind::Internal) if the system cannot start more threads.
    pub fn new<W, T>(workers: W, job: T, config: BatchConfig) -> Result<Self, J::Error>
    where
        W: IntoWorkers<T, Job = J>,
    {
        let driver = workers.driver();
        Self::with_driver(workers, job, config, driver)
    }

    /// Starts a batcher with this driver.
    ///
    /// # Errors
    /// As [`Batcher::new`], and errors of [`Driver::start`].
    pub fn with_driver<W, T>(
        workers: W,
        job: T,
        config: BatchConfig,
        driver: Box<dyn Driver<J>>,
    ) -> Result<Self, J::Error>
    where
        W: IntoWorkers<T, Job = J>,
    {
        let (batcher, workers) = Self::make(workers, job, config, Some(driver))?;
        if let Some(driver) = &batcher.handle.driver {
            // If one fails, those already started end with the handle.
            workers.into_iter().try_for_each(|worker| driver.start(worker))?;
        }
        Ok(batcher)
    }

    /// Creates a batcher whose workers the caller drives with [`Worker::step`], on any thread.
    ///
    /// Dropping a worker fails its requests. Dropping the last one closes the batcher.
    ///
    /// # Errors
    /// Errors of [`IntoWorkers::into_workers`]; [`Input`](ErrorKind::Input) if there are no workers.
    pub fn without_driver<W, T>(workers: W, job: T, config: BatchConfig) -> Result<(Self, Vec<Worker<J>>), J::Error>
    where
        W: IntoWorkers<T, Job = J>,
    {
        Self::make(workers, job, config, None)
    }

    fn make<W, T>(
        workers: W,
        job: T,
        config: BatchConfig,
        driver: Option<Box<dyn Driver<J>>>,
    ) -> Result<(Self, Vec<Worker<J>>), J::Error>
    where
        W: IntoWorkers<T, Job = J>,
    {
        let (workers, job) = workers.into_workers(job)?;
        if workers.is_empty() {
            return Err(Error::new(ErrorKind::Input, "a batcher without workers").into());
        }
        let metrics = LiveMetrics::new(&job.name());
        let job = Arc::new(job);
        let state = BatcherState::new(config, workers.len(), metrics, |error| Err(error.into()));
        let parked = Arc::new(Parked::new(workers.len()));
        let handle = Handle { job, state: Arc::new(state), parked, driver };
        let worker =
            |(index, own)| Worker::new(handle.state.clone(), handle.job.clone(), handle.parked.clone(), index, own);
        let workers = workers.into_iter().enumerate().map(worker).collect();
        Ok((Self { handle: Arc::new(handle) }, workers))
    }

    /// Creates a request. It is sent when the future is first polled; until then its deadline and priority can be set. A
    /// request that is dropped before its batch starts is left out.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sortie_batcher::{BatchConfig, Batcher, Priority, batch_fn};
    ///
    /// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
    /// let batcher = Batcher::new([()], halve, BatchConfig::default())?;
    /// # tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async {
    /// assert_eq!(batcher.call(1.0).await?, 0.5);
    /// let urgent = batcher.call(3.0).within(Duration::from_secs(60)).priority(Priority::High);
    /// assert_eq!(urgent.await?, 1.5);
    /// # Ok::<(), sortie_batcher::Error>(())
    /// # })?;
    /// # Ok::<(), sortie_batcher::Error>(())
    /// ```
    pub fn call(&self, input: J::Input) -> RequestFuture<J> {
        RequestFuture::new(self.handle.clone(), input)
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// [`Overloaded`](ErrorKind::Overloaded) if requests are rejected and the queue is full, or the answer would exceed
    /// the [target](crate::BatchSizing::Target); [`Canceled`](ErrorKind::Canceled) if the batcher is closed;
    /// [`JobPanicked`](ErrorKind::JobPanicked); and errors of the job.
    pub fn call_blocking(&self, input: J::Input) -> ReplyOf<J> {
        self.call(input).wait()
    }

    /// Admits no more requests. Admitted requests are answered.
    ///
    /// ```
    /// use sortie_batcher::{BatchConfig, Batcher, ErrorKind, batch_fn};
    ///
    /// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
    /// let batcher = Batcher::new([()], halve, BatchConfig::default())?;
    /// let response = batcher.call(1.0).send();
    /// batcher.close();
    /// assert_eq!(response.wait()?, 0.5); // it was admitted
    /// assert_eq!(batcher.call_blocking(1.0).unwrap_err().kind(), ErrorKind::Canceled);
    /// # Ok::<(), sortie_batcher::Error>(())
    /// ```
    pub fn close(&self) {
        self.handle.state.close(Error::new(ErrorKind::Canceled, "the batcher has been closed"));
    }

    /// Why no more requests are admitted: it was closed, or its last worker has failed. `None` while it is open.
    ///
    /// ```
    /// use sortie_batcher::{BatchConfig, Batcher, batch_fn};
    ///
    /// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
    /// let batcher = Batcher::new([()], halve, BatchConfig::default())?;
    /// assert!(batcher.closed().is_none());
    /// batcher.close();
    /// assert_eq!(batcher.closed().expect("an error").to_string(), "the batcher has been closed");
    /// # Ok::<(), sortie_batcher::Error>(())
    /// ```
    #[must_use]
    pub fn closed(&self) -> Option<J::Error> {
        self.handle.state.closed().and_then(Result::err)
    }

    /// A snapshot of its metrics.
    #[must_use]
    pub fn metrics(&self) -> BatchMetrics {
        self.handle.state.metrics()
    }

    /// The metrics of each of its workers, in their order.
    ///
    /// ```
    /// use sortie_batcher::{BatchConfig, Batcher, batch_fn};
    ///
    /// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
    /// let batcher = Batcher::new([(), ()], halve, BatchConfig::default())?;
    /// for _ in 0..10 {
    ///     batcher.call_blocking(1.0)?;
    /// }
    /// let workers = batcher.worker_metrics();
    /// assert_eq!((workers.len(), workers.iter().map(|worker| worker.rows).sum::<u64>()), (2, 10));
    /// # Ok::<(), sortie_batcher::Error>(())
    /// ```
    #[must_use]
    pub fn worker_metrics(&self) -> Vec<WorkerMetrics> {
        self.handle.state.worker_metrics()
    }

    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &BatchConfig {
        &self.handle.state.config
    }
}

impl<J: Job> Clone for Batcher<J> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<J: Job> fmt::Debug for Batcher<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("config", self.config()).finish_non_exhaustive()
    }
}
