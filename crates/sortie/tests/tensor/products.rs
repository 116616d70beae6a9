//! Products of matrices.

use sortie::{Batch, Device, Tensor, half::f16};

use crate::{near, on_all, some};

fn reference(a: &[f32], b: &[f32], [m, k, n]: [usize; 3], swapped: [bool; 2]) -> Vec<f64> {
    let mut product = Vec::new();
    for row in 0..m {
        for column in 0..n {
            let sum = (0..k).map(|i| {
                let left = if swapped[0] { a[i * m + row] } else { a[row * k + i] };
                let right = if swapped[1] { b[column * k + i] } else { b[i * n + column] };
                f64::from(left) * f64::from(right)
            });
            product.push(sum.sum());
        }
    }
    product
}

fn shape(rows: usize, columns: usize, swapped: bool) -> [usize; 2] {
    if swapped { [columns, rows] } else { [rows, columns] }
}

fn given<'b>(batch: &'b Batch, data: &[f32], [rows, columns]: [usize; 2], swapped: bool) -> Tensor<'b, f32> {
    let x = batch.tensor_from(data, shape(rows, columns, swapped));
    if swapped { x.transpose() } else { x }
}

#[test]
fn products_agree_with_f64_over_any_shape_either_side_transposed() {
    let sizes = [
        [1, 1, 1],
        [2, 3, 4],
        [5, 7, 3],
        [1, 64, 100],
        [1, 9, 7],
        [3, 16, 8],
        [16, 16, 16],
        [17, 33, 65],
        [64, 32, 128],
        [70, 4, 66],
        [100, 1, 20],
        [8, 100, 8],
        [65, 20, 4],
        // The large blocks of software drivers, whole and not.
        [64, 8, 128],
        [81, 12, 300],
    ];
    for [m, k, n] in sizes {
        for swapped in [[false, false], [true, false], [false, true], [true, true]] {
            let (a, b) = (some(m * k, 1), some(k * n, 2));
            let expected = reference(&a, &b, [m, k, n], swapped);
            // k sums of products of at most 9.
            let absolute = 9.0 * k as f64 * 1.2e-7;
            on_all(
                &format!("{m}×{k}×{n}, transposed {swapped:?}"),
                |batch| {
                    let left = given(batch, &a, [m, k], swapped[0]);
                    let right = given(batch, &b, [k, n], swapped[1]);
                    let product = left.matmul(right);
                    assert_eq!(product.shape(), [m, n]);
                    product
                },
                near(&expected, 0.0, absolute),
            );
        }
    }
}

#[test]
fn batches_of_products_share_a_side_or_not() {
    let (count, [m, k, n]) = (5, [6, 8, 12]);
    let (a, b) = (some(count * m * k, 1), some(count * k * n, 2));
    let of = |left: bool, right: bool| -> Vec<f64> {
        (0..count)
            .flat_map(|number| {
                let a = if left { &a[number * m * k..][..m * k] } else { &a[..m * k] };
                let b = if right { &b[number * k * n..][..k * n] } else { &b[..k * n] };
                reference(a, b, [m, k, n], [false; 2])
            })
            .collect()
    };
    for (left, right) in [(true, true), (true, false), (false, true)] {
        on_all(
            &format!("a batch of products, {left} {right}"),
            |batch| {
                let a =
                    if left { batch.tensor_from(&a, [count, m, k]) } else { batch.tensor_from(&a[..m * k], [m, k]) };
                let b =
                    if right { batch.tensor_from(&b, [count, k, n]) } else { batch.tensor_from(&b[..k * n], [k, n]) };
                a.matmul(b)
            },
            near(&of(left, right), 0.0, 1e-4),
        );
    }
}

#[test]
fn tails_join_products_and_what_does_not_fit_is_put_in_place_first() {
    let [m, k, n] = [20, 12, 24];
    let (a, b, bias) = (some(m * k, 1), some(k * n, 2), some(n, 3));
    let expected: Vec<f64> = reference(&a, &b, [m, k, n], [false; 2])
        .iter()
        .enumerate()
        .map(|(at, x)| (x + f64::from(bias[at % n])).max(0.0) * 0.5)
        .collect();
    on_all(
        "a layer",
        |batch| {
            let (x, w, bias) =
                (batch.tensor_from(&a, [m, k]), batch.tensor_from(&b, [k, n]), batch.tensor_from(&bias, [n]));
            let y = x.matmul(w);
            let y = y + bias;
            let y = y.relu();
            y * 0.5
        },
        near(&expected, 1e-5, 1e-4),
    );
    // Columns of a larger matrix, whose rows do not follow each other.
    let narrow: Vec<f32> = a.chunks(k).flat_map(|row| row[4..8].to_vec()).collect();
    let expected = reference(&narrow, &b[..4 * n], [m, 4, n], [false; 2]);
    on_all(
        "a product of a slice",
        |batch| {
            let (x, w) = (batch.tensor_from(&a, [m, k]), batch.tensor_from(&b[..4 * n], [4, n]));
            let x = x.slice(&[0..m, 4..8]);
            x.matmul(w)
        },
        near(&expected, 0.0, 1e-4),
    );
}

#[test]
fn halves_are_summed_in_f32() {
    let (a, b) = (some(8 * 16, 1), some(16 * 4, 2));
    let round = |data: &[f32]| data.iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
    let back = |data: &[f16]| data.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
    let (a, b) = (round(&a), round(&b));
    let expected = reference(&back(&a), &back(&b), [8, 16, 4], [false; 2]);
    on_all(
        "a product of halves",
        |batch| {
            let (a, b) = (batch.tensor_from(&a, [8, 16]), batch.tensor_from(&b, [16, 4]));
            let product = a.matmul(b);
            product.cast::<f32>()
        },
        // Rounded to ten bits at the end.
        near(&expected, 1e-3, 1e-3),
    );
}

#[test]
fn dot_is_the_sum_of_products() {
    let (a, b) = (some(1000, 1), some(1000, 2));
    let expected: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    on_all(
        "dot",
        |batch| {
            let (a, b) = (batch.tensor_from(&a, [1000]), batch.tensor_from(&b, [1000]));
            let dot = a.dot(b);
            assert_eq!(dot.shape(), [0_usize; 0]);
            dot
        },
        near(&[expected], 0.0, 1e-3),
    );
}

#[test]
fn sums_of_no_products_are_zero() {
    for (m, n) in [(2, 2), (3, 4), (8, 8)] {
        on_all(
            &format!("{m}×0×{n}"),
            |batch| {
                let (a, b) = (batch.tensor_from::<f32>(&[], [m, 0]), batch.tensor_from::<f32>(&[], [0, n]));
                a.matmul(b)
            },
            near(&vec![0.0; m * n], 0.0, 0.0),
        );
    }
}

#[test]
fn what_comes_before_the_matrices_stretches() {
    type Dims = &'static [usize];
    let table: [(Dims, Dims, Dims); 6] = [
        (&[2, 1, 3, 4], &[5, 4, 2], &[2, 5, 3, 2]),
        (&[5, 3, 4], &[2, 1, 4, 2], &[2, 5, 3, 2]),
        (&[1, 3, 4], &[6, 4, 5], &[6, 3, 5]),
        (&[6, 3, 4], &[1, 1, 4, 5], &[1, 6, 3, 5]),
        (&[3, 4], &[2, 2, 4, 5], &[2, 2, 3, 5]),
        (&[0, 3, 4], &[1, 4, 5], &[0, 3, 5]),
    ];
    for (left, right, shape) in table {
        let (a, b) = (some(left.iter().product(), 1), some(right.iter().product(), 2));
        let (&[.., m, k], &[.., n]) = (left, right) else { unreachable!("matrices") };
        let batch = shape[..shape.len() - 2].iter().product::<usize>();
        // Where the matrix of a side is, for one of the products.
        let matrix = |dims: &[usize], number: usize| {
            let (mut at, mut rest, mut stride) = (0, number, 1);
            for back in 3..=shape.len() {
                let (length, index) = (shape[shape.len() - back], rest % shape[shape.len() - back]);
                rest /= length;
                if let Some(own) = dims.len().checked_sub(back).map(|at| dims[at]) {
                    at += if own == 1 { 0 } else { index * stride };
                    stride *= own;
                }
            }
            at
        };
        let one = |number: usize| {
            let (left, right) = (matrix(left, number) * m * k, matrix(right, number) * k * n);
            reference(&a[left..left + m * k], &b[right..right + k * n], [m, k, n], [false; 2])
        };
        let expected: Vec<f64> = (0..batch).flat_map(one).collect();
        on_all(
            &format!("{left:?} times {right:?}"),
            |batch| {
                let (a, b) = (batch.tensor_from(&a, left), batch.tensor_from(&b, right));
                let product = a.matmul(b);
                assert_eq!(product.shape(), shape);
                product
            },
            near(&expected, 1e-6, 1e-5),
        );
    }
}

#[test]
fn sums_are_longer_than_a_driver_loops() {
    let k = 300_001;
    for [m, n] in [[1, 1], [3, 5]] {
        let (a, b) = (some(m * k, 1), some(k * n, 2));
        let expected = reference(&a, &b, [m, k, n], [false; 2]);
        on_all(
            &format!("{m}×{k}×{n}"),
            |batch| {
                let (a, b) = (batch.tensor_from(&a, [m, k]), batch.tensor_from(&b, [k, n]));
                a.matmul(b)
            },
            near(&expected, 1e-4, 1.0),
        );
    }
}

/// Such a product once ran before what it multiplies had been copied, when a chain that began earlier asked for it.
#[test]
fn a_product_of_slices_that_joins_an_earlier_sum_waits_for_them() {
    let (a, b) = (some(3 * 8, 1), some(8 * 2, 2));
    let expected = reference(&a, &b, [3, 8, 2], [false; 2]);
    on_all(
        "a product in three parts",
        |batch| {
            let (a, b) = (batch.tensor_from(&a, [3, 8]), batch.tensor_from(&b, [8, 2]));
            let mut sum: Option<Tensor<f32>> = None;
            for part in [0..3, 3..6, 6..8] {
                let (left, right) = (a.slice(&[0..3, part.clone()]), b.slice(&[part]));
                let product = left.matmul(right);
                sum = Some(sum.map_or(product, |sum| sum + product));
            }
            sum.unwrap_or_else(|| unreachable!("three parts"))
        },
        near(&expected, 1e-6, 1e-5),
    );
}

/// Panels of a weight would go on being read after it was written.
#[test]
fn a_weight_is_packed_at_its_first_use_and_again_after_it_was_written() -> sortie::Result<()> {
    const SIZE: [usize; 3] = [5, 64, 96];
    let [m, k, n] = SIZE;
    let device = Device::cpu()?;
    let (x, weights) = (device.upload(&some(m * k, 1))?, device.upload(&some(k * n, 2))?);
    let y = device.zeros::<f32>(m * n)?;
    let multiply = || -> sortie::Result<Vec<f32>> {
        let batch = device.batch();
        batch.tensor(&x, [m, k]).matmul(batch.tensor(&weights, [k, n])).store(&y);
        batch.submit()?;
        y.download()
    };
    let live = || device.metrics().pool_bytes_live;
    let before = live();
    let first = multiply()?;
    let packed = live() - before;
    assert!(packed >= 4 * (k * n) as u64, "{packed} bytes of panels");
    assert_eq!((multiply()?, live() - before), (first.clone(), packed), "the same panels");
    weights.write(&vec![0.0; k * n])?;
    assert_eq!(live(), before, "no panels of what is gone");
    assert!(multiply()?.iter().all(|x| *x == 0.0));
    weights.write(&some(k * n, 2))?;
    assert_eq!(multiply()?, first);
    // A kernel writes it: what it writes is read.
    let batch = device.batch();
    (batch.tensor(&weights, [k, n]) * 2.0).store(&weights);
    batch.submit()?;
    assert_eq!(multiply()?, first.iter().map(|x| x * 2.0).collect::<Vec<_>>());
    drop(weights);
    Ok(())
}

#[test]
fn steps_after_a_product_read_its_sides_in_any_order() {
    let n = 8;
    let data: Vec<f32> = some(n * n, 3).iter().map(|x| x.round()).collect();
    let at = |row: usize, column: usize| f64::from(data[row * n + column]);
    let product = |row, column| (0..n).map(|k| at(row, k) * at(column, k)).sum::<f64>();
    let expected = |other: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..n * n).map(|e| product(e / n, e % n).max(other(e / n, e % n))).collect()
    };
    type Other = for<'b> fn(Tensor<'b, f32>) -> Tensor<'b, f32>;
    let forms: [(&str, Other, Vec<f64>); 4] = [
        ("as it is", |x| x, expected(&|row, column| at(row, column))),
        ("transposed", |x| x.transpose(), expected(&|row, column| at(column, row))),
        ("a column", |x| x.slice(&[0..8, 3..4]).broadcast([8, 8]), expected(&|row, _| at(row, 3))),
        (
            "rows by number",
            |x| {
                let rows = x.batch().tensor_from(&[7_u32, 6, 5, 4, 3, 2, 1, 0], [8]);
                x.gather(rows)
            },
            expected(&|row, column| at(7 - row, column)),
        ),
    ];
    for (name, other, expected) in forms {
        on_all(
            name,
            |batch| {
                let x = batch.tensor_from(&data, [n, n]);
                x.matmul(x.transpose()).maximum(other(x))
            },
            near(&expected, 0.0, 1e-4),
        );
    }
}

/// Their products are one program: each must read its own part, of panels too.
#[test]
fn products_with_parts_of_a_weight_read_each_its_own() -> sortie::Result<()> {
    const SIZE: [usize; 3] = [5, 24, 16];
    let [m, k, n] = SIZE;
    let device = Device::cpu()?;
    let (x, wide) = (some(m * k, 1), some(k * 3 * n, 2));
    let (left, weights) = (device.upload(&x)?, device.upload(&wide)?);
    for _ in 0..2 {
        let batch = device.batch();
        let part = |at: usize| {
            let weights = batch.tensor(&weights, [k, 3 * n]).slice(&[0..k, at * n..(at + 1) * n]);
            batch.read(batch.tensor(&left, [m, k]).matmul(weights))
        };
        let readings = [0, 1, 2].map(part);
        batch.submit()?;
        for (at, reading) in readings.into_iter().enumerate() {
            let own: Vec<f32> = wide.chunks(3 * n).flat_map(|row| &row[at * n..(at + 1) * n]).copied().collect();
            let expected = reference(&x, &own, SIZE, [false; 2]);
            let close = |(x, expected): (&f32, &f64)| (f64::from(*x) - expected).abs() < 1e-4;
            assert!(reading.wait()?.iter().zip(&expected).all(close), "part {at}");
        }
    }
    Ok(())
}
