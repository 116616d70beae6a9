//! Waits for the completion of one submission.
//!
//! On Vulkan a submission signals a value of the device's [`Timeline`], which is waited for in slices. On other
//! backends wgpu calls back from within `poll`, which is called at intervals. Either way wgpu must confirm it: once a
//! submission seems done, wgpu is asked to wait for it without a limit, which then takes no time and runs its
//! callbacks.
//!
//! wgpu's `poll` is never given a timeout: see [`Timeline`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{DriverLost, Gpu, PollOutcome, Signal, Timeline};
use crate::{
    clock::Instant,
    lost::Lost,
    submit::{Seen, Waited},
};

/// Shortest and longest interval between polls of a device that cannot be waited for in slices. Intervals start short,
/// because most submissions are.
const INTERVALS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// A completion counts as seen on time if it is seen this soon after the last check that did not find it, or after the
/// submission. GL drivers run a submission before they return. A check may take long: on GL it waits for a thread that
/// submits.
const PROMPT: Duration = Duration::from_millis(3);

/// Identifies one submission to wait for.
#[derive(Clone, Debug)]
pub(crate) struct WaitPoint {
    /// Unique.
    id: u64,
    /// The timeline value that it signals.
    value: Option<u64>,
    /// wgpu's callback, if the timeline is not enough: there is none, or others use the queue too.
    done: Option<Arc<Signal>>,
    /// Set for a submission through wgpu.
    index: Option<wgpu::SubmissionIndex>,
    /// When it was submitted; set if there is no timeline.
    submitted: Option<Instant>,
}

impl WaitPoint {
    /// Submits commands through wgpu. `None` if wgpu dropped them because the device was destroyed. The caller has the
    /// turn of the submit queue.
    pub(super) fn submit(
        queue: &wgpu::Queue,
        timeline: Option<&Timeline>,
        shared: bool,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
    ) -> Option<Self> {
        let value = timeline.map(|timeline| timeline.attach(queue));
        let index = queue.submit(commands);
        if timeline.is_some_and(|timeline| timeline.detach(queue)) {
            return None;
        }
        let done = (shared || value.is_none()).then(|| {
            let (done, guard) = Signal::new();
            queue.on_submitted_work_done(move || guard.set(true));
            done
        });
        let submitted = value.is_none().then(Instant::now);
        Some(Self { id: next_id(), value, done, index: Some(index), submitted })
    }

    /// The wait point of a direct submission.
    pub(super) fn direct(value: u64) -> Self {
        Self { id: next_id(), value: Some(value), done: None, index: None, submitted: None }
    }

    /// Waits until the submission is done, at most about `limit`.
    pub(super) fn wait(&self, gpu: &Gpu, timeline: Option<&Timeline>, lost: &Lost, limit: Duration) -> Waited {
        let seen = match (self.value, timeline) {
            (Some(value), Some(timeline)) => watch(timeline, value, limit).unwrap_or_else(|_| {
                lost.set_by_driver();
                // A driver that has lost its device no longer uses anything.
                Some(Seen { at: Instant::now(), on_time: false })
            }),
            _ => self.poll_until(gpu, lost, limit),
        };
        let Some(seen) = seen else { return Waited::Pending };
        match &self.index {
            Some(_) if lost.by_driver() => Waited::Done(seen),
            Some(index) => {
                match lost.poll(gpu, &wgpu::PollType::Wait { submission_index: Some(index.clone()), timeout: None }) {
                    // On a queue that others use too, it may be done only now.
                    PollOutcome::Done if self.done.is_some() => Waited::Done(Seen { at: Instant::now(), ..seen }),
                    PollOutcome::Done => Waited::Done(seen),
                    PollOutcome::Dropped => Waited::Dropped,
                    PollOutcome::Failed => Waited::Pending,
                }
            }
            None => Waited::Done(seen),
        }
    }

    /// Whether the driver has finished the submission, within `limit`. The device may be lost.
    pub(super) fn is_over(&self, gpu: &Gpu, timeline: Option<&Timeline>, lost: &Lost, limit: Duration) -> bool {
        let reached = match (self.value, timeline) {
            (Some(value), Some(timeline)) => timeline.wait(value, limit).unwrap_or(true),
            _ => true,
        };
        let Some(done) = self.done.as_ref().filter(|_| reached && !lost.by_driver()) else { return reached };
        lost.poll(gpu, &wgpu::PollType::Poll);
        done.get().is_some()
    }

    fn poll_until(&self, gpu: &Gpu, lost: &Lost, limit: Duration) -> Option<Seen> {
        let begin = Instant::now();
        // When it was last known to be pending.
        let mut pending = self.submitted;
        let seen = |pending: Option<Instant>| {
            let at = Instant::now();
            Some(Seen { at, on_time: pending.is_some_and(|pending| at < pending + PROMPT) })
        };
        let Some(done) = &self.done else { return seen(pending) };
        let [mut interval, longest] = INTERVALS;
        loop {
            let look = Instant::now();
            lost.poll(gpu, &wgpu::PollType::Poll);
            if done.get().is_some() {
                return seen(pending);
            }
            if begin.elapsed() >= limit || lost.check().is_err() {
                return None;
            }
            pending = Some(look);
            done.wait(interval);
            interval = (2 * interval).min(longest);
        }
    }
}

/// Waits for a value. If it is reached at the first check, it may have been reached long ago.
fn watch(timeline: &Timeline, value: u64, limit: Duration) -> Result<Option<Seen>, DriverLost> {
    let found = timeline.wait(value, Duration::ZERO)?;
    let reached = found || timeline.wait(value, limit)?;
    Ok(reached.then(|| Seen { at: Instant::now(), on_time: !found }))
}

impl PartialEq for WaitPoint {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
