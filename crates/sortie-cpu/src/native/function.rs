//! Functions of single elements, applied to a block at a time.
//!
//! A block is a slice of words of any element type, so intermediate results of a chain of functions need no types. Each
//! function computes the same bits as the WGSL of the tensor operation does on this crate.

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]

use sortie_plan::{ElementType, Function};

use crate::{
    math,
    opcode::{Apply, Opcode, float, float2},
    simd::{Simd, Vectorize},
};

/// Applies a function to blocks of equal length.
///
/// `operands` and `result` are element types. Halves are given as the floats of the same value; a result of halves is
/// rounded to the nearest half, still as a float. Operands that the function does not take are not read.
/// If a block is shorter than `to`, the rest of `to` is left.
///
/// ```
/// use sortie_cpu::native::apply;
/// use sortie_plan::{ElementType, Function};
/// let (a, b) = ([1.5_f32, -2.0].map(f32::to_bits), [0.25_f32, 4.0].map(f32::to_bits));
/// let mut sum = [0; 2];
/// apply(Function::Add, ElementType::F32, ElementType::F32, [&a, &b, &[]], &mut sum);
/// assert_eq!(sum.map(f32::from_bits), [1.75, 2.0]);
/// ```
pub fn apply(f: Function, operands: ElementType, result: ElementType, args: [&[u32]; 3], to: &mut [u32]) {
    Simd::new().run(Elements { f, operands, result, args, to });
}

/// Converts halves to floats, from half number `start` of `words` on.
pub fn widen(words: &[u32], start: usize, to: &mut [u32]) {
    for (at, to) in (start..).zip(to) {
        *to = math::f16_bits_to_f32(words[at / 2] >> (at % 2 * 16)).to_bits();
    }
}

/// Converts floats to halves, two per word. An odd number of floats is padded with a zero.
pub fn narrow(floats: &[u32], to: &mut [u32]) {
    for (pair, to) in floats.chunks(2).zip(to) {
        let half = |at: usize| pair.get(at).map_or(0, |bits| math::f32_to_f16_bits(f32::from_bits(*bits)));
        *to = half(0) | half(1) << 16;
    }
}

/// A function and the blocks that it is applied to.
struct Elements<'a> {
    f: Function,
    operands: ElementType,
    result: ElementType,
    args: [&'a [u32]; 3],
    to: &'a mut [u32],
}

impl Vectorize for Elements<'_> {
    #[inline(always)]
    fn work(mut self) {
        self.compute();
        if self.result == ElementType::F16 {
            self.to.iter_mut().for_each(|word| *word = math::quantize_to_f16(f32::from_bits(*word)).to_bits());
        }
    }
}

impl Apply for &mut Elements<'_> {
    type Out = ();

    #[inline(always)]
    fn one(self, f: impl Fn(u32) -> u32 + Copy) {
        for (to, a) in self.to.iter_mut().zip(self.args[0]) {
            *to = f(*a);
        }
    }

    #[inline(always)]
    fn two(self, f: impl Fn(u32, u32) -> u32 + Copy) {
        for ((to, a), b) in self.to.iter_mut().zip(self.args[0]).zip(self.args[1]) {
            *to = f(*a, *b);
        }
    }

    #[inline(always)]
    fn three(self, f: impl Fn(u32, u32, u32) -> u32 + Copy) {
        for (((to, a), b), c) in self.to.iter_mut().zip(self.args[0]).zip(self.args[1]).zip(self.args[2]) {
            *to = f(*a, *b, *c);
        }
    }
}

impl Elements<'_> {
    #[inline(always)]
    fn compute(&mut self) {
        use Function as F;
        let of = self.operands;
        let by_type = |float: Opcode, signed: Opcode, unsigned: Opcode| match of {
            ElementType::F32 | ElementType::F16 => float,
            ElementType::I32 => signed,
            ElementType::U32 => unsigned,
        };
        let opcode = match self.f {
            F::Neg => by_type(Opcode::NegF, Opcode::NegI, Opcode::Copy),
            F::Abs => by_type(Opcode::AbsF, Opcode::AbsI, Opcode::Copy),
            F::Exp => Opcode::Exp,
            F::Log => Opcode::Log,
            F::Sqrt => Opcode::Sqrt,
            F::Rsqrt => Opcode::InverseSqrt,
            F::Sin => Opcode::Sin,
            F::Cos => Opcode::Cos,
            F::Tanh => Opcode::Tanh,
            F::Add => by_type(Opcode::AddF, Opcode::AddI, Opcode::AddI),
            F::Sub => by_type(Opcode::SubF, Opcode::SubI, Opcode::SubI),
            F::Mul => by_type(Opcode::MulF, Opcode::MulI, Opcode::MulI),
            F::Div => by_type(Opcode::DivF, Opcode::DivI, Opcode::DivU),
            F::Equal => by_type(Opcode::EqF, Opcode::EqI, Opcode::EqI),
            F::NotEqual => by_type(Opcode::NeF, Opcode::NeI, Opcode::NeI),
            F::Less | F::Greater => by_type(Opcode::LtF, Opcode::LtI, Opcode::LtU),
            F::LessEqual | F::GreaterEqual => by_type(Opcode::LeF, Opcode::LeI, Opcode::LeU),
            F::Minimum if !of.is_float() => by_type(Opcode::Copy, Opcode::MinI, Opcode::MinU),
            F::Maximum if !of.is_float() => by_type(Opcode::Copy, Opcode::MaxI, Opcode::MaxU),
            F::Cast => match self.result {
                ElementType::F32 | ElementType::F16 => by_type(Opcode::Copy, Opcode::IntToFloat, Opcode::UintToFloat),
                ElementType::U32 => by_type(Opcode::FloatToUint, Opcode::Copy, Opcode::Copy),
                ElementType::I32 => by_type(Opcode::FloatToInt, Opcode::Copy, Opcode::Copy),
            },
            F::Minimum => return self.two(float2(minimum)),
            F::Maximum => return self.two(float2(maximum)),
            F::Pow => return self.two(float2(pow)),
            F::Sigmoid => return self.one(float(|x| 1.0 / (1.0 + math::exp(-x)))),
            F::Swish => return self.one(float(|x| x / (1.0 + math::exp(-x)))),
            F::Gelu => return self.one(float(gelu)),
            F::GeluTanh => return self.one(float(gelu_tanh)),
            F::Select => return self.three(|c, a, b| if c == 0 { b } else { a }),
            F::Relu => {
                return match of {
                    ElementType::I32 => self.one(|x| x.cast_signed().max(0).cast_unsigned()),
                    ElementType::U32 => self.one(|x| x),
                    _ => self.one(float(|x| if x < 0.0 { 0.0 } else { x })),
                };
            }
            F::Clamp => {
                return match of {
                    ElementType::I32 => self.three(|x, a, b| clamp([x, a, b].map(u32::cast_signed)).cast_unsigned()),
                    ElementType::U32 => self.three(|x, a, b| clamp([x, a, b])),
                    _ => self.three(|x, a, b| clamp([x, a, b].map(f32::from_bits)).to_bits()),
                };
            }
        };
        if matches!(self.f, F::Greater | F::GreaterEqual) {
            self.args.swap(0, 1);
        }
        opcode.apply(&mut *self);
        // Instructions have all ones for true.
        if matches!(self.f, F::Equal | F::NotEqual | F::Less | F::LessEqual | F::Greater | F::GreaterEqual) {
            self.to.iter_mut().for_each(|word| *word &= 1);
        }
    }
}

#[inline(always)]
fn clamp<T: Copy + PartialOrd>([x, low, high]: [T; 3]) -> T {
    let below = if x > high { high } else { x };
    if x < low { low } else { below }
}

/// NaN if one of the two is.
#[inline(always)]
pub(super) fn minimum(a: f32, b: f32) -> f32 {
    let other = if b <= a { b } else { a + b };
    if a < b { a } else { other }
}

/// NaN if one of the two is.
#[inline(always)]
pub(super) fn maximum(a: f32, b: f32) -> f32 {
    let other = if b >= a { b } else { a + b };
    if a > b { a } else { other }
}

/// A rational function of x², as in the WGSL of tensor operations.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let c = if x > 4.0 { 4.0 } else { x };
    let c = if x < -4.0 { -4.0 } else { c };
    let s = c * c;
    let p = s * -2.726_142_3e-10 + 2.770_681_4e-8;
    let p = p * s + -2.101_024e-6;
    let p = p * s + -5.692_506_4e-5;
    let p = p * s + -7.349_906_3e-4;
    let p = p * s + -2.954_6e-3;
    let p = p * s + -1.609_603_3e-2;
    let q = s * -1.456_607_18e-5 + -2.133_740_5e-4;
    let q = q * s + -1.682_827e-3;
    let q = q * s + -7.373_329_2e-3;
    let q = q * s + -1.426_473_9e-2;
    c * p / q
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    0.5 * x * (1.0 + math::tanh(0.797_884_6 * (x + 0.044_715 * x * x * x)))
}

/// A negative base has powers with integral exponents.
#[inline(always)]
fn pow(x: f32, y: f32) -> f32 {
    let size = if y == 0.0 { 1.0 } else { math::pow(x.abs(), y) };
    let odd = (y - 2.0 * math::floor(0.5 * y)).abs() == 1.0;
    let whole = if (x < 0.0) & odd { -size } else { size };
    if (x < 0.0) & (math::floor(y) != y) { f32::NAN } else { whole }
}
