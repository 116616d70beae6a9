//! Random programs: the same bits on all devices, with fusion, reordering, reuse and joining each on and off.
//!
//! Values are small whole numbers and stay so, so that no order of additions shows.

use std::sync::LazyLock;

use proptest::{prelude::*, test_runner::RngSeed};
use sortie::{Batch, Device, DeviceOptions, Tensor, device::Planning};

use crate::drivers;

/// What an operation does, by numbers that pick among what there is.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    what: u8,
    first: usize,
    second: usize,
    third: usize,
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..26_u8, any::<usize>(), any::<usize>(), any::<usize>())
        .prop_map(|(what, first, second, third)| Step { what, first, second, third });
    prop::collection::vec(step, 1..32)
}

/// Two dimensions always: easy to keep track of.
fn shape(tensor: Tensor<f32>) -> [usize; 2] {
    let shape = tensor.shape();
    [shape[0], shape[1]]
}

/// Back to small numbers.
fn small(x: Tensor<'_, f32>) -> Tensor<'_, f32> {
    x.clamp(-9.0, 9.0)
}

/// Records a program. Returns all of its results.
fn record<'b>(batch: &'b Batch, steps: &[Step]) -> Vec<Tensor<'b, f32>> {
    let data = |len: usize, seed: usize| (0..len).map(|at| ((at * 5 + seed) % 13) as f32 - 6.0).collect::<Vec<_>>();
    let mut all: Vec<Tensor<'b, f32>> =
        [[4, 6], [1, 6], [4, 1], [3, 8], [8, 4]].map(|[a, b]| batch.tensor_from(&data(a * b, a), [a, b])).to_vec();
    for Step { what, first, second, third } in steps {
        let pick = |number: &usize| all[number % all.len()];
        let x = pick(first);
        let [rows, columns] = shape(x);
        // One that goes with it, or itself.
        let stretches = |y: &Tensor<f32>| {
            let [a, b] = shape(*y);
            (a == rows || a == 1 || rows == 1) && (b == columns || b == 1 || columns == 1)
        };
        let partners: Vec<_> = all.iter().copied().filter(stretches).collect();
        let y = partners[second % partners.len()];
        let made = match what {
            0 => -x,
            1 => x.abs(),
            2 => x.relu(),
            3 => x * ((third % 5) as f32 - 2.0),
            4 | 5 => x + y,
            6 => y - x,
            7 | 8 => x * y,
            9 => x.minimum(y),
            10 => y.maximum(x),
            11 => {
                let condition = x.less(y);
                condition.select(y, x)
            }
            12 => {
                let condition = x.greater_equal(y);
                condition.cast()
            }
            13 | 14 => x.transpose(),
            15 => {
                let (a, b) = (second % rows, third % columns);
                x.slice(&[a..rows, b..columns])
            }
            16 => x.reshape([columns, rows]),
            17 => x.reshape([1, rows * columns]),
            18 => {
                let y = x.sum(&[1]);
                y.reshape([rows, 1])
            }
            19 => {
                let y = x.max(&[0]);
                y.reshape([1, columns])
            }
            20 => {
                let y = x.argmax(1);
                let y = y.cast();
                y.reshape([rows, 1])
            }
            21 => {
                let matching: Vec<_> = all.iter().copied().filter(|y| shape(*y)[0] == columns).collect();
                match matching.get(second % matching.len().max(1)) {
                    Some(y) => x.matmul(*y),
                    None => {
                        let t = x.transpose();
                        let t = small(t);
                        x.matmul(t)
                    }
                }
            }
            22 => {
                let t = x.transpose();
                x.matmul(t)
            }
            23 => {
                let same: Vec<_> = all.iter().copied().filter(|y| shape(*y)[1] == columns).collect();
                let y = same[second % same.len()];
                x.concat(&[y], 0)
            }
            24 => {
                let indices: Vec<u32> = (0..5).map(|at| ((at * (third % 7)) % (rows + 1)) as u32).collect();
                let indices = batch.tensor_from(&indices, [5]);
                x.gather(indices)
            }
            _ => {
                // Something else between: a buffer that a later program could see.
                batch.barrier();
                -x
            }
        };
        let [rows, columns] = shape(made);
        // What makes nothing larger is left as it is, so that views meet whatever there is.
        let made = if matches!(what, 3..=8 | 18 | 21 | 22) { small(made) } else { made };
        // Tensors stay small, too.
        let made = if rows * columns > 256 { made.slice(&[0..rows.min(16), 0..columns.min(16)]) } else { made };
        all.push(made);
    }
    all.split_off(5)
}

fn devices() -> &'static [(String, Device)] {
    static DEVICES: LazyLock<Vec<(String, Device)>> = LazyLock::new(|| {
        let on = Planning::default();
        let all = [
            ("cpu", on, false),
            ("cpu", Planning { fuse: false, ..on }, false),
            ("cpu", Planning { reorder: false, ..on }, false),
            ("cpu", Planning { reuse: false, ..on }, false),
            ("cpu", Planning { join: true, ..on }, false),
            ("llvmpipe", Planning { join: true, ..on }, false),
            ("swiftshader", Planning { join: true, ..on }, false),
            ("llvmpipe", on, false),
            // Generated kernels with run-time checks.
            ("llvmpipe", on, true),
            ("swiftshader", on, false),
        ];
        let there = |name: &str| name == "cpu" || drivers::open(name).is_some();
        all.into_iter()
            .filter(|(name, ..)| there(name))
            .map(|(name, planning, checked)| {
                let options = DeviceOptions::default().with_device(name).with_planning(planning);
                let options = options.with_check_generated(checked);
                let device = Device::open_with(options).unwrap_or_else(|error| panic!("{name}: {error}"));
                (format!("{name}, {planning:?}, checked {checked}"), device)
            })
            .collect()
    });
    &DEVICES
}

fn config() -> ProptestConfig {
    let all = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    ProptestConfig {
        cases: if all { 2_000 } else { 60 },
        rng_seed: RngSeed::Fixed(0x5027_1e77),
        failure_persistence: None,
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    }
}

/// Some of the results, always the last: unread results are fused away.
fn wanted(results: Vec<Tensor<f32>>, kept: u64) -> impl Iterator<Item = Tensor<f32>> {
    let last = results.len() - 1;
    let some = move |(at, _): &(usize, Tensor<f32>)| kept >> (at % 64) & 3 == 0 || *at == last;
    results.into_iter().enumerate().filter(some).map(|(_, tensor)| tensor)
}

pub(crate) fn live(device: &Device, steps: &[Step], kept: u64) -> sortie::Result<Vec<Vec<f32>>> {
    let batch = device.batch();
    let results = record(&batch, steps);
    let readings: Vec<_> = wanted(results, kept).map(|tensor| batch.read(tensor)).collect();
    batch.submit()?;
    readings.into_iter().map(sortie::Reading::wait).collect()
}

/// Two runs of the same.
fn replayed(device: &Device, steps: &[Step], kept: u64) -> sortie::Result<Vec<Vec<Vec<f32>>>> {
    let batch = device.batch();
    let results = record(&batch, steps);
    let outputs: Vec<_> = wanted(results, kept).map(|tensor| batch.output(tensor)).collect();
    let replay = batch.freeze()?;
    let run = |_| {
        let mut run = replay.run();
        let readings: Vec<_> = outputs.iter().map(|output| run.read(*output)).collect();
        run.submit()?;
        readings.into_iter().map(sortie::Reading::wait).collect()
    };
    (0..2).map(run).collect()
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn programs_give_the_same_bits_everywhere(steps in steps(), kept in any::<u64>()) {
        let mut first: Option<Vec<Vec<f32>>> = None;
        for (name, device) in devices() {
            let found = live(device, &steps, kept).map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
            let bits = |all: &[Vec<f32>]| all.concat().iter().map(|x| (x + 0.0).to_bits()).collect::<Vec<_>>();
            let first = first.get_or_insert_with(|| found.clone());
            prop_assert_eq!(bits(first), bits(&found), "{}", name);
            let runs = replayed(device, &steps, kept).map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
            for found in runs {
                prop_assert_eq!(bits(first), bits(&found), "replayed on {}", name);
            }
        }
    }
}
