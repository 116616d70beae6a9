//! What each instruction computes, for one lane. Branch-free, so that a loop over lanes becomes SIMD.

#![expect(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "registers are bits; the instruction says how to read them"
)]

use crate::{
    code::{Binary, Ternary, Unary},
    math,
};

/// Takes the function of an instruction, by its number of operands: to apply it to one word, or to loops of them.
pub(crate) trait Apply {
    type Out;
    fn one(self, f: impl Fn(u32) -> u32 + Copy) -> Self::Out;
    fn two(self, f: impl Fn(u32, u32) -> u32 + Copy) -> Self::Out;
    fn three(self, f: impl Fn(u32, u32, u32) -> u32 + Copy) -> Self::Out;
}

#[inline(always)]
fn float(f: impl Fn(f32) -> f32 + Copy) -> impl Fn(u32) -> u32 + Copy {
    move |a| f(f32::from_bits(a)).to_bits()
}

#[inline(always)]
fn float2(f: impl Fn(f32, f32) -> f32 + Copy) -> impl Fn(u32, u32) -> u32 + Copy {
    move |a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits()
}

#[inline(always)]
fn truth(value: bool) -> u32 {
    u32::from(value).wrapping_neg()
}

/// Hands the function of a unary instruction to `to`.
#[inline(always)]
pub(crate) fn unary<A: Apply>(f: Unary, to: A) -> A::Out {
    match f {
        Unary::Copy => to.one(|a| a),
        Unary::Not => to.one(|a| !a),
        Unary::NegI => to.one(u32::wrapping_neg),
        Unary::AbsI => to.one(|a| (a as i32).wrapping_abs() as u32),
        Unary::SignI => to.one(|a| (a as i32).signum() as u32),
        Unary::NegF => to.one(|a| a ^ 0x8000_0000),
        Unary::AbsF => to.one(|a| a & 0x7fff_ffff),
        Unary::SignF => to.one(float(math::sign)),
        Unary::Floor => to.one(float(math::floor)),
        Unary::Ceil => to.one(float(math::ceil)),
        Unary::Round => to.one(float(math::round_even)),
        Unary::Trunc => to.one(float(math::trunc)),
        Unary::Fract => to.one(float(math::fract)),
        Unary::Sqrt => to.one(float(f32::sqrt)),
        Unary::InverseSqrt => to.one(float(|a| 1.0 / a.sqrt())),
        Unary::Exp => to.one(float(math::exp)),
        Unary::Exp2 => to.one(float(math::exp2)),
        Unary::Log => to.one(float(math::log)),
        Unary::Log2 => to.one(float(math::log2)),
        Unary::Sin => to.one(float(math::sin)),
        Unary::Cos => to.one(float(math::cos)),
        Unary::Tan => to.one(float(math::tan)),
        Unary::Asin => to.one(float(math::asin)),
        Unary::Acos => to.one(float(math::acos)),
        Unary::Atan => to.one(float(math::atan)),
        Unary::Sinh => to.one(float(math::sinh)),
        Unary::Cosh => to.one(float(math::cosh)),
        Unary::Tanh => to.one(float(math::tanh)),
        Unary::Asinh => to.one(float(math::asinh)),
        Unary::Acosh => to.one(float(math::acosh)),
        Unary::Atanh => to.one(float(math::atanh)),
        Unary::RoundF16 => to.one(float(math::quantize_to_f16)),
        // The largest values that an `f32` can be: WGSL converts no further.
        Unary::FloatToInt => to.one(|a| math::f32_to_i32(f32::from_bits(a)).min(0x7fff_ff80) as u32),
        Unary::FloatToUint => to.one(|a| math::f32_to_u32(f32::from_bits(a)).min(0xffff_ff00)),
        Unary::IntToFloat => to.one(|a| math::i32_to_f32(a as i32).to_bits()),
        Unary::UintToFloat => to.one(|a| math::u32_to_f32(a).to_bits()),
        Unary::ToBool => to.one(|a| truth(a != 0)),
        Unary::FloatToBool => to.one(|a| truth(f32::from_bits(a) != 0.0)),
        Unary::IsNan => to.one(|a| truth(a & 0x7fff_ffff > 0x7f80_0000)),
        Unary::IsInf => to.one(|a| truth(a & 0x7fff_ffff == 0x7f80_0000)),
        Unary::HalfBits => to.one(|a| math::f32_to_f16_bits(f32::from_bits(a))),
        Unary::HalfFromBits => to.one(|a| math::f16_bits_to_f32(a).to_bits()),
        Unary::FrexpFraction => to.one(|a| math::frexp(f32::from_bits(a)).0.to_bits()),
        Unary::FrexpExponent => to.one(|a| math::frexp(f32::from_bits(a)).1 as u32),
        Unary::CountOnes => to.one(u32::count_ones),
        Unary::CountLeadingZeros => to.one(math::count_leading_zeros),
        Unary::CountTrailingZeros => to.one(math::count_trailing_zeros),
        Unary::FirstLeadingBitI => to.one(|a| math::first_leading_bit_i32(a as i32) as u32),
        Unary::FirstLeadingBitU => to.one(math::first_leading_bit_u32),
        Unary::FirstTrailingBit => to.one(math::first_trailing_bit),
        Unary::ReverseBits => to.one(u32::reverse_bits),
        Unary::PackSnorm8 => to.one(|a| math::pack_snorm8(f32::from_bits(a))),
        Unary::PackUnorm8 => to.one(|a| math::pack_unorm8(f32::from_bits(a))),
        Unary::PackSnorm16 => to.one(|a| math::pack_snorm16(f32::from_bits(a))),
        Unary::PackUnorm16 => to.one(|a| math::pack_unorm16(f32::from_bits(a))),
        Unary::UnpackSnorm8 => to.one(|a| math::unpack_snorm8(a).to_bits()),
        Unary::UnpackUnorm8 => to.one(|a| math::unpack_unorm8(a).to_bits()),
        Unary::UnpackSnorm16 => to.one(|a| math::unpack_snorm16(a).to_bits()),
        Unary::UnpackUnorm16 => to.one(|a| math::unpack_unorm16(a).to_bits()),
    }
}

/// Hands the function of a binary instruction to `to`.
#[inline(always)]
pub(crate) fn binary<A: Apply>(f: Binary, to: A) -> A::Out {
    match f {
        Binary::AddI => to.two(u32::wrapping_add),
        Binary::SubI => to.two(u32::wrapping_sub),
        Binary::MulI => to.two(u32::wrapping_mul),
        Binary::DivI => to.two(|a, b| math::idiv(a as i32, b as i32) as u32),
        Binary::DivU => to.two(math::udiv),
        Binary::RemI => to.two(|a, b| math::irem(a as i32, b as i32) as u32),
        Binary::RemU => to.two(math::urem),
        Binary::MinI => to.two(|a, b| (a as i32).min(b as i32) as u32),
        Binary::MaxI => to.two(|a, b| (a as i32).max(b as i32) as u32),
        Binary::MinU => to.two(Ord::min),
        Binary::MaxU => to.two(Ord::max),
        Binary::And => to.two(|a, b| a & b),
        Binary::Or => to.two(|a, b| a | b),
        Binary::Xor => to.two(|a, b| a ^ b),
        Binary::AndNot => to.two(|a, b| a & !b),
        Binary::Shl => to.two(|a, b| a << (b & 31)),
        Binary::ShrI => to.two(|a, b| ((a as i32) >> (b & 31)) as u32),
        Binary::ShrU => to.two(|a, b| a >> (b & 31)),
        Binary::EqI => to.two(|a, b| truth(a == b)),
        Binary::NeI => to.two(|a, b| truth(a != b)),
        Binary::LtI => to.two(|a, b| truth((a as i32) < b as i32)),
        Binary::LeI => to.two(|a, b| truth(a as i32 <= b as i32)),
        Binary::LtU => to.two(|a, b| truth(a < b)),
        Binary::LeU => to.two(|a, b| truth(a <= b)),
        Binary::AddF => to.two(float2(|a, b| a + b)),
        Binary::SubF => to.two(float2(|a, b| a - b)),
        Binary::MulF => to.two(float2(|a, b| a * b)),
        Binary::DivF => to.two(float2(|a, b| a / b)),
        Binary::RemF => to.two(float2(math::fmod)),
        Binary::MinF => to.two(float2(math::min)),
        Binary::MaxF => to.two(float2(math::max)),
        Binary::EqF => to.two(|a, b| truth(f32::from_bits(a) == f32::from_bits(b))),
        Binary::NeF => to.two(|a, b| truth(f32::from_bits(a) != f32::from_bits(b))),
        Binary::LtF => to.two(|a, b| truth(f32::from_bits(a) < f32::from_bits(b))),
        Binary::LeF => to.two(|a, b| truth(f32::from_bits(a) <= f32::from_bits(b))),
        Binary::Pow => to.two(float2(math::pow)),
        Binary::Atan2 => to.two(float2(math::atan2)),
        Binary::Step => to.two(float2(math::step)),
        Binary::Ldexp => to.two(|a, b| math::ldexp(f32::from_bits(a), b as i32).to_bits()),
    }
}

/// Hands the function of a ternary instruction to `to`.
#[inline(always)]
pub(crate) fn ternary<A: Apply>(f: Ternary, to: A) -> A::Out {
    match f {
        Ternary::Select => to.three(|c, a, b| (a & c) | (b & !c)),
        Ternary::MulAdd => to.three(|a, b, c| (f32::from_bits(a) * f32::from_bits(b) + f32::from_bits(c)).to_bits()),
        Ternary::NegMulAdd => to.three(|a, b, c| (f32::from_bits(c) - f32::from_bits(a) * f32::from_bits(b)).to_bits()),
        Ternary::MulMul => to.three(|a, b, c| (f32::from_bits(a) * f32::from_bits(b) * f32::from_bits(c)).to_bits()),
        Ternary::AddMul => to.three(|a, b, c| ((f32::from_bits(a) + f32::from_bits(b)) * f32::from_bits(c)).to_bits()),
        Ternary::SubMul => to.three(|a, b, c| ((f32::from_bits(a) - f32::from_bits(b)) * f32::from_bits(c)).to_bits()),
        Ternary::MulAddI => to.three(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Ternary::AndEq => to.three(|a, b, c| truth(a & b == c)),
        Ternary::ShrAnd => to.three(|a, b, c| a.wrapping_shr(b) & c),
        Ternary::ShrXor => to.three(|a, b, c| a.wrapping_shr(b) ^ c),
        Ternary::ShlXor => to.three(|a, b, c| a.wrapping_shl(b) ^ c),
        Ternary::ExtractI => to.three(|a, b, c| math::extract_bits_i32(a as i32, b, c) as u32),
        Ternary::ExtractU => to.three(math::extract_bits_u32),
    }
}

/// One word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct One(pub(crate) [u32; 3]);

impl Apply for One {
    type Out = u32;

    #[inline(always)]
    fn one(self, f: impl Fn(u32) -> u32 + Copy) -> u32 {
        f(self.0[0])
    }

    #[inline(always)]
    fn two(self, f: impl Fn(u32, u32) -> u32 + Copy) -> u32 {
        f(self.0[0], self.0[1])
    }

    #[inline(always)]
    fn three(self, f: impl Fn(u32, u32, u32) -> u32 + Copy) -> u32 {
        f(self.0[0], self.0[1], self.0[2])
    }
}
