//! Builtins of one, two and three floats, each applied as a scalar and to vectors of every width.
//!
//! The bounds are those of WGSL's table of accuracy, in the intervals for which it gives one; where a driver keeps less, the row says so.

use crate::{
    case::Case,
    dice::floats,
    tolerance::{EXACT, Tolerance, abs, ulp},
};

const UNARY: &str = include_str!("kernels/unary.wgsl");
const TERNARY: &str = include_str!("kernels/ternary.wgsl");
const LEN: usize = 4 * 207;

struct Unary {
    name: &'static str,
    from: f32,
    to: f32,
    reference: fn(f64) -> f64,
    tolerance: Tolerance,
}

fn unary(seed: u64, row: &Unary) -> Case {
    let mut x = floats(seed, LEN, row.from, row.to);
    // Both ends, and what lies between two integers.
    let special = [row.from, row.to, 0.0, 0.5, 1.0, 1.5, 2.5, -0.5, -1.5, -1.0, -2.5, 0.75, 3.0];
    for (x, special) in x.iter_mut().zip(special) {
        *x = special.clamp(row.from, row.to);
    }
    let expected: Vec<f64> = x.iter().map(|x| (row.reference)(f64::from(*x))).collect();
    Case::new(row.name, UNARY.replace("FUNCTION", row.name))
        .entry("unary")
        .items([LEN as u32 / 4, 1, 1])
        .input(&x)
        .output(expected)
        .within(row.tolerance)
}

struct Ternary {
    name: &'static str,
    call: &'static str,
    a: (f32, f32),
    b: (f32, f32),
    c: (f32, f32),
    reference: fn(f64, f64, f64) -> f64,
    tolerance: Tolerance,
}

fn ternary(seed: u64, row: &Ternary) -> Case {
    let draw = |nth: u64, (from, to): (f32, f32)| floats(seed * 3 + nth, LEN, from, to);
    let (a, b, c) = (draw(500, row.a), draw(501, row.b), draw(502, row.c));
    let each = a.iter().zip(&b).zip(&c);
    let expected: Vec<f64> =
        each.map(|((a, b), c)| (row.reference)(f64::from(*a), f64::from(*b), f64::from(*c))).collect();
    Case::new(row.name, TERNARY.replace("CALL", row.call))
        .entry("ternary")
        .items([LEN as u32 / 4, 1, 1])
        .input(&[a, b, c].concat())
        .output(expected)
        .within(row.tolerance)
}

const INHERITED: &str = "WGSL inherits it from other functions; an absolute error of them shows near zero";

fn unaries() -> Vec<Unary> {
    let row = |name, (from, to), reference, tolerance| Unary { name, from, to, reference, tolerance };
    vec![
        row("abs", (-1e6, 1e6), f64::abs, EXACT),
        row("sign", (-2.0, 2.0), |x| if x == 0.0 { 0.0 } else { x.signum() }, EXACT),
        row("floor", (-1000.0, 1000.0), f64::floor, EXACT),
        row("ceil", (-1000.0, 1000.0), f64::ceil, EXACT),
        row("round", (-1000.0, 1000.0), f64::round_ties_even, EXACT),
        row("trunc", (-1000.0, 1000.0), f64::trunc, EXACT),
        row("fract", (-1000.0, 1000.0), |x| x - x.floor(), EXACT),
        row("saturate", (-2.0, 3.0), |x| x.clamp(0.0, 1.0), EXACT),
        row("sqrt", (0.0, 1e6), f64::sqrt, ulp(3.0, "WGSL inherits it from 1 / inverseSqrt")),
        row("inverseSqrt", (1e-3, 1e6), |x| 1.0 / x.sqrt(), ulp(2.0, "WGSL allows 2 ulp")),
        row("exp", (-20.0, 20.0), f64::exp, ulp(3.0 + 2.0 * 20.0, "WGSL allows 3 + 2 |x| ulp")),
        row("exp2", (-30.0, 30.0), f64::exp2, ulp(3.0 + 2.0 * 30.0, "WGSL allows 3 + 2 |x| ulp")),
        row("log", (1e-3, 1e6), f64::ln, ulp(3.0, "WGSL allows 3 ulp").or_abs(2_f64.powi(-21))),
        row("log2", (1e-3, 1e6), f64::log2, ulp(3.0, "WGSL allows 3 ulp").or_abs(2_f64.powi(-21))),
        row("sin", (-3.1, 3.1), f64::sin, abs(2_f64.powi(-11), "WGSL allows 2^-11 within a turn")),
        row("cos", (-3.1, 3.1), f64::cos, abs(2_f64.powi(-11), "WGSL allows 2^-11 within a turn")),
        row("tan", (-1.2, 1.2), f64::tan, abs(2e-3, "WGSL inherits it from sin / cos: 2^-11 each, over cos >= 0.36")),
        row("asin", (-0.99, 0.99), f64::asin, abs(5e-4, INHERITED)),
        row("acos", (-0.99, 0.99), f64::acos, abs(5e-4, INHERITED)),
        row("atan", (-50.0, 50.0), f64::atan, ulp(4096.0, "WGSL allows 4096 ulp")),
        row("sinh", (-6.0, 6.0), f64::sinh, ulp(64.0, INHERITED).or_abs(1e-6)),
        row("cosh", (-6.0, 6.0), f64::cosh, ulp(64.0, INHERITED)),
        row("tanh", (-6.0, 6.0), f64::tanh, abs(1e-5, "WGSL allows 1e-5")),
        row("asinh", (-20.0, 20.0), f64::asinh, abs(1e-4, "WGSL inherits it from log(x + sqrt(x * x + 1)), which cancels")),
        row("acosh", (1.0, 40.0), f64::acosh, abs(1e-3, "WGSL inherits it from log(x + sqrt(x * x - 1)), which cancels")),
        row("atanh", (-0.95, 0.95), f64::atanh, abs(1e-5, "WGSL inherits it from log((1 + x) / (1 - x)) / 2")),
        row("radians", (-720.0, 720.0), f64::to_radians, ulp(2.0, "a multiplication with a rounded constant")),
        row("degrees", (-20.0, 20.0), f64::to_degrees, ulp(2.0, "a multiplication with a rounded constant")),
        row("quantizeToF16", (-100.0, 100.0), quantize, ulp(16384.0, "WGSL lets it round either way: two ulp of f16")),
    ]
}

fn quantize(x: f64) -> f64 {
    half::f16::from_f64(x).to_f64()
}

fn ternaries() -> Vec<Ternary> {
    let none = (0.0, 0.0);
    let row = |name, call, a, b, c, reference, tolerance| Ternary { name, call, a, b, c, reference, tolerance };
    let wide = (-1000.0, 1000.0);
    vec![
        row("pow", "pow(a, b)", (0.01, 20.0), (-4.0, 4.0), none, |a, b, _| a.powf(b), POW),
        row("atan2", "atan2(a, b)", wide, (0.5, 1000.0), none, |a, b, _| a.atan2(b), ulp(4096.0, "WGSL allows 4096 ulp")),
        row("min_of_floats", "min(a, b)", wide, wide, none, |a, b, _| a.min(b), EXACT),
        row("max_of_floats", "max(a, b)", wide, wide, none, |a, b, _| a.max(b), EXACT),
        row("clamp_of_floats", "clamp(a, b, c)", wide, (-500.0, 0.0), (0.0, 500.0), f64::clamp, EXACT),
        row("step", "step(a, b)", wide, wide, none, |a, b, _| if a <= b { 1.0 } else { 0.0 }, EXACT),
        row("smoothstep", "smoothstep(a, b, c)", (-10.0, -1.0), (1.0, 10.0), (-12.0, 12.0), smoothstep, SMOOTH),
        row("mix", "mix(a, b, c)", wide, wide, (0.0, 1.0), |a, b, c| a * (1.0 - c) + b * c, MIX),
        row("fma", "fma(a, b, c)", wide, wide, wide, f64::mul_add, FMA),
        row("float_add", "a + b", wide, wide, none, |a, b, _| a + b, EXACT),
        row("float_sub", "a - b", wide, wide, none, |a, b, _| a - b, EXACT),
        row("float_mul", "a * b", wide, wide, none, |a, b, _| a * b, EXACT),
        row("float_div", "a / b", wide, (0.01, 1000.0), none, |a, b, _| a / b, ulp(2.5, "WGSL allows 2.5 ulp")),
        row("float_rem", "a % b", wide, (10.0, 900.0), none, |a, b, _| a % b, REM),
        row("float_neg", "-a + -b * c", wide, (1.0, 1.0), wide, |a, b, c| -a - b * c, EXACT),
    ]
}

const POW: Tolerance =
    ulp(300.0, "WGSL inherits it from exp2(b log2(a)): 3 ulp of up to 17 in the exponent, and 3 + 2 * 17 ulp of exp2");
const SMOOTH: Tolerance = abs(1e-6, "WGSL inherits it from a division and a polynomial");
const MIX: Tolerance = abs(3e-4, "a (1 - c) + b c or a + (b - a) c: roundings of values of 2000");
const FMA: Tolerance = abs(0.0625, "a b + c may be rounded twice: the product is below 1e6");
const REM: Tolerance = abs(2e-3, "WGSL inherits it from a - b * trunc(a / b), whose quotient may be off by 2.5 ulp");

fn smoothstep(low: f64, high: f64, x: f64) -> f64 {
    let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

pub(crate) fn cases() -> Vec<Case> {
    let unary = unaries().iter().zip(100..).map(|(row, seed)| unary(seed, row)).collect::<Vec<_>>();
    let ternary = ternaries().into_iter().zip(200..).map(|(row, seed)| ternary(seed, &row));
    unary.into_iter().chain(ternary).collect()
}
