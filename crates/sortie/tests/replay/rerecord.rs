//! Native replays whose cuts follow what their ops are known to cost.

use std::time::{Duration, Instant};

use sortie::{
    Buffer, Device, DeviceOptions, Grid, Kernel,
    metrics::Metrics,
    policy::{Split, SubmitPolicy},
};

use crate::drivers;

/// As long as the first word of `work` says.
const SPIN: &str = "
    @group(0) @binding(0) var<storage, read> work: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var value = y[id.x];
        for (var step = 0u; step < work[0]; step++) { value = value * 1664525u + 1013904223u; }
        y[id.x] = select(value, 0u, work[0] > 0u) + 1u;
    }";

const BUDGET: Duration = Duration::from_millis(20);
const OPS: usize = 32;
const ITEMS: usize = 1024;
/// A watchdog: more runs than any recording takes.
const MAX_RUNS: usize = 20_000;

/// The Vulkan drivers, with a split of their own.
fn open(split: Split) -> impl Iterator<Item = (&'static str, Device)> {
    let policy = Some(SubmitPolicy { split, ..SubmitPolicy::default() });
    let open = move |name| Some((name, drivers::open_with(name, DeviceOptions::default().with_policy(policy))?));
    // Elsewhere no replay is native.
    let is_vulkan = |(_, device): &(_, Device)| device.info().backend == "vulkan";
    ["llvmpipe", "swiftshader"].into_iter().filter_map(open).filter(is_vulkan)
}

struct Spin {
    device: Device,
    kernel: Kernel,
    work: Buffer<u32>,
    y: Buffer<u32>,
}

impl Spin {
    fn new(device: Device, items: usize) -> Self {
        let kernel = device.kernel(SPIN).expect("a kernel");
        let (work, y) = (device.zeros(1).expect("memory"), device.zeros(items).expect("memory"));
        Self { device, kernel, work, y }
    }

    /// Each dispatch adds one to all elements, or sets them to one where it takes long.
    fn record(&self, ops: usize) -> sortie::Batch {
        let batch = self.device.batch();
        for _ in 0..ops {
            batch.dispatch(&self.kernel, &[&self.work, &self.y], Grid::items(self.y.len()));
        }
        batch
    }

    /// Has batches of `ops` take longer than a budget, several times, and returns by how many steps.
    fn take_longer_than(&self, budget: Duration, ops: usize) -> u32 {
        // A dispatch of lavapipe does 65,535 steps at most.
        for steps in (6..16).map(|power| 1 << power) {
            self.work.write(&[steps]).expect("a write");
            let begin = Instant::now();
            self.record(ops).submit().expect("a batch that takes long");
            if begin.elapsed() > 6 * budget {
                return steps;
            }
        }
        panic!("{} is too fast for this test", self.device.info());
    }

    /// What one run does to the metrics.
    fn done(&self, run: impl FnOnce()) -> Metrics {
        let before = self.device.metrics();
        run();
        self.device.metrics() - before
    }
}

#[test]
fn a_replay_that_was_cut_by_a_cold_estimate_is_recorded_anew_as_one_submission() {
    for (name, device) in open(Split::Adaptive { budget: BUDGET }) {
        let spin = Spin::new(device, ITEMS);
        spin.take_longer_than(BUDGET, OPS);
        spin.work.write(&[0]).expect("a write");
        let batch = spin.record(OPS);
        let out = batch.output(&spin.y);
        let replay = batch.freeze().expect("a replay");
        let first = spin.done(|| replay.run().submit().expect("a run"));
        assert!(first.cuts > 2 && first.native_runs == 1, "{name}: {first}");

        spin.y.write(&vec![0; ITEMS]).expect("a write");
        let (mut runs, mut last) = (0_u32, first);
        while last.cuts > 0 {
            // Some under way while the recording is exchanged.
            let readings = [(); 3].map(|()| {
                let mut run = replay.run();
                let read = run.read(out);
                drop(run.submit_async().expect("a run"));
                read
            });
            for read in readings {
                runs += 1;
                let (found, expected) = (read.wait().expect("what it reads"), runs * OPS as u32);
                assert!(found.iter().all(|value| *value == expected), "{name}: {} in run {runs}", found[0]);
            }
            assert!((runs as usize) < MAX_RUNS, "{name}: never recorded anew");
            last = spin.done(|| replay.run().submit().expect("a run"));
            runs += 1;
        }
        assert_eq!((last.submissions, last.native_runs), (1, 1), "{name}");
        assert!(spin.device.metrics().replays_rerecorded > 0, "{name}");
    }
}

#[test]
fn a_replay_that_takes_longer_than_its_budget_is_recorded_anew_in_pieces() {
    for (name, device) in open(Split::Adaptive { budget: BUDGET }) {
        // One dispatch: it has to be divided.
        let known = Spin::new(drivers::open(name).expect("a device whose costs are its own"), ITEMS * OPS);
        let spin = Spin::new(device, ITEMS * OPS);
        spin.work.write(&[known.take_longer_than(BUDGET, 1)]).expect("a write");
        let batch = spin.record(1);
        let out = batch.output(&spin.y);
        let replay = batch.freeze().expect("a replay");
        let run = || {
            let mut run = replay.run();
            let read = run.read(out);
            run.submit().expect("a run");
            assert!(read.wait().expect("what it reads").iter().all(|value| *value == 1), "{name}");
        };
        let first = spin.done(run);
        assert_eq!((first.cuts, first.pieces, first.native_runs), (0, 0, 1), "{name}: nothing is known yet");
        // It is encoded until there is another recording of it.
        let (mut runs, mut last) = (0, first);
        while last.native_runs == 0 || last.pieces == 0 {
            last = spin.done(run);
            runs += 1;
            assert!(runs < MAX_RUNS, "{name}: never recorded anew");
        }
        assert!(last.cuts > 0 && spin.device.metrics().replays_rerecorded > 0, "{name}: {last}");
    }
}

#[test]
fn a_replay_is_not_recorded_anew_while_estimates_are_steady() {
    let splits = [Split::Adaptive { budget: Duration::from_secs(100) }, Split::Every(5), Split::Never];
    for (name, device) in splits.into_iter().flat_map(open) {
        let spin = Spin::new(device, ITEMS);
        spin.record(OPS).submit().expect("a batch");
        let replay = spin.record(OPS).freeze().expect("a replay");
        let done = spin.done(|| (0..200).for_each(|_| replay.run().submit().expect("a run")));
        assert_eq!((done.native_runs, done.replays_rerecorded), (200, 0), "{name}");
    }
}

#[test]
fn a_replay_is_recorded_anew_at_most_once_for_each_doubling_of_its_runs() {
    const RUNS: usize = 33;
    for (name, device) in open(Split::Adaptive { budget: BUDGET / 10 }) {
        let spin = Spin::new(device, ITEMS);
        let steps = spin.take_longer_than(BUDGET / 10, OPS);
        let replay = spin.record(OPS).freeze().expect("a replay");
        let done = spin.done(|| {
            for run in 0..RUNS {
                // What it costs is never what it cost before.
                spin.work.write(&[steps * (run % 2) as u32]).expect("a write");
                replay.run().submit().expect("a run");
            }
        });
        // In the runs 1, 2, 4, 8, 16 and 32 at the earliest.
        assert!(done.replays_rerecorded <= 6, "{name}: {}", done.replays_rerecorded);
    }
}

#[test]
fn a_replay_can_go_while_it_is_being_recorded_anew() {
    for (name, device) in open(Split::Adaptive { budget: BUDGET / 10 }) {
        let spin = Spin::new(device, ITEMS);
        let steps = spin.take_longer_than(BUDGET / 10, OPS);
        for _ in 0..10 {
            spin.work.write(&[steps]).expect("a write");
            spin.record(OPS).submit().expect("a batch that takes long");
            spin.work.write(&[0]).expect("a write");
            spin.y.write(&vec![0; ITEMS]).expect("a write");
            let replay = spin.record(OPS).freeze().expect("a replay");
            (0..4).for_each(|_| drop(replay.run().submit_async().expect("a run")));
            drop(replay);
            let all = spin.y.download().expect("the result");
            assert!(all.iter().all(|value| *value == 4 * OPS as u32), "{name}: {}", all[0]);
        }
    }
}

/// For `scripts/cold`, which runs it in fresh processes: a hundred kernels that the driver has never seen, run once, frozen, and run ten times.
#[test]
fn prints_how_a_cold_replay_is_cut_run_by_run() {
    if std::env::var_os("SORTIE_TEST_COLD").is_none() {
        return;
    }
    for (name, device) in open(Split::default()) {
        let y = device.zeros::<u32>(ITEMS).expect("memory");
        let salt = std::process::id();
        let kernels: Vec<_> = (0..100)
            .map(|number| {
                let source = format!(
                    "@group(0) @binding(0) var<storage, read_write> y: array<u32>;
                     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
                         if id.x < arrayLength(&y) {{ y[id.x] = (y[id.x] ^ {salt}u) * {number}u + {number}u; }}
                     }}"
                );
                device.kernel(&source).expect("a kernel")
            })
            .collect();
        let record = || {
            let batch = device.batch();
            for kernel in &kernels {
                batch.dispatch(kernel, &[&y], Grid::items(ITEMS));
            }
            batch
        };
        record().submit().expect("a batch");
        let replay = record().freeze().expect("a replay");
        let counts: Vec<_> = (0..10)
            .map(|_| {
                let before = device.metrics().submissions;
                replay.run().submit().expect("a run");
                device.metrics().submissions - before
            })
            .collect();
        drivers::say(&format!("COLD {name} {counts:?}"));
    }
}
