//! 64-bit integers: a scalar is two registers, the low word first.

use naga::{BinaryOperator, MathFunction, Span};
use smallvec::smallvec;

use super::{Lower, Result, Value, types::Kind};
use crate::{Unsupported, code::Reg, opcode::Opcode, wide_opcode::WideOpcode};

/// The words of a scalar of a vector.
fn pair(value: &[Reg], index: usize) -> [Reg; 2] {
    [value[2 * index], value[2 * index + 1]]
}

impl Lower<'_> {
    /// The words of a number.
    pub(super) fn wide_constant(&mut self, value: u64) -> Value {
        crate::wide_opcode::split(value).iter().map(|word| self.build.constant(*word)).collect()
    }

    /// Applies an instruction to each scalar. A second operand of one word, as of a shift, is extended by zeros.
    fn wide_zip(&mut self, opcode: WideOpcode, left: &[Reg], right: &[Reg]) -> Value {
        let zero = self.build.constant(0);
        let count = left.len() / 2;
        let scalars = count.max(right.len() / 2);
        let narrow = matches!(opcode, WideOpcode::Shl | WideOpcode::ShrI | WideOpcode::ShrU);
        let mut result = Value::new();
        for index in 0..scalars {
            let a = pair(left, if count == 1 { 0 } else { index });
            let b = match narrow {
                true => [right[if right.len() == 1 { 0 } else { index }], zero],
                false => pair(right, if right.len() == 2 { 0 } else { index }),
            };
            result.extend(self.build.wide(opcode, [a[0], a[1], b[0], b[1]]));
        }
        result
    }

    fn wide_map(&mut self, opcode: WideOpcode, value: &[Reg]) -> Value {
        let mut result = Value::new();
        for index in 0..value.len() / 2 {
            let [low, high] = pair(value, index);
            result.extend(self.build.wide(opcode, [low, high, low, high]));
        }
        result
    }

    pub(super) fn wide_negate(&mut self, value: &[Reg]) -> Value {
        self.wide_map(WideOpcode::Neg, value)
    }

    pub(super) fn wide_operator(&mut self, kind: Kind, op: BinaryOperator, left: &[Reg], right: &[Reg]) -> Value {
        let signed = kind == Kind::Long;
        let pick = |if_signed, if_unsigned| if signed { if_signed } else { if_unsigned };
        let opcode = match op {
            BinaryOperator::Add => WideOpcode::Add,
            BinaryOperator::Subtract => WideOpcode::Sub,
            BinaryOperator::Multiply => WideOpcode::Mul,
            BinaryOperator::Divide => pick(WideOpcode::DivI, WideOpcode::DivU),
            BinaryOperator::Modulo => pick(WideOpcode::RemI, WideOpcode::RemU),
            BinaryOperator::Less => pick(WideOpcode::LtI, WideOpcode::LtU),
            BinaryOperator::LessEqual => pick(WideOpcode::LeI, WideOpcode::LeU),
            BinaryOperator::Greater => return self.wide_operator(kind, BinaryOperator::Less, right, left),
            BinaryOperator::GreaterEqual => return self.wide_operator(kind, BinaryOperator::LessEqual, right, left),
            BinaryOperator::ShiftLeft => WideOpcode::Shl,
            BinaryOperator::ShiftRight => pick(WideOpcode::ShrI, WideOpcode::ShrU),
            BinaryOperator::And | BinaryOperator::LogicalAnd => return self.zip(left, right, Opcode::And),
            BinaryOperator::InclusiveOr | BinaryOperator::LogicalOr => return self.zip(left, right, Opcode::Or),
            BinaryOperator::ExclusiveOr => return self.zip(left, right, Opcode::Xor),
            BinaryOperator::Equal | BinaryOperator::NotEqual => {
                let equal = op == BinaryOperator::Equal;
                let (compare, combine) = if equal { (Opcode::EqI, Opcode::And) } else { (Opcode::NeI, Opcode::Or) };
                let words = self.zip(left, right, compare);
                return words.chunks(2).map(|words| self.fold(words, combine)).collect();
            }
        };
        self.wide_zip(opcode, left, right)
    }

    pub(super) fn wide_math(
        &mut self,
        kind: Kind,
        fun: MathFunction,
        arguments: &[Value],
        span: Span,
    ) -> Result<Value> {
        use MathFunction as M;
        let signed = kind == Kind::Long;
        let a = &arguments[0];
        let (min, max) = match signed {
            true => (WideOpcode::MinI, WideOpcode::MaxI),
            false => (WideOpcode::MinU, WideOpcode::MaxU),
        };
        Ok(match fun {
            M::Abs if signed => self.wide_map(WideOpcode::AbsI, a),
            M::Abs => a.clone(),
            M::Sign => self.wide_map(WideOpcode::SignI, a),
            M::Min => self.wide_zip(min, a, &arguments[1]),
            M::Max => self.wide_zip(max, a, &arguments[1]),
            M::Clamp => {
                let value = self.wide_zip(max, a, &arguments[1]);
                self.wide_zip(min, &value, &arguments[2])
            }
            M::Dot => {
                let products = self.wide_zip(WideOpcode::Mul, a, &arguments[1]);
                let first: Value = products[..2].into();
                products[2..].chunks(2).fold(first, |sum, product| self.wide_zip(WideOpcode::Add, &sum, product))
            }
            M::CountOneBits => self.wide_map(WideOpcode::CountOneBits, a),
            M::CountLeadingZeros => self.wide_map(WideOpcode::CountLeadingZeros, a),
            M::CountTrailingZeros => self.wide_map(WideOpcode::CountTrailingZeros, a),
            M::FirstLeadingBit if signed => self.wide_map(WideOpcode::FirstLeadingBitI, a),
            M::FirstLeadingBit => self.wide_map(WideOpcode::FirstLeadingBitU, a),
            M::FirstTrailingBit => self.wide_map(WideOpcode::FirstTrailingBit, a),
            M::ReverseBits => self.wide_map(WideOpcode::ReverseBits, a),
            other => {
                return Err(Unsupported { what: format!("the function {other:?} of 64-bit integers"), span });
            }
        })
    }

    /// Converts to or from a 64-bit integer.
    pub(super) fn wide_cast(&mut self, from: Kind, value: &[Reg], to: Kind) -> Value {
        let zero = self.build.constant(0);
        if from.is_wide() {
            return match to {
                Kind::Long | Kind::Ulong => value.into(),
                Kind::Int | Kind::Uint => value.chunks(2).map(|words| words[0]).collect(),
                Kind::Bool => value
                    .chunks(2)
                    .map(|words| {
                        let any = self.build.binary(Opcode::Or, words[0], words[1]);
                        self.build.unary(Opcode::ToBool, any)
                    })
                    .collect(),
                Kind::Float | Kind::Half => {
                    let opcode = if from == Kind::Long { WideOpcode::ToFloatI } else { WideOpcode::ToFloatU };
                    let value = self.wide_map(opcode, value);
                    self.rounded(to, value)
                }
            };
        }
        let mut result = Value::new();
        for word in value {
            match from {
                Kind::Int => {
                    let shift = self.build.constant(31);
                    result.extend([*word, self.build.binary(Opcode::ShrI, *word, shift)]);
                }
                Kind::Bool => {
                    let one = self.build.constant(1);
                    result.extend([self.build.binary(Opcode::And, *word, one), zero]);
                }
                Kind::Float | Kind::Half => {
                    let opcode = if to == Kind::Long { WideOpcode::FromFloatI } else { WideOpcode::FromFloatU };
                    result.extend(self.build.wide(opcode, [*word, zero, *word, zero]));
                }
                Kind::Uint | Kind::Long | Kind::Ulong => result.extend([*word, zero]),
            }
        }
        result
    }

    /// Whether two 64-bit integers are equal.
    pub(super) fn wide_equal(&mut self, left: &[Reg], right: &[Reg]) -> Value {
        let words = self.zip(left, right, Opcode::EqI);
        smallvec![self.fold(&words, Opcode::And)]
    }
}
