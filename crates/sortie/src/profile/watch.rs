//! Watchers of a device: they receive the profile of every batch.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use super::Profile;
use crate::{
    clock::Instant,
    error::{Error, Result},
    exit::{begin, register_ending},
};

/// Bound on the queued messages of a watcher. Senders never block: messages beyond it are only counted.
const MAX_QUEUED: usize = 4096;

/// What a watcher receives.
pub(super) enum WatchEvent {
    Batch(Profile),
    TraceNote(TraceNote),
    /// The watch has ended; the number of messages that were dropped.
    End(u64),
}

/// A trace event that is not a batch: one name, several time ranges.
#[derive(Clone, Debug)]
pub(super) struct TraceNote {
    pub(super) category: &'static str,
    pub(super) name: String,
    pub(super) times: Vec<Range<Instant>>,
    /// Unit and number of the items it was about.
    pub(super) count: Option<(&'static str, u64)>,
}

enum Message {
    /// The watcher's thread computes the profile.
    Batch(Arc<dyn Fn() -> Profile + Send + Sync>),
    TraceNote(TraceNote),
}

/// The sending side of one watcher.
#[derive(Clone, derive_more::Debug)]
#[debug("Watcher")]
pub(crate) struct Watcher {
    to: SyncSender<Message>,
    missed: Arc<AtomicU64>,
}

/// The watchers of a batch.
pub(crate) type WatcherList = SmallVec<[Watcher; 1]>;

/// The watchers of a device.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    on: AtomicBool,
    watchers: Mutex<Vec<(u64, Watcher)>>,
}

impl Watchers {
    /// Whether the device is watched. Costs one load.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// The watchers that receive a batch about to be submitted.
    pub(crate) fn watchers(&self) -> WatcherList {
        self.watchers.lock().iter().map(|(_, watcher)| watcher.clone()).collect()
    }

    /// Sends the watchers a trace event that is not a batch.
    pub(crate) fn note(
        &self,
        category: &'static str,
        name: &str,
        times: Vec<Range<Instant>>,
        count: Option<(&'static str, u64)>,
    ) {
        let note = TraceNote { category, name: name.into(), times, count };
        self.watchers().iter().for_each(|watcher| watcher.send(Message::TraceNote(note.clone())));
    }

    /// Calls `tell` with every event from now on, on its own thread, until the watch is dropped.
    pub(super) fn watch(self: &Arc<Self>, mut tell: impl FnMut(WatchEvent) + Send + 'static) -> Result<Watch> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (to, messages) = mpsc::sync_channel(MAX_QUEUED);
        let (missed, broken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let watcher = Watcher { to, missed: missed.clone() };
        let (counted, broke) = (missed.clone(), broken.clone());
        let spawned = thread::Builder::new().name("sortie-watch".into()).spawn(move || {
            begin();
            // `tell` is foreign code: if it panics, it gets one last call, with `End`.
            let mut told = |watched: WatchEvent| catch_unwind(AssertUnwindSafe(|| tell(watched)));
            // Ends when the watch and all batches submitted under it are dropped.
            for message in messages {
                let watched = match message {
                    Message::Batch(profile) => match catch_unwind(AssertUnwindSafe(|| profile())) {
                        Ok(profile) => WatchEvent::Batch(profile),
                        // A panic in our own code costs one batch.
                        Err(_) => {
                            counted.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                    },
                    Message::TraceNote(note) => WatchEvent::TraceNote(note),
                };
                if told(watched).is_err() {
                    broke.store(true, Ordering::Relaxed);
                    break;
                }
            }
            if told(WatchEvent::End(counted.load(Ordering::Relaxed))).is_err() {
                broke.store(true, Ordering::Relaxed);
            }
        });
        let thread =
            spawned.map_err(|error| Error::internal("the thread sortie-watch did not start").caused_by(error))?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.watchers.lock().push((id, watcher));
        self.on.store(true, Ordering::Relaxed);
        Ok(Watch { notes: self.clone(), id, missed, broken, thread: Some(thread) })
    }
}

impl Watcher {
    /// Sends a completed batch. Its profile is computed later.
    pub(crate) fn notify(&self, profile: Arc<dyn Fn() -> Profile + Send + Sync>) {
        self.send(Message::Batch(profile));
    }

    fn send(&self, message: Message) {
        // A disconnected watcher is ignored.
        if let Err(TrySendError::Full(_)) = self.to.try_send(message) {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Keeps a device watched, from [`Device::watch`](crate::Device::watch). It does not keep the device open.
///
/// Dropping it also ends the watch once the batches in flight have completed and been delivered, but without waiting
/// for that. [`Watch::finish`] waits.
#[derive(derive_more::Debug)]
#[debug("Watch {{ .. }}")]
#[must_use = "a watch ends when it is dropped"]
pub struct Watch {
    notes: Arc<Watchers>,
    id: u64,
    missed: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Calls `tell` with each profile.
    pub(crate) fn begin(notes: &Arc<Watchers>, mut tell: impl FnMut(&Profile) + Send + 'static) -> Result<Self> {
        notes.watch(move |watched| {
            if let WatchEvent::Batch(profile) = watched {
                tell(&profile);
            }
        })
    }

    /// Ends the watch and waits until the batches now in flight have completed and been delivered. Does not wait if
    /// called from the callback, because that runs on the thread to wait for.
    pub fn finish(self) {
        self.end();
    }

    /// As [`Watch::finish`]. False if the callback panicked.
    pub(super) fn end(mut self) -> bool {
        self.leave();
        match self.thread.take() {
            Some(own) if own.thread().id() == thread::current().id() => register_ending(own),
            // The thread catches panics of the callback.
            Some(other) => drop(other.join()),
            None => {}
        }
        !self.broken.load(Ordering::Relaxed)
    }

    /// Batches and batcher events that were dropped because thousands were already queued. The queue is bounded so that
    /// a slow callback never delays the device.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn leave(&self) {
        let mut watchers = self.notes.watchers.lock();
        let gone = watchers.iter().position(|(id, _)| *id == self.id).map(|index| watchers.remove(index));
        self.notes.on.store(!watchers.is_empty(), Ordering::Relaxed);
        drop(watchers);
        drop(gone);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.leave();
        // The thread ends by itself; process exit waits for it.
        if let Some(thread) = self.thread.take() {
            register_ending(thread);
        }
    }
}
