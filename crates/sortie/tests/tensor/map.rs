//! Element by element.

use sortie::{Batch, Tensor, half::f16};

use crate::{exactly, halves, near, on_all, some};

type Unary = (&'static str, fn(&Batch, Tensor<f32>) -> Tensor<f32>, fn(f64) -> f64, f64);

/// The error function, by its series and its continued fraction.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    2.0 / std::f64::consts::PI.sqrt() * sum
}

#[test]
fn functions_of_one_agree_with_f64() {
    // The tolerance is that of WGSL's own functions: 2⁻¹¹ absolute for sin and cos, a few units elsewhere; of sums of them.
    let table: [Unary; 14] = [
        ("neg", |b, x| b.neg(x), |x| -x, 0.0),
        ("abs", |b, x| b.abs(x), f64::abs, 0.0),
        ("exp", |b, x| b.exp(x), f64::exp, 2e-6),
        ("log", |b, x| b.log(x), f64::ln, 3e-6),
        ("sqrt", |b, x| b.sqrt(x), f64::sqrt, 1e-6),
        ("rsqrt", |b, x| b.rsqrt(x), |x| 1.0 / x.sqrt(), 2e-6),
        ("sin", |b, x| b.sin(x), f64::sin, 5e-4),
        ("cos", |b, x| b.cos(x), f64::cos, 5e-4),
        ("tanh", |b, x| b.tanh(x), f64::tanh, 1e-5),
        ("sigmoid", |b, x| b.sigmoid(x), |x| 1.0 / (1.0 + (-x).exp()), 2e-6),
        ("relu", |b, x| b.relu(x), |x| if x < 0.0 { 0.0 } else { x }, 0.0),
        ("swish", |b, x| b.swish(x), |x| x / (1.0 + (-x).exp()), 5e-6),
        ("gelu", |b, x| b.gelu(x), |x| x * 0.5 * (1.0 + erf(x / 2_f64.sqrt())), 3e-6),
        (
            "gelu_tanh",
            |b, x| b.gelu_tanh(x),
            |x| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh()),
            1e-5,
        ),
    ];
    let special = [0.0, 1.0, -1.0, f32::INFINITY, f32::NAN, 20.0, -20.0, 1e-6, 88.0, -87.0, 1e-30];
    for (name, apply, reference, tolerance) in table {
        for len in [0, 1, 3, 4, 7, 64, 1001] {
            let mut data = some(len, len);
            data.iter_mut().zip(special).for_each(|(to, special)| *to = special);
            let wild = |x: f32| (name == "sin" || name == "cos") && x.is_infinite();
            data.iter_mut().filter(|x| wild(**x)).for_each(|x| *x = 2.5);
            let expected: Vec<f64> = data.iter().map(|x| reference(f64::from(*x))).collect();
            let shape = if len % 7 == 0 { vec![7, len / 7] } else { vec![len] };
            on_all(
                &format!("{name} of {len}"),
                |batch| {
                    let x = batch.tensor_from(&data, &shape);
                    apply(batch, x)
                },
                near(&expected, tolerance, tolerance),
            );
        }
    }
}

type Binary = (&'static str, fn(&Batch, Tensor<f32>, Tensor<f32>) -> Tensor<f32>, fn(f64, f64) -> f64, f64);

#[test]
fn functions_of_two_agree_with_f64_over_shapes_that_stretch_in_each_direction() {
    let table: [Binary; 7] = [
        ("add", |b, x, y| b.add(x, y), |x, y| f64::from((x + y) as f32), 0.0),
        ("sub", |b, x, y| b.sub(x, y), |x, y| f64::from((x - y) as f32), 0.0),
        ("mul", |b, x, y| b.mul(x, y), |x, y| f64::from((x * y) as f32), 0.0),
        ("div", |b, x, y| b.div(x, y), |x, y| x / y, 1e-6),
        ("minimum", |b, x, y| b.minimum(x, y), |x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) }, 0.0),
        ("maximum", |b, x, y| b.maximum(x, y), |x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }, 0.0),
        ("pow", |b, x, y| b.pow(x, y), f64::powf, 2e-5),
    ];
    let shapes: [(&[usize], &[usize], &[usize]); 9] = [
        (&[4, 6], &[4, 6], &[4, 6]),
        (&[4, 8], &[8], &[4, 8]),
        (&[5, 3], &[3], &[5, 3]),
        (&[5, 1], &[1, 3], &[5, 3]),
        (&[8], &[6, 8], &[6, 8]),
        (&[], &[7], &[7]),
        (&[2, 1, 4], &[3, 1], &[2, 3, 4]),
        (&[6, 4], &[6, 1], &[6, 4]),
        (&[0, 4], &[4], &[0, 4]),
    ];
    for (name, apply, reference, tolerance) in table {
        for (left, right, both) in shapes {
            let data = |shape: &[usize], seed| {
                let mut data = some(shape.iter().product(), seed);
                if name == "pow" {
                    // Whole powers of negative numbers, and others of positive ones.
                    data.iter_mut().for_each(|x| *x = if seed == 2 { x.round() } else { *x });
                } else if data.len() > 4 {
                    data[1] = f32::NAN;
                    data[3] = f32::INFINITY;
                }
                data
            };
            let (a, b) = (data(left, 1), data(right, 2));
            let expected: Vec<f64> = indices(both)
                .map(|index| reference(f64::from(a[at(left, &index)]), f64::from(b[at(right, &index)])))
                .collect();
            on_all(
                &format!("{name} of {left:?} and {right:?}"),
                |batch| {
                    let (x, y) = (batch.tensor_from(&a, left), batch.tensor_from(&b, right));
                    let z = apply(batch, x, y);
                    assert_eq!(z.shape(), both);
                    z
                },
                near(&expected, tolerance, tolerance),
            );
        }
    }
}

/// All indices of a shape, in order.
pub(crate) fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<'_> {
    (0..shape.iter().product()).map(move |mut flat: usize| {
        let mut index = vec![0; shape.len()];
        for (to, length) in index.iter_mut().zip(shape).rev() {
            *to = flat % length;
            flat /= length;
        }
        index
    })
}

/// Where an index of a shape lies in one that stretches to it.
pub(crate) fn at(shape: &[usize], index: &[usize]) -> usize {
    let own = &index[index.len() - shape.len()..];
    shape.iter().zip(own).fold(0, |at, (length, index)| at * length + if *length == 1 { 0 } else { *index })
}

#[test]
fn integers_truth_and_conversions_are_exact() {
    let a: Vec<i32> = (-20..21).collect();
    let b: Vec<i32> = (0..41).map(|at| at % 7 - 3).collect();
    on_all(
        "select(less(a, b), a, -b)",
        |batch| {
            let (a, b) = (batch.tensor_from(&a, [41]), batch.tensor_from(&b, [41]));
            let (less, minus) = (a.less(b), -b);
            less.select(a, minus)
        },
        exactly(&a.iter().zip(&b).map(|(a, b)| if a < b { *a } else { -b }).collect::<Vec<_>>()),
    );
    on_all(
        "comparisons",
        |batch| {
            let (a, b) = (batch.tensor_from(&a, [41]), batch.tensor_from(&b, [41]));
            let all = [a.equal(b), a.not_equal(b), a.less_equal(b), a.greater(b), a.greater_equal(b)];
            let mut sum = a.less(b);
            for (power, one) in (1..).zip(all) {
                let one = one * (1 << power);
                sum = sum + one;
            }
            sum
        },
        exactly(
            &a.iter()
                .zip(&b)
                .map(|(a, b)| {
                    let bits = [a < b, a == b, a != b, a <= b, a > b, a >= b];
                    bits.iter().rev().fold(0, |sum, bit| sum * 2 + u32::from(*bit))
                })
                .collect::<Vec<_>>(),
        ),
    );
    let floats = [0.0_f32, -1.5, 2.9, 1e20, -1e20, 4_000_000_000.0, 7.0, 8.0];
    on_all(
        "floats to i32",
        |batch| {
            let x = batch.tensor_from(&floats, [8]);
            x.cast::<i32>()
        },
        // WGSL: towards zero, then to the nearest that is a float too.
        exactly(&[0, -1, 2, 2_147_483_520, i32::MIN, 2_147_483_520, 7, 8]),
    );
    on_all(
        "u32 to f32 and back",
        |batch| {
            let x = batch.tensor_from(&[1_u32, 2, 16_777_216, 77, 3], [5]);
            let x = x.cast::<f32>();
            let x = x.clamp(2.0, 1e6);
            x.cast::<u32>()
        },
        exactly(&[2_u32, 2, 1_000_000, 77, 3]),
    );
}

#[test]
fn halves_are_rounded_after_every_operation() {
    for len in [1, 2, 5, 8, 1001] {
        let data: Vec<f16> = some(len, 3).into_iter().map(f16::from_f32).collect();
        let other: Vec<f16> = some(len, 4).into_iter().map(f16::from_f32).collect();
        let expected: Vec<f16> = data
            .iter()
            .zip(&other)
            .map(|(a, b)| {
                let product = f16::from_f32(a.to_f32() * b.to_f32());
                f16::from_f32(product.to_f32() + a.to_f32())
            })
            .collect();
        on_all(
            &format!("halves, {len}"),
            |batch| {
                let (a, b) = (batch.tensor_from(&data, [len]), batch.tensor_from(&other, [len]));
                let product = a * b;
                (product + a)
            },
            halves(&expected),
        );
    }
}

#[test]
fn more_elements_than_fit_one_dimension_of_a_grid() {
    // 65,535 groups of 64 invocations of four elements, and some.
    let len = 65_536 * 64 * 4 + 4;
    let data: Vec<f32> = (0..len).map(|at| (at % 1000) as f32).collect();
    for (name, device) in crate::devices().iter().filter(|(name, _)| name.contains("fuse true")) {
        let buffer = device.upload(&data).expect("memory");
        let batch = device.batch();
        let x = batch.tensor(&buffer, [len]);
        let y = x * 2.0;
        let z = y.slice(&[len - 8..len]);
        let z = batch.read(z);
        batch.submit().unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected: Vec<f32> = data[len - 8..].iter().map(|x| x * 2.0).collect();
        assert_eq!(z.wait().unwrap_or_else(|error| panic!("{name}: {error}")), expected, "{name}");
    }
}
