//! Callers that share batches: each gets its own answer, an invalid request fails only itself, and a batch costs one submission.

use std::time::Duration;

use sortie::{BatchConfig, Device, ErrorKind, metrics::Metrics};
use sortie_states::{BatchedStates, Bezier, Gradient, Interpolation, LAYERS, Sequence, State, reference};

use crate::{drivers, on_each, on_each_driver};

/// Devices answer floats with the last bits of `exp2` and `sqrt` as WGSL lets them, a few units of 2⁻²⁴.
const RELATIVE: f32 = 1e-5;

/// Full batches only, one at a time: which requests share a batch then does not depend on time.
fn full(rows: usize) -> BatchConfig {
    BatchConfig::default()
        .with_max_batch_size(rows)
        .with_max_wait(Duration::from_secs(3600))
        .with_in_flight(1)
        .with_greedy(false)
}

fn started(name: &str, device: &Device, config: BatchConfig) -> BatchedStates {
    BatchedStates::new(device, config).unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

/// States that differ in every layer.
fn states(count: usize, seed: usize) -> Vec<State> {
    let byte = |at: usize| (at as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0];
    let state = |index: usize| State::from_bytes(std::array::from_fn(|layer| byte(LAYERS * index + layer)));
    (0..count).map(|index| state(1000 * seed + index)).collect()
}

fn pairs(count: usize, seed: usize) -> Vec<[State; 2]> {
    states(count, seed).into_iter().zip(states(count, seed + 1)).map(|(a, b)| [a, b]).collect()
}

/// One request of each kind, with `count` states, and different t and mode for each seed.
struct Mix {
    gradients: Vec<State>,
    between: Interpolation,
    sequence: Sequence,
    quadratic: Bezier<3>,
    cubic: Bezier<4>,
    pairs: Vec<[State; 2]>,
}

impl Mix {
    fn new(count: usize, seed: usize) -> Self {
        let list = |kind: usize| states(count, 10 * seed + kind);
        let (t, slerp) = ((seed % 31) as f32 / 30.0, seed.is_multiple_of(2));
        Self {
            gradients: list(0),
            between: Interpolation { a: list(1), b: list(2), t, slerp },
            sequence: Sequence { a: list(3), b: list(4), frames: seed % 4 + 1, slerp },
            quadratic: Bezier { points: [list(5), list(6), list(7)], t },
            cubic: Bezier { points: [list(5), list(6), list(7), list(8)], t },
            pairs: pairs(count, 10 * seed + 9),
        }
    }

    /// Rows of all its requests.
    fn rows(&self) -> usize {
        self.gradients.len() * (6 + self.sequence.frames)
    }

    /// Asks for all at once, and compares with the reference.
    fn ask(&self, name: &str, batched: &BatchedStates) {
        let gradients = batched.gradients(self.gradients.clone()).send();
        let between = batched.interpolate(self.between.clone()).send();
        let frames = batched.sequence(self.sequence.clone()).send();
        let quadratic = batched.quadratic_bezier(self.quadratic.clone()).send();
        let cubic = batched.cubic_bezier(self.cubic.clone()).send();
        let distances = batched.state_distance(self.pairs.clone()).send();
        let ways = batched.geodesic_distance(self.pairs.clone()).send();

        close_gradients(name, &gradients.wait().expect(name), &reference::compute_gradients(&self.gradients));
        let Interpolation { a, b, t, slerp } = &self.between;
        assert_eq!(between.wait().expect(name), reference::interpolate(a, b, *t, *slerp).expect("sense"), "{name}");
        let Sequence { a, b, frames: count, slerp } = &self.sequence;
        let expected = reference::interpolate_sequence(a, b, *count, *slerp).expect("sense");
        assert_eq!(frames.wait().expect(name), expected, "{name}");
        let Bezier { points, t } = &self.quadratic;
        let expected = reference::quadratic_bezier(points.each_ref().map(Vec::as_slice), *t).expect("sense");
        assert_eq!(quadratic.wait().expect(name), expected, "{name}");
        let Bezier { points, t } = &self.cubic;
        let expected = reference::cubic_bezier(points.each_ref().map(Vec::as_slice), *t).expect("sense");
        assert_eq!(cubic.wait().expect(name), expected, "{name}");
        let expect = |distance: fn(State, State) -> f32| self.pairs.iter().map(move |[a, b]| distance(*a, *b));
        close(name, &distances.wait().expect(name), expect(reference::state_distance));
        close(name, &ways.wait().expect(name), expect(reference::geodesic_distance));
    }
}

fn close(name: &str, got: &[f32], expected: impl ExactSizeIterator<Item = f32>) {
    assert_eq!(got.len(), expected.len(), "{name}");
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= RELATIVE * expected, "{name}: {got}, not {expected}");
    }
}

fn close_gradients(name: &str, got: &[Gradient], expected: &[Gradient]) {
    let slopes = |gradients: &[Gradient]| -> Vec<f32> {
        gradients.iter().flat_map(|gradient| gradient.layers).flat_map(|slope| [slope.rho, slope.theta]).collect()
    };
    close(name, &slopes(got), slopes(expected).into_iter());
}

/// What a device did meanwhile.
fn spent(device: &Device, before: Metrics) -> Metrics {
    device.metrics() - before
}

#[test]
fn many_threads_with_requests_of_every_kind_get_their_own_answers() {
    on_each(|name, device, _| {
        let batched = started(name, device, BatchConfig::default().with_max_batch_size(200));
        let before = device.metrics();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let batched = batched.clone();
                scope.spawn(move || {
                    (0..12)
                        .for_each(|round| Mix::new(1 + (thread + round) % 7, 8 * round + thread).ask(name, &batched));
                });
            }
        });
        let (metrics, did) = (batched.metrics(), spent(device, before));
        assert_eq!((metrics.requests, metrics.failed, metrics.queued_rows), (8 * 12 * 7, 0, 0), "{name}");
        assert_eq!(did.submissions, metrics.batches, "{name}: one submission for each batch");
    });
}

#[test]
fn kinds_share_a_batch_which_is_one_submission_and_one_pass() {
    let mix = Mix::new(5, 3);
    on_each(|name, device, _| {
        let batched = started(name, device, full(mix.rows()));
        let before = device.metrics();
        mix.ask(name, &batched);
        let (metrics, did) = (batched.metrics(), spent(device, before));
        assert_eq!((metrics.requests, metrics.batches, metrics.full), (7, 1, 1), "{name}");
        assert_eq!(metrics.rows, mix.rows() as u64, "{name}");
        // Gradients, what lies between states, and two kinds of distances.
        assert_eq!((did.batches, did.submissions, did.passes, did.dispatches), (1, 1, 1, 4), "{name}");
    });
}

#[test]
fn interpolations_of_any_t_and_mode_sequences_and_curves_share_a_dispatch() {
    on_each(|name, device, _| {
        let batched = started(name, device, full(100));
        let before = device.metrics();
        let mixes: Vec<_> = (0..20).map(|seed| Mix::new(1, seed)).collect();
        let between: Vec<_> = mixes.iter().map(|mix| batched.interpolate(mix.between.clone()).send()).collect();
        let cubic: Vec<_> = mixes.iter().map(|mix| batched.cubic_bezier(mix.cubic.clone()).send()).collect();
        let sixty = Sequence { frames: 60, ..mixes[0].sequence.clone() };
        // The last one fills the batch.
        let frames = batched.sequence(sixty.clone()).wait().expect(name);
        assert_eq!(frames, reference::interpolate_sequence(&sixty.a, &sixty.b, 60, sixty.slerp).expect("sense"));
        for (mix, (between, cubic)) in mixes.iter().zip(between.into_iter().zip(cubic)) {
            let Interpolation { a, b, t, slerp } = &mix.between;
            assert_eq!(between.wait().expect(name), reference::interpolate(a, b, *t, *slerp).expect("sense"), "{name}");
            let points = mix.cubic.points.each_ref().map(Vec::as_slice);
            assert_eq!(cubic.wait().expect(name), reference::cubic_bezier(points, mix.cubic.t).expect("sense"));
        }
        let did = spent(device, before);
        assert_eq!((did.submissions, did.dispatches), (1, 1), "{name}");
    });
}

#[test]
fn a_request_that_makes_no_sense_fails_its_caller_alone() {
    let fine = Mix::new(3, 4);
    on_each(|name, device, _| {
        let batched = started(name, device, full(4));
        let others = batched.gradients(fine.gradients.clone()).send();
        let short = Interpolation { b: states(2, 1), ..fine.between.clone() };
        let none = Interpolation { a: vec![], ..fine.between.clone() };
        let nan = Bezier { t: f32::NAN, ..fine.cubic.clone() };
        let long = Sequence { frames: 1 << 27, ..fine.sequence.clone() };
        let error = |result: sortie::Result<()>| result.map_err(|error| (error.kind(), error.to_string()));
        let ends = |first, other| format!("`a` has {first} states but `b` has {other}");
        for (result, why) in [
            (batched.interpolate(short).wait().map(drop), ends(3, 2)),
            (batched.interpolate(none).wait().map(drop), ends(0, 3)),
            (batched.cubic_bezier(nan).wait().map(drop), "t is not a number".into()),
            (batched.sequence(long).wait().map(drop), "with it there are more than".into()),
        ] {
            let (kind, said) = error(result).expect_err("it makes no sense");
            assert!(kind == ErrorKind::Input && said.contains(&why), "{name}: {kind:?}: {said}, not {why}");
        }
        // The batch of the others fills up and is submitted.
        assert_eq!(batched.state_distance(pairs(1, 5)).wait().expect(name).len(), 1);
        close_gradients(name, &others.wait().expect(name), &reference::compute_gradients(&fine.gradients));
        let metrics = batched.metrics();
        assert_eq!((metrics.requests, metrics.batches, metrics.failed), (2, 1, 0), "{name}");
    });
}

#[test]
fn requests_longer_than_a_batch_are_cut_and_put_together_again() {
    on_each(|name, device, _| {
        let batched = started(name, device, BatchConfig::default().with_max_batch_size(10));
        let before = device.metrics();
        // Frames longer than a batch, and shorter ones, of which several fit.
        for mix in [Mix::new(37, 3), Mix::new(4, 7), Mix::new(11, 2)] {
            mix.ask(name, &batched);
        }
        let metrics = batched.metrics();
        assert!(metrics.requests > 3 * 7, "{name}: {metrics:?}");
        assert_eq!(spent(device, before).submissions, metrics.batches, "{name}");
        assert!(metrics.rows <= 10 * metrics.batches, "{name}: {metrics:?}");
    });
}

#[test]
fn nothing_is_answered_at_once() {
    on_each(|name, device, _| {
        let batched = started(name, device, full(4));
        let before = device.metrics();
        assert!(batched.gradients(vec![]).wait().expect(name).is_empty());
        let empty = Interpolation { t: 0.5, ..Interpolation::default() };
        assert!(batched.interpolate(empty).wait().expect(name).is_empty());
        let blank = Sequence { frames: 3, ..Sequence::default() };
        assert_eq!(batched.sequence(blank).wait().expect(name), vec![Vec::<State>::new(); 3]);
        let none = Sequence { a: states(2, 0), b: states(2, 0), frames: 0, slerp: true };
        assert!(batched.sequence(none).wait().expect(name).is_empty());
        assert!(batched.quadratic_bezier(Bezier { points: Default::default(), t: 0.5 }).wait().expect(name).is_empty());
        assert!(batched.geodesic_distance(vec![]).wait().expect(name).is_empty());
        assert_eq!((device.metrics(), batched.metrics().requests), (before, 0), "{name}");
    });
}

#[test]
fn a_warm_batcher_makes_nothing_new_on_the_device() {
    on_each(|name, _, _| {
        // Recording batches for the device takes memory, which is counted by tests of its own.
        let options = drivers::uncut().with_device(name).with_auto_replay(false);
        let device = &Device::open_with(options).expect(name);
        let batched = started(name, device, full(96));
        // Always 96 rows, of which now more and now fewer are gradients.
        let round = |few: usize| {
            let many = 96 - few;
            let gradients = batched.gradients(states(few, few)).send();
            let distances = batched.state_distance(pairs(many, few)).wait().expect(name);
            assert_eq!((gradients.wait().expect(name).len(), distances.len()), (few, many), "{name}");
        };
        (0..30).step_by(2).for_each(|more| round(1 + more));
        // Of lengths that there have not been.
        let before = device.metrics();
        (0..30).step_by(2).for_each(|more| round(2 + more));
        let did = spent(device, before);
        assert_eq!(did.submissions, 15, "{name}");
        let made = (did.buffers_created, did.bind_groups_created, did.pipelines_created);
        assert_eq!(made, (0, 0, 0), "{name}: {did:?}");
    });
}

#[test]
fn after_a_lost_device_the_kernels_are_made_anew() {
    let mix = Mix::new(3, 5);
    on_each_driver(|name, device| {
        let batched = started(name, device, BatchConfig::default());
        mix.ask(name, &batched);
        let (wgpu, _) = device.wgpu().expect("a driver");
        wgpu.destroy();
        let lost = (0..10).take_while(|_| match batched.gradients(states(1, 0)).wait() {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DeviceLost, "{name}: {error}");
                true
            }
        });
        assert!(lost.count() < 10, "{name}: it does not come back");
        mix.ask(name, &batched);
        assert_eq!(batched.metrics().reopened, 1, "{name}");
    });
}

#[test]
fn padding_runs_into_nothing() {
    let options = sortie::DeviceOptions::default().with_check_races(true);
    let device = Device::cpu_with(options).expect("the built-in CPU");
    let batched = started("cpu", &device, BatchConfig::default());
    for count in [1, 15, 16, 17, 65] {
        Mix::new(count, count).ask("cpu", &batched);
    }
}
