//! Expressions.

use naga::{
    BinaryOperator, Expression, Handle, Literal, RelationalFunction, ScalarKind, Span, TypeInner, UnaryOperator,
};
use smallvec::smallvec;

use super::{
    Located, Lower, Result, Value,
    function::FunctionFrame,
    pointer::{Lowered, Pointer, Target},
    types::{Kind, MemoryLayout, Ty},
};
use crate::{
    Unsupported,
    code::{Reg, Root},
    opcode::Opcode,
};

impl<'a> Lower<'a> {
    /// The type of an expression.
    pub(super) fn type_of(&self, frame: &FunctionFrame<'a>, handle: Handle<Expression>) -> Result<Ty> {
        Ty::of(self.module, &frame.info[handle].ty).at(frame.function.expressions.get_span(handle))
    }

    pub(super) fn points_to_atomic(&self, frame: &FunctionFrame<'a>, pointer: Handle<Expression>) -> bool {
        let types = &self.module.types;
        matches!(frame.info[pointer].ty.inner_with(types), TypeInner::Pointer { base, .. }
            if matches!(types[*base].inner, TypeInner::Atomic(_)))
    }

    pub(super) fn expression(&mut self, frame: &mut FunctionFrame<'a>, handle: Handle<Expression>) -> Result<Lowered> {
        let function = frame.function;
        let span = function.expressions.get_span(handle);
        let refuse = |what: &str| Err(Unsupported { what: what.into(), span });
        let value = match &function.expressions[handle] {
            Expression::Literal(literal) => self.literal(*literal, span)?,
            Expression::Constant(constant) => self.global_constant(self.module.constants[*constant].init, span)?,
            Expression::Override(_) => return refuse("an override without a value"),
            Expression::ZeroValue(ty) => self.zero(*ty, span)?,
            Expression::Compose { components, .. } => {
                let mut value = Value::new();
                for component in components {
                    value.extend(self.value_of(frame, *component)?);
                }
                value
            }
            Expression::Splat { size, value } => {
                let value = self.value_of(frame, *value)?;
                splat(&value, *size as usize)
            }
            Expression::Swizzle { size, vector, pattern } => {
                let each = self.type_of(frame, *vector)?.kind().map_or(1, Kind::cells) as usize;
                let vector = self.value_of(frame, *vector)?;
                let components = pattern[..*size as usize].iter();
                components.flat_map(|component| &vector[*component as usize * each..][..each]).copied().collect()
            }
            Expression::FunctionArgument(index) => return Ok(frame.arguments[*index as usize].clone()),
            Expression::GlobalVariable(variable) => return Ok(Lowered::Pointer(self.global(*variable)?)),
            Expression::LocalVariable(variable) => {
                let place = frame.locals[variable.index()].clone();
                let ty = function.local_variables[*variable].ty;
                return Ok(Lowered::Pointer(self.pointer_to(&place, ty, span)?));
            }
            Expression::Access { base, index } => {
                let index = self.value_of(frame, *index)?[0];
                match self.lowered(frame, *base)? {
                    Lowered::Pointer(pointer) => return Ok(Lowered::Pointer(self.index(&pointer, index, span)?)),
                    Lowered::Value(value) => {
                        let ty = self.type_of(frame, *base)?;
                        self.index_value(ty, &value, index, span)?
                    }
                }
            }
            Expression::AccessIndex { base, index } => match self.lowered(frame, *base)? {
                Lowered::Pointer(pointer) => {
                    // An element of several words must be in bounds as a whole.
                    let pointer = match pointer.ty {
                        Ty::Array { count: None, stride: 5.., .. } => {
                            let index = self.build.constant(*index);
                            self.index(&pointer, index, span)?
                        }
                        _ => self.step(&pointer, *index, span)?,
                    };
                    return Ok(Lowered::Pointer(pointer));
                }
                Lowered::Value(value) => {
                    let ty = self.type_of(frame, *base)?;
                    let (part, first) = match ty {
                        Ty::Struct(_) => ty.member(self.module, MemoryLayout::Cells, *index as usize),
                        _ => ty
                            .elements(self.module, MemoryLayout::Cells)
                            .map(|(part, _, stride)| (part, index * stride)),
                    }
                    .at(span)?;
                    let cells = part.cells(self.module).at(span)?;
                    value[first as usize..][..cells as usize].into()
                }
            },
            Expression::Load { pointer } => {
                self.build.atomic = self.points_to_atomic(frame, *pointer);
                let pointer = self.pointer_of(frame, *pointer)?;
                let value = self.read(&pointer, span);
                self.build.atomic = false;
                value?
            }
            Expression::Unary { op, expr } => {
                let ty = self.type_of(frame, *expr)?;
                let value = self.value_of(frame, *expr)?;
                let f = match (op, ty.kind()) {
                    (UnaryOperator::Negate, Some(Kind::Long)) => return Ok(Lowered::Value(self.wide_negate(&value))),
                    (UnaryOperator::Negate, Some(Kind::Float | Kind::Half)) => Opcode::NegF,
                    (UnaryOperator::Negate, _) => Opcode::NegI,
                    (UnaryOperator::LogicalNot | UnaryOperator::BitwiseNot, _) => Opcode::Not,
                };
                self.map(&value, f)
            }
            Expression::Binary { op, left, right } => self.operator(frame, *op, *left, *right)?,
            Expression::Select { condition, accept, reject } => {
                let condition = self.value_of(frame, *condition)?;
                let accept = self.value_of(frame, *accept)?;
                let reject = self.value_of(frame, *reject)?;
                let each = accept.len() / condition.len().min(accept.len());
                let pairs = accept.iter().zip(&reject).enumerate();
                pairs
                    .map(|(index, (accept, reject))| {
                        let condition = if condition.len() == 1 { condition[0] } else { condition[index / each] };
                        self.build.select(condition, *accept, *reject)
                    })
                    .collect()
            }
            Expression::Relational { fun, argument } => {
                let value = self.value_of(frame, *argument)?;
                match fun {
                    RelationalFunction::All => smallvec![self.fold(&value, Opcode::And)],
                    RelationalFunction::Any => smallvec![self.fold(&value, Opcode::Or)],
                    RelationalFunction::IsNan => self.map(&value, Opcode::IsNan),
                    RelationalFunction::IsInf => self.map(&value, Opcode::IsInf),
                }
            }
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                let mut arguments = Vec::new();
                for argument in [Some(*arg), *arg1, *arg2, *arg3].into_iter().flatten() {
                    arguments.push((self.type_of(frame, argument)?, self.value_of(frame, argument)?));
                }
                self.math(*fun, &arguments, span)?
            }
            Expression::As { expr, kind, convert } => {
                let from = self.type_of(frame, *expr)?;
                let value = self.value_of(frame, *expr)?;
                self.cast(from, &value, *kind, *convert, span)?
            }
            Expression::ArrayLength(pointer) => {
                let pointer = self.pointer_of(frame, *pointer)?;
                let Target::Memory { root: Root::Buffer(slot), offset, .. } = pointer.to else {
                    unreachable!("runtime-sized arrays are in buffers")
                };
                let (_, _, stride) = pointer.ty.elements(self.module, MemoryLayout::Host).at(span)?;
                let count = self.count_of(slot, offset, stride);
                smallvec![self.build.count(count)]
            }
            Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::WorkGroupUniformLoadResult { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. } => unreachable!("set by its statement"),
            Expression::ImageSample { .. } | Expression::ImageLoad { .. } | Expression::ImageQuery { .. } => {
                return refuse("a texture");
            }
            Expression::Derivative { .. } => return refuse("a derivative"),
            Expression::RayQueryVertexPositions { .. }
            | Expression::RayQueryProceedResult
            | Expression::RayQueryGetIntersection { .. } => return refuse("a ray query"),
            Expression::CooperativeLoad { .. } | Expression::CooperativeMultiplyAdd { .. } => {
                return refuse("a cooperative matrix");
            }
        };
        Ok(Lowered::Value(value))
    }

    /// The value of a constant expression of the module.
    pub(super) fn global_constant(&mut self, handle: Handle<Expression>, span: Span) -> Result<Value> {
        let module = self.module;
        Ok(match &module.global_expressions[handle] {
            Expression::Literal(literal) => self.literal(*literal, span)?,
            Expression::Constant(constant) => self.global_constant(module.constants[*constant].init, span)?,
            Expression::ZeroValue(ty) => self.zero(*ty, span)?,
            Expression::Compose { components, .. } => {
                let mut value = Value::new();
                for component in components {
                    value.extend(self.global_constant(*component, span)?);
                }
                value
            }
            Expression::Splat { size, value } => {
                let value = self.global_constant(*value, span)?;
                splat(&value, *size as usize)
            }
            _ => return Err(Unsupported { what: "a constant that naga left unevaluated".into(), span }),
        })
    }

    fn literal(&mut self, literal: Literal, span: Span) -> Result<Value> {
        let bits = match literal {
            Literal::F32(value) => value.to_bits(),
            Literal::F16(value) => value.to_f32().to_bits(),
            Literal::U32(value) => value,
            Literal::I32(value) => value.cast_unsigned(),
            Literal::Bool(value) => u32::from(value).wrapping_neg(),
            Literal::F64(_) => return Err(Unsupported { what: "f64".into(), span }),
            Literal::U64(value) => return Ok(self.wide_constant(value)),
            Literal::I64(value) => return Ok(self.wide_constant(value.cast_unsigned())),
            Literal::U16(_) | Literal::I16(_) => return Err(Unsupported { what: "a 16-bit integer".into(), span }),
            Literal::AbstractInt(_) | Literal::AbstractFloat(_) => unreachable!("made concrete by naga"),
        };
        Ok(smallvec![self.build.constant(bits)])
    }

    fn zero(&mut self, ty: Handle<naga::Type>, span: Span) -> Result<Value> {
        let ty = Ty::of_handle(self.module, ty).at(span)?;
        let cells = self.cells(ty, "a value", span)?;
        let zero = self.build.constant(0);
        Ok(smallvec![zero; cells as usize])
    }

    /// `value[index]`: by selects where it is short, else through memory.
    fn index_value(&mut self, ty: Ty, value: &Value, index: Reg, span: Span) -> Result<Value> {
        let (element, count, _) = ty.elements(self.module, MemoryLayout::Cells).at(span)?;
        let each = element.cells(self.module).at(span)?;
        if let Some(known) = self.build.value(index).filter(|known| *known < count.unwrap_or(0)) {
            return Ok(value[(known * each) as usize..][..each as usize].into());
        }
        if value.len() <= 4 || count.unwrap_or(0) <= 4 {
            return Ok(self.pick(value, each as usize, index));
        }
        let cells = ty.cells(self.module).at(span)?;
        let local = self.local(cells, span)?;
        let whole = Pointer { ty, to: Target::start(Root::Local(local)) };
        self.write(&whole, value, span)?;
        let element = self.index(&whole, index, span)?;
        let value = self.read(&element, span)?;
        self.free_locals.entry(cells).or_default().push(local);
        Ok(value)
    }

    pub(super) fn map(&mut self, value: &[Reg], f: Opcode) -> Value {
        value.iter().map(|reg| self.build.unary(f, *reg)).collect()
    }

    pub(super) fn zip(&mut self, left: &[Reg], right: &[Reg], f: Opcode) -> Value {
        let count = left.len().max(right.len());
        let at = |value: &[Reg], index: usize| if value.len() == 1 { value[0] } else { value[index] };
        (0..count).map(|index| self.build.binary(f, at(left, index), at(right, index))).collect()
    }

    /// As [`Lower::zip`], rounded to the precision of the kind.
    pub(super) fn arithmetic(&mut self, kind: Kind, left: &[Reg], right: &[Reg], f: Opcode) -> Value {
        let value = self.zip(left, right, f);
        self.rounded(kind, value)
    }

    /// Rounds what was computed in `f32` on behalf of an `f16`.
    pub(super) fn rounded(&mut self, kind: Kind, value: Value) -> Value {
        if kind == Kind::Half { self.map(&value, Opcode::QuantizeToF16) } else { value }
    }

    pub(super) fn fold(&mut self, value: &[Reg], f: Opcode) -> Reg {
        value[1..].iter().fold(value[0], |sum, reg| self.build.binary(f, sum, *reg))
    }

    fn operator(
        &mut self,
        frame: &mut FunctionFrame<'a>,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Result<Value> {
        let (left_ty, right_ty) = (self.type_of(frame, left)?, self.type_of(frame, right)?);
        let (left, right) = (self.value_of(frame, left)?, self.value_of(frame, right)?);
        let Some(kind) = left_ty.kind() else { unreachable!("checked by naga") };
        if op == BinaryOperator::Multiply && matches!((left_ty, right_ty), (Ty::Matrix(..), _) | (_, Ty::Matrix(..))) {
            return Ok(self.matrix_product(left_ty, &left, right_ty, &right));
        }
        if kind.is_wide() {
            return Ok(self.wide_operator(kind, op, &left, &right));
        }
        // a > b is b < a.
        let (op, left, right) = match op {
            BinaryOperator::Greater => (BinaryOperator::Less, right, left),
            BinaryOperator::GreaterEqual => (BinaryOperator::LessEqual, right, left),
            op => (op, left, right),
        };
        let pick = |float, signed, unsigned| kind.pick(float, signed, unsigned);
        let f = match op {
            BinaryOperator::Add => pick(Opcode::AddF, Opcode::AddI, Opcode::AddI),
            BinaryOperator::Subtract => pick(Opcode::SubF, Opcode::SubI, Opcode::SubI),
            BinaryOperator::Multiply => pick(Opcode::MulF, Opcode::MulI, Opcode::MulI),
            BinaryOperator::Divide => pick(Opcode::DivF, Opcode::DivI, Opcode::DivU),
            BinaryOperator::Modulo => pick(Opcode::RemF, Opcode::RemI, Opcode::RemU),
            BinaryOperator::Equal => pick(Opcode::EqF, Opcode::EqI, Opcode::EqI),
            BinaryOperator::NotEqual => pick(Opcode::NeF, Opcode::NeI, Opcode::NeI),
            BinaryOperator::Less | BinaryOperator::Greater => pick(Opcode::LtF, Opcode::LtI, Opcode::LtU),
            BinaryOperator::LessEqual | BinaryOperator::GreaterEqual => pick(Opcode::LeF, Opcode::LeI, Opcode::LeU),
            BinaryOperator::And | BinaryOperator::LogicalAnd => Opcode::And,
            BinaryOperator::ExclusiveOr => Opcode::Xor,
            BinaryOperator::InclusiveOr | BinaryOperator::LogicalOr => Opcode::Or,
            BinaryOperator::ShiftLeft => Opcode::Shl,
            BinaryOperator::ShiftRight => pick(Opcode::ShrU, Opcode::ShrI, Opcode::ShrU),
        };
        let rounds = matches!(f, Opcode::AddF | Opcode::SubF | Opcode::MulF | Opcode::DivF | Opcode::RemF);
        Ok(if rounds { self.arithmetic(kind, &left, &right, f) } else { self.zip(&left, &right, f) })
    }

    fn cast(&mut self, from: Ty, value: &[Reg], to: ScalarKind, convert: Option<u8>, span: Span) -> Result<Value> {
        let Some(from_kind) = from.kind() else { unreachable!("checked by naga") };
        let Some(width) = convert else { return self.bitcast(from_kind, value, to, span) };
        let Some(to) = Kind::of(naga::Scalar { kind: to, width }) else {
            return Err(Unsupported { what: format!("a conversion to {width} bytes"), span });
        };
        if from_kind.is_wide() || to.is_wide() {
            return Ok(self.wide_cast(from_kind, value, to));
        }
        let f = match (from_kind, to) {
            (Kind::Bool, Kind::Float | Kind::Half | Kind::Int | Kind::Uint) => {
                let one = if to.is_float() { self.build.float(1.0) } else { self.build.constant(1) };
                return Ok(self.zip(value, &[one], Opcode::And));
            }
            (Kind::Int | Kind::Uint, Kind::Bool) => Opcode::ToBool,
            (Kind::Float | Kind::Half, Kind::Bool) => Opcode::FloatToBool,
            (Kind::Int, Kind::Float | Kind::Half) => Opcode::IntToFloat,
            (Kind::Uint, Kind::Float | Kind::Half) => Opcode::UintToFloat,
            (Kind::Float | Kind::Half, Kind::Int) => Opcode::FloatToInt,
            (Kind::Float | Kind::Half, Kind::Uint) => Opcode::FloatToUint,
            (Kind::Float, Kind::Half) => Opcode::QuantizeToF16,
            (Kind::Bool, Kind::Bool)
            | (Kind::Int | Kind::Uint, Kind::Int | Kind::Uint)
            | (Kind::Half, Kind::Half)
            | (Kind::Float | Kind::Half, Kind::Float) => return Ok(value.into()),
            (Kind::Long | Kind::Ulong, _) | (_, Kind::Long | Kind::Ulong) => unreachable!("converted above"),
        };
        let value = self.map(value, f);
        Ok(if from_kind == Kind::Float { value } else { self.rounded(to, value) })
    }

    /// Reinterprets the bits. Only `f16` would change the number of components.
    fn bitcast(&mut self, from: Kind, value: &[Reg], to: ScalarKind, span: Span) -> Result<Value> {
        if from == Kind::Half && to != ScalarKind::Float {
            return Err(Unsupported { what: "a bitcast of f16".into(), span });
        }
        Ok(value.into())
    }
}

/// A vector of equal components.
fn splat(value: &[Reg], size: usize) -> Value {
    std::iter::repeat_n(value, size).flatten().copied().collect()
}
