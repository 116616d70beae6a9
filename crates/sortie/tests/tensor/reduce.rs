//! Over axes, and along rows.

use sortie::{Tensor, half::f16, tensor::Element};

use crate::{
    exactly, halves,
    map::{at, indices},
    near, on_all, recording, some,
};

type Reduce = (&'static str, for<'b> fn(Tensor<'b, f32>, &[usize]) -> Tensor<'b, f32>, fn(&[f64]) -> f64);

const SHAPES: [(&[usize], &[usize]); 12] = [
    (&[7], &[0]),
    (&[1], &[0]),
    (&[5, 6], &[1]),
    (&[5, 6], &[0]),
    (&[5, 6], &[0, 1]),
    (&[3, 4, 5], &[1]),
    (&[3, 4, 5], &[0, 2]),
    (&[3, 4, 5], &[]),
    (&[2, 3, 2, 3], &[0, 2]),
    (&[3, 1000], &[1]),
    (&[1000, 3], &[0]),
    (&[100_000], &[0]),
];

#[test]
fn reductions_agree_with_f64_over_any_axes() {
    let table: [Reduce; 4] = [
        ("sum", |x, axes| x.sum(axes), |all| all.iter().sum()),
        ("mean", |x, axes| x.mean(axes), |all| all.iter().sum::<f64>() / all.len() as f64),
        ("max", |x, axes| x.max(axes), |all| all.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        ("min", |x, axes| x.min(axes), |all| all.iter().copied().fold(f64::INFINITY, f64::min)),
    ];
    for (name, apply, reference) in table {
        for (shape, axes) in SHAPES {
            let data = some(shape.iter().product(), 5);
            let (kept, groups) = grouped(shape, axes);
            let expected: Vec<f64> = groups
                .iter()
                .map(|group| reference(&group.iter().map(|at| f64::from(data[*at])).collect::<Vec<_>>()))
                .collect();
            // Each of the additions rounds a sum of at most three times their number.
            let each = data.len() / expected.len();
            let absolute = if name == "sum" { each as f64 * 3.0 * 6e-8 * (each as f64).sqrt() } else { 1e-5 };
            on_all(
                &format!("{name} of {shape:?} over {axes:?}"),
                |batch| {
                    let x = batch.tensor_from(&data, shape);
                    let y = apply(x, axes);
                    assert_eq!(y.shape(), kept);
                    y
                },
                near(&expected, 0.0, absolute),
            );
        }
    }
}

/// The shape without axes, and for each of its elements the elements that make it.
fn grouped(shape: &[usize], axes: &[usize]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).map(|axis| shape[axis]).collect();
    let mut groups = vec![Vec::new(); kept.iter().product()];
    for (flat, index) in indices(shape).enumerate() {
        let own: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).map(|axis| index[axis]).collect();
        groups[at(&kept, &own).min(kept.iter().product::<usize>() - 1)].push(flat);
    }
    (kept, groups)
}

#[test]
fn the_index_of_the_greatest_is_that_of_the_first() {
    for (shape, axis) in [(vec![4, 9], 1), (vec![9, 4], 0), (vec![2, 500], 1), (vec![3, 5, 2], 1), (vec![1], 0)] {
        let len = shape.iter().product();
        let data: Vec<i32> = (0..len).map(|at: usize| i32::try_from(at * 37 % 11).unwrap_or(0) - 5).collect();
        let (_, groups) = grouped(&shape, &[axis]);
        let expected: Vec<u32> = groups
            .iter()
            .map(|group| {
                let most = group.iter().map(|at| data[*at]).max().expect("some");
                group.iter().position(|at| data[*at] == most).expect("there") as u32
            })
            .collect();
        let floats: Vec<f32> = data.iter().map(|x| *x as f32).collect();
        on_all(
            &format!("argmax of {shape:?}"),
            |batch| {
                let x = batch.tensor_from(&data, &shape);
                x.argmax(axis)
            },
            exactly(&expected),
        );
        on_all(
            &format!("argmax of floats {shape:?}"),
            |batch| {
                let x = batch.tensor_from(&floats, &shape);
                x.argmax(axis)
            },
            exactly(&expected),
        );
    }
}

#[test]
fn nothing_sums_to_zero_and_integers_are_exact() {
    on_all(
        "the sum of nothing",
        |batch| {
            let x = batch.tensor_from::<f32>(&[], [3, 0]);
            x.sum(&[1])
        },
        exactly(&[0.0_f32; 3]),
    );
    let data: Vec<u32> = (0..3000).map(|at: u32| at.wrapping_mul(2_654_435_761)).collect();
    let expected: Vec<u32> = data.chunks(1000).map(|row| row.iter().fold(0, |a: u32, b| a.wrapping_add(*b))).collect();
    on_all(
        "a sum that wraps",
        |batch| {
            let x = batch.tensor_from(&data, [3, 1000]);
            x.sum(&[1])
        },
        exactly(&expected),
    );
    let halved: Vec<f16> = (0..100).map(|at| f16::from_f32(at as f32 / 8.0)).collect();
    let total = f16::from_f32((0..100).map(|at| at as f32 / 8.0).sum());
    on_all(
        "the sum of halves",
        |batch| {
            let x = batch.tensor_from(&halved, [100]);
            x.sum(&[0])
        },
        halves(&[total]),
    );
}

#[test]
fn rows_are_normed_as_in_f64() {
    for (rows, row) in [(1, 1), (3, 5), (4, 64), (2, 1000), (130, 7)] {
        let data = some(rows * row, 9);
        let f = |row: &[f32]| row.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        let softmax: Vec<f64> = data
            .chunks(row)
            .flat_map(|row| {
                let row = f(row);
                let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let all: f64 = row.iter().map(|x| (x - top).exp()).sum();
                row.into_iter().map(move |x| (x - top).exp() / all)
            })
            .collect();
        let layer: Vec<f64> = data
            .chunks(row)
            .flat_map(|row| {
                let row = f(row);
                let mean = row.iter().sum::<f64>() / row.len() as f64;
                let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / row.len() as f64;
                row.into_iter().map(move |x| (x - mean) / (variance + 1e-5).sqrt())
            })
            .collect();
        let root: Vec<f64> = data
            .chunks(row)
            .flat_map(|row| {
                let row = f(row);
                let squares = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
                row.into_iter().map(move |x| x / (squares + 1e-5).sqrt())
            })
            .collect();
        let up = recording(|batch| batch.tensor_from(&data, [rows, row]));
        let what = |name: &str| format!("{name} of {rows} rows of {row}");
        on_all(
            &what("softmax"),
            |batch| {
                let x = up(batch);
                x.softmax()
            },
            near(&softmax, 1e-5, 1e-7),
        );
        on_all(
            &what("layer_norm"),
            |batch| {
                let x = up(batch);
                x.layer_norm(1e-5)
            },
            near(&layer, 1e-4, 1e-5),
        );
        on_all(
            &what("rms_norm"),
            |batch| {
                let x = up(batch);
                x.rms_norm(1e-5)
            },
            near(&root, 1e-5, 1e-6),
        );
        // With a head and a tail.
        let scaled: Vec<f64> = softmax.iter().map(|x| x * 2.0 + 1.0).collect();
        on_all(
            &what("softmax with head and tail"),
            |batch| {
                let (x, one) = (up(batch), batch.tensor_from(&[1.0_f32], [1]));
                let minus = -x;
                let x = -minus;
                let y = x.softmax();
                let y = y * 2.0;
                y + one
            },
            near(&scaled, 1e-5, 1e-6),
        );
    }
}

#[test]
fn kernels_never_wait_for_each_other() {
    // What is exp(x) to `late` is also what `total` sums; `late` needs `product`, which `last` would join with `total`.
    let x = some(16, 1);
    let e: Vec<f64> = x.iter().map(|x| f64::from(*x).exp()).collect();
    let total: f64 = e.iter().sum();
    let product = |at: usize| (0..4).map(|i| f64::from(x[at / 4 * 4 + i]) * f64::from(x[i * 4 + at % 4])).sum::<f64>();
    let expected: Vec<f64> =
        (0..16).map(|at| product(at) + total).chain((0..16).map(|at| e[at] + product(at))).collect();
    on_all(
        "a ring that must not close",
        |batch| {
            let x = batch.tensor_from(&x, [4, 4]);
            let e = x.exp();
            let total = e.sum(&[0, 1]);
            let product = x.matmul(x);
            let late = e + product;
            let last = product + total;
            last.concat(&[late], 0)
        },
        near(&expected, 1e-5, 1e-4),
    );
}

#[test]
fn truth_and_halves_beside_a_norm_have_a_kernel_of_their_own() {
    let x = some(32, 1);
    for (name, device) in crate::devices() {
        let batch = device.batch();
        let x = batch.tensor_from(&x, [4, 8]);
        let truth = x.greater(x);
        let shares = x.softmax();
        let chosen = truth.select(x, shares);
        let half = x.cast::<f16>();
        let back = half.cast::<f32>();
        let turned = x.transpose();
        let product = x.matmul(turned);
        let wide = product.broadcast([2, 4, 4]);
        let wide = wide.reshape([4, 8]);
        let sum = wide + back;
        let (a, b, c, d) = (batch.read(truth), batch.read(chosen), batch.read(half), batch.read(sum));
        batch.submit().unwrap_or_else(|error| panic!("{name}: {error}"));
        let lens = (
            a.wait().map(|x| x.len()),
            b.wait().map(|x| x.len()),
            c.wait().map(|x| x.len()),
            d.wait().map(|x| x.len()),
        );
        assert!(matches!(lens, (Ok(32), Ok(32), Ok(32), Ok(32))), "{name}");
    }
}

#[test]
fn large_reductions_have_two_stages() {
    let len = 1_500_001;
    let data: Vec<f32> = some(2 * len, 3);
    let sums = |each: &dyn Fn(usize) -> usize| -> Vec<f64> {
        let mut sums = vec![0.0; 2];
        data.iter().enumerate().for_each(|(at, x)| sums[each(at)] += f64::from(*x));
        sums
    };
    let (by_row, by_column) = (sums(&|at| at / len), sums(&|at| at % 2));
    let of_all = |_: &[f64]| vec![by_row[0] + by_row[1]];
    on_all(
        "the sum of rows",
        |batch| {
            let x = batch.tensor_from(&data, [2, len]);
            x.sum(&[1])
        },
        near(&by_row, 1e-5, 1.0),
    );
    on_all(
        "the mean of columns, and what is made of it",
        |batch| {
            let x = batch.tensor_from(&data, [len, 2]);
            let x = x * 2.0;
            let y = x.mean(&[0]);
            -y
        },
        near(&by_column.iter().map(|sum| -2.0 * sum / len as f64).collect::<Vec<_>>(), 1e-5, 1e-6),
    );
    on_all(
        "the sum of all",
        |batch| {
            let x = batch.tensor_from(&data, [2, len]);
            x.sum(&[0, 1, 0])
        },
        near(&of_all(&by_row), 1e-5, 1.0),
    );
    let mut words: Vec<u32> = (0..len as u32).map(|at| at.wrapping_mul(2_654_435_761)).collect();
    words[1_234_567] = u32::MAX;
    let expected = [words.iter().fold(0_u32, |sum, x| sum.wrapping_add(*x)), u32::MAX, 0];
    on_all(
        "integers",
        |batch| {
            let x = batch.tensor_from(&words, [len]);
            let all = [x.sum(&[0]), x.max(&[0]), x.min(&[0])];
            let all = all.map(|x| x.reshape([1]));
            all[0].concat(&all[1..], 0)
        },
        exactly(&expected),
    );
}

/// What a reduction of nothing comes to, on every device.
fn of_nothing<T: Element + PartialEq + std::fmt::Debug>(
    (shape, axes): (&[usize], &[usize]),
    reduce: for<'b> fn(Tensor<'b, T>, &[usize]) -> Tensor<'b, T>,
    check: impl Fn(&str, &[T]) -> Result<(), String>,
) {
    let record = recording(|batch| reduce(batch.tensor_from(&[], shape), axes));
    on_all(&format!("{shape:?} over {axes:?}"), record, check);
}

#[test]
fn reductions_over_axes_without_elements_give_the_identity() {
    for (shape, axes, count) in [
        (&[2, 3, 0][..], &[2][..], 6),
        (&[2, 0, 3], &[1], 6),
        (&[0, 2, 3], &[0], 6),
        (&[0], &[0], 1),
        (&[2, 0, 3], &[1, 2], 2),
        (&[2, 3, 0], &[0, 1, 2], 1),
        (&[2, 0, 0], &[2], 0),
        (&[2, 0, 3], &[2], 0),
    ] {
        let of = (shape, axes);
        of_nothing::<f32>(of, |x, axes| x.sum(axes), exactly(&vec![0.0; count]));
        of_nothing::<f32>(of, |x, axes| x.max(axes), exactly(&vec![f32::NEG_INFINITY; count]));
        of_nothing::<f32>(of, |x, axes| x.min(axes), exactly(&vec![f32::INFINITY; count]));
        of_nothing::<f32>(
            of,
            |x, axes| x.mean(axes),
            |_, found| {
                let right = found.len() == count && found.iter().all(|found| found.is_nan());
                if right { Ok(()) } else { Err(format!("{found:?} instead of {count} times NaN")) }
            },
        );
        of_nothing::<i32>(of, |x, axes| x.max(axes), exactly(&vec![i32::MIN; count]));
        of_nothing::<i32>(of, |x, axes| x.min(axes), exactly(&vec![i32::MAX; count]));
        of_nothing::<u32>(of, |x, axes| x.sum(axes), exactly(&vec![0; count]));
        of_nothing::<u32>(of, |x, axes| x.max(axes), exactly(&vec![0; count]));
        of_nothing::<u32>(of, |x, axes| x.min(axes), exactly(&vec![u32::MAX; count]));
        // Halves, with operations before and after.
        of_nothing::<f16>(of, |x, axes| x.exp().sum(axes).exp(), exactly(&vec![f16::ONE; count]));
    }
}

#[test]
fn rows_without_elements_are_normed_to_nothing() {
    for shape in [&[2, 3, 0][..], &[0], &[0, 4]] {
        of_nothing::<f32>((shape, &[]), |x, _| x.softmax(), exactly(&[]));
        of_nothing::<f32>((shape, &[]), |x, _| x.layer_norm(1e-5), exactly(&[]));
        of_nothing::<f16>((shape, &[]), |x, _| x.rms_norm(1e-5), exactly(&[]));
    }
}

#[test]
fn the_greatest_of_nothing_is_a_mistake_that_names_the_shape() {
    for (name, device) in crate::devices() {
        let batch = device.batch();
        let x = batch.tensor_from::<f32>(&[], [2, 3, 0]);
        let _ = x.argmax(2);
        let error = batch.submit().expect_err("there is no greatest");
        assert_eq!(error.kind(), sortie::ErrorKind::Shape, "{name}");
        assert!(error.to_string().contains("argmax: axis 2 of a tensor of shape [2, 3, 0] has no elements"), "{error}");
    }
}
