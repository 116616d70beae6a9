//! Requests from anywhere become batches.
//!
//! Callers put their requests into a queue and wait for an answer at a desk; one thread for each device takes batches out of the queue, has the
//! [`Job`] record them, and answers when they have landed. What flies when is the [`queue`]'s to say, and where the [`roster`]'s; the threads only do it.
//!
//! Invariants: every request is answered, once; whatever happens to a batch happens to its own requests alone, and what one of them causes to that one: what becomes of a
//! failed batch is for [`isolate`] to say. Nothing of a job's, and no waker, runs under the lock.

mod calling;
mod config;
mod fit;
mod flights;
mod front;
mod isolate;
mod job;
mod linger;
mod metrics;
mod queue;
mod replays;
mod reply;
mod requests;
mod roster;
mod rows;
mod sync;
mod widths;

use std::{
    fmt,
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;

pub use self::{
    calling::Calling,
    config::{BatchConfig, Overload, Tuning},
    front::Call,
    job::{Answers, Job},
    metrics::{BatchMetrics, Times},
    queue::Priority,
    replays::RowReplays,
    roster::Share,
    rows::Rows,
};
use self::{flights::Flights, front::Front, metrics::Figures};
use crate::{
    error::{Error, ErrorKind, Result},
    exit,
    fleet::Fleet,
};

/// Puts the requests of many callers together and runs them as batches. Cheap to clone, usable from any thread and with any executor.
///
/// [`Job`] has an example. A batcher ends when its last handle is gone, or when it is told to: what has been let in is still answered.
///
/// What it does is also published through the [`metrics`](https://docs.rs/metrics) facade, as `sortie_batcher_…` with the [job's name](Job::name) as its
/// label, by the recorder that is installed when the batcher is made.
///
/// ```
/// use std::thread;
/// use sortie::{BatchConfig, Batcher, Device, Rows};
///
/// # let halves = Rows::<f32, f32>::new([1, 1], "
/// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
/// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
/// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
/// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
/// #     }
/// # ");
/// let batcher = Batcher::new(&Device::cpu()?, halves, BatchConfig::latency())?;
/// let callers = (0..8).map(|caller| {
///     let batcher = batcher.clone();
///     thread::spawn(move || batcher.call_blocking(vec![caller as f32])) // or `batcher.call(..).await`
/// });
/// for (caller, answer) in callers.collect::<Vec<_>>().into_iter().enumerate() {
///     assert_eq!(answer.join().expect("no panic")?, [0.5 * caller as f32]);
/// }
/// assert_eq!(batcher.metrics().rows, 8);
/// # Ok::<(), sortie::Error>(())
/// ```
pub struct Batcher<J: Job> {
    handle: Arc<Handle<J>>,
}

/// Closes the batcher when the last of its clones goes.
struct Handle<J: Job> {
    job: Arc<J>,
    front: Arc<Front<J::Input, J::Output>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<J: Job> Batcher<J> {
    /// Starts one on a [device](crate::Device) or on a [fleet](Fleet) of them. A device that is lost already is reopened.
    ///
    /// # Errors
    /// What [`Job::prepare`] fails with; [`Internal`](ErrorKind::Internal) when the system starts no more threads.
    pub fn new(devices: impl Into<Fleet>, job: J, config: BatchConfig) -> Result<Self> {
        let (fleet, job) = (devices.into(), Arc::new(job));
        let devices = fleet.devices();
        let name = job.name();
        let front = Arc::new(Front::new(config, devices.len(), Figures::new(&name)));
        // Should one fail, those that have been started end with the handle.
        let batcher =
            Self { handle: Arc::new(Handle { job: job.clone(), front: front.clone(), threads: Mutex::default() }) };
        for (who, device) in devices.iter().enumerate() {
            let (device, ready) = match job.prepare(device) {
                Err(error) if *error.kind() == ErrorKind::DeviceLost => {
                    let device = device.reopen()?;
                    let ready = job.prepare(&device)?;
                    (device, ready)
                }
                ready => (device.clone(), ready?),
            };
            let flights = Flights::new(front.clone(), job.clone(), who, device, ready, name.clone());
            let thread = thread::Builder::new().name("sortie-batcher".into()).spawn(move || {
                exit::begin();
                flights.run();
            });
            let thread =
                thread.map_err(|error| Error::internal("the thread sortie-batcher did not start").caused_by(error))?;
            batcher.handle.threads.lock().push(thread);
        }
        Ok(batcher)
    }

    /// Asks for an answer. Nothing happens until it is polled; dropped before its batch flies, it takes no part in it.
    pub fn call(&self, input: J::Input) -> Calling<J> {
        self.call_with(input, Call::default())
    }

    /// As [`Batcher::call`], with a deadline or a priority.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use sortie::{BatchConfig, Batcher, Call, Device, ErrorKind, Priority, Rows};
    ///
    /// # let halves = Rows::<f32, f32>::new([1, 1], "
    /// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
    /// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    /// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    /// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
    /// #     }
    /// # ");
    /// # let batcher = Batcher::new(&Device::cpu()?, halves, BatchConfig::default())?;
    /// let urgent = Call { deadline: Some(Instant::now() + Duration::from_secs(60)), priority: Priority::High };
    /// assert_eq!(batcher.call_with(vec![3.0], urgent).wait()?, [1.5]);
    /// let late = Call { deadline: Some(Instant::now()), ..Call::default() };
    /// assert_eq!(batcher.call_with(vec![3.0], late).wait().unwrap_err().kind(), &ErrorKind::Expired);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn call_with(&self, input: J::Input, call: Call) -> Calling<J> {
        Calling::new(self.handle.clone(), input, call)
    }

    /// Asks for an answer and waits for it.
    ///
    /// # Errors
    /// [`Overloaded`](ErrorKind::Overloaded) when there is no room, or the answer would come later than the [target](Tuning::Target), and the batcher does not wait for it, [`Canceled`](ErrorKind::Canceled) when it has been
    /// closed, [`JobPanicked`](ErrorKind::JobPanicked), and whatever the job or the device fails with.
    pub fn call_blocking(&self, input: J::Input) -> Result<J::Output> {
        self.call(input).wait()
    }

    /// Lets no more requests in. Those that are in are answered.
    ///
    /// ```
    /// use sortie::{BatchConfig, Batcher, Device, ErrorKind, Rows};
    ///
    /// # let halves = Rows::<f32, f32>::new([1, 1], "
    /// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
    /// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    /// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    /// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
    /// #     }
    /// # ");
    /// # let batcher = Batcher::new(&Device::cpu()?, halves, BatchConfig::default())?;
    /// let asked = batcher.call(vec![1.0]).begin();
    /// batcher.close();
    /// assert_eq!(asked.wait()?, [0.5]); // it was in
    /// assert_eq!(batcher.call_blocking(vec![1.0]).unwrap_err().kind(), &ErrorKind::Canceled);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn close(&self) {
        self.handle.front.close(Error::new(ErrorKind::Canceled, "the batcher has been closed"));
    }

    /// What it has done so far.
    #[must_use]
    pub fn metrics(&self) -> BatchMetrics {
        self.handle.front.metrics()
    }

    /// What each of its devices has done so far, in the order of the fleet.
    ///
    /// ```
    /// use sortie::{BatchConfig, Batcher, Device, Fleet, Rows};
    ///
    /// # let halves = Rows::<f32, f32>::new([1, 1], "
    /// #     @group(0) @binding(0) var<storage, read> x: array<f32>;
    /// #     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    /// #     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    /// #         if id.x < arrayLength(&y) { y[id.x] = 0.5 * x[id.x]; }
    /// #     }
    /// # ");
    /// let fleet = Fleet::new([Device::cpu()?, Device::cpu()?])?;
    /// let batcher = Batcher::new(&fleet, halves, BatchConfig::default())?;
    /// for _ in 0..10 {
    ///     batcher.call_blocking(vec![1.0; 100])?;
    /// }
    /// let shares = batcher.shares();
    /// assert_eq!((shares.len(), shares.iter().map(|share| share.rows).sum::<u64>()), (2, 1000));
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        self.handle.front.shares()
    }

    /// Its limits.
    #[must_use]
    pub fn config(&self) -> &BatchConfig {
        &self.handle.front.config
    }
}

impl<J: Job> Clone for Batcher<J> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<J: Job> fmt::Debug for Batcher<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batcher").field("config", &self.handle.front.config).finish_non_exhaustive()
    }
}

impl<J: Job> Drop for Handle<J> {
    fn drop(&mut self) {
        self.front.close(Error::new(ErrorKind::Canceled, "the batcher is gone"));
        // They let go of their devices, which the process must not exit in the middle of.
        self.threads.lock().drain(..).for_each(exit::see_off);
    }
}

#[cfg(test)]
mod tests {
    mod reply;
}
