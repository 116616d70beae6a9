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

/// Takes the function of an instruction, whatever it is: to apply it to one word, or to loops of them.
pub(crate) trait Apply1 {
    type Out;
    fn apply(self, f: impl Fn(u32) -> u32 + Copy) -> Self::Out;
}

/// As [`Apply1`], for two operands.
pub(crate) trait Apply2 {
    type Out;
    fn apply(self, f: impl Fn(u32, u32) -> u32 + Copy) -> Self::Out;
}

/// As [`Apply1`], for three operands.
pub(crate) trait Apply3 {
    type Out;
    fn apply(self, f: impl Fn(u32, u32, u32) -> u32 + Copy) -> Self::Out;
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
pub(crate) fn unary<A: Apply1>(f: Unary, to: A) -> A::Out {
    match f {
        Unary::Copy => to.apply(|a| a),
        Unary::Not => to.apply(|a| !a),
        Unary::NegI => to.apply(u32::wrapping_neg),
        Unary::AbsI => to.apply(|a| (a as i32).wrapping_abs() as u32),
        Unary::SignI => to.apply(|a| (a as i32).signum() as u32),
        Unary::NegF => to.apply(|a| a ^ 0x8000_0000),
        Unary::AbsF => to.apply(|a| a & 0x7fff_ffff),
        Unary::SignF => to.apply(float(math::sign)),
        Unary::Floor => to.apply(float(math::floor)),
        Unary::Ceil => to.apply(float(math::ceil)),
        Unary::Round => to.apply(float(math::round_even)),
        Unary::Trunc => to.apply(float(math::trunc)),
        Unary::Fract => to.apply(float(math::fract)),
        Unary::Sqrt => to.apply(float(f32::sqrt)),
        Unary::InverseSqrt => to.apply(float(|a| 1.0 / a.sqrt())),
        Unary::Exp => to.apply(float(math::exp)),
        Unary::Exp2 => to.apply(float(math::exp2)),
        Unary::Log => to.apply(float(math::log)),
        Unary::Log2 => to.apply(float(math::log2)),
        Unary::Sin => to.apply(float(math::sin)),
        Unary::Cos => to.apply(float(math::cos)),
        Unary::Tan => to.apply(float(math::tan)),
        Unary::Asin => to.apply(float(math::asin)),
        Unary::Acos => to.apply(float(math::acos)),
        Unary::Atan => to.apply(float(math::atan)),
        Unary::Sinh => to.apply(float(math::sinh)),
        Unary::Cosh => to.apply(float(math::cosh)),
        Unary::Tanh => to.apply(float(math::tanh)),
        Unary::Asinh => to.apply(float(math::asinh)),
        Unary::Acosh => to.apply(float(math::acosh)),
        Unary::Atanh => to.apply(float(math::atanh)),
        Unary::RoundF16 => to.apply(float(math::round_f16)),
        // The largest values that an `f32` can be: WGSL converts no further.
        Unary::FloatToInt => to.apply(|a| math::f32_to_i32(f32::from_bits(a)).min(0x7fff_ff80) as u32),
        Unary::FloatToUint => to.apply(|a| math::f32_to_u32(f32::from_bits(a)).min(0xffff_ff00)),
        Unary::IntToFloat => to.apply(|a| math::i32_to_f32(a as i32).to_bits()),
        Unary::UintToFloat => to.apply(|a| math::u32_to_f32(a).to_bits()),
        Unary::ToBool => to.apply(|a| truth(a != 0)),
        Unary::FloatToBool => to.apply(|a| truth(f32::from_bits(a) != 0.0)),
        Unary::IsNan => to.apply(|a| truth(a & 0x7fff_ffff > 0x7f80_0000)),
        Unary::IsInf => to.apply(|a| truth(a & 0x7fff_ffff == 0x7f80_0000)),
        Unary::HalfBits => to.apply(|a| math::f32_to_f16_bits(f32::from_bits(a))),
        Unary::HalfFromBits => to.apply(|a| math::f16_bits_to_f32(a).to_bits()),
        Unary::FrexpFraction => to.apply(|a| math::frexp(f32::from_bits(a)).0.to_bits()),
        Unary::FrexpExponent => to.apply(|a| math::frexp(f32::from_bits(a)).1 as u32),
        Unary::CountOnes => to.apply(math::count_one_bits),
        Unary::CountLeadingZeros => to.apply(math::count_leading_zeros),
        Unary::CountTrailingZeros => to.apply(math::count_trailing_zeros),
        Unary::FirstLeadingBitI => to.apply(|a| math::first_leading_bit_i32(a as i32) as u32),
        Unary::FirstLeadingBitU => to.apply(math::first_leading_bit_u32),
        Unary::FirstTrailingBit => to.apply(math::first_trailing_bit),
        Unary::ReverseBits => to.apply(math::reverse_bits),
        Unary::PackSnorm8 => to.apply(|a| math::pack_snorm8(f32::from_bits(a))),
        Unary::PackUnorm8 => to.apply(|a| math::pack_unorm8(f32::from_bits(a))),
        Unary::PackSnorm16 => to.apply(|a| math::pack_snorm16(f32::from_bits(a))),
        Unary::PackUnorm16 => to.apply(|a| math::pack_unorm16(f32::from_bits(a))),
        Unary::UnpackSnorm8 => to.apply(|a| math::unpack_snorm8(a).to_bits()),
        Unary::UnpackUnorm8 => to.apply(|a| math::unpack_unorm8(a).to_bits()),
        Unary::UnpackSnorm16 => to.apply(|a| math::unpack_snorm16(a).to_bits()),
        Unary::UnpackUnorm16 => to.apply(|a| math::unpack_unorm16(a).to_bits()),
    }
}

/// Hands the function of a binary instruction to `to`.
#[inline(always)]
pub(crate) fn binary<A: Apply2>(f: Binary, to: A) -> A::Out {
    match f {
        Binary::AddI => to.apply(u32::wrapping_add),
        Binary::SubI => to.apply(u32::wrapping_sub),
        Binary::MulI => to.apply(u32::wrapping_mul),
        Binary::DivI => to.apply(|a, b| math::idiv(a as i32, b as i32) as u32),
        Binary::DivU => to.apply(math::udiv),
        Binary::RemI => to.apply(|a, b| math::irem(a as i32, b as i32) as u32),
        Binary::RemU => to.apply(math::urem),
        Binary::MinI => to.apply(|a, b| (a as i32).min(b as i32) as u32),
        Binary::MaxI => to.apply(|a, b| (a as i32).max(b as i32) as u32),
        Binary::MinU => to.apply(Ord::min),
        Binary::MaxU => to.apply(Ord::max),
        Binary::And => to.apply(|a, b| a & b),
        Binary::Or => to.apply(|a, b| a | b),
        Binary::Xor => to.apply(|a, b| a ^ b),
        Binary::AndNot => to.apply(|a, b| a & !b),
        Binary::Shl => to.apply(|a, b| a << (b & 31)),
        Binary::ShrI => to.apply(|a, b| ((a as i32) >> (b & 31)) as u32),
        Binary::ShrU => to.apply(|a, b| a >> (b & 31)),
        Binary::EqI => to.apply(|a, b| truth(a == b)),
        Binary::NeI => to.apply(|a, b| truth(a != b)),
        Binary::LtI => to.apply(|a, b| truth((a as i32) < b as i32)),
        Binary::LeI => to.apply(|a, b| truth(a as i32 <= b as i32)),
        Binary::LtU => to.apply(|a, b| truth(a < b)),
        Binary::LeU => to.apply(|a, b| truth(a <= b)),
        Binary::AddF => to.apply(float2(|a, b| a + b)),
        Binary::SubF => to.apply(float2(|a, b| a - b)),
        Binary::MulF => to.apply(float2(|a, b| a * b)),
        Binary::DivF => to.apply(float2(|a, b| a / b)),
        Binary::RemF => to.apply(float2(math::fmod)),
        Binary::MinF => to.apply(float2(math::min)),
        Binary::MaxF => to.apply(float2(math::max)),
        Binary::EqF => to.apply(|a, b| truth(f32::from_bits(a) == f32::from_bits(b))),
        Binary::NeF => to.apply(|a, b| truth(f32::from_bits(a) != f32::from_bits(b))),
        Binary::LtF => to.apply(|a, b| truth(f32::from_bits(a) < f32::from_bits(b))),
        Binary::LeF => to.apply(|a, b| truth(f32::from_bits(a) <= f32::from_bits(b))),
        Binary::Pow => to.apply(float2(math::pow)),
        Binary::Atan2 => to.apply(float2(math::atan2)),
        Binary::Step => to.apply(float2(math::step)),
        Binary::Ldexp => to.apply(|a, b| math::ldexp(f32::from_bits(a), b as i32).to_bits()),
    }
}

/// Hands the function of a ternary instruction to `to`.
#[inline(always)]
pub(crate) fn ternary<A: Apply3>(f: Ternary, to: A) -> A::Out {
    match f {
        Ternary::Select => to.apply(|c, a, b| (a & c) | (b & !c)),
        Ternary::MulAdd => to.apply(|a, b, c| (f32::from_bits(a) * f32::from_bits(b) + f32::from_bits(c)).to_bits()),
        Ternary::NegMulAdd => to.apply(|a, b, c| (f32::from_bits(c) - f32::from_bits(a) * f32::from_bits(b)).to_bits()),
        Ternary::MulMul => to.apply(|a, b, c| (f32::from_bits(a) * f32::from_bits(b) * f32::from_bits(c)).to_bits()),
        Ternary::AddMul => to.apply(|a, b, c| ((f32::from_bits(a) + f32::from_bits(b)) * f32::from_bits(c)).to_bits()),
        Ternary::SubMul => to.apply(|a, b, c| ((f32::from_bits(a) - f32::from_bits(b)) * f32::from_bits(c)).to_bits()),
        Ternary::MulAddI => to.apply(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        Ternary::AndEq => to.apply(|a, b, c| u32::from(a & b == c).wrapping_neg()),
        Ternary::ShrAnd => to.apply(|a, b, c| a.wrapping_shr(b) & c),
        Ternary::ShrXor => to.apply(|a, b, c| a.wrapping_shr(b) ^ c),
        Ternary::ShlXor => to.apply(|a, b, c| a.wrapping_shl(b) ^ c),
        Ternary::ExtractI => to.apply(|a, b, c| math::extract_bits_i32(a as i32, b, c) as u32),
        Ternary::ExtractU => to.apply(math::extract_bits_u32),
    }
}

/// One word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct One(pub(crate) [u32; 3]);

impl Apply1 for One {
    type Out = u32;
    #[inline(always)]
    fn apply(self, f: impl Fn(u32) -> u32 + Copy) -> u32 {
        f(self.0[0])
    }
}

impl Apply2 for One {
    type Out = u32;
    #[inline(always)]
    fn apply(self, f: impl Fn(u32, u32) -> u32 + Copy) -> u32 {
        f(self.0[0], self.0[1])
    }
}

impl Apply3 for One {
    type Out = u32;
    #[inline(always)]
    fn apply(self, f: impl Fn(u32, u32, u32) -> u32 + Copy) -> u32 {
        f(self.0[0], self.0[1], self.0[2])
    }
}
