//! Native operations against plain loops and `f64`.

use sortie_cpu::{
    MatmulAlgorithm, Threads,
    native::{self, Matmul, Mismatch},
};

fn data(len: usize, seed: u32) -> Vec<f32> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 8) as f32 / 4_194_304.0 - 2.0)
        .collect()
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
                let shape = Matmul { m, k, n, transpose_a, transpose_b };
                native::matmul(shape, &a, &b, &mut c, &threads).expect("lengths fit");
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

/// The first large product was preceded by 21 others, to find the faster library.
#[test]
fn the_first_large_product_is_one_product() {
    const SIDE: usize = 512;
    let threads = Threads::new(Some(2)).expect("threads");
    let (a, b) = (data(SIDE * SIDE, 1), data(SIDE * SIDE, 2));
    let mut c = vec![0.0; SIDE * SIDE];
    native::matmul(Matmul::new(SIDE, SIDE, SIDE), &a, &b, &mut c, &threads).expect("lengths fit");
    assert_eq!(threads.products(), 1);
}

#[test]
fn every_library_multiplies_when_it_is_set_and_measuring_sets_none() {
    const SIDE: usize = 160;
    let threads = Threads::new(Some(2)).expect("threads");
    assert_eq!(threads.matmul_algorithm(), MatmulAlgorithm::Gemm);
    let times = native::time_matmul_algorithms(&threads);
    assert_eq!((threads.matmul_algorithm(), threads.products()), (MatmulAlgorithm::Gemm, 21), "7 rounds of 3");
    assert_eq!(times.map(|(library, _)| library), MatmulAlgorithm::ALL);
    // Small integers: sums are exact, so every order of additions gives the same bits.
    let [a, b] = [3, 5].map(|step| (0..SIDE * SIDE).map(|at| (at * step % 7) as f32 - 3.0).collect::<Vec<_>>());
    let products = MatmulAlgorithm::ALL.map(|library| {
        threads.set_matmul_algorithm(library);
        assert_eq!((threads.matmul_algorithm(), MatmulAlgorithm::named(library.name())), (library, Some(library)));
        let mut c = vec![f32::NAN; SIDE * SIDE];
        native::matmul(Matmul::new(SIDE, SIDE, SIDE), &a, &b, &mut c, &threads).expect("lengths fit");
        c
    });
    assert!(products.iter().all(|product| *product == products[0]));
    assert_eq!((threads.products(), MatmulAlgorithm::named("abacus")), (24, None));
}

#[test]
fn lengths_that_do_not_fit_are_told() {
    let threads = Threads::new(Some(1)).expect("threads");
    let refused = native::matmul(Matmul::new(2, 2, 2), &[0.0; 4], &[0.0; 3], &mut [0.0; 4], &threads);
    assert_eq!(refused, Err(Mismatch { wanted: 4, found: 3 }));
}
