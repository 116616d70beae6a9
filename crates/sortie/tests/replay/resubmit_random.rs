//! Random programs that record the same again, or the same with one thing changed, on a device that resubmits batches
//! and on one that encodes them: the same readings, errors and memory.

use fastrand::Rng;
use sortie::{Buffer, Device, DeviceOptions, ErrorKind, Grid, Kernel, Reading, Result, Ticket};

use crate::{ADD, drivers};

/// Elements of each piece of memory.
const LEN: usize = 200;
const BUFFERS: usize = 3;
const SCRATCH: usize = 2;
/// Runs of each program.
const RUNS: usize = 100;

const XOR: &str = "
    struct Params { by: u32, times: u32 }
    var<immediate> p: Params;
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = (y[id.x] ^ (x[id.x] << (p.times % 8u))) + p.by; }
    }";

/// A range of a buffer, or of scratch memory.
#[derive(Clone, Copy, Debug)]
struct Part {
    of: usize,
    start: usize,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Run {
        kernel: usize,
        from: usize,
        to: usize,
        items: usize,
        immediates: [u32; 2],
    },
    Copy {
        from: Part,
        to: Part,
    },
    Fill {
        to: Part,
        value: u32,
    },
    /// With data that differs from run to run.
    Write(Part),
    Read(Part),
    Split,
}

/// A device with buffers and kernels.
struct World {
    device: Device,
    buffers: Vec<Buffer<u32>>,
    kernels: [Kernel; 2],
}

/// A batch that was submitted.
struct Pending {
    ticket: Ticket,
    readings: Vec<Reading<u32>>,
}

fn part(rng: &mut Rng) -> Part {
    let start = 4 * rng.usize(0..LEN / 8);
    Part { of: rng.usize(0..BUFFERS + SCRATCH), start, len: 4 * rng.usize(1..LEN / 8) }
}

fn step(rng: &mut Rng) -> Step {
    let [from, to] = [(); 2].map(|()| rng.usize(0..BUFFERS + SCRATCH));
    match rng.u8(0..12) {
        0..5 => Step::Run {
            kernel: rng.usize(0..2),
            from: if from == to { (to + 1) % BUFFERS } else { from },
            to,
            items: rng.usize(1..=LEN),
            immediates: [rng.u32(0..100), rng.u32(0..4)],
        },
        5 | 6 => {
            let (from, to) = (part(rng), part(rng));
            let to = Part { len: from.len, of: if to.of == from.of { (to.of + 1) % BUFFERS } else { to.of }, ..to };
            Step::Copy { from, to }
        }
        7 => Step::Fill { to: part(rng), value: rng.u32(0..3) },
        8 | 9 => Step::Write(part(rng)),
        10 => Step::Read(part(rng)),
        _ => Step::Split,
    }
}

/// Changes one thing.
fn change(steps: &mut Vec<Step>, rng: &mut Rng) {
    let at = rng.usize(0..steps.len());
    match (rng.u8(0..6), &mut steps[at]) {
        (0, Step::Run { immediates, .. }) => immediates[rng.usize(0..2)] += 1,
        (1, Step::Run { items, .. }) => *items = rng.usize(1..=LEN),
        (2, Step::Run { kernel, .. }) => *kernel = 1 - *kernel,
        (0..3, Step::Write(part) | Step::Read(part)) => part.start = 4 * rng.usize(0..LEN / 8),
        // Of different lengths: a mistake.
        (0, Step::Copy { to, .. }) => to.len += 4,
        (0..3, Step::Fill { value, .. }) => *value += 1,
        (3, _) => {
            let other = rng.usize(0..steps.len());
            steps.swap(at, other);
        }
        (4, _) => _ = steps.remove(at),
        // All buffers take other places.
        _ => {
            let moved = |of: &mut usize| *of = if *of < BUFFERS { (*of + 1) % BUFFERS } else { *of };
            for step in steps.iter_mut() {
                match step {
                    Step::Run { from, to, .. } => [from, to].into_iter().for_each(moved),
                    Step::Copy { from, to } => [&mut from.of, &mut to.of].into_iter().for_each(moved),
                    Step::Fill { to, .. } => moved(&mut to.of),
                    Step::Write(part) | Step::Read(part) => moved(&mut part.of),
                    Step::Split => {}
                }
            }
        }
    }
    if steps.is_empty() {
        steps.push(step(rng));
    }
}

/// Calls a function with a part of memory, whatever it is.
macro_rules! with {
    ($world:expr, $scratch:expr, $part:expr, $name:ident => $call:expr) => {{
        let Part { of, start, len } = $part;
        if of < BUFFERS {
            let $name = $world.buffers[of].slice(start..start + len);
            $call
        } else {
            let $name = $scratch[of - BUFFERS].slice(start..start + len);
            $call
        }
    }};
}

impl World {
    fn new(driver: &str, on: bool) -> Self {
        let options: DeviceOptions = drivers::uncut().with_device(driver).with_auto_replay(on);
        let device = Device::open_with(options).unwrap_or_else(|error| panic!("{driver}: {error}"));
        let kernels = [ADD, XOR].map(|source| device.kernel(source).expect("a kernel"));
        let buffers = (0..BUFFERS as u32).map(|at| device.upload(&data(at, LEN)).expect("memory")).collect();
        Self { device, buffers, kernels }
    }

    fn submit(&self, steps: &[Step], run: u32) -> Result<Pending> {
        let batch = self.device.batch();
        let scratch: Vec<_> = (0..SCRATCH).map(|_| batch.scratch::<u32>(LEN)).collect();
        let mut readings = Vec::new();
        let whole = |of| Part { of, start: 0, len: LEN };
        for step in steps {
            match *step {
                Step::Run { kernel, from, to, items, immediates } => {
                    with!(self, scratch, whole(from), from => with!(self, scratch, whole(to), to => {
                        batch.dispatch(&self.kernels[kernel], &[&from, &to], Grid::items(items)).immediates(&immediates);
                    }));
                }
                Step::Copy { from, to } => {
                    with!(self, scratch, from, from => with!(self, scratch, to, to => batch.copy(from, to)));
                }
                Step::Fill { to, value } => with!(self, scratch, to, to => batch.fill(to, value)),
                Step::Write(to) => with!(self, scratch, to, part => batch.write(part, &data(run, to.len))),
                Step::Read(of) => readings.push(with!(self, scratch, of, of => batch.read(of))),
                Step::Split => batch.split(),
            }
        }
        Ok(Pending { ticket: batch.submit_async()?, readings })
    }

    fn contents(&self) -> Vec<Vec<u32>> {
        self.buffers.iter().map(|buffer| buffer.download().expect("it ran")).collect()
    }
}

impl Pending {
    fn wait(self) -> Result<Vec<Vec<u32>>> {
        self.ticket.wait()?;
        self.readings.into_iter().map(Reading::wait).collect()
    }
}

fn data(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|at| (at + 1).wrapping_mul(seed.wrapping_mul(0x9e37_79b9) | 1)).collect()
}

/// A mistake as the user sees it.
fn said(error: &sortie::Error) -> (ErrorKind, String) {
    (error.kind(), error.to_string())
}

#[test]
fn batches_with_one_thing_changed_do_the_same_resubmitted_and_encoded() {
    let all = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    let cases = if all { 20_000 } else { 2_000 };
    for driver in ["cpu", "llvmpipe", "swiftshader"] {
        if driver != "cpu" && drivers::open(driver).is_none() {
            continue;
        }
        let (mut on, mut off) = (World::new(driver, true), World::new(driver, false));
        let mut rng = Rng::with_seed(0x5e_91a7);
        for program in 0..cases / RUNS {
            let base: Vec<Step> = (0..rng.usize(1..10)).map(|_| step(&mut rng)).collect();
            let mut pending: Vec<[Pending; 2]> = Vec::new();
            for run in 0..RUNS {
                let what = || format!("{driver}, program {program}, run {run}: {base:?}");
                let mut steps = base.clone();
                match rng.u8(0..8) {
                    0 | 1 => change(&mut steps, &mut rng),
                    // A buffer is dropped, and another one takes its place.
                    2 => {
                        let (at, seed) = (rng.usize(0..BUFFERS), rng.u32(..));
                        for world in [&mut on, &mut off] {
                            world.buffers[at] = world.device.upload(&data(seed, LEN)).expect("memory");
                        }
                    }
                    _ => {}
                }
                match [&on, &off].map(|world| world.submit(&steps, (program * RUNS + run) as u32)) {
                    [Ok(on), Ok(off)] => pending.push([on, off]),
                    [Err(on), Err(off)] => assert_eq!(said(&on), said(&off), "{}", what()),
                    [on, off] => panic!("{}: {:?} and {:?}", what(), on.err(), off.err()),
                }
                while pending.len() > rng.usize(0..4) {
                    let [on, off] = pending.remove(0).map(|run| run.wait().expect("it ran"));
                    assert_eq!(on, off, "{}", what());
                }
            }
            for run in pending {
                let [on, off] = run.map(|run| run.wait().expect("it ran"));
                assert_eq!(on, off, "{driver}, program {program}: {base:?}");
            }
            assert_eq!(on.contents(), off.contents(), "{driver}, program {program}: {base:?}");
        }
        let (metrics, vulkan) = (on.device.metrics(), on.device.info().backend == "vulkan");
        assert_eq!(off.device.metrics().batches_resubmitted, 0, "{driver}");
        // How many depends on how soon they are recorded, in the background: usually a third.
        assert!(!vulkan || metrics.batches_resubmitted > 0, "{driver}:\n{metrics}");
    }
}
