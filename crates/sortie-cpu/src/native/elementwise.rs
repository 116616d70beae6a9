//! Elementwise operations and sums.

use super::{Mismatch, same};
use crate::{
    Threads, math,
    simd::{Simd, Work},
};

/// Elements from which on cheap work is shared: below, waking a thread costs more than it does.
const WORTH_SHARING: usize = 1 << 16;

/// Elements of one piece of shared work: they stay in the second-level cache.
const PIECE: usize = 1 << 14;

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unary {
    /// −x
    Neg,
    /// |x|
    Abs,
    /// max(x, 0)
    Relu,
    /// eˣ
    Exp,
    /// ln x
    Log,
    /// √x
    Sqrt,
    /// sin x
    Sin,
    /// cos x
    Cos,
    /// tanh x
    Tanh,
    /// 1 / (1 + e⁻ˣ)
    Sigmoid,
    /// x · sigmoid(x)
    Swish,
    /// x · ½ (1 + tanh(√(2/π) (x + 0.044715 x³)))
    GeluTanh,
}

/// Two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Binary {
    /// a + b
    Add,
    /// a − b
    Sub,
    /// a · b
    Mul,
    /// a / b
    Div,
    /// The smaller; the other one where one is NaN.
    Min,
    /// The larger; the other one where one is NaN.
    Max,
}

/// `y = f(x)`, element by element.
///
/// # Errors
/// When the lengths differ.
pub fn unary(f: Unary, x: &[f32], y: &mut [f32], threads: &Threads) -> Result<(), Mismatch> {
    same(x.len(), y.len())?;
    match f {
        Unary::Neg => map(x, y, threads, |x| -x),
        Unary::Abs => map(x, y, threads, f32::abs),
        Unary::Relu => map(x, y, threads, |x| math::max(x, 0.0)),
        Unary::Exp => map(x, y, threads, math::exp),
        Unary::Log => map(x, y, threads, math::log),
        Unary::Sqrt => map(x, y, threads, f32::sqrt),
        Unary::Sin => map(x, y, threads, math::sin),
        Unary::Cos => map(x, y, threads, math::cos),
        Unary::Tanh => map(x, y, threads, math::tanh),
        Unary::Sigmoid => map(x, y, threads, sigmoid),
        Unary::Swish => map(x, y, threads, |x| x * sigmoid(x)),
        Unary::GeluTanh => {
            map(x, y, threads, |x| 0.5 * x * (1.0 + math::tanh(0.797_884_6 * (x + 0.044_715 * x * x * x))));
        }
    }
    Ok(())
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + math::exp(-x))
}

/// `y = f(a, b)`, element by element.
///
/// # Errors
/// When the lengths differ.
pub fn binary(f: Binary, a: &[f32], b: &[f32], y: &mut [f32], threads: &Threads) -> Result<(), Mismatch> {
    same(a.len(), b.len())?;
    same(a.len(), y.len())?;
    match f {
        Binary::Add => zip(a, b, y, threads, |a, b| a + b),
        Binary::Sub => zip(a, b, y, threads, |a, b| a - b),
        Binary::Mul => zip(a, b, y, threads, |a, b| a * b),
        Binary::Div => zip(a, b, y, threads, |a, b| a / b),
        Binary::Min => zip(a, b, y, threads, math::min),
        Binary::Max => zip(a, b, y, threads, math::max),
    }
    Ok(())
}

/// `y = factor · x`.
///
/// # Errors
/// When the lengths differ.
pub fn scale(factor: f32, x: &[f32], y: &mut [f32], threads: &Threads) -> Result<(), Mismatch> {
    same(x.len(), y.len())?;
    map(x, y, threads, |x| factor * x);
    Ok(())
}

/// Every element becomes `value`.
pub fn fill(value: f32, y: &mut [f32]) {
    y.fill(value);
}

/// The sum of all, in pieces whose order does not depend on the number of threads.
#[must_use]
pub fn sum(x: &[f32]) -> f32 {
    let piece = |piece: &[f32]| {
        let (blocks, rest) = piece.as_chunks::<16>();
        let mut sums = [0.0_f32; 16];
        for block in blocks {
            sums.iter_mut().zip(block).for_each(|(sum, x)| *sum += x);
        }
        sums.iter().sum::<f32>() + rest.iter().sum::<f32>()
    };
    x.chunks(PIECE).map(piece).sum()
}

fn map(x: &[f32], y: &mut [f32], threads: &Threads, f: impl Fn(f32) -> f32 + Copy + Send + Sync) {
    let simd = Simd::new();
    match threads.pool().filter(|_| y.len() >= WORTH_SHARING) {
        None => simd.run(Map { x, y, f }),
        Some(pool) => pool.in_place_scope(|scope| {
            for (x, y) in x.chunks(PIECE).zip(y.chunks_mut(PIECE)) {
                scope.spawn(move |_| simd.run(Map { x, y, f }));
            }
        }),
    }
}

fn zip(a: &[f32], b: &[f32], y: &mut [f32], threads: &Threads, f: impl Fn(f32, f32) -> f32 + Copy + Send + Sync) {
    let simd = Simd::new();
    match threads.pool().filter(|_| y.len() >= WORTH_SHARING) {
        None => simd.run(Zip { a, b, y, f }),
        Some(pool) => pool.in_place_scope(|scope| {
            for ((a, b), y) in a.chunks(PIECE).zip(b.chunks(PIECE)).zip(y.chunks_mut(PIECE)) {
                scope.spawn(move |_| simd.run(Zip { a, b, y, f }));
            }
        }),
    }
}

struct Map<'a, F> {
    x: &'a [f32],
    y: &'a mut [f32],
    f: F,
}

impl<F: Fn(f32) -> f32 + Copy> Work for Map<'_, F> {
    #[inline(always)]
    fn work(self) {
        for (y, x) in self.y.iter_mut().zip(self.x) {
            *y = (self.f)(*x);
        }
    }
}

struct Zip<'a, F> {
    a: &'a [f32],
    b: &'a [f32],
    y: &'a mut [f32],
    f: F,
}

impl<F: Fn(f32, f32) -> f32 + Copy> Work for Zip<'_, F> {
    #[inline(always)]
    fn work(self) {
        for ((y, a), b) in self.y.iter_mut().zip(self.a).zip(self.b) {
            *y = (self.f)(*a, *b);
        }
    }
}
