//! What does not depend on the batch that a row is in, and that the built-in CPU needs no kernels.

use sortie::{Device, Tensor, half::f16};

use crate::{devices, exactly, near, on_all, some};

type Operation = (&'static str, for<'b> fn(Tensor<'b, f32>) -> Tensor<'b, f32>);

/// Operations whose results belong to rows, the first axis.
const BY_ROW: [Operation; 9] = [
    ("softmax", |x| x.softmax()),
    ("layer_norm", |x| x.layer_norm(1e-5)),
    ("rms_norm", |x| x.rms_norm(1e-5)),
    ("sum", |x| x.sum_keepdim(&[1])),
    ("mean of exponentials", |x| {
        let x = x.exp();
        x.mean_keepdim(&[1])
    }),
    ("max", |x| x.max_keepdim(&[1])),
    ("argmax", |x| x.argmax_keepdim(1).cast()),
    ("sum of columns", |x| {
        let [rows, row] = [x.shape()[0], x.shape()[1]];
        let x = x.reshape([rows, row / 4, 4]);
        x.sum(&[1])
    }),
    ("sum of wide columns", |x| {
        let [rows, row] = [x.shape()[0], x.shape()[1]];
        let x = x.reshape([rows, 4, row / 4]);
        x.sum(&[1])
    }),
];

#[test]
fn a_row_has_the_same_bits_in_any_batch_and_anywhere_in_it() {
    const KINDS: usize = 3;
    for (row, counts) in [(8, [2, 67, 700]), (100, [2, 67, 300]), (384, [3, 8, 65]), (20_000, [2, 5, 66])] {
        let pool = some(KINDS * row, 3);
        let rows: Vec<&[f32]> = pool.chunks(row).collect();
        // Other kernels on other devices, checked or not; what has the checker watch them would take long.
        for (name, device) in devices().iter().filter(|(name, _)| !name.contains("checked")) {
            for (what, apply) in BY_ROW {
                let run = |rows: &[&[f32]]| {
                    let batch = device.batch();
                    let x = batch.tensor_from(&rows.concat(), [rows.len(), row]);
                    let reading = apply(x).read();
                    batch.submit().unwrap_or_else(|error| panic!("{what} on {name}: {error}"));
                    let found = reading.wait().unwrap_or_else(|error| panic!("{what} on {name}: {error}"));
                    found.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
                };
                let alone: Vec<Vec<u32>> = rows.iter().map(|row| run(&[row])).collect();
                for count in counts {
                    let kinds: Vec<usize> = (0..count).map(|at| (at * at + count) % KINDS).collect();
                    let found = run(&kinds.iter().map(|kind| rows[*kind]).collect::<Vec<_>>());
                    for (at, (found, kind)) in found.chunks(found.len() / count).zip(&kinds).enumerate() {
                        assert!(found == alone[*kind], "{what} of row {at} of {count} rows of {row} on {name}");
                    }
                }
            }
        }
    }
}

#[test]
fn no_tensor_operation_of_the_built_in_cpu_compiles_a_kernel() -> sortie::Result<()> {
    let operations: [Operation; 22] = [
        ("add", |x| x + 1.0),
        ("gelu", |x| x.gelu()),
        ("select", |x| x.greater(0.0).select(x, 0.5)),
        ("cast", |x| x.cast::<i32>().cast()),
        ("half", |x| x.cast::<f16>().cast()),
        ("softmax", |x| x.softmax()),
        ("layer_norm", |x| x.layer_norm(1e-5)),
        ("rms_norm", |x| x.rms_norm(1e-5)),
        ("half softmax", |x| x.cast::<f16>().softmax().cast()),
        ("scaled and shifted", |x| (x * 0.5).softmax() * 2.0 + 1.0),
        ("sum of rows", |x| x.sum(&[1])),
        ("mean of columns", |x| x.mean(&[0])),
        ("max of all", |x| x.max(&[0, 1])),
        ("min in the middle", |x| x.reshape([4, 4, 4]).min(&[1])),
        ("sum around the middle", |x| x.reshape([4, 4, 4]).sum(&[0, 2])),
        ("integers", |x| x.cast::<i32>().max(&[1]).cast()),
        ("argmax", |x| x.argmax(1).cast()),
        ("gather", |x| x.gather(x.argmax(1))),
        ("concat", |x| x.concat(&[x], 1)),
        ("permute", |x| x.reshape([4, 4, 4]).permute(&[2, 0, 1])),
        ("slice", |x| x.slice(&[1..3, 2..7])),
        ("matmul", |x| x.matmul(x)),
    ];
    for fuse in [true, false] {
        let planning = sortie::device::Planning { fuse, ..Default::default() };
        let device = Device::cpu_with(sortie::DeviceOptions::default().with_planning(planning))?;
        for (name, apply) in operations {
            let batch = device.batch();
            let x = batch.tensor_from(&some(64, 2), [8, 8]);
            let reading = apply(x).read();
            batch.submit()?;
            reading.wait()?;
            assert_eq!(device.metrics().pipelines_created, 0, "{name}, fuse {fuse}");
        }
        // The counter counts: a kernel is compiled.
        device.kernel("@compute @workgroup_size(1) fn main() {}")?;
        assert_eq!(device.metrics().pipelines_created, 1);
    }
    Ok(())
}

#[test]
fn reductions_that_keep_their_axes_broadcast_to_the_input() {
    let x = some(24, 4);
    let expected: Vec<f64> = (0..24)
        .map(|at| {
            let column = |row: usize| f64::from(x[row * 6 + at % 6]);
            let mean = (0..4).map(column).sum::<f64>() / 4.0;
            f64::from(x[at]) - mean
        })
        .collect();
    on_all(
        "x - mean",
        |batch| {
            let x = batch.tensor_from(&x, [4, 6]);
            let mean = x.mean_keepdim(&[0]);
            assert_eq!((mean.shape(), x.min_keepdim(&[0, 1]).shape()), (vec![1, 6], vec![1, 1]));
            assert_eq!(x.argmax_keepdim(1).shape(), [4, 1]);
            x - mean
        },
        near(&expected, 1e-6, 1e-6),
    );
}

#[test]
fn norms_are_scaled_by_weights_and_shifted_by_biases() {
    let (x, weight, bias) = (some(30, 1), some(6, 2), some(6, 3));
    let f = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
    let layer: Vec<f64> = x
        .chunks(6)
        .flat_map(|row| {
            let row = f(row);
            let mean = row.iter().sum::<f64>() / 6.0;
            let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 6.0;
            row.into_iter().map(move |x| (x - mean) / (variance + 1e-5).sqrt())
        })
        .zip((0..5).flat_map(|_| f(&weight).into_iter().zip(f(&bias))))
        .map(|(x, (weight, bias))| x * weight + bias)
        .collect();
    let root: Vec<f64> = x
        .chunks(6)
        .flat_map(|row| {
            let row = f(row);
            let squares = row.iter().map(|x| x * x).sum::<f64>() / 6.0;
            row.into_iter().map(move |x| x / (squares + 1e-5).sqrt())
        })
        .zip((0..5).flat_map(|_| f(&weight)))
        .map(|(x, weight)| x * weight)
        .collect();
    on_all(
        "layer_norm_with",
        |batch| {
            let (x, weight) = (batch.tensor_from(&x, [5, 6]), batch.tensor_from(&weight, [6]));
            x.layer_norm_with(weight, batch.tensor_from(&bias, [6]), 1e-5)
        },
        near(&layer, 1e-4, 1e-5),
    );
    on_all(
        "rms_norm_with",
        |batch| {
            let (x, weight) = (batch.tensor_from(&x, [5, 6]), batch.tensor_from(&weight, [6]));
            x.rms_norm_with(weight, 1e-5)
        },
        near(&root, 1e-5, 1e-5),
    );
}

#[test]
fn weights_of_another_length_are_a_mistake() {
    let device = Device::cpu().unwrap_or_else(|error| panic!("{error}"));
    let batch = device.batch();
    let (x, weight) = (batch.tensor_from(&[0.0_f32; 6], [2, 3]), batch.tensor_from(&[0.0_f32; 2], [2]));
    let _ = x.layer_norm_with(weight, weight, 0.0);
    let error = batch.submit().expect_err("a mistake");
    assert_eq!(error.kind(), sortie::ErrorKind::Shape);
    assert!(error.to_string().contains("layer_norm_with: weight is [2] but the rows are those of [2, 3]"), "{error}");
}

#[test]
fn a_maximum_is_found_on_an_axis_of_any_length() {
    // Longer than a workgroup of other devices reduces.
    const LEN: usize = 1_300_001;
    let mut x: Vec<f32> = (0..LEN).map(|at| (at % 1009) as f32).collect();
    let check = |what: &str, x: &[f32], expected: u32| {
        on_all(
            what,
            |batch| {
                let x = batch.tensor_from(x, [LEN]);
                x.argmax(0)
            },
            exactly(&[expected]),
        );
    };
    check("the first of many", &x, 1008);
    x[LEN - 1] = 2000.0;
    check("the last", &x, LEN as u32 - 1);
    x.fill(f32::NEG_INFINITY);
    check("all the same", &x, 0);
}
