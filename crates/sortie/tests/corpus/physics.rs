//! Bodies and waves.

use crate::{
    case::Case,
    dice::floats,
    tolerance::abs,
    word::Word,
};

const KERNELS: &str = include_str!("kernels/physics.wgsl");

/// Words of a body: position, mass, velocity, padding.
fn bodies() -> Case {
    let count = 45;
    let before = floats(210, 8 * count, -3.0, 3.0).into_iter().enumerate();
    let before: Vec<f32> = before.map(|(at, x)| if at % 8 == 3 { x.abs() } else { x }).collect();
    let wide: Vec<f64> = before.iter().map(|x| f64::from(*x)).collect();
    let (dt, softening) = (0.0625, 0.5);
    let after = (0..count).flat_map(|own| {
        let body = &wide[8 * own..8 * own + 8];
        let mut pull = [0.0; 3];
        for other in wide.chunks(8).enumerate().filter(|(index, _)| *index != own).map(|(_, other)| other) {
            let to: [f64; 3] = std::array::from_fn(|axis| other[axis] - body[axis]);
            let d2 = to.iter().map(|to| to * to).sum::<f64>() + softening;
            for axis in 0..3 {
                pull[axis] += to[axis] * other[3] / (d2 * d2.sqrt());
            }
        }
        let velocity: [f64; 3] = std::array::from_fn(|axis| body[4 + axis] + pull[axis] * dt);
        let position: [f64; 3] = std::array::from_fn(|axis| body[axis] + velocity[axis] * dt);
        let words = position.map(Word::from).into_iter().chain([Word::from(body[3])]);
        words.chain(velocity.map(Word::from)).chain([Word::Any]).collect::<Vec<_>>()
    });
    let after: Vec<Word> = after.collect();
    let case = Case::new("bodies", KERNELS).items([count as u32, 1, 1]).input(&before).output(after);
    case.within(abs(2e-5, "a sum of 44 pulls in any order, each with a root and a division")).input(&[0.0625_f32, 0.5])
}

fn fft() -> Case {
    let groups = 5;
    let signal = floats(211, 2 * 64 * groups, -1.0, 1.0);
    let expected = signal.chunks(128).flat_map(|signal| {
        let wave: Vec<[f64; 2]> = signal.chunks(2).map(|x| [f64::from(x[0]), f64::from(x[1])]).collect();
        // By its definition, not by halves.
        (0..64).flat_map(move |k| {
            let terms = wave.iter().enumerate().map(|(n, [re, im])| {
                let (sin, cos) = (-std::f64::consts::TAU * (k * n % 64) as f64 / 64.0).sin_cos();
                [re * cos - im * sin, re * sin + im * cos]
            });
            terms.fold([0.0; 2], |sum, term| [sum[0] + term[0], sum[1] + term[1]])
        })
    });
    let expected: Vec<f64> = expected.collect();
    let case = Case::new("fft", KERNELS).groups([groups as u32, 1, 1]).input(&signal).output(expected);
    case.within(abs(0.04, "WGSL allows sin and cos to be off by 2^-11, in six layers that sum up to 64 numbers below 1.5"))
}

pub(crate) fn cases() -> Vec<Case> {
    vec![bodies(), fft()]
}
