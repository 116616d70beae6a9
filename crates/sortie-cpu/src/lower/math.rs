//! The builtin functions.

use naga::{MathFunction, Span};
use smallvec::{SmallVec, smallvec};

use super::{
    Lower, Result, Value,
    types::{Kind, Ty},
};
use crate::{
    Unsupported,
    code::{Binary, Reg, Ternary, Unary},
};

impl Lower<'_> {
    pub(super) fn math(&mut self, fun: MathFunction, arguments: &[(Ty, Value)], span: Span) -> Result<Value> {
        use MathFunction as M;
        let (ty, a) = &arguments[0];
        let Some(kind) = ty.kind() else { unreachable!("checked by naga") };
        let signed = kind == Kind::Int;
        let b = || arguments[1].1.as_slice();
        let c = || arguments[2].1.as_slice();
        let (plain, rounded) = (|f| Some((f, false)), |f| Some((f, true)));
        // Unary functions that are one instruction, and whether an f16 needs rounding after them.
        let unary = match fun {
            M::Abs => plain(kind.pick(Unary::AbsF, Unary::AbsI, Unary::Copy)),
            M::Sign => plain(kind.pick(Unary::SignF, Unary::SignI, Unary::SignI)),
            M::Floor => plain(Unary::Floor),
            M::Ceil => plain(Unary::Ceil),
            M::Round => plain(Unary::Round),
            M::Trunc => plain(Unary::Trunc),
            M::Fract => rounded(Unary::Fract),
            M::Sqrt => rounded(Unary::Sqrt),
            M::InverseSqrt => rounded(Unary::InverseSqrt),
            M::Exp => rounded(Unary::Exp),
            M::Exp2 => rounded(Unary::Exp2),
            M::Log => rounded(Unary::Log),
            M::Log2 => rounded(Unary::Log2),
            M::Sin => rounded(Unary::Sin),
            M::Cos => rounded(Unary::Cos),
            M::Tan => rounded(Unary::Tan),
            M::Asin => rounded(Unary::Asin),
            M::Acos => rounded(Unary::Acos),
            M::Atan => rounded(Unary::Atan),
            M::Sinh => rounded(Unary::Sinh),
            M::Cosh => rounded(Unary::Cosh),
            M::Tanh => rounded(Unary::Tanh),
            M::Asinh => rounded(Unary::Asinh),
            M::Acosh => rounded(Unary::Acosh),
            M::Atanh => rounded(Unary::Atanh),
            M::QuantizeToF16 => plain(Unary::RoundF16),
            M::CountOneBits => plain(Unary::CountOnes),
            M::CountLeadingZeros => plain(Unary::CountLeadingZeros),
            M::CountTrailingZeros => plain(Unary::CountTrailingZeros),
            M::FirstLeadingBit => plain(if signed { Unary::FirstLeadingBitI } else { Unary::FirstLeadingBitU }),
            M::FirstTrailingBit => plain(Unary::FirstTrailingBit),
            M::ReverseBits => plain(Unary::ReverseBits),
            _ => None,
        };
        if let Some((f, round)) = unary {
            let value = self.map(a, f);
            return Ok(if round { self.rounded(kind, value) } else { value });
        }
        Ok(match fun {
            M::Min => self.zip(a, b(), kind.pick(Binary::MinF, Binary::MinI, Binary::MinU)),
            M::Max => self.zip(a, b(), kind.pick(Binary::MaxF, Binary::MaxI, Binary::MaxU)),
            M::Clamp => self.clamp(kind, a, b(), c()),
            M::Saturate => self.saturate(a),
            M::Radians | M::Degrees => {
                let factor =
                    if fun == M::Radians { std::f32::consts::PI / 180.0 } else { 180.0 / std::f32::consts::PI };
                let factor = self.build.float(factor);
                self.arithmetic(kind, a, &[factor], Binary::MulF)
            }
            M::Atan2 => self.arithmetic(kind, a, b(), Binary::Atan2),
            M::Pow => self.arithmetic(kind, a, b(), Binary::Pow),
            M::Step => self.zip(a, b(), Binary::Step),
            M::Ldexp => self.arithmetic(kind, a, b(), Binary::Ldexp),
            M::Fma => {
                let operands = a.iter().zip(b()).zip(c());
                let value = operands.map(|((a, b), c)| self.build.ternary(Ternary::MulAdd, *a, *b, *c)).collect();
                self.rounded(kind, value)
            }
            M::Mix => {
                // As naga's other targets: a · (1 − t) + b · t.
                let one = self.build.float(1.0);
                let rest = self.arithmetic(kind, &[one], c(), Binary::SubF);
                let left = self.arithmetic(kind, a, &rest, Binary::MulF);
                let right = self.arithmetic(kind, b(), c(), Binary::MulF);
                self.arithmetic(kind, &left, &right, Binary::AddF)
            }
            M::SmoothStep => {
                let above = self.arithmetic(kind, c(), a, Binary::SubF);
                let width = self.arithmetic(kind, b(), a, Binary::SubF);
                let t = self.arithmetic(kind, &above, &width, Binary::DivF);
                let t = self.saturate(&t);
                let (two, three) = (self.build.float(2.0), self.build.float(3.0));
                let twice = self.arithmetic(kind, &t, &[two], Binary::MulF);
                let rest = self.arithmetic(kind, &[three], &twice, Binary::SubF);
                let square = self.arithmetic(kind, &t, &t, Binary::MulF);
                self.arithmetic(kind, &square, &rest, Binary::MulF)
            }
            M::Modf => {
                let whole = self.map(a, Unary::Trunc);
                let mut result = self.zip(a, &whole, Binary::SubF);
                result.extend(whole);
                result
            }
            M::Frexp => {
                let mut result = self.map(a, Unary::FrexpFraction);
                result.extend(self.map(a, Unary::FrexpExponent));
                result
            }
            M::Dot => smallvec![self.dot(kind, a, b())],
            M::Outer => {
                let mut result = Value::new();
                for right in b() {
                    result.extend(self.arithmetic(kind, a, &[*right], Binary::MulF));
                }
                result
            }
            M::Cross => {
                let b = b();
                let mut result = Value::new();
                for (i, j) in [(1, 2), (2, 0), (0, 1)] {
                    let left = self.arithmetic(kind, &[a[i]], &[b[j]], Binary::MulF);
                    let right = self.arithmetic(kind, &[a[j]], &[b[i]], Binary::MulF);
                    result.extend(self.arithmetic(kind, &left, &right, Binary::SubF));
                }
                result
            }
            M::Length => smallvec![self.length(kind, a)],
            M::Distance => {
                let difference = self.arithmetic(kind, a, b(), Binary::SubF);
                smallvec![self.length(kind, &difference)]
            }
            M::Normalize => {
                let length = self.length(kind, a);
                self.arithmetic(kind, a, &[length], Binary::DivF)
            }
            M::FaceForward => {
                let dot = self.dot(kind, c(), b());
                let zero = self.build.float(0.0);
                let facing = self.build.binary(Binary::LtF, dot, zero);
                let negated = self.map(a, Unary::NegF);
                a.iter().zip(&negated).map(|(a, negated)| self.build.select(facing, *a, *negated)).collect()
            }
            M::Reflect => {
                let dot = self.dot(kind, b(), a);
                let two = self.build.float(2.0);
                let twice = self.arithmetic(kind, &[dot], &[two], Binary::MulF);
                let along = self.arithmetic(kind, b(), &twice, Binary::MulF);
                self.arithmetic(kind, a, &along, Binary::SubF)
            }
            M::Refract => {
                // k = 1 − eta² (1 − (n·i)²); 0 where k < 0, else eta·i − (eta·(n·i) + √k)·n
                let eta = c()[0];
                let (zero, one) = (self.build.float(0.0), self.build.float(1.0));
                let dot = self.dot(kind, b(), a);
                let dot2 = self.arithmetic(kind, &[dot], &[dot], Binary::MulF)[0];
                let rest = self.arithmetic(kind, &[one], &[dot2], Binary::SubF)[0];
                let eta2 = self.arithmetic(kind, &[eta], &[eta], Binary::MulF)[0];
                let bent = self.arithmetic(kind, &[eta2], &[rest], Binary::MulF)[0];
                let k = self.arithmetic(kind, &[one], &[bent], Binary::SubF)[0];
                let total = self.build.binary(Binary::LtF, k, zero);
                let root = self.map(&[k], Unary::Sqrt);
                let root = self.rounded(kind, root)[0];
                let scaled = self.arithmetic(kind, &[eta], &[dot], Binary::MulF)[0];
                let factor = self.arithmetic(kind, &[scaled], &[root], Binary::AddF)[0];
                let left = self.arithmetic(kind, a, &[eta], Binary::MulF);
                let right = self.arithmetic(kind, b(), &[factor], Binary::MulF);
                let value = self.arithmetic(kind, &left, &right, Binary::SubF);
                value.iter().map(|value| self.build.select(total, zero, *value)).collect()
            }
            M::Transpose | M::Determinant | M::Inverse => {
                let Ty::Matrix(columns, rows, kind) = *ty else { unreachable!("checked by naga") };
                let (columns, rows) = (columns as usize, rows as usize);
                match fun {
                    M::Transpose => Self::transpose(columns, rows, a),
                    M::Determinant => smallvec![self.determinant(kind, columns, a)],
                    _ => self.inverse(kind, columns, a),
                }
            }
            M::ExtractBits => {
                let f = if signed { Ternary::ExtractI } else { Ternary::ExtractU };
                a.iter().map(|a| self.build.ternary(f, *a, b()[0], c()[0])).collect()
            }
            M::InsertBits => {
                let (offset, count) = (arguments[2].1[0], arguments[3].1[0]);
                self.insert_bits(a, b(), offset, count)
            }
            M::Dot4I8Packed | M::Dot4U8Packed => {
                let f = if fun == M::Dot4I8Packed { Ternary::ExtractI } else { Ternary::ExtractU };
                let left = self.fields(a[0], 4, f);
                let right = self.fields(b()[0], 4, f);
                let products = self.zip(&left, &right, Binary::MulI);
                smallvec![self.fold(&products, Binary::AddI)]
            }
            M::Pack4x8snorm => smallvec![self.pack(a, Some(Unary::PackSnorm8))],
            M::Pack4x8unorm => smallvec![self.pack(a, Some(Unary::PackUnorm8))],
            M::Pack2x16snorm => smallvec![self.pack(a, Some(Unary::PackSnorm16))],
            M::Pack2x16unorm => smallvec![self.pack(a, Some(Unary::PackUnorm16))],
            M::Pack2x16float => smallvec![self.pack(a, Some(Unary::HalfBits))],
            M::Pack4xI8 | M::Pack4xU8 => smallvec![self.pack(a, None)],
            M::Pack4xI8Clamp => {
                let (low, high) = (self.build.constant((-128_i32).cast_unsigned()), self.build.constant(127));
                let value = self.clamp(Kind::Int, a, &[low], &[high]);
                smallvec![self.pack(&value, None)]
            }
            M::Pack4xU8Clamp => {
                let high = self.build.constant(255);
                let value = self.zip(a, &[high], Binary::MinU);
                smallvec![self.pack(&value, None)]
            }
            M::Unpack4x8snorm => self.unpack(a[0], 4, Ternary::ExtractI, Some(Unary::UnpackSnorm8)),
            M::Unpack4x8unorm => self.unpack(a[0], 4, Ternary::ExtractU, Some(Unary::UnpackUnorm8)),
            M::Unpack2x16snorm => self.unpack(a[0], 2, Ternary::ExtractI, Some(Unary::UnpackSnorm16)),
            M::Unpack2x16unorm => self.unpack(a[0], 2, Ternary::ExtractU, Some(Unary::UnpackUnorm16)),
            M::Unpack2x16float => self.unpack(a[0], 2, Ternary::ExtractU, Some(Unary::HalfFromBits)),
            M::Unpack4xI8 => self.unpack(a[0], 4, Ternary::ExtractI, None),
            M::Unpack4xU8 => self.unpack(a[0], 4, Ternary::ExtractU, None),
            other => return Err(Unsupported { what: format!("the function {other:?}"), span }),
        })
    }

    fn clamp(&mut self, kind: Kind, value: &[Reg], low: &[Reg], high: &[Reg]) -> Value {
        let value = self.zip(value, low, kind.pick(Binary::MaxF, Binary::MaxI, Binary::MaxU));
        self.zip(&value, high, kind.pick(Binary::MinF, Binary::MinI, Binary::MinU))
    }

    fn saturate(&mut self, value: &[Reg]) -> Value {
        let (zero, one) = (self.build.float(0.0), self.build.float(1.0));
        self.clamp(Kind::Float, value, &[zero], &[one])
    }

    fn length(&mut self, kind: Kind, value: &[Reg]) -> Reg {
        if let [single] = value {
            return self.build.unary(Unary::AbsF, *single);
        }
        let square = self.dot(kind, value, value);
        let root = self.map(&[square], Unary::Sqrt);
        self.rounded(kind, root)[0]
    }

    /// The equal fields of a word.
    fn fields(&mut self, word: Reg, count: u32, f: Ternary) -> SmallVec<[Reg; 4]> {
        let width = self.build.constant(32 / count);
        (0..count)
            .map(|index| {
                let offset = self.build.constant(index * (32 / count));
                self.build.ternary(f, word, offset, width)
            })
            .collect()
    }

    fn unpack(&mut self, word: Reg, count: u32, extract: Ternary, convert: Option<Unary>) -> Value {
        let fields = self.fields(word, count, extract);
        if let Some(convert) = convert { self.map(&fields, convert) } else { fields }
    }

    fn pack(&mut self, value: &[Reg], convert: Option<Unary>) -> Reg {
        let width = 32 / u32::try_from(value.len()).unwrap_or(4);
        let mask = self.build.constant((1 << width) - 1);
        let mut word = self.build.constant(0);
        for (index, reg) in (0..).zip(value) {
            let field = convert.map_or(*reg, |f| self.build.unary(f, *reg));
            let field = self.build.binary(Binary::And, field, mask);
            let offset = self.build.constant(index * width);
            let field = self.build.binary(Binary::Shl, field, offset);
            word = self.build.binary(Binary::Or, word, field);
        }
        word
    }

    fn insert_bits(&mut self, old: &[Reg], new: &[Reg], offset: Reg, count: Reg) -> Value {
        let bits = self.build.constant(32);
        let (zero, one, ones) = (self.build.constant(0), self.build.constant(1), self.build.constant(u32::MAX));
        let offset = self.build.binary(Binary::MinU, offset, bits);
        let room = self.build.binary(Binary::SubI, bits, offset);
        let count = self.build.binary(Binary::MinU, count, room);
        let whole = self.build.binary(Binary::LeU, bits, count);
        let power = self.build.binary(Binary::Shl, one, count);
        let low = self.build.binary(Binary::SubI, power, one);
        let low = self.build.select(whole, ones, low);
        let nothing = self.build.binary(Binary::EqI, count, zero);
        let field = self.build.binary(Binary::Shl, low, offset);
        let field = self.build.select(nothing, zero, field);
        old.iter()
            .zip(new)
            .map(|(old, new)| {
                let moved = self.build.binary(Binary::Shl, *new, offset);
                let inside = self.build.binary(Binary::And, moved, field);
                let outside = self.build.binary(Binary::AndNot, *old, field);
                self.build.binary(Binary::Or, inside, outside)
            })
            .collect()
    }
}
