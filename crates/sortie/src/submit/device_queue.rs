//! A device's queue, as the submitter uses it: it takes commands and writes in order and reports finished submissions.
//!
//! Each backend implements it once. The backend defines the commands and how to wait for the device. The
//! [`Submitter`](super::Submitter) handles order, bounds, poison and completion. Unless stated otherwise the caller has
//! the turn, so one call is made at a time.

use std::{sync::Arc, time::Duration};

use super::submission::BatchState;
use crate::{
    clock::{Instant, Moment},
    error::{Error, Result},
    finish::PendingReadback,
};

pub(crate) trait DeviceQueue: Send + Sync + 'static {
    /// The commands of one submission.
    type Commands: Send;
    /// One write outside batches.
    type Write: Send;
    /// Identifies a submission in flight to wait for.
    type WaitPoint: Clone + Send;

    /// Hands commands to the device, or runs them, and counts the submission. `batch` stays alive until the submission
    /// is done.
    fn submit(
        &self,
        commands: Self::Commands,
        batch: &Arc<BatchState>,
    ) -> std::result::Result<Submitted<Self::WaitPoint>, Refused>;

    /// Performs a write. All later submissions see it.
    fn write(&self, write: Self::Write) -> Result<()>;

    /// Submits writes that would otherwise wait for the next submission.
    fn flush(&self) {}

    /// Waits until the device has executed the oldest pending write, at most about `at_most`. False if no write is
    /// pending. Needs no turn.
    fn wait_for_write(&self, _at_most: Duration) -> bool {
        false
    }

    /// Releases the data of writes that the device has executed. Needs no turn.
    fn reap(&self) {}

    /// Waits until a submission is done, at most about `at_most`. Needs no turn.
    fn wait(&self, point: &Self::WaitPoint, at_most: Duration) -> Waited;

    /// Called when a submission is done. If it is the last of its batch, waits until the readback is mapped. Needs no
    /// turn.
    fn finished(&self, readback: Option<&dyn PendingReadback>) -> Result<()>;

    /// Keeps the resources of a submission alive: the device is lost and may still use them. Needs no turn.
    fn retain(&self, point: Self::WaitPoint, batch: &Arc<BatchState>);

    /// The process exits: cancels running work where the backend can. Needs no turn.
    fn quit(&self) {}
}

/// The state of commands that the device accepted.
#[derive(Debug)]
pub(crate) enum Submitted<W> {
    /// They run asynchronously.
    InFlight {
        point: W,
        /// When they were submitted.
        at: Moment,
        /// They use a replay's own pipelines, not those of its kernels.
        native: bool,
    },
    /// They have run, successfully or not.
    Done { begin: Instant, outcome: Result<()> },
}

/// The device did not accept the commands.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: Error,
    /// They may have written something all the same.
    pub(crate) started: bool,
}

/// When a submission was seen to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// A thread was waiting for the submission at that moment.
    pub(crate) on_time: bool,
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Done(Seen),
    Pending,
    /// The device never got the submission.
    Dropped,
}
