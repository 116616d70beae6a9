//! A device's queue, as the submitter sees it: it takes commands and writes in order, and says when submissions are done.
//!
//! Each backend implements it once. What commands are, and how the device is waited for, is the backend's own; order, bounds, poison and
//! completion are the [`Submitter`](super::Submitter)'s. Unless stated otherwise the caller has the turn, so one call is made at a time.

use std::{fmt, sync::Arc, time::Duration};

use super::submission::BatchState;
use crate::{
    clock::{Instant, Moment},
    error::{Error, Result},
    finish::PendingReadback,
};

pub(crate) trait DeviceQueue: fmt::Debug + Send + Sync + 'static {
    /// One submission, ready to go.
    type Commands: fmt::Debug + Send;
    /// One write outside of batches.
    type Write: fmt::Debug + Send;
    /// What a submission in flight is waited for by.
    type WaitPoint: fmt::Debug + Clone + Send;

    /// Hands commands to the device, or runs them, and counts the submission. `batch` is alive until the submission is done.
    fn submit(
        &self,
        commands: Self::Commands,
        batch: &Arc<BatchState>,
    ) -> std::result::Result<Submitted<Self::WaitPoint>, Refused>;

    /// Makes a write. All later submissions see it.
    fn write(&self, write: Self::Write) -> Result<()>;

    /// Hands over writes that would wait for the next submission.
    fn flush(&self) {}

    /// Waits until the device has taken the oldest write that it has not, but no longer than about `at_most`. False when it has taken all of them. Needs no turn.
    fn wait_for_write(&self, _at_most: Duration) -> bool {
        false
    }

    /// Forgets writes that the device has taken. Needs no turn.
    fn reap(&self) {}

    /// Waits until a submission is done, but no longer than about `at_most`. Needs no turn.
    fn wait(&self, point: &Self::WaitPoint, at_most: Duration) -> Waited;

    /// A submission in flight is done. Waits until what its batch reads back, if it is the last one, can be read. Needs no turn.
    fn finished(&self, readback: Option<&dyn PendingReadback>) -> Result<()>;

    /// The device is lost, and may still use what a submission in flight holds. Needs no turn.
    fn retain(&self, point: Self::WaitPoint, batch: &Arc<BatchState>);

    /// The process exits: cancels what can be canceled. Needs no turn.
    fn quit(&self) {}
}

/// What has become of commands that the device took.
#[derive(Debug)]
pub(crate) enum Submitted<W> {
    /// They are under way.
    InFlight {
        point: W,
        /// When they were submitted.
        at: Moment,
        /// Their pipelines are a replay's own, not those of its kernels.
        native: bool,
    },
    /// They have run, well or not.
    Done { begin: Instant, outcome: Result<()> },
}

/// Why commands were not taken.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) error: Error,
    /// They may have written something nevertheless.
    pub(crate) started: bool,
}

/// When a submission was seen to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at: Instant,
    /// A thread was waiting for it when it happened.
    pub(crate) on_time: bool,
}

/// What a wait has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Done(Seen),
    Pending,
    /// The device never got the submission.
    Dropped,
}
