//! Functions of whole vectors.

use crate::{
    case::Case,
    dice::floats,
    tolerance::{abs, ulp},
};

const KERNELS: &str = include_str!("kernels/geometry.wgsl");
const LEN: u32 = 211;
const TERMS: &str = "up to four rounded products in any order, each below 100";
const NORMALIZED: &str = "normalize is inherited from length and a division, and products of the results follow";

/// A kernel of two vectors, and as many floats as come of each pair.
fn pairs(name: &'static str, seed: u64, reference: impl Fn([f64; 4], [f64; 4]) -> Vec<f64>) -> Case {
    let x = floats(seed, 8 * LEN as usize, -10.0, 10.0);
    let vector = |at: &[f32]| [0, 1, 2, 3].map(|nth| f64::from(at[nth]));
    let expected: Vec<f64> = x.chunks(8).flat_map(|x| reference(vector(x), vector(&x[4..]))).collect();
    Case::new(name, KERNELS).items([LEN, 1, 1]).input(&x).output(expected)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn normalize(a: &[f64]) -> Vec<f64> {
    let length = dot(a, a).sqrt();
    a.iter().map(|a| a / length).collect()
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn length(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn refract(e: &[f64], n: &[f64], ratio: f64) -> Vec<f64> {
    let along = dot(n, e);
    let k = 1.0 - ratio * ratio * (1.0 - along * along);
    let of = |e: &f64, n: &f64| if k < 0.0 { 0.0 } else { ratio * e - (ratio * along + k.sqrt()) * n };
    e.iter().zip(n).map(|(e, n)| of(e, n)).collect()
}

fn reflections(a: [f64; 4], b: [f64; 4]) -> Vec<f64> {
    let (e, n) = (normalize(&a[..3]), normalize(&b[..3]));
    let facing = dot(&e, &[b[3], b[2], b[1]]) < 0.0;
    let forward = n.iter().map(|n| if facing { *n } else { -n });
    let along = dot(&n, &e);
    let reflected = e.iter().zip(&n).map(|(e, n)| e - 2.0 * along * n);
    forward.chain(reflected).chain(refract(&e, &n, 0.5)).chain(refract(&e, &n, 3.0)).collect()
}

fn mixes(a: [f64; 4], b: [f64; 4]) -> Vec<f64> {
    let scalar = (0..4).map(|at| a[at] * 0.75 + b[at] * 0.25);
    let vector = [a[0], (a[1] + b[1]) / 2.0, b[2]];
    let last = 2.0 * a[2] - b[2] / 2.0 + 1.0 - (3.0 - a[2] * b[2]);
    scalar.chain(vector).chain([last]).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        pairs("products", 40, |a, b| {
            let cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
            let dots = [2, 3, 4].map(|len| dot(&a[..len], &b[..len]));
            [dots, cross].concat()
        })
        .within(abs(1e-4, TERMS)),
        pairs("lengths", 41, |a, b| {
            let [one, two, three, four] = [1, 2, 3, 4].map(|len| length(&a[..len]));
            let distances = [length(&difference(&a[1..3], &b[1..3])), length(&difference(&a, &b))];
            let unit = normalize(&a[..3]);
            vec![one, two, three, four, distances[0], distances[1], unit[0], unit[1], normalize(&b)[3]]
        })
        .within(ulp(16.0, "WGSL inherits them from sqrt(dot(a, a)), and a division")),
        // Near total reflection the root of a difference magnifies what the vectors are off by.
        pairs("reflections", 42, reflections).within(abs(2e-3, NORMALIZED)),
        pairs("mixes", 43, mixes).within(abs(3e-5, TERMS)),
    ]
}
