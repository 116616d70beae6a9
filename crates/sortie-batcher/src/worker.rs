//! One worker of a batcher, as its driver sees it.
//!
//! A worker has no thread of its own. The caller of [`Worker::step`] drives it: a thread of a
//! [`Driver`](crate::Driver), or the user's. While it sleeps, its core can be [parked](Parked) for callers.

use std::{fmt, sync::Arc};

use crate::{
    job::Job,
    parked::Parked,
    state::{Action, StateOf},
    worker_core::WorkerCore,
};

/// One worker of a batcher. [`Batcher::without_driver`](crate::Batcher::without_driver) returns it to the caller.
///
/// ```
/// use sortie_batcher::{Action, BatchConfig, Batcher, batch_fn};
///
/// // No thread at all: the caller runs the batch.
/// let double = batch_fn(|numbers: &[u32]| numbers.iter().map(|x| 2 * x).collect());
/// let (batcher, mut workers) = Batcher::without_driver([()], double, BatchConfig::default())?;
/// let (a, b) = (batcher.call(1).send(), batcher.call(2).send());
/// while !matches!(workers[0].step(false), Action::Wait(_)) {}
/// assert_eq!((a.wait()?, b.wait()?), (2, 4));
/// assert_eq!(batcher.metrics().batches, 1);
/// # Ok::<(), sortie_batcher::Error>(())
/// ```
pub struct Worker<J: Job> {
    state: Arc<StateOf<J>>,
    index: usize,
    /// `None` only while it sleeps: then it is in `parked`.
    core: Option<Box<WorkerCore<J>>>,
    parked: Arc<Parked<J>>,
    /// Whether callers may run batches while it sleeps.
    lends: bool,
}

impl<J: Job> Worker<J> {
    pub(crate) fn new(
        state: Arc<StateOf<J>>,
        job: Arc<J>,
        parked: Arc<Parked<J>>,
        index: usize,
        own: J::Worker,
    ) -> Self {
        let core = Box::new(WorkerCore::new(state.clone(), job, index, own));
        Self { state, index, core: Some(core), parked, lends: false }
    }

    /// From now on callers may run batches of this worker while it sleeps in [`step`](Worker::step). See
    /// [`Threads`](crate::Threads) for when they do.
    ///
    /// ```
    /// use std::thread;
    /// use sortie_batcher::{Action, BatchConfig, Batcher, batch_fn};
    ///
    /// let double = batch_fn(|numbers: &[u32]| numbers.iter().map(|x| 2 * x).collect());
    /// let (batcher, mut workers) = Batcher::without_driver([()], double, BatchConfig::default())?;
    /// workers[0].lend();
    /// let thread = thread::spawn(move || while workers[0].step(true) != Action::End {});
    /// assert_eq!(batcher.call_blocking(21)?, 42); // on this thread, if the other one slept
    /// # batcher.close();
    /// # thread.join().expect("no panic");
    /// # Ok::<(), sortie_batcher::Error>(())
    /// ```
    pub fn lend(&mut self) {
        self.lends = true;
    }

    /// Performs the next action. If there is none, it sleeps until there is one if `wait` is set, otherwise it returns
    /// [`Action::Wait`]. Calls the job's methods, and may take as long as they do.
    ///
    /// After [`Action::End`] there is nothing more to do.
    pub fn step(&mut self, wait: bool) -> Action {
        loop {
            let Some(core) = &mut self.core else { unreachable!("it is not asleep") };
            let action = core.step(wait);
            if !wait || !matches!(action, Action::Wait(_)) {
                return action;
            }
            if self.lends {
                self.parked.put(self.index, self.core.take());
            }
            self.state.sleep(self.index, self.lends);
            if self.lends {
                self.core = self.parked.take(self.index);
            }
        }
    }
}

impl<J: Job> fmt::Debug for Worker<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("index", &self.index).field("lends", &self.lends).finish_non_exhaustive()
    }
}
