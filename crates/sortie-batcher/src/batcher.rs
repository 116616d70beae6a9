//! The handle that callers clone.

use std::{fmt, sync::Arc};

use crate::{
    config::BatchConfig,
    driver::{Driver, Threads},
    error::{Error, ErrorKind},
    handle::Handle,
    job::Job,
    metrics::{BatchMetrics, LiveMetrics},
    response::{CallOptions, ResponseFuture},
    scheduler::WorkerMetrics,
    state::{BatcherState, ReplyOf},
    worker::Worker,
};

/// Puts the requests of many callers together and runs them as batches. Cheap to clone, usable from any thread and with any executor.
///
/// A batcher closes when its last handle is dropped, or when it is told to: what was admitted is still answered.
///
/// What it does is also published through the [`metrics`](https://docs.rs/metrics) facade, as `sortie_batcher_…` with the [job's name](Job::name) as its
/// label, by the recorder that is installed when the batcher is made.
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

/// What becomes the workers of a batcher for something that can be run on them: a list of [`Job::Worker`]s for a [`Job`]; in `sortie`, devices for a job that records batches.
pub trait IntoWorkers<T>: Sized {
    /// What the batcher runs.
    type Job: Job;

    /// Makes the job, and what each worker keeps.
    ///
    /// # Errors
    /// The batcher is not made.
    #[expect(clippy::type_complexity, reason = "one list and one job")]
    fn into_workers(self, job: T) -> Result<(Vec<<Self::Job as Job>::Worker>, Self::Job), Error>;

    /// What drives the workers: a thread for each, unless it says otherwise.
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
    /// Starts a batcher on these workers, with the driver that they come with: a thread for each.
    ///
    /// # Errors
    /// What [`IntoWorkers::into_workers`] fails with; [`Input`](ErrorKind::Input) without any workers; [`Internal`](ErrorKind::Internal) when the system starts no more threads.
    pub fn new<W, T>(workers: W, job: T, config: BatchConfig) -> Result<Self, J::Error>
    where
        W: IntoWorkers<T, Job = J>,
    {
        let driver = workers.driver();
        Self::with_driver(workers, job, config, driver)
    }

    /// Starts a batcher whose workers are driven by this.
    ///
    /// # Errors
    /// As [`Batcher::new`], and what [`Driver::start`] fails with.
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
            // Should one fail, those that have been started end with the handle.
            workers.into_iter().try_for_each(|worker| driver.start(worker))?;
        }
        Ok(batcher)
    }

    /// Makes a batcher whose workers the caller drives, with [`Worker::step`]: on a thread of its own, or on none.
    ///
    /// A worker that is dropped fails the requests that it has. With the last one the batcher is closed.
    ///
    /// # Errors
    /// What [`IntoWorkers::into_workers`] fails with; [`Input`](ErrorKind::Input) without any workers.
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
        let handle = Handle { job, state: Arc::new(state), driver };
        let worker = |(index, own)| Worker::new(handle.state.clone(), handle.job.clone(), index, own);
        let workers = workers.into_iter().enumerate().map(worker).collect();
        Ok((Self { handle: Arc::new(handle) }, workers))
    }

    /// A request. Nothing happens until the future is polled; dropped before its batch starts, it takes no part in it.
    pub fn call(&self, input: J::Input) -> ResponseFuture<J> {
        self.call_with(input, CallOptions::default())
    }

    /// As [`Batcher::call`], with a deadline or a priority.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use sortie_batcher::{BatchConfig, Batcher, CallOptions, ErrorKind, Priority, batch_fn};
    ///
    /// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
    /// let batcher = Batcher::new([()], halve, BatchConfig::default())?;
    /// let urgent = CallOptions { deadline: Some(Instant::now() + Duration::from_secs(60)), priority: Priority::High };
    /// assert_eq!(batcher.call_with(3.0, urgent).wait()?, 1.5);
    /// let late = CallOptions { deadline: Some(Instant::now()), ..CallOptions::default() };
    /// assert_eq!(batcher.call_with(3.0, late).wait().unwrap_err().kind(), ErrorKind::Expired);
    /// # Ok::<(), sortie_batcher::Error>(())
    /// ```
    pub fn call_with(&self, input: J::Input, options: CallOptions) -> ResponseFuture<J> {
        ResponseFuture::new(self.handle.clone(), input, options)
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// [`Overloaded`](ErrorKind::Overloaded) when there is no room, or the answer would come later than the [target](crate::BatchSizing::Target), and requests are rejected then;
    /// [`Canceled`](ErrorKind::Canceled) when the batcher has been closed; [`JobPanicked`](ErrorKind::JobPanicked); and whatever the job fails with.
    pub fn call_blocking(&self, input: J::Input) -> ReplyOf<J> {
        self.call(input).wait()
    }

    /// Admits no more requests. Those that were admitted are answered.
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

    /// What it has done so far.
    #[must_use]
    pub fn metrics(&self) -> BatchMetrics {
        self.handle.state.metrics()
    }

    /// What each of its workers has done so far, in their order.
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
