//! Hands the submissions of one batch to the submit queue. Each is queued as soon as it is encoded, so that the device
//! runs one while the next is encoded.
//!
//! No other batch may run between them, or it would see a half-finished batch. So the first submission reserves the
//! queue. If another batch holds the reservation, all submissions are kept until the last is encoded, then queued
//! together.

use std::{sync::Arc, time::Duration};

use sortie_plan::Cut;

use super::Last;
use crate::{
    error::Result,
    finish::{BatchReadback, Completion},
    memory::Block,
    metrics::{AtomicCounter, Counters},
    plan::Cuts,
    submit::{BatchState, DeviceQueue, Here, QueueItem, ReadySubmission, Reservation, Submission, Submitter},
};

/// The state of a batch after encoding.
pub(super) enum HandedOver<C> {
    /// The batch has nothing to do.
    Nothing,
    /// The batch is one submission, which is not queued yet.
    Ready(ReadySubmission<C>),
    /// The batch has several submissions, all queued.
    Queued,
}

impl<C> HandedOver<C> {
    /// Marks the completion as submitted and counts the batch.
    pub(super) fn report_start(&self, counters: &Counters, completion: &Completion) {
        completion.submitted();
        counters.batches.add(1);
        if let Self::Nothing = self {
            completion.finish(Ok(()));
        }
        // A batch that is still to be submitted publishes its counters when it is done.
        if !matches!(self, Self::Ready(_)) {
            counters.publish();
        }
    }

    /// Queues the batch, or submits it [here](Here). Never waits for the device.
    pub(super) fn send<Q: DeviceQueue<Commands = C>>(self, submitter: &Submitter<Q>) {
        match self {
            Self::Ready(ready) if Here::is_entered() => submitter.submit_here(ready),
            Self::Ready(ready) => submitter.push([QueueItem::Submission(ready)]),
            Self::Nothing | Self::Queued => {}
        }
    }

    /// Submits the batch and waits until it is done.
    pub(super) fn finish<Q: DeviceQueue<Commands = C>>(
        self,
        submitter: &Submitter<Q>,
        completion: &Completion,
    ) -> Result<()> {
        match self {
            Self::Ready(ready) => submitter.run(ready),
            Self::Nothing | Self::Queued => submitter.wait(completion),
        }
    }
}

/// A batch that is being encoded.
pub(super) struct HandOver<'a, Q: DeviceQueue> {
    submitter: &'a Submitter<Q>,
    cuts: &'a Cuts,
    /// Set until the first submission is queued. Its blocks are not pinned yet.
    own: Option<BatchState>,
    /// Set from then on.
    shared: Option<Arc<BatchState>>,
    reserved: Option<Reservation<'a, QueueItem<Q>, Submission, Q::WaitPoint>>,
    waiting: Vec<QueueItem<Q>>,
    /// Submissions so far.
    count: usize,
}

impl<'a, Q: DeviceQueue> HandOver<'a, Q> {
    pub(super) fn new(submitter: &'a Submitter<Q>, cuts: &'a Cuts, batch: BatchState) -> Self {
        let own = Some(batch);
        Self { submitter, cuts, own, shared: None, reserved: None, waiting: Vec::new(), count: 0 }
    }

    /// Takes a submission that is not the last one, or the error that encoding it returned.
    pub(super) fn submit_part(
        &mut self,
        commands: Result<Q::Commands>,
        blocks: impl FnOnce() -> Vec<Option<Arc<Block>>>,
    ) {
        let batch = self.batch(blocks);
        self.shared = Some(batch.clone());
        if self.count == 0 {
            batch.completion.submitted();
            self.reserved = self.submitter.reserve();
        }
        let submission = self.submission(batch, false);
        self.push(item(commands, submission));
    }

    /// Takes the last submission with its readback, or the error that encoding it returned. `Ok(None)`: the batch has
    /// nothing to do.
    pub(super) fn finish(
        mut self,
        encoded: Result<Last<Q>>,
        readback: Option<&Arc<BatchReadback>>,
        blocks: impl FnOnce() -> Vec<Option<Arc<Block>>>,
    ) -> Result<HandedOver<Q::Commands>> {
        let (commands, pending) = match encoded {
            Ok(None) => {
                self.disarm();
                return Ok(HandedOver::Nothing);
            }
            Ok(Some((commands, pending))) => (Ok(commands), pending),
            Err(error) if self.count == 0 => {
                self.disarm();
                return Err(error);
            }
            // Earlier submissions are queued already: this one fails when its turn comes, like one that the device
            // refuses.
            Err(error) => (Err(error), None),
        };
        let batch = self.batch(blocks);
        if let Some((pending, readback)) = pending.zip(readback) {
            batch.set_readback(pending, readback.clone());
        }
        count(&self.submitter.counters, self.cuts);
        let submission = self.submission(batch, true);
        match commands {
            Ok(commands) if self.count == 1 => return Ok(HandedOver::Ready(ReadySubmission { commands, submission })),
            commands => self.push(item(commands, submission)),
        }
        if !self.waiting.is_empty() {
            self.submitter.push(std::mem::take(&mut self.waiting));
        }
        if let Some(reserved) = self.reserved.take() {
            self.submitter.release(reserved);
        }
        Ok(HandedOver::Queued)
    }

    /// The state that all submissions share. The first call pins the blocks.
    fn batch(&mut self, blocks: impl FnOnce() -> Vec<Option<Arc<Block>>>) -> Arc<BatchState> {
        match (self.shared.take(), self.own.take()) {
            (Some(batch), _) => batch,
            (None, Some(mut batch)) => {
                batch.pin(blocks());
                Arc::new(batch)
            }
            (None, None) => unreachable!("disarmed only at the end"),
        }
    }

    /// The batch had no effect: dropping its state must not report it as lost.
    fn disarm(&mut self) {
        if let Some(batch) = self.own.take() {
            batch.disarm();
        }
    }

    fn submission(&mut self, batch: Arc<BatchState>, last: bool) -> Submission {
        let number = self.count;
        self.count += 1;
        let cut: Option<&Cut> = self.cuts.list.get(number);
        Submission {
            part: u32::try_from(number).unwrap_or(u32::MAX),
            section: cut.map_or(0, |cut| cut.section),
            last,
            batch,
            estimate: self.cuts.estimates.get(number).cloned(),
            native: false,
            budget: self.cuts.budget.map(Duration::from_nanos),
            submitted_at: None,
            order: 0,
        }
    }

    fn push(&mut self, item: QueueItem<Q>) {
        match &self.reserved {
            Some(reserved) => {
                reserved.push([item]);
                self.submitter.pushed();
            }
            None => self.waiting.push(item),
        }
    }
}

/// Adds the plan's figures to the counters, without looking at any op.
pub(super) fn count(counters: &Counters, cuts: &Cuts) {
    let (added, pieces) = (cuts.added(), cuts.pieces);
    counters.cuts.add(added);
    counters.pieces.add(pieces);
    counters.barriers.add(cuts.barriers);
    counters.fused_ops.add(cuts.fused_ops);
    counters.uploads.add(cuts.uploads);
    counters.reads.add(cuts.reads);
    if added > 0 {
        tracing::debug!(target: "sortie", submissions = cuts.list.len(), cuts = added, pieces, "a batch is cut");
    }
}

fn item<Q: DeviceQueue>(commands: Result<Q::Commands>, submission: Submission) -> QueueItem<Q> {
    match commands {
        Ok(commands) => QueueItem::Submission(ReadySubmission { commands, submission }),
        Err(error) => QueueItem::Failed(error, submission),
    }
}
