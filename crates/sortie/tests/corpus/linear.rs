//! Linear algebra and what neural networks are made of.

use crate::{
    case::Case,
    dice::{Dice, floats},
    tolerance::{abs, ulp},
};

const KERNELS: &str = include_str!("kernels/linear.wgsl");
const LEN: usize = 1003;

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

fn saxpy() -> Case {
    let (a, b) = (floats(150, LEN, -9.0, 9.0), floats(151, LEN, -9.0, 9.0));
    let expected: Vec<f64> = wide(&a).iter().zip(wide(&b)).map(|(a, b)| 2.5 * a + b).collect();
    let case = Case::new("saxpy", KERNELS).items([LEN as u32, 1, 1]).input(&a).input(&b).output(expected);
    case.within(abs(3e-6, "the product may be rounded before the sum: half an ulp below 32"))
}

fn relu() -> Case {
    let before = floats(152, LEN, -9.0, 9.0);
    let after: Vec<f32> = before.iter().map(|x| x.max(0.0)).collect();
    Case::new("relu_in_place", KERNELS).items([LEN as u32, 1, 1]).change(&before, after)
}

fn chain() -> Case {
    let a = floats(153, LEN, -2.0, 2.0);
    let expected: Vec<f64> = wide(&a)
        .iter()
        .map(|x| {
            let x = (x * 1.5 + 0.25).tanh();
            let x = (-(x * x - 0.5).abs()).exp();
            (x / (1.0 + x)).sqrt()
        })
        .collect();
    let case = Case::new("elementwise_chain", KERNELS).items([LEN as u32, 1, 1]).input(&a).output(expected);
    case.within(abs(2e-5, "tanh may be off by 1e-5, and the rest does not magnify it"))
}

fn matmul(name: &'static str, [m, n, k]: [usize; 3], items: [u32; 3]) -> Case {
    let (a, b) = (floats(154, m * k, -1.0, 1.0), floats(155, k * n, -1.0, 1.0));
    let (wide_a, wide_b) = (wide(&a), wide(&b));
    let at = |row: usize, column: usize| (0..k).map(|k_| wide_a[row * k + k_] * wide_b[k_ * n + column]).sum::<f64>();
    let expected: Vec<f64> = (0..m * n).map(|place| at(place / n, place % n)).collect();
    let case = Case::new(name, KERNELS).items(items).immediates(&[m as u32, n as u32, k as u32]);
    case.input(&a).input(&b).output(expected).within(abs(1e-5, "a sum of up to 52 rounded products in any order"))
}

fn transpose() -> Case {
    let (m, n) = (37, 53);
    let a = floats(156, m * n, -1.0, 1.0);
    let expected: Vec<f32> = (0..m * n).map(|at| a[at % m * n + at / m]).collect();
    let case = Case::new("transpose_tiled", KERNELS).items([n as u32, m as u32, 1]);
    case.immediates(&[m as u32, n as u32, 0]).input(&a).output(expected)
}

fn softmax() -> Case {
    let (rows, n) = (7, 75);
    let a = floats(157, rows * n, -5.0, 5.0);
    let expected: Vec<f64> = wide(&a)
        .chunks(n)
        .flat_map(|row| {
            let top = row.iter().copied().fold(f64::MIN, f64::max);
            let sum: f64 = row.iter().map(|x| (x - top).exp()).sum();
            row.iter().map(move |x| (x - top).exp() / sum).collect::<Vec<_>>()
        })
        .collect();
    let case = Case::new("softmax", KERNELS).groups([rows as u32, 1, 1]).immediates(&[rows as u32, n as u32, 0]);
    case.input(&a).output(expected).within(abs(5e-6, "exp is allowed 3 + 2 |x| ulp, its sum adds 75 of them"))
}

fn layernorm() -> Case {
    let (rows, n) = (6, 83);
    let (a, b) = (floats(158, rows * n, -2.0, 3.0), floats(159, n, 0.5, 2.0));
    let expected: Vec<f64> = wide(&a)
        .chunks(n)
        .flat_map(|row| {
            let mean = row.iter().sum::<f64>() / n as f64;
            let variance = row.iter().map(|x| x * x).sum::<f64>() / n as f64 - mean * mean;
            let scale = 1.0 / (variance + 1e-3).sqrt();
            row.iter().zip(wide(&b)).map(|(x, b)| (x - mean) * scale * b).collect::<Vec<_>>()
        })
        .collect();
    let case = Case::new("layernorm", KERNELS).groups([rows as u32, 1, 1]).immediates(&[rows as u32, n as u32, 0]);
    case.input(&a).input(&b).output(expected).within(abs(3e-5, "sums of 83 squares in another order"))
}

/// The numbers from 0 to `len`, in some order.
fn permutation(seed: u64, len: u32) -> Vec<u32> {
    let mut dice = Dice::new(seed);
    let mut order: Vec<u32> = (0..len).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, dice.below(at as u32 + 1) as usize);
    }
    order
}

fn gather() -> Case {
    let a = floats(160, 300, -9.0, 9.0);
    let mut dice = Dice::new(161);
    let indices: Vec<u32> = (0..LEN).map(|_| dice.below(300)).collect();
    let expected: Vec<f32> = indices.iter().map(|index| a[*index as usize] * 2.0).collect();
    Case::new("gather", KERNELS).items([LEN as u32, 1, 1]).input(&a).input(&indices).output(expected)
}

fn scatter() -> Case {
    let a = floats(162, LEN, -9.0, 9.0);
    let indices = permutation(163, LEN as u32);
    let mut expected = vec![0.0_f32; LEN];
    for (index, a) in indices.iter().zip(&a) {
        expected[*index as usize] = a + 1.0;
    }
    Case::new("scatter", KERNELS).items([LEN as u32, 1, 1]).input(&a).input(&indices).output(expected)
}

fn elimination() -> Case {
    let count = 77;
    let a = floats(164, 25 * count, -2.0, 2.0);
    let expected: Vec<f64> = wide(&a)
        .chunks(25)
        .map(|m| {
            // By all permutations: another way than the kernel's.
            permutations(5).iter().map(|(sign, order)| (0..5).map(|row| m[5 * row + order[row]]).product::<f64>() * sign).sum()
        })
        .collect();
    let case = Case::new("elimination", KERNELS).items([count as u32, 1, 1]).input(&a).output(expected);
    case.within(ulp(64.0, "rounded steps of an elimination with pivots").or_abs(3e-4))
}

fn permutations(len: usize) -> Vec<(f64, Vec<usize>)> {
    if len == 0 {
        return vec![(1.0, Vec::new())];
    }
    let mut all = Vec::new();
    for (sign, shorter) in permutations(len - 1) {
        for at in 0..len {
            let mut longer = shorter.clone();
            longer.insert(at, len - 1);
            all.push((if (len - 1 - at) % 2 == 0 { sign } else { -sign }, longer));
        }
    }
    all
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        saxpy(),
        relu(),
        chain(),
        matmul("matmul_naive", [19, 27, 33], [27, 19, 1]),
        matmul("matmul_tiled", [21, 13, 30], [13, 21, 1]),
        matmul("matmul_blocked", [20, 28, 52], [7, 5, 1]),
        transpose(),
        softmax(),
        layernorm(),
        gather(),
        scatter(),
        elimination(),
    ]
}
