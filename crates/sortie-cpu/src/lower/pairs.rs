//! Two instructions in one: one pass over the lanes instead of two. Nothing is rounded differently.

use rustc_hash::FxHashMap;

use super::{
    Origin, count_reads, for_each_list,
    peephole::{MAX_OP_DISTANCE, remove, writes},
};
use crate::{
    code::{Binary, Blend, Body, Op, Reg, Ternary},
    shape::Shape,
};

/// Joins a result that is used once, as wide as what is made of it, with its only use.
pub(super) fn run(bodies: &mut [&mut Body], origins: &[Origin], shapes: &[Shape]) {
    let uses = count_reads(bodies, origins.len());
    for body in bodies {
        for_each_list(body, &mut |ops| join(ops, origins, shapes, &uses));
    }
}

/// `g(f(a, b), c)`, or `g(c, f(a, b))` if swapped.
fn pair(f: Binary, g: Binary, swapped: bool) -> Option<Ternary> {
    Some(match (f, g) {
        (Binary::MulF, Binary::AddF) => Ternary::MulAdd,
        (Binary::MulF, Binary::SubF) if swapped => Ternary::NegMulAdd,
        (Binary::MulF, Binary::MulF) => Ternary::MulMul,
        (Binary::AddF, Binary::MulF) => Ternary::AddMul,
        (Binary::SubF, Binary::MulF) => Ternary::SubMul,
        (Binary::MulI, Binary::AddI) => Ternary::MulAddI,
        (Binary::And, Binary::EqI) => Ternary::AndEq,
        (Binary::ShrU, Binary::And) => Ternary::ShrAnd,
        (Binary::ShrU, Binary::Xor) => Ternary::ShrXor,
        (Binary::Shl, Binary::Xor) => Ternary::ShlXor,
        _ => return None,
    })
}

fn join(ops: &mut Vec<Op>, origins: &[Origin], shapes: &[Shape], uses: &[u32]) {
    let mut made: FxHashMap<Reg, usize> = FxHashMap::default();
    let mut gone = vec![false; ops.len()];
    for index in 0..ops.len() {
        let near = |inner: &Reg| made.get(inner).copied().filter(|at| index - at < MAX_OP_DISTANCE);
        let joined = match ops[index] {
            Op::Binary { f: g, d, a, b, grid } if !shapes[d.0 as usize].is_uniform() => {
                [(a, b, false), (b, a, true)].into_iter().find_map(|(inner, c, swapped)| {
                    let at = near(&inner)?;
                    let Op::Binary { f, a: mut x, b: mut y, .. } = ops[at] else { return None };
                    // What is the same for all lanes comes last: there is a loop for that.
                    if matches!(f, Binary::MulF | Binary::AddF | Binary::MulI | Binary::And)
                        && shapes[x.0 as usize].is_uniform()
                    {
                        std::mem::swap(&mut x, &mut y);
                    }
                    let f = pair(f, g, swapped).filter(|_| shapes[inner.0 as usize] == shapes[d.0 as usize])?;
                    Some((at, [x, y], Op::Ternary { f, d, a: x, b: y, c, grid }))
                })
            }
            Op::Blend { f: Blend::Assign, d, a: inner, mask, grid } => near(&inner).and_then(|at| {
                let (f, x, y) = match ops[at] {
                    Op::Binary { f: Binary::AddI, a, b, .. } => (Blend::AddI, a, b),
                    Op::Binary { f: Binary::AddF, a, b, .. } => (Blend::AddF, a, b),
                    _ => return None,
                };
                let a = if x == d { y } else { x };
                (x == d || y == d).then_some((at, [x, y], Op::Blend { f, d, a, mask, grid }))
            }),
            _ => None,
        };
        if let Some((at, [x, y], op)) = joined {
            let set = |op: &mut Op| writes(op, x) || writes(op, y);
            if !ops[at + 1..index].iter_mut().any(set) {
                ops[index] = op;
                gone[at] = true;
            }
        }
        if let Op::Binary { d, .. } = ops[index]
            && origins[d.0 as usize] == Origin::Temporary
            && uses[d.0 as usize] == 1
        {
            made.insert(d, index);
        }
    }
    remove(ops, &gone);
}
