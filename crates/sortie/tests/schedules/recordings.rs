//! Whatever threads run the same batch at once, a recording is found only by the buffers and immediates that it has.

use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::{sync::Arc, thread};

use crate::{
    explore,
    finish::Completion,
    memory::{Block, BufferId},
    plan::{
        CachedPlan, Cuts, FrozenPlan, Resources,
        recorded_batches::{BatchRun, KnownBatch, Lookup, Miss, RecordedBatch},
    },
};

/// A batch that several threads run.
struct Shared {
    batch: KnownBatch,
    cuts: std::sync::Arc<Cuts>,
    /// Recordings under way, and done.
    pending: AtomicUsize,
    recorded: AtomicUsize,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            batch: KnownBatch::new(CachedPlan),
            cuts: std::sync::Arc::new(Cuts { list: vec![1] }),
            pending: AtomicUsize::new(0),
            recorded: AtomicUsize::new(0),
        })
    }

    /// Runs it. Returns the thread that records it, if that begins here.
    fn run(self: &Arc<Self>, buffer: u64, immediates: &[u8]) -> Option<thread::JoinHandle<()>> {
        let blocks = vec![None, Some(std::sync::Arc::new(Block(buffer)))];
        let resources = Resources { blocks, immediates: immediates.to_vec() };
        let completion = std::sync::Arc::new(Completion::new());
        let run = BatchRun { resources: &resources, cuts: &self.cuts, completion: &completion };
        let found = self.batch.look_up(run);
        completion.submitted();
        completion.finish(Ok(()));
        match found {
            Lookup::Miss(miss) => {
                assert!(matches!(miss, Miss::Buffers | Miss::Immediates), "{miss:?}");
                None
            }
            Lookup::Found(frozen, cuts) => {
                assert_eq!(cuts.list, self.cuts.list, "with these cuts");
                assert_eq!(frozen.buffer, buffer, "of these buffers");
                assert!(frozen.immediates.as_ref().is_none_or(|own| own == immediates), "with these immediates");
                None
            }
            Lookup::Record { refreshes_params } => {
                assert_eq!(self.pending.fetch_add(1, Ordering::Relaxed), 0, "one at a time");
                let (shared, immediates) = (self.clone(), (!refreshes_params).then(|| immediates.to_vec()));
                Some(thread::spawn(move || shared.record(buffer, immediates)))
            }
        }
    }

    fn record(&self, buffer: u64, immediates: Option<Vec<u8>>) {
        let recorded = RecordedBatch {
            buffers: [BufferId(buffer)].into(),
            immediates: immediates.clone().map(Into::into),
            cuts: self.cuts.clone(),
            frozen: std::sync::Arc::new(FrozenPlan { buffer, immediates }),
        };
        self.pending.fetch_sub(1, Ordering::Relaxed);
        self.recorded.fetch_add(1, Ordering::Relaxed);
        self.batch.recorded(recorded);
    }

    /// The recording for a buffer, which must exist.
    fn recording(&self, buffer: u64, immediates: &[u8]) -> std::sync::Arc<FrozenPlan> {
        let resources =
            Resources { blocks: vec![Some(std::sync::Arc::new(Block(buffer)))], immediates: immediates.to_vec() };
        let completion = std::sync::Arc::new(Completion::new());
        match self.batch.look_up(BatchRun { resources: &resources, cuts: &self.cuts, completion: &completion }) {
            Lookup::Found(frozen, _) => frozen,
            other => panic!("{other:?}"),
        }
    }
}

/// Runs it from several threads and waits for all recordings.
fn run_from_threads(shared: &Arc<Shared>, threads: usize, runs: impl Fn(usize) -> (u64, u8) + Send + Copy + 'static) {
    let run = |first: usize| {
        let shared = shared.clone();
        thread::spawn(move || {
            let recording = |step: usize| {
                let (buffer, immediate) = runs(first + step);
                shared.run(buffer, &[immediate])
            };
            (0..8).filter_map(recording).collect::<Vec<_>>()
        })
    };
    let running: Vec<_> = (0..threads).map(run).collect();
    let recording = running.into_iter().flat_map(|thread| thread.join().expect("no panic"));
    recording.for_each(|thread| thread.join().expect("no panic"));
}

#[test]
fn threads_that_run_the_same_batch_record_it_once() {
    explore(|| {
        let shared = Shared::new();
        run_from_threads(&shared, 3, |_| (7, 0));
        assert_eq!(shared.recorded.load(Ordering::Relaxed), 1);
        assert_eq!(shared.recording(7, &[0]).buffer, 7);
    });
}

#[test]
fn buffers_that_take_turns_are_never_confused() {
    explore(|| {
        let shared = Shared::new();
        run_from_threads(&shared, 2, |step| (step as u64 % 2, 0));
        assert!(shared.recorded.load(Ordering::Relaxed) <= 2);
    });
}

#[test]
fn immediates_that_differ_are_never_taken_from_a_recording() {
    explore(|| {
        let shared = Shared::new();
        run_from_threads(&shared, 2, |step| (7, u8::from(step > 4)));
    });
}

#[test]
fn a_recording_that_is_forgotten_is_made_again() {
    explore(|| {
        let shared = Shared::new();
        run_from_threads(&shared, 1, |_| (7, 0));
        let frozen = shared.recording(7, &[0]);
        let forgetting = thread::spawn({
            let shared = shared.clone();
            move || shared.batch.forget(&frozen)
        });
        run_from_threads(&shared, 1, |_| (7, 0));
        forgetting.join().expect("no panic");
        run_from_threads(&shared, 1, |_| (7, 0));
        assert_eq!(shared.recorded.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_recording_that_was_given_up_is_tried_again_and_one_that_was_refused_is_not() {
    explore(|| {
        let shared = Shared::new();
        let look_up = |step: u8| {
            let resources = Resources { blocks: Vec::new(), immediates: vec![step] };
            let completion = std::sync::Arc::new(Completion::new());
            completion.finish(Ok(()));
            shared.batch.look_up(BatchRun { resources: &resources, cuts: &shared.cuts, completion: &completion })
        };
        let asked =
            |immediate: fn(u8) -> u8| (0..9).any(|step| matches!(look_up(immediate(step)), Lookup::Record { .. }));
        assert!(asked(|_| 0));
        shared.batch.gave_up();
        assert!(asked(|step| step), "tried again");
        shared.batch.refused(true);
        assert!(!asked(|step| step), "not with immediates that differ");
        shared.batch.refused(false);
        assert!(matches!(look_up(0), Lookup::Miss(Miss::Unsupported)), "not at all");
        assert_eq!(std::sync::Arc::strong_count(&shared.batch.plan), 1);
    });
}
