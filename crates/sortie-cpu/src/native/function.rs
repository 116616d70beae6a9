//! Functions of single elements, applied to a block at a time.
//!
//! A block is a slice of words of any element type, so intermediate results of a chain of functions need no types. Each
//! function computes the same bits as the WGSL of the tensor operation does on this crate.

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]

use sortie_plan::{ElementType, Function};

use crate::{
    math,
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
    Simd::new().run(Apply { f, operands, result, args, to });
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

/// A type that a word can hold.
trait Word: Copy {
    fn of(bits: u32) -> Self;
    fn bits(self) -> u32;
}

impl Word for f32 {
    #[inline(always)]
    fn of(bits: u32) -> Self {
        Self::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Word for u32 {
    #[inline(always)]
    fn of(bits: u32) -> Self {
        bits
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self
    }
}

impl Word for i32 {
    #[inline(always)]
    fn of(bits: u32) -> Self {
        bits.cast_signed()
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        self.cast_unsigned()
    }
}

impl Word for bool {
    #[inline(always)]
    fn of(bits: u32) -> Self {
        bits != 0
    }
    #[inline(always)]
    fn bits(self) -> u32 {
        u32::from(self)
    }
}

struct Apply<'a> {
    f: Function,
    operands: ElementType,
    result: ElementType,
    args: [&'a [u32]; 3],
    to: &'a mut [u32],
}

impl Vectorize for Apply<'_> {
    #[inline(always)]
    fn work(mut self) {
        match self.operands {
            ElementType::F32 | ElementType::F16 => self.floats(),
            ElementType::U32 => self.unsigned(),
            ElementType::I32 => self.signed(),
        }
        if self.result == ElementType::F16 {
            self.to.iter_mut().for_each(|word| *word = math::quantize_to_f16(f32::from_bits(*word)).to_bits());
        }
    }
}

impl Apply<'_> {
    #[inline(always)]
    fn one<A: Word, R: Word>(&mut self, f: impl Fn(A) -> R) {
        for (to, a) in self.to.iter_mut().zip(self.args[0]) {
            *to = f(A::of(*a)).bits();
        }
    }

    #[inline(always)]
    fn two<A: Word, R: Word>(&mut self, f: impl Fn(A, A) -> R) {
        for ((to, a), b) in self.to.iter_mut().zip(self.args[0]).zip(self.args[1]) {
            *to = f(A::of(*a), A::of(*b)).bits();
        }
    }

    #[inline(always)]
    fn clamp<A: Word + PartialOrd>(&mut self) {
        for (((to, x), low), high) in self.to.iter_mut().zip(self.args[0]).zip(self.args[1]).zip(self.args[2]) {
            let (x, low, high) = (A::of(*x), A::of(*low), A::of(*high));
            let below = if x > high { high } else { x };
            *to = if x < low { low } else { below }.bits();
        }
    }

    #[inline(always)]
    fn select(&mut self) {
        for (((to, c), a), b) in self.to.iter_mut().zip(self.args[0]).zip(self.args[1]).zip(self.args[2]) {
            *to = if *c == 0 { *b } else { *a };
        }
    }

    #[inline(always)]
    fn floats(&mut self) {
        match self.f {
            Function::Neg => self.one(|x: f32| -x),
            Function::Abs => self.one(f32::abs),
            Function::Exp => self.one(math::exp),
            Function::Log => self.one(math::log),
            Function::Sqrt => self.one(f32::sqrt),
            Function::Rsqrt => self.one(|x: f32| 1.0 / x.sqrt()),
            Function::Sin => self.one(math::sin),
            Function::Cos => self.one(math::cos),
            Function::Tanh => self.one(math::tanh),
            Function::Sigmoid => self.one(|x: f32| 1.0 / (1.0 + math::exp(-x))),
            Function::Relu => self.one(|x: f32| if x < 0.0 { 0.0 } else { x }),
            Function::Swish => self.one(|x: f32| x / (1.0 + math::exp(-x))),
            Function::Gelu => self.one(gelu),
            Function::GeluTanh => self.one(gelu_tanh),
            Function::Clamp => self.clamp::<f32>(),
            Function::Add => self.two(|a: f32, b: f32| a + b),
            Function::Sub => self.two(|a: f32, b: f32| a - b),
            Function::Mul => self.two(|a: f32, b: f32| a * b),
            Function::Div => self.two(|a: f32, b: f32| a / b),
            Function::Pow => self.two(pow),
            Function::Minimum => self.two(|a: f32, b: f32| {
                let other = if b <= a { b } else { a + b };
                if a < b { a } else { other }
            }),
            Function::Maximum => self.two(|a: f32, b: f32| {
                let other = if b >= a { b } else { a + b };
                if a > b { a } else { other }
            }),
            Function::Equal => self.two(|a: f32, b: f32| a == b),
            Function::NotEqual => self.two(|a: f32, b: f32| a != b),
            Function::Less => self.two(|a: f32, b: f32| a < b),
            Function::LessEqual => self.two(|a: f32, b: f32| a <= b),
            Function::Greater => self.two(|a: f32, b: f32| a > b),
            Function::GreaterEqual => self.two(|a: f32, b: f32| a >= b),
            Function::Select => self.select(),
            Function::Cast => match self.result {
                ElementType::F32 | ElementType::F16 => self.one(|x: u32| x),
                // WGSL stops at the last float that fits.
                ElementType::U32 => self.one(|x| math::f32_to_u32(x).min(0xffff_ff00)),
                ElementType::I32 => self.one(|x| math::f32_to_i32(x).min(0x7fff_ff80)),
            },
        }
    }

    #[inline(always)]
    fn unsigned(&mut self) {
        match self.f {
            Function::Clamp => self.clamp::<u32>(),
            Function::Add => self.two(u32::wrapping_add),
            Function::Sub => self.two(u32::wrapping_sub),
            Function::Mul => self.two(u32::wrapping_mul),
            Function::Div => self.two(math::udiv),
            Function::Minimum => self.two(|a: u32, b: u32| a.min(b)),
            Function::Maximum => self.two(|a: u32, b: u32| a.max(b)),
            Function::Equal => self.two(|a: u32, b: u32| a == b),
            Function::NotEqual => self.two(|a: u32, b: u32| a != b),
            Function::Less => self.two(|a: u32, b: u32| a < b),
            Function::LessEqual => self.two(|a: u32, b: u32| a <= b),
            Function::Greater => self.two(|a: u32, b: u32| a > b),
            Function::GreaterEqual => self.two(|a: u32, b: u32| a >= b),
            Function::Select => self.select(),
            Function::Cast if self.result.is_float() => self.one(math::u32_to_f32),
            // The other functions are the identity for unsigned numbers, or are never applied to them.
            _ => self.one(|x: u32| x),
        }
    }

    #[inline(always)]
    fn signed(&mut self) {
        match self.f {
            Function::Neg => self.one(i32::wrapping_neg),
            Function::Abs => self.one(i32::wrapping_abs),
            Function::Relu => self.one(|x: i32| if x < 0 { 0 } else { x }),
            Function::Clamp => self.clamp::<i32>(),
            Function::Div => self.two(math::idiv),
            Function::Minimum => self.two(|a: i32, b: i32| a.min(b)),
            Function::Maximum => self.two(|a: i32, b: i32| a.max(b)),
            Function::Less => self.two(|a: i32, b: i32| a < b),
            Function::LessEqual => self.two(|a: i32, b: i32| a <= b),
            Function::Greater => self.two(|a: i32, b: i32| a > b),
            Function::GreaterEqual => self.two(|a: i32, b: i32| a >= b),
            Function::Cast if self.result.is_float() => self.one(math::i32_to_f32),
            // The same bits as for unsigned numbers.
            _ => self.unsigned(),
        }
    }
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
