//! 64-bit integers: arithmetic, comparisons, bits, conversions, memory, atomics.

use crate::{
    case::{Case, Need},
    dice::words,
};

const KERNELS: &str = include_str!("kernels/longs.wgsl");
const ATOMICS: &str = include_str!("kernels/long_atomics.wgsl");
const LEN: usize = 203;

/// Numbers of every size: the high words of most are small, or all ones.
fn longs(seed: u64) -> Vec<u64> {
    let mut words = words(seed, 3 * LEN).into_iter();
    let mut next = || u64::from(words.next().expect("three words for each number"));
    let number = |(low, high, how): (u64, u64, u64)| match how % 6 {
        0 => low | high << 32,
        1 => low,
        2 => low % 10,
        3 => (low % 100).wrapping_neg(),
        4 => high << 32,
        _ => u64::MAX - low,
    };
    let mut numbers: Vec<u64> = (0..LEN).map(|_| number((next(), next(), next()))).collect();
    numbers[..6].copy_from_slice(&[0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 32]);
    numbers
}

fn split(values: impl IntoIterator<Item = u64>) -> Vec<u32> {
    values.into_iter().flat_map(|value| [value as u32, (value >> 32) as u32]).collect()
}

fn pairs<const N: usize>(name: &'static str, reference: impl Fn(u64, u64) -> [u64; N]) -> Case {
    let a = longs(310);
    let mut b = longs(311);
    b.rotate_left(1);
    let expected = split(a.iter().zip(&b).flat_map(|(a, b)| reference(*a, *b)));
    Case::new(name, KERNELS)
        .items([LEN as u32, 1, 1])
        .needs(Need::Int64)
        .input(&split(a.iter().copied()))
        .input(&split(b))
        .output(expected)
}

fn unsigned() -> Case {
    pairs("long_unsigned", |a, b| {
        let divided = [a.checked_div(b).unwrap_or(a), a.checked_rem(b).unwrap_or(0)];
        let compared = [a < b, a <= b, a > b, a >= b, a == b, a != b];
        let bits = compared.into_iter().zip(0..).map(|(set, bit)| u64::from(set) << bit).sum();
        [
            a.wrapping_add(b),
            a.wrapping_sub(b),
            a.wrapping_mul(b),
            divided[0],
            divided[1],
            a.min(b),
            a.max(b),
            bits,
            a & b,
            a | b,
            a ^ b,
            !a,
            a << (b & 31),
            a >> (b & 31),
            a.clamp(5, 1 << 40),
            if a > b { a } else { 0x0123_4567_89ab_cdef },
        ]
    })
}

fn signed() -> Case {
    pairs("long_signed", |a, b| {
        let (a, b) = (a.cast_signed(), b.cast_signed());
        let divided = if b == 0 { [a, 0] } else { [a.wrapping_div(b), a.wrapping_rem(b)] };
        let compared = [a < b, a <= b, a > b, a >= b, a == b, a != b];
        let bits = compared.into_iter().zip(0..).map(|(set, bit)| u64::from(set) << bit).sum();
        [
            a.wrapping_add(b) as u64,
            a.wrapping_sub(b) as u64,
            a.wrapping_mul(b) as u64,
            divided[0] as u64,
            divided[1] as u64,
            a.min(b) as u64,
            a.max(b) as u64,
            bits,
            a.wrapping_neg() as u64,
            a.wrapping_abs() as u64,
            a.signum() as u64,
            (a >> (b & 31)) as u64,
            a.clamp(-(1 << 40), 7) as u64,
        ]
    })
}

/// Numbers that a float has, so that there is one result.
fn conversions() -> Case {
    pairs("long_conversions", |a, b| {
        let low = a as u32;
        let float = ((a & 0xffff) as f32) * 65536.0;
        [
            u64::from(low),
            i64::from(low.cast_signed()).cast_unsigned(),
            u64::from(a != 0) + u64::from(b != 0),
            u64::from(float.to_bits()),
            float as u64,
            (-float) as i64 as u64,
            a,
        ]
    })
}

fn vectors() -> Case {
    pairs("long_vectors", |a, b| {
        let v = [a, b, a.wrapping_add(b), 3];
        let w = v.map(|v| v.wrapping_mul(2));
        let index = (b & 3) as usize;
        let mut changed = w;
        changed[index] = 77;
        let sum = changed.iter().fold(0_u64, |sum, one| sum.wrapping_add(*one));
        let array = [b, a, a ^ b, 1 << 35, 9];
        [w[2], w[1], v[index], sum, array[(a % 5) as usize], if a < b { v[1] } else { w[1] }, v[3].max(w[0])]
    })
}

fn atomics() -> Case {
    let a = longs(312);
    let fold = |start: u64, change: fn(u64, u64) -> u64| a.iter().fold(start, |all, one| change(all, *one));
    let signed = |a: u64, b: u64, smaller: bool| if (a.cast_signed() < b.cast_signed()) == smaller { a } else { b };
    let least = a.iter().copied().reduce(|a, b| signed(a, b, true)).expect("some");
    let most = a.iter().copied().reduce(|a, b| signed(a, b, false)).expect("some");
    let before = [0, 0, 0, u64::MAX, 0, u64::MAX, 0, (1 << 63) - 1, 1 << 63, 5];
    let after = [
        fold(0, u64::wrapping_add),
        fold(0, u64::wrapping_sub),
        fold(0, u64::max),
        fold(u64::MAX, u64::min),
        fold(0, |all, one| all | one),
        fold(u64::MAX, |all, one| all & one),
        fold(0, |all, one| all ^ one),
        least,
        most,
        // One invocation exchanges 5 for 6.
        6,
    ];
    Case::new("long_atomics", ATOMICS)
        .items([LEN as u32, 1, 1])
        .needs(Need::Int64)
        .needs(Need::Int64Atomics)
        .input(&split(a))
        .change(&split(before), split(after))
}

pub(crate) fn cases() -> Vec<Case> {
    vec![unsigned(), signed(), conversions(), vectors(), atomics()]
}
