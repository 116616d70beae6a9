//! Address analysis: indices with a constant step from lane to lane, indices proved in bounds, and indices equal to the
//! invocation's own id.

use super::{Origin, build::register, for_each_list, for_each_op};
use crate::{
    code::{Access, Body, Builtin, Limit, Op, Reg, Root},
    compiled::ElementOwnership,
    geometry::Geometry,
    opcode::Opcode,
    shape::Shape,
};

/// Maximum rounds before variables count as not linear: a chain of variables could take a round each.
const MAX_ROUNDS: u32 = 64;

/// How a register grows along a row: the step from lane to lane within a workgroup, and from workgroup to workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linear {
    /// Not analysed yet.
    Unknown,
    By(u32, u32),
    No,
}

struct Facts<'a> {
    origins: &'a [Origin],
    shapes: &'a [Shape],
    geometry: &'a Geometry,
    linear: Vec<Linear>,
    /// Smallest and largest value as `u32`.
    range: Vec<Option<(u32, u32)>>,
    /// `global_invocation_id.x` itself.
    own: Vec<bool>,
    changed: bool,
}

/// Folds the addresses of all accesses. Returns for each slot whether invocations only access their own element of it,
/// and for each register whether it grows by one from lane to lane of a row.
pub(super) fn addresses(
    bodies: &mut [&mut Body],
    origins: &mut Vec<Origin>,
    shapes: &mut Vec<Shape>,
    geometry: &Geometry,
    slots: usize,
) -> (Vec<ElementOwnership>, Vec<bool>) {
    let mut facts = Facts {
        origins,
        shapes,
        geometry,
        linear: vec![Linear::Unknown; origins.len()],
        range: vec![None; origins.len()],
        own: vec![false; origins.len()],
        changed: true,
    };
    facts.start();
    let mut rounds = 0;
    while std::mem::take(&mut facts.changed) {
        rounds += 1;
        if rounds == MAX_ROUNDS {
            facts.give_up();
        }
        bodies.iter_mut().for_each(|body| for_each_op(body, &mut |op| facts.visit(op)));
    }
    let Facts { linear, range, own, .. } = facts;
    let mut fold = Fold { linear, range, own, origins, shapes, geometry, owned: vec![ElementOwnership::Unused; slots] };
    bodies.iter_mut().for_each(|body| fold.body(body));
    let by_one = (0..).zip(&fold.linear).map(|(number, _)| fold.step(Reg(number)) == Some(1)).collect();
    (fold.owned, by_one)
}

impl Facts<'_> {
    fn start(&mut self) {
        for (index, origin) in self.origins.iter().enumerate() {
            match origin {
                Origin::Constant(value) => self.range[index] = Some((*value, *value)),
                Origin::Builtin(builtin) => {
                    self.linear[index] = match self.geometry.linear(*builtin) {
                        Some((lane, group)) => Linear::By(lane, group),
                        None => Linear::No,
                    };
                    let size = self.geometry.workgroup;
                    self.range[index] = match builtin {
                        Builtin::LocalId(axis) => Some((0, size[usize::from(*axis)] - 1)),
                        Builtin::LocalIndex => Some((0, size.iter().product::<u32>() - 1)),
                        _ => None,
                    };
                    self.own[index] = *builtin == Builtin::GlobalId(0);
                }
                Origin::Temporary | Origin::Variable => {}
            }
            if !self.shapes[index].has_x() {
                self.linear[index] = Linear::By(0, 0);
            }
        }
    }

    /// Marks all variables as not linear, so that the rest converges in a few rounds.
    fn give_up(&mut self) {
        for (index, origin) in self.origins.iter().enumerate() {
            if *origin == Origin::Variable && self.shapes[index].has_x() {
                self.linear[index] = Linear::No;
            }
        }
    }

    fn constant(&self, reg: Reg) -> Option<u32> {
        match self.origins[reg.0 as usize] {
            Origin::Constant(value) => Some(value),
            _ => None,
        }
    }

    fn visit(&mut self, op: &mut Op) {
        let of = |facts: &Self, reg: Reg| facts.linear[reg.0 as usize];
        let bounds = |facts: &Self, reg: Reg| facts.range[reg.0 as usize];
        match *op {
            Op::Compute { opcode: Opcode::Copy, d, from: [a, ..] } => {
                let value = of(self, a);
                let (range, own) = (bounds(self, a), self.own[a.0 as usize]);
                if self.origins[d.0 as usize] == Origin::Variable {
                    self.meet(d, value);
                } else {
                    self.set(d, value);
                    self.range[d.0 as usize] = range;
                    self.own[d.0 as usize] = own;
                }
            }
            Op::Compute { opcode, d, from: [a, b, _] } => {
                let (left, right) = (of(self, a), of(self, b));
                let by = |value: Linear, factor: u32| match value {
                    Linear::By(lane, group) => Linear::By(lane.wrapping_mul(factor), group.wrapping_mul(factor)),
                    other => other,
                };
                let sum = |left: Linear, right: Linear| match (left, right) {
                    (Linear::By(a, b), Linear::By(c, d)) => Linear::By(a.wrapping_add(c), b.wrapping_add(d)),
                    (Linear::No, _) | (_, Linear::No) => Linear::No,
                    _ => Linear::Unknown,
                };
                let value = match (opcode, self.constant(a), self.constant(b)) {
                    (Opcode::AddI, ..) => sum(left, right),
                    (Opcode::SubI, ..) => sum(left, by(right, u32::MAX)),
                    (Opcode::MulI, _, Some(factor)) => by(left, factor),
                    (Opcode::MulI, Some(factor), _) => by(right, factor),
                    (Opcode::Shl, _, Some(shift)) => by(left, 1_u32.wrapping_shl(shift)),
                    _ => Linear::No,
                };
                self.set(d, value);
                let (x, y) = (bounds(self, a), bounds(self, b));
                self.range[d.0 as usize] = match (opcode, x, y) {
                    (Opcode::And, Some((_, high)), other) | (Opcode::And, other, Some((_, high))) => {
                        Some((0, other.map_or(high, |(_, other)| high.min(other))))
                    }
                    (Opcode::RemU, _, Some((low, high))) if low > 0 => Some((0, high - 1)),
                    (Opcode::MinU, Some((_, high)), None) | (Opcode::MinU, None, Some((_, high))) => Some((0, high)),
                    (Opcode::AddI, Some((a, b)), Some((c, d))) => b.checked_add(d).map(|high| (a + c, high)),
                    (Opcode::MulI, Some((a, b)), Some((c, d))) => b.checked_mul(d).map(|high| (a * c, high)),
                    (Opcode::Shl, Some((_, b)), Some((s, t))) if s == t && s < 32 => {
                        b.checked_mul(1 << s).map(|high| (0, high))
                    }
                    (Opcode::ShrU, Some((a, b)), Some((s, t))) if s == t => Some((a >> (s & 31), b >> (s & 31))),
                    (Opcode::ShrU, None, Some((s, t))) if s == t => Some((0, u32::MAX >> (s & 31))),
                    (Opcode::DivU, Some((_, b)), Some((c, _))) if c > 0 => Some((0, b / c)),
                    _ => None,
                };
            }
            ref mut other => {
                for reg in other.results() {
                    if self.origins[reg.0 as usize] == Origin::Variable {
                        self.meet(reg, Linear::No);
                    } else {
                        self.set(reg, Linear::No);
                    }
                }
            }
        }
    }

    fn set(&mut self, reg: Reg, value: Linear) {
        let slot = &mut self.linear[reg.0 as usize];
        if self.shapes[reg.0 as usize].has_x() && *slot != value {
            *slot = value;
            self.changed = true;
        }
    }

    /// A variable is linear only if all its values have the same step.
    fn meet(&mut self, reg: Reg, value: Linear) {
        let old = self.linear[reg.0 as usize];
        let met = match (old, value) {
            (Linear::Unknown, value) => value,
            (old, Linear::Unknown) => old,
            (old, value) if old == value => old,
            _ => Linear::No,
        };
        self.set(reg, met);
    }
}

struct Fold<'a> {
    linear: Vec<Linear>,
    range: Vec<Option<(u32, u32)>>,
    own: Vec<bool>,
    origins: &'a mut Vec<Origin>,
    shapes: &'a mut Vec<Shape>,
    geometry: &'a Geometry,
    owned: Vec<ElementOwnership>,
}

impl Fold<'_> {
    fn body(&mut self, body: &mut Body) {
        for_each_list(body, &mut |ops| {
            let mut result = Vec::with_capacity(ops.len());
            for mut op in ops.drain(..) {
                op.access().into_iter().for_each(|access| self.access(access, &mut result));
                result.push(op);
            }
            *ops = result;
        });
    }

    fn step(&self, reg: Reg) -> Option<u32> {
        match self.linear.get(reg.0 as usize) {
            Some(Linear::By(lane, group)) if self.shapes[reg.0 as usize].has_x() => self.geometry.step(*lane, *group),
            _ => None,
        }
    }

    fn access(&mut self, access: &mut Access, before: &mut Vec<Op>) {
        let address = &mut access.address;
        for term in &mut address.terms {
            if let (Limit::Fixed(limit), Some(Some((_, high)))) = (term.limit, self.range.get(term.index.0 as usize))
                && *high < limit
            {
                term.limit = Limit::None;
            }
        }
        let main = address.terms.iter().rposition(|term| self.step(term.index).is_some());
        let main = main.or_else(|| address.terms.len().checked_sub(1));
        if let Some(main) = main {
            let term = address.terms.remove(main);
            address.linear = self.step(term.index);
            let own = address.terms.is_empty() && self.own.get(term.index.0 as usize) == Some(&true);
            for other in address.terms.drain(..) {
                let mut shape = self.shapes[other.index.0 as usize];
                if let Some(base) = address.base {
                    shape |= self.shapes[base.0 as usize];
                }
                let d = register(self.origins, Origin::Temporary);
                self.shapes.push(shape);
                before.push(Op::Address {
                    d,
                    base: address.base,
                    index: other.index,
                    stride: other.stride,
                    limit: other.limit,
                });
                address.base = Some(d);
            }
            let inside = access.parts.iter().all(|part| address.offset + part.offset < term.stride);
            address.own = own && inside && !access.parts.is_empty();
            address.terms.push(term);
        }
        if let Root::Buffer(slot) = address.root {
            let stride = address.terms.first().map(|term| term.stride);
            let mine = match stride.filter(|_| address.own) {
                Some(stride) => ElementOwnership::Elements { stride, half: address.half },
                None => ElementOwnership::No,
            };
            let owned = &mut self.owned[slot as usize];
            *owned = match (*owned, mine) {
                (ElementOwnership::Unused, mine) => mine,
                (old, mine) if old == mine => old,
                _ => ElementOwnership::No,
            };
        }
    }
}
