//! Batches that were encoded into encoders of the application.
//!
//! The submit queue does not know them. wgpu keeps the pipelines and bind groups that their commands use. This keeps
//! their blocks, so that no other batch gets the memory, and their staging buffers.
//!
//! | what the application does | result |
//! |---|---|
//! | nothing | pending |
//! | submits; the commands have run | done |
//! | drops the encoder or the command buffer | `Canceled`, no effect |
//! | submits; wgpu refuses | `Canceled`, no effect |
//! | loses or destroys the device | `DeviceLost`; what the batch writes is poisoned |
//!
//! wgpu runs callbacks only while a thread polls, so a thread polls while a batch is pending. The callbacks only set a
//! flag: they may run inside any call of the application.
//!
//! Invariant: a batch that is reported as done has returned its receipt.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock, Weak},
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{Gpu, WgpuQueue, receipt::EncodedReceipt};
use crate::{
    clock::Instant,
    error::{Error, ErrorKind, Result},
    exit::{self, Quit},
    lost::Lost,
    submit::{DeviceQueue, Submission, Submitter},
};

/// Shortest and longest interval between polls. The application may submit at any time, and wgpu does not tell when.
const INTERVALS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// How often a pending batch makes the thread check whether the device is lost.
const PROBE: Duration = Duration::from_millis(100);

pub(super) struct GuestBatches {
    gpu: Gpu,
    lost: Arc<Lost>,
    submitter: Arc<Submitter<WgpuQueue>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pending: Vec<GuestBatch>,
    /// Whether the thread runs.
    attended: bool,
    /// No more batches will come.
    closed: bool,
}

struct GuestBatch {
    submission: Submission,
    receipt: EncodedReceipt,
    fate: Arc<OnceLock<Fate>>,
}

/// What became of the commands of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Submitted, and no longer on the device. wgpu may have refused them.
    Submitted,
    /// Dropped without being submitted.
    Dropped,
}

/// Reports what became of commands. Owned by the application's encoder, then by its command buffer, then by wgpu.
struct FateReport {
    fate: Arc<OnceLock<Fate>>,
    batches: Weak<GuestBatches>,
}

impl FateReport {
    fn submitted(self) {
        self.fate.get_or_init(|| Fate::Submitted);
    }
}

impl Drop for FateReport {
    fn drop(&mut self) {
        self.fate.get_or_init(|| Fate::Dropped);
        if let Some(batches) = self.batches.upgrade() {
            batches.changed.notify_all();
        }
    }
}

/// A failed batch: its error, and whether it may have written anything.
struct Failure {
    error: Error,
    started: bool,
}

impl GuestBatches {
    pub(super) fn new(gpu: Gpu, lost: Arc<Lost>, submitter: Arc<Submitter<WgpuQueue>>) -> Self {
        Self { gpu, lost, submitter, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Starts the thread, if it does not run yet.
    pub(super) fn start(self: &Arc<Self>) -> Result<()> {
        let mut state = self.state.lock();
        if state.attended {
            return Ok(());
        }
        let batches = self.clone();
        let thread = thread::Builder::new().name("sortie-guest".into()).spawn(move || {
            exit::begin_exempt();
            batches.run();
        });
        let thread =
            thread.map_err(|error| Error::internal("the thread sortie-guest did not start").caused_by(error))?;
        state.attended = true;
        drop(state);
        let weak: Weak<Self> = Arc::downgrade(self);
        exit::register(weak, thread);
        Ok(())
    }

    /// Completes a batch once the commands in `encoder` have run or are dropped.
    pub(super) fn watch(
        self: &Arc<Self>,
        submission: Submission,
        receipt: EncodedReceipt,
        encoder: &wgpu::CommandEncoder,
    ) {
        let fate = Arc::new(OnceLock::new());
        let report = FateReport { fate: fate.clone(), batches: Arc::downgrade(self) };
        encoder.on_submitted_work_done(move || report.submitted());
        self.state.lock().pending.push(GuestBatch { submission, receipt, fate });
        self.changed.notify_all();
    }

    /// No more batches will come: the thread ends when none is pending. Never waits for it.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    fn run(&self) {
        let [shortest, longest] = INTERVALS;
        let (mut interval, mut probed) = (shortest, Instant::now());
        while self.wait_for_batches() {
            // A panic, ours or the driver's, must not end the thread: the device counts as lost instead.
            let ended = catch_unwind(AssertUnwindSafe(|| {
                if probed.elapsed() >= PROBE {
                    self.lost.probe(&self.gpu);
                    probed = Instant::now();
                }
                self.complete_ended()
            }));
            let ended = ended.unwrap_or_else(|_| {
                self.lost.set("a thread of sortie panicked; please report it");
                true
            });
            interval = if ended { shortest } else { (2 * interval).min(longest) };
            if !ended {
                self.sleep(interval);
            }
        }
    }

    /// Waits until a batch is pending. False if none will be.
    fn wait_for_batches(&self) -> bool {
        let mut state = self.state.lock();
        while state.pending.is_empty() && !state.closed {
            self.changed.wait(&mut state);
        }
        let more = !state.pending.is_empty();
        state.attended = more;
        more
    }

    /// Sleeps for `interval`, or until the fate of a batch is known.
    fn sleep(&self, interval: Duration) {
        let mut state = self.state.lock();
        if state.pending.iter().all(|batch| batch.fate.get().is_none()) {
            self.changed.wait_for(&mut state, interval);
        }
    }

    /// Completes the batches that have ended, all if the device is lost. False if there were none.
    fn complete_ended(&self) -> bool {
        if !self.lost.is_set() {
            self.lost.poll(&self.gpu, &wgpu::PollType::Poll);
        }
        let all = self.lost.is_set() || exit::exiting();
        let mut state = self.state.lock();
        let ended: Vec<_> = state.pending.extract_if(.., |batch| all || batch.has_ended()).collect();
        drop(state);
        let any = !ended.is_empty();
        for GuestBatch { mut submission, receipt, fate } in ended {
            submission.log_finished(Instant::now());
            match self.check(&submission, receipt, fate.get().copied()) {
                Ok(()) => {
                    submission.overwrite();
                    submission.complete(|| self.submitter.counters.publish())
                }
                Err(Failure { error, started }) => {
                    // It ran after everything submitted until now, as far as is known.
                    submission.order = self.submitter.next_order();
                    submission.fail(&error, started)
                }
            }
            .wake();
        }
        any
    }

    /// Whether an ended batch has succeeded.
    fn check(
        &self,
        submission: &Submission,
        receipt: EncodedReceipt,
        fate: Option<Fate>,
    ) -> std::result::Result<(), Failure> {
        let started = |error| Failure { error, started: true };
        let canceled = |message| Failure { error: Error::new(ErrorKind::Canceled, message), started: false };
        self.lost.check().map_err(started)?;
        let arrived = receipt.has_arrived();
        if !arrived {
            // A destroyed device refuses submissions too.
            self.lost.probe(&self.gpu);
            self.lost.check().map_err(started)?;
        }
        match fate {
            _ if arrived => {}
            Some(Fate::Submitted) => {
                let message = "wgpu refused the command buffer that the batch was encoded into; the application's \
                               error handler has the reason";
                return Err(canceled(message));
            }
            Some(Fate::Dropped) => {
                return Err(canceled("the encoder or command buffer of the batch was dropped before it was submitted"));
            }
            None => return Err(started(Error::new(ErrorKind::Canceled, "the process is exiting"))),
        }
        self.submitter.device.finished(submission.pending_readback()).map_err(started)?;
        self.lost.check().map_err(started)?;
        // A batch that was submitted between encoding and the application's submission may have failed.
        submission.check().map_err(started)
    }
}

impl GuestBatch {
    fn has_ended(&self) -> bool {
        match self.fate.get() {
            // Its callbacks run after those of the mappings.
            Some(Fate::Submitted) => self.receipt.is_settled(),
            Some(Fate::Dropped) => true,
            None => false,
        }
    }
}

impl Quit for GuestBatches {
    fn quit(&self) {
        self.close();
    }
}
