//! The pure instructions: what each computes, for one lane. Branch-free, so that a loop over lanes becomes SIMD.

#![expect(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "registers are bits; the instruction says how to read them"
)]

use crate::math;

/// Takes the function of an instruction, by its number of operands: to apply it to one word, or to loops of them.
pub(crate) trait Apply {
    type Out;
    fn one(self, f: impl Fn(u32) -> u32 + Copy) -> Self::Out;
    fn two(self, f: impl Fn(u32, u32) -> u32 + Copy) -> Self::Out;
    fn three(self, f: impl Fn(u32, u32, u32) -> u32 + Copy) -> Self::Out;
}

macro_rules! operands {
    (one) => {
        1
    };
    (two) => {
        2
    };
    (three) => {
        3
    };
}

/// Declares the instructions with their number of operands and their function.
macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident: $operands:ident($f:expr),)*) => {
        /// A pure instruction: its result depends on its operands only.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Opcode {
            $($(#[$doc])* $name,)*
        }

        impl Opcode {
            /// The number of its operands.
            pub(crate) fn operands(self) -> usize {
                match self {
                    $(Self::$name => operands!($operands),)*
                }
            }

            /// Passes its function to `to`.
            #[inline(always)]
            pub(crate) fn apply<A: Apply>(self, to: A) -> A::Out {
                match self {
                    $(Self::$name => to.$operands($f),)*
                }
            }
        }
    };
}

opcodes! {
    // One operand.
    Copy: one(|a| a),
    Not: one(|a| !a),
    NegI: one(u32::wrapping_neg),
    AbsI: one(|a| (a as i32).wrapping_abs() as u32),
    SignI: one(|a| (a as i32).signum() as u32),
    NegF: one(|a| a ^ 0x8000_0000),
    AbsF: one(|a| a & 0x7fff_ffff),
    SignF: one(float(math::sign)),
    Floor: one(float(math::floor)),
    Ceil: one(float(math::ceil)),
    Round: one(float(math::round_even)),
    Trunc: one(float(math::trunc)),
    Fract: one(float(math::fract)),
    Sqrt: one(float(f32::sqrt)),
    InverseSqrt: one(float(|a| 1.0 / a.sqrt())),
    Exp: one(float(math::exp)),
    Exp2: one(float(math::exp2)),
    Log: one(float(math::log)),
    Log2: one(float(math::log2)),
    Sin: one(float(math::sin)),
    Cos: one(float(math::cos)),
    Tan: one(float(math::tan)),
    Asin: one(float(math::asin)),
    Acos: one(float(math::acos)),
    Atan: one(float(math::atan)),
    Sinh: one(float(math::sinh)),
    Cosh: one(float(math::cosh)),
    Tanh: one(float(math::tanh)),
    Asinh: one(float(math::asinh)),
    Acosh: one(float(math::acosh)),
    Atanh: one(float(math::atanh)),
    /// Kept as `f32`, rounded as an `f16` would be.
    QuantizeToF16: one(float(math::quantize_to_f16)),
    // The largest values that an `f32` can be: WGSL converts no further.
    FloatToInt: one(|a| math::f32_to_i32(f32::from_bits(a)).min(0x7fff_ff80) as u32),
    FloatToUint: one(|a| math::f32_to_u32(f32::from_bits(a)).min(0xffff_ff00)),
    IntToFloat: one(|a| math::i32_to_f32(a as i32).to_bits()),
    UintToFloat: one(|a| math::u32_to_f32(a).to_bits()),
    /// All ones if any bit is set.
    ToBool: one(|a| truth(a != 0)),
    /// All ones unless it is ±0.
    FloatToBool: one(|a| truth(f32::from_bits(a) != 0.0)),
    IsNan: one(|a| truth(a & 0x7fff_ffff > 0x7f80_0000)),
    IsInf: one(|a| truth(a & 0x7fff_ffff == 0x7f80_0000)),
    HalfBits: one(|a| math::f32_to_f16_bits(f32::from_bits(a))),
    HalfFromBits: one(|a| math::f16_bits_to_f32(a).to_bits()),
    FrexpFraction: one(|a| math::frexp(f32::from_bits(a)).0.to_bits()),
    FrexpExponent: one(|a| math::frexp(f32::from_bits(a)).1 as u32),
    CountOneBits: one(u32::count_ones),
    CountLeadingZeros: one(math::count_leading_zeros),
    CountTrailingZeros: one(math::count_trailing_zeros),
    FirstLeadingBitI: one(|a| math::first_leading_bit_i32(a as i32) as u32),
    FirstLeadingBitU: one(math::first_leading_bit_u32),
    FirstTrailingBit: one(math::first_trailing_bit),
    ReverseBits: one(u32::reverse_bits),
    /// The word of a float in a pack: low bits only.
    PackSnorm8: one(|a| math::pack_snorm8(f32::from_bits(a))),
    PackUnorm8: one(|a| math::pack_unorm8(f32::from_bits(a))),
    PackSnorm16: one(|a| math::pack_snorm16(f32::from_bits(a))),
    PackUnorm16: one(|a| math::pack_unorm16(f32::from_bits(a))),
    /// The float of a sign- or zero-extended field.
    UnpackSnorm8: one(|a| math::unpack_snorm8(a).to_bits()),
    UnpackUnorm8: one(|a| math::unpack_unorm8(a).to_bits()),
    UnpackSnorm16: one(|a| math::unpack_snorm16(a).to_bits()),
    UnpackUnorm16: one(|a| math::unpack_unorm16(a).to_bits()),
    // Two operands.
    AddI: two(u32::wrapping_add),
    SubI: two(u32::wrapping_sub),
    MulI: two(u32::wrapping_mul),
    DivI: two(|a, b| math::idiv(a as i32, b as i32) as u32),
    DivU: two(math::udiv),
    RemI: two(|a, b| math::irem(a as i32, b as i32) as u32),
    RemU: two(math::urem),
    MinI: two(|a, b| (a as i32).min(b as i32) as u32),
    MaxI: two(|a, b| (a as i32).max(b as i32) as u32),
    MinU: two(Ord::min),
    MaxU: two(Ord::max),
    And: two(|a, b| a & b),
    Or: two(|a, b| a | b),
    Xor: two(|a, b| a ^ b),
    /// The first where the second is zero.
    AndNot: two(|a, b| a & !b),
    Shl: two(|a, b| a << (b & 31)),
    ShrI: two(|a, b| ((a as i32) >> (b & 31)) as u32),
    ShrU: two(|a, b| a >> (b & 31)),
    EqI: two(|a, b| truth(a == b)),
    NeI: two(|a, b| truth(a != b)),
    LtI: two(|a, b| truth((a as i32) < b as i32)),
    LeI: two(|a, b| truth(a as i32 <= b as i32)),
    LtU: two(|a, b| truth(a < b)),
    LeU: two(|a, b| truth(a <= b)),
    AddF: two(float2(|a, b| a + b)),
    SubF: two(float2(|a, b| a - b)),
    MulF: two(float2(|a, b| a * b)),
    DivF: two(float2(|a, b| a / b)),
    RemF: two(float2(math::fmod)),
    MinF: two(float2(math::min)),
    MaxF: two(float2(math::max)),
    EqF: two(|a, b| truth(f32::from_bits(a) == f32::from_bits(b))),
    NeF: two(|a, b| truth(f32::from_bits(a) != f32::from_bits(b))),
    LtF: two(|a, b| truth(f32::from_bits(a) < f32::from_bits(b))),
    LeF: two(|a, b| truth(f32::from_bits(a) <= f32::from_bits(b))),
    Pow: two(float2(math::pow)),
    Atan2: two(float2(math::atan2)),
    Step: two(float2(math::step)),
    Ldexp: two(|a, b| math::ldexp(f32::from_bits(a), b as i32).to_bits()),
    // Three operands.
    /// The second where the first is true, else the third.
    Select: three(|c, a, b| (a & c) | (b & !c)),
    /// First × second + third, rounded twice.
    MulAdd: three(float3(|a, b, c| a * b + c)),
    /// Third − first × second, rounded twice.
    NegMulAdd: three(float3(|a, b, c| c - a * b)),
    /// First × second × third.
    MulMul: three(float3(|a, b, c| a * b * c)),
    /// (First + second) × third.
    AddMul: three(float3(|a, b, c| (a + b) * c)),
    /// (First − second) × third.
    SubMul: three(float3(|a, b, c| (a - b) * c)),
    /// First × second + third, of integers.
    MulAddI: three(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
    /// First & second == third.
    AndEq: three(|a, b, c| truth(a & b == c)),
    /// (First >> second) & third, and so on.
    ShrAnd: three(|a, b, c| a.wrapping_shr(b) & c),
    ShrXor: three(|a, b, c| a.wrapping_shr(b) ^ c),
    ShlXor: three(|a, b, c| a.wrapping_shl(b) ^ c),
    /// `extractBits`, signed.
    ExtractI: three(|a, b, c| math::extract_bits_i32(a as i32, b, c) as u32),
    /// `extractBits`, unsigned.
    ExtractU: three(math::extract_bits_u32),
}

#[inline(always)]
pub(crate) fn float(f: impl Fn(f32) -> f32 + Copy) -> impl Fn(u32) -> u32 + Copy {
    move |a| f(f32::from_bits(a)).to_bits()
}

#[inline(always)]
pub(crate) fn float2(f: impl Fn(f32, f32) -> f32 + Copy) -> impl Fn(u32, u32) -> u32 + Copy {
    move |a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits()
}

#[inline(always)]
fn float3(f: impl Fn(f32, f32, f32) -> f32 + Copy) -> impl Fn(u32, u32, u32) -> u32 + Copy {
    move |a, b, c| f(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c)).to_bits()
}

#[inline(always)]
fn truth(value: bool) -> u32 {
    u32::from(value).wrapping_neg()
}

/// The operands of one lane.
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
