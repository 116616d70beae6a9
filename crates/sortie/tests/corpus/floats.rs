//! Floats beyond arithmetic: conversions out of range, comparisons with NaN, parts and exponents, packing.

use crate::{
    case::Case,
    dice::{floats, words},
    tolerance::ulp,
    word::Word,
};

const KERNELS: &str = include_str!("kernels/floats.wgsl");
const LEN: u32 = 301;

fn case(name: &'static str, items: u32) -> Case {
    Case::new(name, KERNELS).items([items, 1, 1])
}

fn comparisons() -> Case {
    let x = vec![f32::NAN, f32::NEG_INFINITY, -1.5, -0.0, 0.0, 1.0, 1.000_000_1, f32::MAX, f32::INFINITY, -f32::NAN];
    let of = |a: f32, b: f32| {
        let all = [a < b, a <= b, a > b, a >= b, a == b, a.partial_cmp(&b) != Some(std::cmp::Ordering::Less)];
        let ordered = all.iter().enumerate().map(|(bit, set)| u32::from(*set) << bit).sum::<u32>();
        // naga writes SPIR-V's ordered `!=`, which is false of NaN; WGSL lets an implementation assume that there is none.
        let differ = if a.is_nan() || b.is_nan() { Word::Among(0, 1) } else { Word::from(a != b) };
        [Word::from(ordered), differ]
    };
    let expected: Vec<Word> = x.iter().flat_map(|b| x.iter().flat_map(move |a| of(*a, *b))).collect();
    case("float_comparisons", 10).items([10, 10, 1]).input(&x).output(expected)
}

/// WGSL clamps to what both types can express, so the largest results are the largest `f32` below the limit.
fn to_integer() -> Case {
    let mut x = floats(20, LEN as usize, -5e9, 5e9);
    x.extend(floats(21, LEN as usize, -300.0, 300.0));
    let big = [2_147_483_520.0, 2_147_483_648.0, -2_147_483_648.0, -2_147_483_904.0, 4_294_967_040.0, 4_294_967_296.0];
    x.extend(big);
    x.extend([0.0, -0.0, 0.99, -0.99, 1e20, -1e20, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY]);
    let mut expected: Vec<Word> = x
        .iter()
        .flat_map(|x| {
            let unsigned = x.clamp(0.0, 4_294_967_040.0) as u32;
            let signed = x.clamp(-2_147_483_648.0, 2_147_483_520.0) as i32;
            [Word::from(unsigned), Word::from(signed)]
        })
        .collect();
    // WGSL leaves open what a NaN becomes, not that it becomes something.
    x.push(f32::NAN);
    expected.extend([Word::Any; 2]);
    case("float_to_integer", x.len() as u32).input(&x).output(expected)
}

fn to_float() -> Case {
    let w = words(22, LEN as usize);
    let expected: Vec<f64> = w.iter().flat_map(|w| [f64::from(*w), f64::from(w.cast_signed())]).collect();
    case("integer_to_float", LEN)
        .input(&w)
        .output(expected)
        .within(ulp(1.0, "WGSL does not say how a conversion rounds"))
}

fn integer_conversions() -> Case {
    let w = words(23, LEN as usize);
    let expected: Vec<u32> = w
        .iter()
        .map(|w| {
            let truth = u32::from(*w != 0);
            (w.wrapping_add(1) << 1) ^ (w.wrapping_mul(2) << 2) ^ truth ^ (truth << 4)
        })
        .collect();
    case("integer_conversions", LEN).input(&w).output(expected)
}

fn bool_conversions() -> Case {
    let x = vec![0.0_f32, -0.0, 1.0, -1.0, 0.25, 1e-30, 1e30];
    let expected: Vec<u32> = x
        .iter()
        .map(|x| {
            let (b, c) = (*x != 0.0, *x - 1.0 != 0.0);
            let bits = [b, c, b, b, !b, b && c, b || c, b == c, b != c];
            bits.iter().enumerate().map(|(bit, set)| u32::from(*set) << bit).sum()
        })
        .collect();
    case("bool_conversions", 7).input(&x).output(expected)
}

fn bitcasts() -> Case {
    // Normal numbers only: NaNs may lose their payload, and denormals may be flushed.
    let w: Vec<u32> = floats(24, LEN as usize, -1e9, 1e9).iter().map(|x| x.to_bits()).collect();
    let expected: Vec<u32> =
        w.iter().flat_map(|w| [*w, w ^ 0x8000_0000 ^ 0x3f80_0000 ^ (-f32::from_bits(*w)).to_bits()]).collect();
    case("bitcasts", LEN).input(&w).output(expected)
}

fn parts() -> Case {
    let x = floats(25, LEN as usize, -100.0, 100.0);
    let expected: Vec<f32> = x
        .iter()
        .flat_map(|x| {
            let half = x * 0.5;
            [x.fract(), x.trunc(), half.fract(), half.trunc(), (-x).trunc()]
        })
        .collect();
    case("parts", LEN).input(&x).output(expected)
}

/// The fraction in [0.5, 1) and the exponent of a number that is not 0.
fn frexp(x: f32) -> (f32, i32) {
    let exponent = (x.to_bits() >> 23 & 0xff).cast_signed() - 126;
    (f32::from_bits(x.to_bits() & 0x807f_ffff | 126 << 23), exponent)
}

fn exponents() -> Case {
    let x: Vec<f32> = floats(26, LEN as usize, -1000.0, 1000.0).iter().map(|x| x + 0.5).collect();
    let expected: Vec<f64> = x
        .iter()
        .zip(0_i32..)
        .flat_map(|(x, index)| {
            let (fract, exponent) = frexp(*x);
            let (fract, wide) = (f64::from(fract), f64::from(*x));
            let (more, scaled) = (f64::from(frexp(x * 8.0).1), wide * 2_f64.powi(index % 21 - 10));
            [fract, f64::from(exponent), -fract, more, wide, scaled, 2_f64.powi(index % 9)]
        })
        .collect();
    case("exponents", LEN).input(&x).output(expected)
}

/// Values in [-1.2, 1.2] that lie well inside a rounding step of every format, because WGSL rounds by `floor(0.5 + x)` of an f32.
fn packing() -> Case {
    let mut x = floats(27, 4 * LEN as usize, -1.2, 1.2);
    let exact = |x: f32, scale: f64| {
        let scaled = f64::from(x) * scale;
        (scaled - scaled.floor() - 0.5).abs() > 0.01
    };
    for x in &mut x {
        while ![127.0, 255.0, 32767.0, 65535.0].iter().all(|scale| exact(*x, *scale)) {
            *x = f32::from_bits(x.to_bits() + 17);
        }
    }
    let norm = |x: f32, low: f64, scale: f64| ((f64::from(x).clamp(low, 1.0) * scale + 0.5).floor() as i32).cast_unsigned();
    let join = |parts: &[u32]| {
        let width = 32 / parts.len();
        let mask = ((1_u64 << width) - 1) as u32;
        parts.iter().enumerate().map(|(nth, part)| (part & mask) << (width * nth)).sum::<u32>()
    };
    let expected: Vec<u32> = x
        .chunks(4)
        .flat_map(|v| {
            let all = |low, scale| [0, 1, 2, 3].map(|at| norm(v[at], low, scale));
            let n = [0, 1, 2, 3].map(|at: usize| (v[at] * 200.0) as i32);
            let (snorm, unorm) = (all(-1.0, 32767.0), all(0.0, 65535.0));
            [
                join(&all(-1.0, 127.0)),
                join(&all(0.0, 255.0)),
                join(&snorm[..2]),
                join(&unorm[2..]),
                join(&n.map(i32::cast_unsigned)),
                join(&n.map(i32::cast_unsigned)),
                join(&n.map(|n| n.clamp(-128, 127).cast_unsigned())),
                join(&n.map(|n| n.unsigned_abs().min(255))),
            ]
        })
        .collect();
    case("packing", LEN).input(&x).output(expected)
}

fn packing_halves() -> Case {
    let x = floats(28, 2 * LEN as usize, -500.0, 500.0);
    let expected: Vec<Word> = x.chunks(2).map(|x| Word::Halves(f64::from(x[0]), f64::from(x[1]))).collect();
    case("packing_halves", LEN)
        .input(&x)
        .output(expected)
        .within(ulp(1.0, "WGSL does not say how a conversion rounds"))
}

fn unpacking() -> Case {
    let w = words(29, LEN as usize);
    let expected: Vec<f64> = w
        .iter()
        .flat_map(|w| {
            let bytes = w.to_le_bytes();
            let shorts = [*w as u16, (*w >> 16) as u16];
            let snorm = bytes.map(|byte| (f64::from(byte.cast_signed()) / 127.0).max(-1.0));
            let unorm = bytes.map(|byte| f64::from(byte) / 255.0);
            let wide = shorts.map(|short| (f64::from(short.cast_signed()) / 32767.0).max(-1.0));
            let fine = shorts.map(|short| f64::from(short) / 65535.0);
            [snorm.as_slice(), &unorm, &wide, &fine].concat()
        })
        .collect();
    case("unpacking", LEN).input(&w).output(expected).within(ulp(3.0, "WGSL allows 3 ulp"))
}

fn unpacking_halves() -> Case {
    // No denormals, which may be flushed, and no infinities, which a driver may make of NaN.
    let w: Vec<u32> = words(30, LEN as usize).iter().map(|w| (w & 0xbfff_bfff) | 0x0400_0400).collect();
    let half = |bits: u32| half::f16::from_bits(bits as u16).to_f64();
    let expected: Vec<f64> = w.iter().flat_map(|w| [half(*w), half(w >> 16)]).collect();
    case("unpacking_halves", LEN).input(&w).output(expected)
}

fn unpacking_bytes() -> Case {
    let w = words(31, LEN as usize);
    let expected: Vec<i32> = w
        .iter()
        .flat_map(|w| {
            let bytes = w.to_le_bytes();
            [bytes.map(|byte| i32::from(byte.cast_signed())), bytes.map(i32::from)].concat()
        })
        .collect();
    case("unpacking_bytes", LEN).input(&w).output(expected)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        comparisons(),
        to_integer(),
        to_float(),
        integer_conversions(),
        bool_conversions(),
        bitcasts(),
        parts(),
        exponents(),
        packing(),
        packing_halves(),
        unpacking(),
        unpacking_halves(),
        unpacking_bytes(),
    ]
}
