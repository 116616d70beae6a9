//! Native operations against plain loops and `f64`.

use sortie_cpu::{
    Threads,
    native::{self, Matrix, MatrixElement, Mismatch, Products, Side},
};

fn data(len: usize, seed: u32) -> Vec<f32> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 8) as f32 / 4_194_304.0 - 2.0)
        .collect()
}

fn side(data: &[f32], strides: [usize; 2]) -> Side<'_> {
    let words = zerocopy::IntoBytes::as_bytes(data);
    let words = zerocopy::FromBytes::ref_from_bytes(words).expect("whole words");
    Side { matrix: Matrix { words, element: MatrixElement::F32, offset: 0, strides }, batch: Default::default() }
}

#[test]
fn products_agree_with_the_sum_in_f64() {
    let shapes = [
        (1, 1, 1),
        (3, 5, 7),
        (64, 64, 64),
        (33, 130, 65),
        (1, 300, 257),
        (257, 300, 1),
        (1, 600, 301),
        (301, 600, 1),
        (130, 128, 129),
        (0, 3, 2),
        (2, 0, 3),
    ];
    for threads in [1, 3] {
        let threads = Threads::new(Some(threads)).expect("threads");
        for (m, k, n) in shapes {
            for (transpose_a, transpose_b) in [(false, false), (true, false), (false, true), (true, true)] {
                let (a, b) = (data(m * k, 1), data(k * n, 2));
                let mut c = vec![f32::NAN; m * n];
                let left = side(&a, if transpose_a { [1, m] } else { [k, 1] });
                let right = side(&b, if transpose_b { [1, k] } else { [n, 1] });
                let products = Products { m, k, n, batch: 1, left, right, packed: None, packed_stride: 0 };
                products.multiply(&mut c, &threads).expect("lengths fit");
                for row in 0..m {
                    for column in 0..n {
                        let left = |i: usize| f64::from(if transpose_a { a[i * m + row] } else { a[row * k + i] });
                        let right =
                            |i: usize| f64::from(if transpose_b { b[column * k + i] } else { b[i * n + column] });
                        let sum: f64 = (0..k).map(|i| left(i) * right(i)).sum();
                        // Each of k roundings is of a partial sum that is at most the sum of all sizes.
                        let sizes: f64 = (0..k).map(|i| (left(i) * right(i)).abs()).sum();
                        let allowed = sizes * k as f64 * f64::from(f32::EPSILON);
                        let found = f64::from(c[row * n + column]);
                        assert!((found - sum).abs() <= allowed, "{m} {k} {n}: {found} for {sum}");
                    }
                }
            }
        }
    }
}

/// A row's bits are those of the row alone, for every number of rows around it and threads.
#[test]
fn a_row_has_the_same_bits_in_every_product() {
    const MOST: usize = 300;
    for (k, n) in [(1, 1), (7, 1), (32, 128), (128, 32), (65, 50), (384, 97), (0, 5)] {
        let (a, b) = (data(MOST * k, 1), data(k * n, 2));
        let alone = |row: usize| {
            let threads = Threads::new(Some(1)).expect("threads");
            let mut c = vec![f32::NAN; n];
            native::matmul([1, k, n], &a[row * k..][..k], &b, &mut c, &threads).expect("lengths fit");
            c
        };
        let expected: Vec<f32> = (0..MOST).flat_map(alone).collect();
        for threads in [1, 2, 3] {
            let threads = Threads::new(Some(threads)).expect("threads");
            for (first, m) in [(0, 2), (3, 3), (5, 8), (1, 17), (9, 63), (30, 64), (0, 128), (11, 200), (0, MOST)] {
                let mut c = vec![f32::NAN; m * n];
                native::matmul([m, k, n], &a[first * k..][..m * k], &b, &mut c, &threads).expect("lengths fit");
                let same = c.iter().zip(&expected[first * n..]).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "[{m}, {k}]·[{k}, {n}]");
            }
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_told() {
    let threads = Threads::new(Some(1)).expect("threads");
    let refused = native::matmul([2, 2, 2], &[0.0; 4], &[0.0; 3], &mut [0.0; 4], &threads);
    assert_eq!(refused, Err(Mismatch { wanted: 4, found: 3 }));
}
