//! The pure instructions on 64-bit integers, which are pairs of registers: what each computes, for one lane.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "registers are bits; the instruction says how to read them"
)]

/// A pure instruction on 64-bit integers. Operands and results of other types are zero-extended words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WideOpcode {
    Add,
    Sub,
    Mul,
    DivI,
    DivU,
    RemI,
    RemU,
    MinI,
    MaxI,
    MinU,
    MaxU,
    Shl,
    ShrI,
    ShrU,
    /// Comparisons: all ones or zeros.
    LtI,
    LeI,
    LtU,
    LeU,
    // One operand: the second is ignored.
    Neg,
    AbsI,
    SignI,
    CountOneBits,
    CountLeadingZeros,
    CountTrailingZeros,
    FirstLeadingBitI,
    FirstLeadingBitU,
    FirstTrailingBit,
    ReverseBits,
    /// To and from `f32`.
    ToFloatI,
    ToFloatU,
    FromFloatI,
    FromFloatU,
}

impl WideOpcode {
    /// Whether its result is one word.
    pub(crate) fn is_narrow(self) -> bool {
        matches!(self, Self::LtI | Self::LeI | Self::LtU | Self::LeU | Self::ToFloatI | Self::ToFloatU)
    }

    #[inline(always)]
    pub(crate) fn apply(self, a: u64, b: u64) -> u64 {
        let (x, y) = (a as i64, b as i64);
        let truth = |value: bool| u64::from(value).wrapping_neg();
        let float = f32::from_bits(a as u32);
        match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::Mul => a.wrapping_mul(b),
            // As WGSL for 32 bits: x / 0 = x, x % 0 = 0.
            Self::DivI => x.wrapping_div(if y == 0 { 1 } else { y }) as u64,
            Self::DivU => a / b.max(1),
            Self::RemI => x.wrapping_rem(if y == 0 { 1 } else { y }) as u64,
            Self::RemU => a % b.max(1),
            Self::MinI => x.min(y) as u64,
            Self::MaxI => x.max(y) as u64,
            Self::MinU => a.min(b),
            Self::MaxU => a.max(b),
            Self::Shl => a << (b & 63),
            Self::ShrI => (x >> (b & 63)) as u64,
            Self::ShrU => a >> (b & 63),
            Self::LtI => truth(x < y),
            Self::LeI => truth(x <= y),
            Self::LtU => truth(a < b),
            Self::LeU => truth(a <= b),
            Self::Neg => a.wrapping_neg(),
            Self::AbsI => x.wrapping_abs() as u64,
            Self::SignI => x.signum() as u64,
            Self::CountOneBits => u64::from(a.count_ones()),
            Self::CountLeadingZeros => u64::from(a.leading_zeros()),
            Self::CountTrailingZeros => u64::from(a.trailing_zeros()),
            Self::FirstLeadingBitI => highest_bit((x ^ (x >> 63)) as u64),
            Self::FirstLeadingBitU => highest_bit(a),
            Self::FirstTrailingBit => {
                if a == 0 {
                    u64::MAX
                } else {
                    u64::from(a.trailing_zeros())
                }
            }
            Self::ReverseBits => a.reverse_bits(),
            Self::ToFloatI => u64::from((x as f32).to_bits()),
            Self::ToFloatU => u64::from((a as f32).to_bits()),
            // The largest values that an `f32` can be: WGSL converts no further.
            Self::FromFloatI => (float as i64).min(0x7fff_ff80_0000_0000) as u64,
            Self::FromFloatU => (float as u64).min(0xffff_ff00_0000_0000),
        }
    }
}

/// The index of the highest one bit; all ones for 0.
fn highest_bit(bits: u64) -> u64 {
    63_u64.wrapping_sub(u64::from(bits.leading_zeros()))
}

/// The words of a number, the low one first.
#[inline(always)]
pub(crate) fn split(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[inline(always)]
pub(crate) fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_joined_from_the_words_they_are_split_into() {
        assert_eq!(join(split(0x0123_4567_89ab_cdef)), 0x0123_4567_89ab_cdef);
    }

    #[test]
    fn divisions_by_zero_and_overflows_have_the_results_of_32_bits() {
        let min = i64::MIN as u64;
        assert_eq!(WideOpcode::DivI.apply(min, u64::MAX), min);
        assert_eq!(WideOpcode::RemI.apply(min, u64::MAX), 0);
        assert_eq!([WideOpcode::DivU.apply(7, 0), WideOpcode::DivI.apply(7, 0)], [7; 2]);
        assert_eq!([WideOpcode::RemU.apply(7, 0), WideOpcode::RemI.apply(7, 0)], [0; 2]);
    }

    #[test]
    fn the_first_bit_of_zero_is_minus_one() {
        let first = [WideOpcode::FirstLeadingBitI, WideOpcode::FirstLeadingBitU, WideOpcode::FirstTrailingBit];
        assert_eq!(first.map(|opcode| opcode.apply(0, 0)), [u64::MAX; 3]);
        assert_eq!(WideOpcode::FirstLeadingBitI.apply(u64::MAX, 0), u64::MAX);
    }
}
