//! Who is told of everything that a device does.

use std::{
    fmt,
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

/// What may wait to be told. Whoever tells does not wait: past it, what comes is only counted.
const MOST: usize = 4096;

/// Something to be told.
pub(super) enum WatchEvent {
    Batch(Profile),
    TraceNote(TraceNote),
    /// Nothing more will come, and so much was too much to be told.
    End(u64),
}

/// Things of one kind that took time and are no batches.
#[derive(Clone, Debug)]
pub(super) struct TraceNote {
    pub(super) category: &'static str,
    pub(super) name: String,
    pub(super) times: Vec<Range<Instant>>,
    /// How many of what they were about.
    pub(super) count: Option<(&'static str, u64)>,
}

enum Message {
    /// Worked out on the thread of whoever watches.
    Batch(Arc<dyn Fn() -> Profile + Send + Sync>),
    TraceNote(TraceNote),
}

/// One who watches, as long as it may still be told of something.
#[derive(Clone)]
pub(crate) struct Watcher {
    to: SyncSender<Message>,
    missed: Arc<AtomicU64>,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

/// Those who watch a batch.
pub(crate) type WatcherList = SmallVec<[Watcher; 1]>;

/// Those who watch a device.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    on: AtomicBool,
    watchers: Mutex<Vec<(u64, Watcher)>>,
}

impl Watchers {
    /// Whether anybody watches. Costs a load.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Those who are to be told of a batch that is about to leave.
    pub(crate) fn watchers(&self) -> WatcherList {
        self.watchers.lock().iter().map(|(_, watcher)| watcher.clone()).collect()
    }

    /// Tells those who watch of things that took time and are no batches, and how many of what they were about.
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

    /// Tells `tell` of everything from now on, on a thread of its own, until the watch is dropped.
    pub(super) fn watch(self: &Arc<Self>, mut tell: impl FnMut(WatchEvent) + Send + 'static) -> Result<Watch> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (to, messages) = mpsc::sync_channel(MOST);
        let (missed, broken) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let watcher = Watcher { to, missed: missed.clone() };
        let (counted, broke) = (missed.clone(), broken.clone());
        let spawned = thread::Builder::new().name("sortie-watch".into()).spawn(move || {
            begin();
            // What is told runs foreign code: should it panic, it is told only that this is the end.
            let mut told = |watched: WatchEvent| catch_unwind(AssertUnwindSafe(|| tell(watched)));
            // Ends when the watch and all batches that left under it are gone.
            for message in messages {
                let watched = match message {
                    Message::Batch(profile) => match catch_unwind(AssertUnwindSafe(|| profile())) {
                        Ok(profile) => WatchEvent::Batch(profile),
                        // A defect of ours costs one batch.
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
    /// A batch has landed. What it took is worked out later.
    pub(crate) fn tell(&self, profile: Arc<dyn Fn() -> Profile + Send + Sync>) {
        self.send(Message::Batch(profile));
    }

    fn send(&self, message: Message) {
        // Whoever has gone need not know.
        if let Err(TrySendError::Full(_)) = self.to.try_send(message) {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Keeps a device being watched; what [`Device::watch`](crate::Device::watch) gives. It does not keep the device open.
///
/// Dropped, it ends as well, once what is under way has landed and been told, but nobody waits for that: [`Watch::finish`] does.
#[must_use = "a watch ends when it is dropped"]
pub struct Watch {
    notes: Arc<Watchers>,
    id: u64,
    missed: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Has each profile given to `tell`.
    pub(crate) fn begin(notes: &Arc<Watchers>, mut tell: impl FnMut(&Profile) + Send + 'static) -> Result<Self> {
        notes.watch(move |watched| {
            if let WatchEvent::Batch(profile) = watched {
                tell(&profile);
            }
        })
    }

    /// Ends it, once what is under way now has landed and been told. Called by whoever is told, which is on the thread that would have to end, it does not wait.
    pub fn finish(self) {
        self.end();
    }

    /// As [`Watch::finish`]. False when whoever was told panicked.
    pub(super) fn end(mut self) -> bool {
        self.leave();
        match self.thread.take() {
            Some(own) if own.thread().id() == thread::current().id() => register_ending(own),
            // It catches what it calls.
            Some(other) => drop(other.join()),
            None => {}
        }
        !self.broken.load(Ordering::Relaxed)
    }

    /// How many batches, or news of batchers, were too many: what comes while thousands wait to be told is not kept, so that nobody waits for whoever watches.
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
        // It ends by itself; a process that exits waits for it.
        if let Some(thread) = self.thread.take() {
            register_ending(thread);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
