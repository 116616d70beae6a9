//! Random recordings of kernels, copies and fills: live and replayed they leave the same behind, which is what a plain model of them leaves.

use std::time::Duration;

use proptest::{prelude::*, test_runner::RngSeed};
use sortie::{
    Batch, Buffer, Device, DeviceOptions, Grid, Kernel, Slot, Tensor,
    device::Planning,
    policy::{Split, SubmitPolicy},
};

use crate::{ADD, drivers};

/// Elements of each piece of memory.
const LEN: usize = 200;
const BUFFERS: usize = 3;
const SCRATCH: usize = 2;
const INPUTS: usize = 2;
const RUNS: u32 = 3;

/// A range of a piece of memory: buffers, then scratch, then inputs. Only buffers are cut.
#[derive(Clone, Copy, Debug)]
struct Part {
    of: usize,
    start: usize,
    len: usize,
}

#[derive(Clone, Debug)]
enum Step {
    /// `to += from * times + by`, over all of `to` or half of it.
    Add {
        from: usize,
        to: usize,
        by: u32,
        times: u32,
        half: bool,
    },
    Copy {
        from: Part,
        to: Part,
    },
    Fill {
        to: Part,
        value: u32,
    },
    Output(Part),
    Barrier,
    Split,
}

fn part() -> impl Strategy<Value = Part> {
    (0..BUFFERS + SCRATCH + INPUTS, 0..LEN, 1..=LEN).prop_map(|(of, start, len)| match of < BUFFERS {
        true => Part { of, start, len: len.min(LEN - start) },
        false => Part { of, start: 0, len: LEN },
    })
}

fn step() -> impl Strategy<Value = Step> {
    let all = 0..BUFFERS + SCRATCH + INPUTS;
    let add = (all.clone(), all, 0..1000_u32, 0..4_u32, any::<bool>())
        .prop_map(|(from, to, by, times, half)| Step::Add { from, to, by, times, half });
    prop_oneof![
        5 => add,
        3 => (part(), part()).prop_map(|(from, to)| Step::Copy { from, to }),
        2 => (part(), prop_oneof![Just(0), 1..99_u32]).prop_map(|(to, value)| Step::Fill { to, value }),
        2 => part().prop_map(Step::Output),
        1 => Just(Step::Barrier),
        1 => Just(Step::Split),
    ]
}

/// Both ranges as long as the shorter; `None` when that cannot be, or nothing would be copied.
fn fitted(from: Part, to: Part) -> Option<(Part, Part)> {
    let len = from.len.min(to.len);
    let cut = |part: Part| (part.of < BUFFERS || part.len == len).then_some(Part { len, ..part });
    (from.of != to.of || from.of < BUFFERS).then_some(())?;
    Some((cut(from)?, cut(to)?))
}

/// What a recording leaves in memory, and gives out.
fn model(steps: &[Step], memory: &mut [Vec<u32>]) -> Vec<Vec<u32>> {
    let mut outputs = Vec::new();
    for step in steps {
        match step {
            Step::Add { from, to, by, times, half } if from != to => {
                let from = memory[*from].clone();
                // Whole workgroups of 64 run.
                let len = if *half { 128 } else { LEN };
                for (to, from) in memory[*to][..len].iter_mut().zip(from) {
                    *to = to.wrapping_add(from.wrapping_mul(*times).wrapping_add(*by));
                }
            }
            Step::Copy { from, to } => {
                if let Some((from, to)) = fitted(*from, *to) {
                    let data = memory[from.of][from.start..from.start + from.len].to_vec();
                    memory[to.of][to.start..to.start + to.len].copy_from_slice(&data);
                }
            }
            Step::Fill { to, value } => memory[to.of][to.start..to.start + to.len].fill(*value),
            Step::Output(of) => outputs.push(memory[of.of][of.start..of.start + of.len].to_vec()),
            Step::Add { .. } | Step::Barrier | Step::Split => {}
        }
    }
    outputs
}

/// Memory of a recording.
struct Memory<'a> {
    buffers: &'a [Buffer<u32>],
    scratch: Vec<Slot<u32>>,
    inputs: &'a [Tensor<u32>],
}

/// Calls a function with a part of memory, whatever it is.
macro_rules! with {
    ($memory:expr, $part:expr, $name:ident => $call:expr) => {{
        let part: Part = $part;
        if part.of < BUFFERS {
            let $name = $memory.buffers[part.of].slice(part.start..part.start + part.len);
            $call
        } else if part.of < BUFFERS + SCRATCH {
            let $name = $memory.scratch[part.of - BUFFERS];
            $call
        } else {
            let $name = $memory.inputs[part.of - BUFFERS - SCRATCH];
            $call
        }
    }};
}

/// Records; `give` is what is done with outputs.
macro_rules! record {
    ($batch:expr, $steps:expr, $add:expr, $memory:expr, $give:ident) => {{
        let mut given = Vec::new();
        let whole = |of: usize| Part { of, start: 0, len: LEN };
        for step in $steps {
            match step {
                Step::Add { from, to, by, times, half } if from != to => {
                    let grid = $add.grid(if *half { LEN / 2 } else { LEN });
                    with!($memory, whole(*from), from => with!($memory, whole(*to), to => {
                        $batch.dispatch(&$add.kernel, &[&from, &to], grid).immediates(&[*by, *times]);
                    }));
                }
                Step::Copy { from, to } => {
                    if let Some((from, to)) = fitted(*from, *to) {
                        with!($memory, from, from => with!($memory, to, to => $batch.copy(from, to)));
                    }
                }
                Step::Fill { to, value } => with!($memory, *to, to => $batch.fill(to, *value)),
                Step::Output(of) => given.push(with!($memory, *of, of => $batch.$give(of))),
                Step::Barrier => $batch.barrier(),
                Step::Split => $batch.split(),
                Step::Add { .. } => {}
            }
        }
        given
    }};
}

fn scratch(batch: &Batch) -> Vec<Slot<u32>> {
    (0..SCRATCH).map(|_| batch.scratch(LEN)).collect()
}

fn numbers(seed: u32) -> Vec<u32> {
    (0..LEN as u32).map(|at| at * 31 + seed * 1001).collect()
}

/// All that runs give out, then what the buffers hold.
type Left = (Vec<Vec<u32>>, Vec<Vec<u32>>);

fn expected(steps: &[Step]) -> Left {
    let mut buffers: Vec<Vec<u32>> = (0..BUFFERS as u32).map(numbers).collect();
    let mut outputs = Vec::new();
    for run in 0..RUNS {
        let mut memory = buffers.clone();
        memory.extend(vec![vec![0; LEN]; SCRATCH]);
        memory.extend((0..INPUTS as u32).map(|input| numbers(100 * run + input)));
        outputs.extend(model(steps, &mut memory));
        memory.truncate(BUFFERS);
        buffers = memory;
    }
    (outputs, buffers)
}

fn live(device: &Device, add: &Add, steps: &[Step]) -> sortie::Result<Left> {
    let buffers = (0..BUFFERS as u32).map(|at| device.upload(&numbers(at))).collect::<sortie::Result<Vec<_>>>()?;
    let mut outputs = Vec::new();
    for run in 0..RUNS {
        let batch = device.batch();
        let inputs: Vec<_> =
            (0..INPUTS as u32).map(|input| batch.tensor_from(&numbers(100 * run + input), [LEN])).collect();
        let memory = Memory { buffers: &buffers, scratch: scratch(&batch), inputs: &inputs };
        let readings = record!(batch, steps, add, memory, read);
        batch.submit()?;
        for reading in readings {
            outputs.push(reading.wait()?);
        }
    }
    Ok((outputs, buffers.iter().map(Buffer::download).collect::<sortie::Result<_>>()?))
}

fn replayed(device: &Device, add: &Add, steps: &[Step]) -> sortie::Result<Left> {
    let buffers = (0..BUFFERS as u32).map(|at| device.upload(&numbers(at))).collect::<sortie::Result<Vec<_>>>()?;
    let batch = device.batch();
    let inputs: Vec<_> = (0..INPUTS).map(|_| batch.input::<u32>([LEN])).collect();
    let memory = Memory { buffers: &buffers, scratch: scratch(&batch), inputs: &inputs };
    let given = record!(batch, steps, add, memory, output);
    let replay = batch.freeze()?;
    let mut readings = Vec::new();
    for number in 0..RUNS {
        let mut run = replay.run();
        for (input, tensor) in (0..).zip(&inputs) {
            run.write(*tensor, &numbers(100 * number + input));
        }
        readings.extend(given.iter().map(|output| run.read(*output)));
        // Nothing waits for a run before the next is submitted.
        drop(run.submit_async()?);
    }
    drop(replay);
    let outputs = readings.into_iter().map(sortie::Reading::wait).collect::<sortie::Result<_>>()?;
    Ok((outputs, buffers.iter().map(Buffer::download).collect::<sortie::Result<_>>()?))
}

/// The kernel, and how many workgroups there are for each element; 0 for one for each 64.
struct Add {
    kernel: Kernel,
    spread: usize,
}

impl Add {
    /// Spread, so that a dispatch is guessed to take longer than the shortest budget.
    const SPREAD: usize = 100;

    fn new(device: &Device, split: Split) -> sortie::Result<Self> {
        if !matches!(split, Split::Adaptive { .. }) {
            return Ok(Self { kernel: device.kernel(ADD)?, spread: 0 });
        }
        let (head, _) = ADD.split_once("@compute").expect("an entry point");
        let spread = Self::SPREAD;
        let source = format!(
            "{head} @compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) {{
                let at = id.x / {spread}u;
                if id.x % {spread}u == 0u && at < arrayLength(&y) {{ y[at] += x[at] * p.times + p.by; }}
            }}"
        );
        Ok(Self { kernel: device.kernel(&source)?, spread })
    }

    fn grid(&self, items: usize) -> Grid<'static> {
        match self.spread {
            0 => Grid::items(items),
            spread => Grid::groups([(items.next_multiple_of(64) * spread) as u32, 1, 1]),
        }
    }
}

fn devices() -> Vec<(String, Device, Add)> {
    let on = Planning::default();
    // Dispatches are divided.
    let finest = Split::Adaptive { budget: Duration::from_millis(1) };
    let mut all = vec![("cpu", true, true, on, Split::Never), ("cpu", true, true, on, Split::Every(2))];
    for driver in ["llvmpipe", "swiftshader"].into_iter().filter(|driver| drivers::open(driver).is_some()) {
        let straight = Planning { reorder: false, reuse: false, ..on };
        all.extend([
            (driver, true, true, on, Split::Never),
            (driver, true, true, on, finest),
            (driver, false, true, on, Split::Every(3)),
            (driver, true, false, straight, finest),
        ]);
    }
    let open = |(name, native_replay, native_immediates, planning, split): (&str, bool, bool, Planning, Split)| {
        let options = DeviceOptions::default()
            .with_device(name)
            .with_policy(SubmitPolicy { split, ..SubmitPolicy::default() })
            .with_native_replay(native_replay)
            .with_native_immediates(native_immediates)
            .with_planning(planning);
        let device = Device::open_with(options).unwrap_or_else(|error| panic!("{name}: {error}"));
        let add = Add::new(&device, split).unwrap_or_else(|error| panic!("{name}: {error}"));
        (format!("{name}, native {native_replay}, immediates {native_immediates}, {planning:?}, {split}"), device, add)
    };
    all.into_iter().map(open).collect()
}

#[test]
fn recordings_leave_the_same_live_and_replayed() {
    let devices = devices();
    let all = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    let config = ProptestConfig {
        cases: if all { 2_000 } else { 100 },
        rng_seed: RngSeed::Fixed(0x5e_91a7),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..14))| {
        let expected = expected(&steps);
        for (name, device, add) in &devices {
            let fail = |error: sortie::Error| TestCaseError::fail(format!("{name}: {error}"));
            prop_assert_eq!(&expected, &live(device, add, &steps).map_err(fail)?, "live on {}", name);
            prop_assert_eq!(&expected, &replayed(device, add, &steps).map_err(fail)?, "replayed on {}", name);
        }
    });
    for (name, device, _) in devices.iter().filter(|(.., add)| add.spread > 0) {
        assert!(device.metrics().pieces > 0, "{name}");
    }
}
