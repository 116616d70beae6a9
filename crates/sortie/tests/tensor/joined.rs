//! Programs of many instances, joined and one by one: the same bits, the same mistakes, and fewer dispatches.

use std::sync::LazyLock;

use sortie::{Batch, Buffer, Device, DeviceOptions, Tensor, device::Planning, half::f16};

use crate::{drivers, some};

const WIDTH: usize = 12;

/// A device that joins, and the same device that does not.
struct Pair {
    name: &'static str,
    on: Device,
    off: Device,
}

fn pairs() -> &'static [Pair] {
    static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
        let there = |name: &&str| *name == "cpu" || drivers::open(name).is_some();
        let open = |name: &str, join: bool| {
            let planning = Planning { join, ..Planning::default() };
            let options = DeviceOptions::default().with_device(name).with_planning(planning);
            Device::open_with(options).unwrap_or_else(|error| panic!("{name}: {error:?}"))
        };
        let pair = |name| Pair { name, on: open(name, true), off: open(name, false) };
        ["cpu", "llvmpipe", "swiftshader"].into_iter().filter(there).map(pair).collect()
    });
    &PAIRS
}

/// The weights of all instances, resident.
struct Model {
    left: Buffer<f32>,
    right: Buffer<f32>,
    bias: Buffer<f32>,
    table: Buffer<f32>,
}

impl Model {
    fn new(device: &Device) -> sortie::Result<Self> {
        Ok(Self {
            left: device.upload(&some(WIDTH * 2 * WIDTH, 1))?,
            right: device.upload(&some(WIDTH * 2 * WIDTH, 2))?,
            bias: device.upload(&some(2 * WIDTH, 3))?,
            table: device.upload(&some(20 * WIDTH, 4))?,
        })
    }
}

/// A random binary tree with a cell of two gates at each inner node. Numbers stay small.
fn tree<'b>(batch: &'b Batch, model: &Model, random: &mut fastrand::Rng, depth: usize) -> Tensor<'b, f32> {
    if depth == 0 || random.u8(..4) == 0 {
        let index = batch.tensor_from(&[random.u32(..22)], [1]);
        return batch.tensor(&model.table, [20, WIDTH]).gather(index);
    }
    let left = tree(batch, model, random, depth - 1);
    let right = tree(batch, model, random, depth - 1);
    let by_left = left.matmul(batch.tensor(&model.left, [WIDTH, 2 * WIDTH]));
    let by_right = right.matmul(batch.tensor(&model.right, [WIDTH, 2 * WIDTH]));
    let both = by_left + by_right + batch.tensor(&model.bias, [2 * WIDTH]);
    let gate = both.slice(&[0..1, 0..WIDTH]);
    let value = both.slice(&[0..1, WIDTH..2 * WIDTH]);
    let open = gate.greater(0.0);
    open.select(value + left, right * 2.0).clamp(-9.0, 9.0)
}

/// A sequence of rows with a state, some of them normalized at the end.
fn sequence<'b>(batch: &'b Batch, random: &mut fastrand::Rng) -> Tensor<'b, f32> {
    let rows = random.usize(1..4);
    let mut state = batch.tensor_from(&some(rows * WIDTH, rows), [rows, WIDTH]);
    for step in 0..random.usize(1..5) {
        let x = batch.tensor_from(&some(rows * WIDTH, step), [rows, WIDTH]);
        let x = x.concat(&[state], 1).slice(&[0..rows, 4..4 + WIDTH]);
        state = (x.maximum(state) - 0.25).relu();
    }
    match random.u8(..3) {
        0 => state.sum(&[1]).reshape([1, rows]),
        1 => state.cast::<f16>().cast(),
        _ => state,
    }
}

fn record<'b>(batch: &'b Batch, model: &Model, seed: u64) -> Vec<Tensor<'b, f32>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let count = random.usize(2..40);
    (0..count)
        .map(|_| if random.bool() { tree(batch, model, &mut random, 4) } else { sequence(batch, &mut random) })
        .collect()
}

/// The bits of all results, and the groups of the plan.
fn bits(device: &Device, model: &Model, seed: u64) -> sortie::Result<(Vec<Vec<u32>>, usize)> {
    let batch = device.batch();
    let readings: Vec<_> = record(&batch, model, seed).into_iter().map(|tensor| batch.read(tensor)).collect();
    let groups = batch.plan()?.groups();
    batch.submit()?;
    let words = |floats: Vec<f32>| floats.into_iter().map(f32::to_bits).collect();
    let found: sortie::Result<_> = readings.into_iter().map(|reading| reading.wait().map(words)).collect();
    Ok((found?, groups))
}

#[test]
fn random_instances_have_the_same_bits_joined_and_one_by_one() {
    let full = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    for Pair { name, on, off } in pairs() {
        let models = [Model::new(on), Model::new(off)].map(|model| model.unwrap_or_else(|error| panic!("{error}")));
        let cases = match (full, *name) {
            (true, "cpu") => 20_000,
            (true, _) => 2_000,
            (false, "cpu") => 400,
            (false, _) => 40,
        };
        let mut all = 0;
        for seed in 0..cases {
            let (joined, groups) = bits(on, &models[0], seed).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            let (apart, none) = bits(off, &models[1], seed).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_eq!(joined, apart, "seed {seed} on {name}");
            assert_eq!(none, 0);
            all += groups;
        }
        assert!(all > cases as usize, "{all} groups in {cases} programs on {name}");
    }
}

#[test]
fn a_replay_of_joined_instances_has_the_bits_of_the_batch() {
    for Pair { name, on, off } in pairs() {
        let outcome = || {
            let model = Model::new(on)?;
            let batch = on.batch();
            let outputs: Vec<_> = record(&batch, &model, 7).into_iter().map(|tensor| batch.output(tensor)).collect();
            let replay = batch.freeze()?;
            let mut run = replay.run();
            let readings: Vec<_> = outputs.iter().map(|output| run.read(*output)).collect();
            run.submit()?;
            let found: Vec<Vec<f32>> =
                readings.into_iter().map(sortie::Reading::wait).collect::<sortie::Result<_>>()?;
            let (expected, _) = bits(off, &Model::new(off)?, 7)?;
            let found: Vec<Vec<u32>> =
                found.into_iter().map(|floats| floats.into_iter().map(f32::to_bits).collect()).collect();
            assert_eq!(found, expected, "{name}");
            Ok::<(), sortie::Error>(())
        };
        outcome().unwrap_or_else(|error| panic!("{name}: {error:?}"));
    }
}

#[test]
fn perceptrons_of_many_requests_are_a_product_for_each_layer() {
    for Pair { name, on, .. } in pairs() {
        let outcome = || {
            let first = on.upload(&some(WIDTH * WIDTH, 1))?;
            let second = on.upload(&some(WIDTH * WIDTH, 2))?;
            let batch = on.batch();
            for request in 0..32 {
                let x = batch.tensor_from(&some(WIDTH, request), [1, WIDTH]);
                let hidden = x.matmul(batch.tensor(&first, [WIDTH, WIDTH])).gelu();
                let y = x + hidden.matmul(batch.tensor(&second, [WIDTH, WIDTH]));
                drop(y.read());
            }
            batch.plan()
        };
        let plan = outcome().unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert!(plan.groups() == 4 && plan.dispatches() <= 4, "{name}: {plan:?}");
    }
}

#[test]
fn a_profile_names_all_operations_of_a_group() {
    let options = DeviceOptions::default().with_planning(Planning { join: true, ..Planning::default() });
    let outcome = || {
        let device = Device::cpu_with(options)?;
        let weights = device.upload(&some(WIDTH * WIDTH, 1))?;
        let batch = device.batch();
        let profile = batch.profile();
        for request in 0..10 {
            let x = batch.tensor_from(&some(WIDTH, request), [1, WIDTH]);
            let y = x.matmul(batch.tensor(&weights, [WIDTH, WIDTH])).label(&format!("request {request}"));
            drop(y.read());
        }
        batch.submit()?;
        profile.wait()
    };
    let profile = outcome().unwrap_or_else(|error: sortie::Error| panic!("{error}"));
    let labels: Vec<_> = profile.ops().iter().filter(|op| op.label().starts_with("request")).collect();
    assert_eq!(labels.len(), 10);
    let text = format!("{profile}");
    assert!(text.contains("matmul×10"), "{text}");
}

#[test]
fn a_mistake_has_its_own_line_whether_joined_or_not() {
    for Pair { name, on, off } in pairs() {
        let message = |device: &Device| {
            let batch = device.batch();
            for at in 0..20 {
                let x = batch.tensor_from(&some(WIDTH, at), [1, WIDTH]);
                let y = if at == 11 { x.matmul(x) } else { x * 2.0 };
                drop(y.read());
            }
            batch.submit().map(drop).expect_err("a product of two rows").to_string()
        };
        assert_eq!(message(on), message(off), "{name}");
    }
}
