//! The builtin functions.

use naga::{MathFunction, Span};
use smallvec::{SmallVec, smallvec};

use super::{
    Lower, Result, Value,
    types::{Kind, Ty},
};
use crate::{Unsupported, code::Reg, opcode::Opcode};

/// The instruction that has the name of a function, for these functions.
macro_rules! same_name {
    ($function:expr; $($name:ident)*) => {
        match $function {
            $(MathFunction::$name => Some(Opcode::$name),)*
            _ => None,
        }
    };
}

impl Lower<'_> {
    pub(super) fn math(&mut self, fun: MathFunction, arguments: &[(Ty, Value)], span: Span) -> Result<Value> {
        use MathFunction as M;
        let (ty, a) = &arguments[0];
        let Some(kind) = ty.kind() else { unreachable!("checked by naga") };
        if kind.is_wide() {
            let values: Vec<Value> = arguments.iter().map(|(_, value)| value.clone()).collect();
            return self.wide_math(kind, fun, &values, span);
        }
        let signed = kind == Kind::Int;
        let b = || arguments[1].1.as_slice();
        let c = || arguments[2].1.as_slice();
        // One instruction of the same name, after which an f16 needs no rounding, or does.
        let exact = same_name!(fun; Floor Ceil Round Trunc Step CountOneBits CountLeadingZeros CountTrailingZeros
            FirstTrailingBit ReverseBits QuantizeToF16);
        let rounded = same_name!(fun; Fract Sqrt InverseSqrt Exp Exp2 Log Log2 Pow Sin Cos Tan Asin Acos Atan Atan2
            Sinh Cosh Tanh Asinh Acosh Atanh Ldexp);
        if let Some(opcode) = exact.or(rounded) {
            let value = if opcode.operands() == 1 { self.map(a, opcode) } else { self.zip(a, b(), opcode) };
            return Ok(if rounded.is_some() { self.rounded(kind, value) } else { value });
        }
        Ok(match fun {
            M::Abs => self.map(a, kind.pick(Opcode::AbsF, Opcode::AbsI, Opcode::Copy)),
            M::Sign => self.map(a, kind.pick(Opcode::SignF, Opcode::SignI, Opcode::SignI)),
            M::FirstLeadingBit if signed => self.map(a, Opcode::FirstLeadingBitI),
            M::FirstLeadingBit => self.map(a, Opcode::FirstLeadingBitU),
            M::Min => self.zip(a, b(), kind.pick(Opcode::MinF, Opcode::MinI, Opcode::MinU)),
            M::Max => self.zip(a, b(), kind.pick(Opcode::MaxF, Opcode::MaxI, Opcode::MaxU)),
            M::Clamp => self.clamp(kind, a, b(), c()),
            M::Saturate => self.saturate(a),
            M::Radians | M::Degrees => {
                let factor =
                    if fun == M::Radians { std::f32::consts::PI / 180.0 } else { 180.0 / std::f32::consts::PI };
                let factor = self.build.float(factor);
                self.arithmetic(kind, a, &[factor], Opcode::MulF)
            }
            M::Fma => {
                let operands = a.iter().zip(b()).zip(c());
                let value = operands.map(|((a, b), c)| self.build.ternary(Opcode::MulAdd, *a, *b, *c)).collect();
                self.rounded(kind, value)
            }
            M::Mix => {
                // As naga's other targets: a · (1 − t) + b · t.
                let one = self.build.float(1.0);
                let rest = self.arithmetic(kind, &[one], c(), Opcode::SubF);
                let left = self.arithmetic(kind, a, &rest, Opcode::MulF);
                let right = self.arithmetic(kind, b(), c(), Opcode::MulF);
                self.arithmetic(kind, &left, &right, Opcode::AddF)
            }
            M::SmoothStep => {
                let above = self.arithmetic(kind, c(), a, Opcode::SubF);
                let width = self.arithmetic(kind, b(), a, Opcode::SubF);
                let t = self.arithmetic(kind, &above, &width, Opcode::DivF);
                let t = self.saturate(&t);
                let (two, three) = (self.build.float(2.0), self.build.float(3.0));
                let twice = self.arithmetic(kind, &t, &[two], Opcode::MulF);
                let rest = self.arithmetic(kind, &[three], &twice, Opcode::SubF);
                let square = self.arithmetic(kind, &t, &t, Opcode::MulF);
                self.arithmetic(kind, &square, &rest, Opcode::MulF)
            }
            M::Modf => {
                let whole = self.map(a, Opcode::Trunc);
                let mut result = self.zip(a, &whole, Opcode::SubF);
                result.extend(whole);
                result
            }
            M::Frexp => {
                let mut result = self.map(a, Opcode::FrexpFraction);
                result.extend(self.map(a, Opcode::FrexpExponent));
                result
            }
            M::Dot => smallvec![self.dot(kind, a, b())],
            M::Outer => {
                let mut result = Value::new();
                for right in b() {
                    result.extend(self.arithmetic(kind, a, &[*right], Opcode::MulF));
                }
                result
            }
            M::Cross => {
                let b = b();
                let mut result = Value::new();
                for (i, j) in [(1, 2), (2, 0), (0, 1)] {
                    let left = self.arithmetic(kind, &[a[i]], &[b[j]], Opcode::MulF);
                    let right = self.arithmetic(kind, &[a[j]], &[b[i]], Opcode::MulF);
                    result.extend(self.arithmetic(kind, &left, &right, Opcode::SubF));
                }
                result
            }
            M::Length => smallvec![self.length(kind, a)],
            M::Distance => {
                let difference = self.arithmetic(kind, a, b(), Opcode::SubF);
                smallvec![self.length(kind, &difference)]
            }
            M::Normalize => {
                let length = self.length(kind, a);
                self.arithmetic(kind, a, &[length], Opcode::DivF)
            }
            M::FaceForward => {
                let dot = self.dot(kind, c(), b());
                let zero = self.build.float(0.0);
                let facing = self.build.binary(Opcode::LtF, dot, zero);
                let negated = self.map(a, Opcode::NegF);
                a.iter().zip(&negated).map(|(a, negated)| self.build.select(facing, *a, *negated)).collect()
            }
            M::Reflect => {
                let dot = self.dot(kind, b(), a);
                let two = self.build.float(2.0);
                let twice = self.arithmetic(kind, &[dot], &[two], Opcode::MulF);
                let along = self.arithmetic(kind, b(), &twice, Opcode::MulF);
                self.arithmetic(kind, a, &along, Opcode::SubF)
            }
            M::Refract => {
                // k = 1 − eta² (1 − (n·i)²); 0 where k < 0, else eta·i − (eta·(n·i) + √k)·n
                let eta = c()[0];
                let (zero, one) = (self.build.float(0.0), self.build.float(1.0));
                let dot = self.dot(kind, b(), a);
                let dot2 = self.arithmetic(kind, &[dot], &[dot], Opcode::MulF)[0];
                let rest = self.arithmetic(kind, &[one], &[dot2], Opcode::SubF)[0];
                let eta2 = self.arithmetic(kind, &[eta], &[eta], Opcode::MulF)[0];
                let bent = self.arithmetic(kind, &[eta2], &[rest], Opcode::MulF)[0];
                let k = self.arithmetic(kind, &[one], &[bent], Opcode::SubF)[0];
                let total = self.build.binary(Opcode::LtF, k, zero);
                let root = self.map(&[k], Opcode::Sqrt);
                let root = self.rounded(kind, root)[0];
                let scaled = self.arithmetic(kind, &[eta], &[dot], Opcode::MulF)[0];
                let factor = self.arithmetic(kind, &[scaled], &[root], Opcode::AddF)[0];
                let left = self.arithmetic(kind, a, &[eta], Opcode::MulF);
                let right = self.arithmetic(kind, b(), &[factor], Opcode::MulF);
                let value = self.arithmetic(kind, &left, &right, Opcode::SubF);
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
                let f = if signed { Opcode::ExtractI } else { Opcode::ExtractU };
                a.iter().map(|a| self.build.ternary(f, *a, b()[0], c()[0])).collect()
            }
            M::InsertBits => {
                let (offset, count) = (arguments[2].1[0], arguments[3].1[0]);
                self.insert_bits(a, b(), offset, count)
            }
            M::Dot4I8Packed | M::Dot4U8Packed => {
                let f = if fun == M::Dot4I8Packed { Opcode::ExtractI } else { Opcode::ExtractU };
                let left = self.fields(a[0], 4, f);
                let right = self.fields(b()[0], 4, f);
                let products = self.zip(&left, &right, Opcode::MulI);
                smallvec![self.fold(&products, Opcode::AddI)]
            }
            M::Pack4x8snorm => smallvec![self.pack(a, Some(Opcode::PackSnorm8))],
            M::Pack4x8unorm => smallvec![self.pack(a, Some(Opcode::PackUnorm8))],
            M::Pack2x16snorm => smallvec![self.pack(a, Some(Opcode::PackSnorm16))],
            M::Pack2x16unorm => smallvec![self.pack(a, Some(Opcode::PackUnorm16))],
            M::Pack2x16float => smallvec![self.pack(a, Some(Opcode::HalfBits))],
            M::Pack4xI8 | M::Pack4xU8 => smallvec![self.pack(a, None)],
            M::Pack4xI8Clamp => {
                let (low, high) = (self.build.constant((-128_i32).cast_unsigned()), self.build.constant(127));
                let value = self.clamp(Kind::Int, a, &[low], &[high]);
                smallvec![self.pack(&value, None)]
            }
            M::Pack4xU8Clamp => {
                let high = self.build.constant(255);
                let value = self.zip(a, &[high], Opcode::MinU);
                smallvec![self.pack(&value, None)]
            }
            M::Unpack4x8snorm => self.unpack(a[0], 4, Opcode::ExtractI, Some(Opcode::UnpackSnorm8)),
            M::Unpack4x8unorm => self.unpack(a[0], 4, Opcode::ExtractU, Some(Opcode::UnpackUnorm8)),
            M::Unpack2x16snorm => self.unpack(a[0], 2, Opcode::ExtractI, Some(Opcode::UnpackSnorm16)),
            M::Unpack2x16unorm => self.unpack(a[0], 2, Opcode::ExtractU, Some(Opcode::UnpackUnorm16)),
            M::Unpack2x16float => self.unpack(a[0], 2, Opcode::ExtractU, Some(Opcode::HalfFromBits)),
            M::Unpack4xI8 => self.unpack(a[0], 4, Opcode::ExtractI, None),
            M::Unpack4xU8 => self.unpack(a[0], 4, Opcode::ExtractU, None),
            other => return Err(Unsupported { what: format!("the function {other:?}"), span }),
        })
    }

    fn clamp(&mut self, kind: Kind, value: &[Reg], low: &[Reg], high: &[Reg]) -> Value {
        let value = self.zip(value, low, kind.pick(Opcode::MaxF, Opcode::MaxI, Opcode::MaxU));
        self.zip(&value, high, kind.pick(Opcode::MinF, Opcode::MinI, Opcode::MinU))
    }

    fn saturate(&mut self, value: &[Reg]) -> Value {
        let (zero, one) = (self.build.float(0.0), self.build.float(1.0));
        self.clamp(Kind::Float, value, &[zero], &[one])
    }

    fn length(&mut self, kind: Kind, value: &[Reg]) -> Reg {
        if let [single] = value {
            return self.build.unary(Opcode::AbsF, *single);
        }
        let square = self.dot(kind, value, value);
        let root = self.map(&[square], Opcode::Sqrt);
        self.rounded(kind, root)[0]
    }

    /// The equal fields of a word.
    fn fields(&mut self, word: Reg, count: u32, f: Opcode) -> SmallVec<[Reg; 4]> {
        let width = self.build.constant(32 / count);
        (0..count)
            .map(|index| {
                let offset = self.build.constant(index * (32 / count));
                self.build.ternary(f, word, offset, width)
            })
            .collect()
    }

    fn unpack(&mut self, word: Reg, count: u32, extract: Opcode, convert: Option<Opcode>) -> Value {
        let fields = self.fields(word, count, extract);
        if let Some(convert) = convert { self.map(&fields, convert) } else { fields }
    }

    fn pack(&mut self, value: &[Reg], convert: Option<Opcode>) -> Reg {
        let width = 32 / u32::try_from(value.len()).unwrap_or(4);
        let mask = self.build.constant((1 << width) - 1);
        let mut word = self.build.constant(0);
        for (index, reg) in (0..).zip(value) {
            let field = convert.map_or(*reg, |f| self.build.unary(f, *reg));
            let field = self.build.binary(Opcode::And, field, mask);
            let offset = self.build.constant(index * width);
            let field = self.build.binary(Opcode::Shl, field, offset);
            word = self.build.binary(Opcode::Or, word, field);
        }
        word
    }

    fn insert_bits(&mut self, old: &[Reg], new: &[Reg], offset: Reg, count: Reg) -> Value {
        let bits = self.build.constant(32);
        let (zero, one, ones) = (self.build.constant(0), self.build.constant(1), self.build.constant(u32::MAX));
        let offset = self.build.binary(Opcode::MinU, offset, bits);
        let room = self.build.binary(Opcode::SubI, bits, offset);
        let count = self.build.binary(Opcode::MinU, count, room);
        let whole = self.build.binary(Opcode::LeU, bits, count);
        let power = self.build.binary(Opcode::Shl, one, count);
        let low = self.build.binary(Opcode::SubI, power, one);
        let low = self.build.select(whole, ones, low);
        let nothing = self.build.binary(Opcode::EqI, count, zero);
        let field = self.build.binary(Opcode::Shl, low, offset);
        let field = self.build.select(nothing, zero, field);
        old.iter()
            .zip(new)
            .map(|(old, new)| {
                let moved = self.build.binary(Opcode::Shl, *new, offset);
                let inside = self.build.binary(Opcode::And, moved, field);
                let outside = self.build.binary(Opcode::AndNot, *old, field);
                self.build.binary(Opcode::Or, inside, outside)
            })
            .collect()
    }
}
