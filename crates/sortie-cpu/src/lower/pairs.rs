//! Fuses two instructions into one, for one pass over the lanes instead of two. Rounding does not change.

use rustc_hash::FxHashMap;

use super::{
    Origin, count_reads, for_each_list,
    peephole::{MAX_OP_DISTANCE, remove, writes},
};
use crate::{
    code::{Blend, Body, Op, Reg},
    opcode::Opcode,
    shape::Shape,
};

/// Fuses a result with its only use, if both have the same shape.
pub(super) fn run(bodies: &mut [&mut Body], origins: &[Origin], shapes: &[Shape]) {
    let uses = count_reads(bodies, origins.len());
    for body in bodies {
        for_each_list(body, &mut |ops| join(ops, origins, shapes, &uses));
    }
}

/// `g(f(a, b), c)`, or `g(c, f(a, b))` if swapped.
fn pair(f: Opcode, g: Opcode, swapped: bool) -> Option<Opcode> {
    Some(match (f, g) {
        (Opcode::MulF, Opcode::AddF) => Opcode::MulAdd,
        (Opcode::MulF, Opcode::SubF) if swapped => Opcode::NegMulAdd,
        (Opcode::MulF, Opcode::MulF) => Opcode::MulMul,
        (Opcode::AddF, Opcode::MulF) => Opcode::AddMul,
        (Opcode::SubF, Opcode::MulF) => Opcode::SubMul,
        (Opcode::MulI, Opcode::AddI) => Opcode::MulAddI,
        (Opcode::And, Opcode::EqI) => Opcode::AndEq,
        (Opcode::ShrU, Opcode::And) => Opcode::ShrAnd,
        (Opcode::ShrU, Opcode::Xor) => Opcode::ShrXor,
        (Opcode::Shl, Opcode::Xor) => Opcode::ShlXor,
        _ => return None,
    })
}

fn join(ops: &mut Vec<Op>, origins: &[Origin], shapes: &[Shape], uses: &[u32]) {
    let mut made: FxHashMap<Reg, usize> = FxHashMap::default();
    let mut removed = vec![false; ops.len()];
    for index in 0..ops.len() {
        let near = |inner: &Reg| made.get(inner).copied().filter(|at| index - at < MAX_OP_DISTANCE);
        let joined = match ops[index] {
            Op::Compute { opcode: g, d, from: [a, b, _] } if !shapes[d.0 as usize].is_uniform() => {
                [(a, b, false), (b, a, true)].into_iter().find_map(|(inner, c, swapped)| {
                    let at = near(&inner)?;
                    let Op::Compute { opcode: f, from: [mut x, mut y, _], .. } = ops[at] else { return None };
                    // Uniform operands come last: `BlockLoop` has a loop for that order.
                    if matches!(f, Opcode::MulF | Opcode::AddF | Opcode::MulI | Opcode::And)
                        && shapes[x.0 as usize].is_uniform()
                    {
                        std::mem::swap(&mut x, &mut y);
                    }
                    let opcode = pair(f, g, swapped).filter(|_| shapes[inner.0 as usize] == shapes[d.0 as usize])?;
                    Some((at, [x, y], Op::Compute { opcode, d, from: [x, y, c] }))
                })
            }
            Op::Blend { f: Blend::Assign, d, a: inner, mask } => near(&inner).and_then(|at| {
                let (f, x, y) = match ops[at] {
                    Op::Compute { opcode: Opcode::AddI, from: [a, b, _], .. } => (Blend::AddI, a, b),
                    Op::Compute { opcode: Opcode::AddF, from: [a, b, _], .. } => (Blend::AddF, a, b),
                    _ => return None,
                };
                let a = if x == d { y } else { x };
                (x == d || y == d).then_some((at, [x, y], Op::Blend { f, d, a, mask }))
            }),
            _ => None,
        };
        if let Some((at, [x, y], op)) = joined {
            let set = |op: &mut Op| writes(op, x) || writes(op, y);
            if !ops[at + 1..index].iter_mut().any(set) {
                ops[index] = op;
                removed[at] = true;
            }
        }
        if let Op::Compute { d, .. } = ops[index]
            && origins[d.0 as usize] == Origin::Temporary
            && uses[d.0 as usize] == 1
        {
            made.insert(d, index);
        }
    }
    remove(ops, &removed);
}
