//! Fixes `frexp` of `f16`. Its exponent is an `i32` in WGSL but an `i16` in naga, which no supported device accepts.
//!
//! Invariant: a module whose source does not use `i16` has none afterwards, because every `i16` came from `frexp`.

use naga::{
    Arena, Expression, Handle, Literal, Module, PredeclaredType, Scalar, ScalarKind, Type, TypeInner, VectorSize,
};

/// Gives the exponents of `frexp` the type that WGSL specifies.
pub(super) fn widen_exponents(source: &str, module: &mut Module) {
    let is_half = |special: &&PredeclaredType| matches!(special, PredeclaredType::FrexpResult { scalar, .. } if *scalar == Scalar::F16);
    if !module.special_types.predeclared_types.keys().any(|special| is_half(&special)) || source.contains("i16") {
        return;
    }
    let narrow: Vec<(Handle<Type>, TypeInner)> =
        module.types.iter().filter_map(|(handle, ty)| Some((handle, wide(&ty.inner)?))).collect();
    for (handle, inner) in narrow {
        // Types are unique, and `i32` may exist already: a name distinguishes them.
        let name = Some(format!("__frexp_exponent_{}", handle.index()));
        module.types.replace(handle, Type { name, inner });
    }
    let results: Vec<Handle<Type>> = module
        .special_types
        .predeclared_types
        .iter()
        .filter(|(special, _)| is_half(special))
        .map(|(_, handle)| *handle)
        .collect();
    for handle in results {
        let mut ty = module.types[handle].clone();
        place_exponent(&mut ty, module);
        module.types.replace(handle, ty);
    }
    widen_expressions(&mut module.global_expressions);
    module.functions.iter_mut().for_each(|(_, function)| widen_expressions(&mut function.expressions));
    module.entry_points.iter_mut().for_each(|entry| widen_expressions(&mut entry.function.expressions));
}

/// The 32-bit replacement of a type of 16-bit integers.
fn wide(inner: &TypeInner) -> Option<TypeInner> {
    match *inner {
        TypeInner::Scalar(Scalar::I16) => Some(TypeInner::Scalar(Scalar::I32)),
        TypeInner::Vector { size, scalar: Scalar::I16 } => Some(TypeInner::Vector { size, scalar: Scalar::I32 }),
        _ => None,
    }
}

/// Aligns the exponent as a 32-bit integer, or a vector of them.
fn place_exponent(ty: &mut Type, module: &Module) {
    let TypeInner::Struct { members, span } = &mut ty.inner else { return };
    let [_, exponent] = &mut members[..] else { return };
    let words = match module.types[exponent.ty].inner {
        TypeInner::Vector { size: VectorSize::Bi, .. } => [2, 2],
        TypeInner::Vector { size: VectorSize::Tri, .. } => [4, 3],
        TypeInner::Vector { size: VectorSize::Quad, .. } => [4, 4],
        _ => [1, 1],
    };
    let [alignment, size] = words.map(|words| 4 * words);
    exponent.offset = exponent.offset.next_multiple_of(alignment);
    *span = (exponent.offset + size).next_multiple_of(alignment);
}

fn widen_expressions(expressions: &mut Arena<Expression>) {
    for (_, expression) in expressions.iter_mut() {
        match expression {
            Expression::Literal(literal) => {
                if let Literal::I16(value) = *literal {
                    *literal = Literal::I32(value.into());
                }
            }
            Expression::As { kind: ScalarKind::Sint, convert: Some(width), .. } if *width == 2 => *width = 4,
            _ => {}
        }
    }
}
