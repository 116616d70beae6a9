//! Half-precision floats: in memory, in arithmetic, across conversions.

use half::f16;

use crate::{
    case::{Case, Need},
    dice::Dice,
    tolerance::{Tolerance, abs, ulp},
    word::Word,
};

const KERNELS: &str = include_str!("kernels/halves.wgsl");
const LEN: usize = 101;
const ROUNDED: Tolerance = ulp(1.0, "WGSL asks for a correctly rounded result of f16; a driver may compute in f32 and round twice");

/// Multiples of 1/32 below 8, so that sums and small products are exact.
fn halves(seed: u64, len: usize) -> Vec<f64> {
    let mut dice = Dice::new(seed);
    (0..len).map(|_| (f64::from(dice.below(512)) - 256.0) / 32.0).collect()
}

fn data(values: &[f64]) -> Vec<f16> {
    values.iter().map(|value| f16::from_f64(*value)).collect()
}

fn words(values: &[f64]) -> Vec<Word> {
    values.chunks(2).map(|pair| Word::Halves(pair[0], pair[1])).collect()
}

fn case(name: &'static str, items: usize) -> Case {
    Case::new(name, KERNELS).items([items as u32, 1, 1]).needs(Need::F16)
}

fn pairs(name: &'static str, seed: u64, reference: impl Fn(f64, f64) -> [f64; 6]) -> Case {
    let x = halves(seed, 2 * LEN);
    let expected: Vec<f64> = x.chunks(2).flat_map(|x| reference(x[0], x[1])).collect();
    case(name, LEN).input(&data(&x)).output(words(&expected))
}

fn conversions() -> Case {
    let x = halves(132, 2 * LEN);
    let expected: Vec<f64> = x
        .iter()
        .zip(0_i32..)
        .flat_map(|(x, index)| {
            let sum = f64::from(index - 50) + f64::from(index) + f64::from(u8::from(*x > 0.0)) + 1.0;
            [*x, x.trunc(), f16::from_f64(x * 3.0).to_f64(), sum]
        })
        .collect();
    case("half_conversions", 2 * LEN).input(&data(&x)).output(expected)
}

/// Bytes: a at 0, b at 2, c at 4, v at 8, d at 14, m at 16 to 24.
fn structs() -> Case {
    let x = halves(133, 12 * LEN);
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for (index, s) in x.chunks(12).enumerate() {
        let half = |at: usize| f16::from_f64(s[at]).to_bits().to_le_bytes();
        bytes.extend([half(0), half(1)].concat());
        bytes.extend((s[2] as f32).to_le_bytes());
        bytes.extend((3..11).flat_map(half));
        let column = s[7 + 2 * (index % 2) + 1];
        expected.push(s[0] + 2.0 * s[1] + 4.0 * s[2] + 8.0 * s[3] + 16.0 * s[5] + 32.0 * s[6] + 64.0 * column);
    }
    case("half_structs", LEN).input(&bytes).output(expected)
}

fn vectors() -> Case {
    let x = halves(134, 4 * LEN);
    let expected: Vec<f64> = x
        .chunks(4)
        .enumerate()
        .flat_map(|(index, x)| {
            let mut v = [x[3] + 1.0, x[2], x[1], x[0]];
            v[index % 4] = v[(index + 1) % 4];
            v.map(|v| v * 2.0 - 0.5)
        })
        .collect();
    case("half_vectors", LEN).input(&data(&x)).output(words(&expected))
}

/// The fraction in [0.5, 1) and the exponent of a number that is not 0.
fn frexp(x: f64) -> [f64; 2] {
    let exponent = x.abs().log2().floor() + 1.0;
    [x / exponent.exp2(), exponent]
}

fn exponents() -> Case {
    let mut x = halves(135, 4 * LEN);
    x.iter_mut().filter(|x| **x == 0.0).for_each(|x| *x = -0.375);
    // From the least that is not subnormal to the greatest.
    x[..4].copy_from_slice(&[2_f64.powi(-14), 65504.0, -1.0, -0.999_511_718_75]);
    let expected: Vec<f64> = x
        .chunks(4)
        .flat_map(|v| {
            let [a, b, c, d] = [v[0], v[1], v[2], v[3]].map(frexp);
            [a[0], b[0], c[0], d[0], a[1], b[1], c[1], d[1], a[0], a[1] - 1.0, b[1] + 1.0, c[1] + 2.0]
        })
        .collect();
    case("half_exponents", LEN).entry("half_frexp").input(&data(&x)).output(expected)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        pairs("half_arithmetic", 130, |a, b| [a + b, a - b, a * b, -a, a.max(b) + 2.0, if a < b { b } else { a }])
            .within(ROUNDED),
        pairs("half_functions", 131, |a, b| {
            let mixed = f64::midpoint(a, b);
            [a / (b.abs() + 1.0), a.abs().sqrt(), a.floor() + (b - b.floor()), a.clamp(-2.0, 2.0), mixed, a + 3.0 * b]
        })
        .within(abs(0.02, "each step is rounded to f16, at values below 32")),
        conversions(),
        structs(),
        vectors(),
        exponents(),
    ]
}
