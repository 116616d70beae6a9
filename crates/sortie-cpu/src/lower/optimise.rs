//! Optimisations that do not depend on which lanes are active. A pure instruction computes the same value anywhere and for any
//! active lanes, so it may be moved freely.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Origin, build::register, count_reads, for_each_list, for_each_op};
use crate::{
    code::{Body, Branch, LoadGuard, Loop, Node, Op, Reg, Root, Subgroup, Wide},
    opcode::Opcode,
};

/// An `if` with up to this many instructions on both sides becomes selects.
const MAX_SELECT_OPS: usize = 10;

/// The same if it loads: bounds checks of vectors, as in `if k < n { v = x[k]; }`.
const MAX_SELECT_OPS_WITH_LOADS: usize = 16;

/// Maximum passes that remove unused instructions. Two remove most; a chain of loop-carried variables needs a pass per
/// variable. Remaining ones only cost time.
const MAX_ROUNDS: usize = 16;

pub(super) fn optimise(bodies: &mut [&mut Body], origins: &mut Vec<Origin>, read_only: &dyn Fn(Root) -> bool) {
    let mut negated = FxHashMap::default();
    for body in &mut *bodies {
        for_each_op(body, &mut |op| {
            if let Op::Compute { opcode: Opcode::Not, d, from: [a, ..] } = *op
                && origins[a.0 as usize] != Origin::Variable
            {
                negated.insert(d, a);
            }
        });
    }
    for body in &mut *bodies {
        prune(body);
        select_instead(body, origins, &negated);
        hoist(body, origins, read_only);
    }
    let mut uses = count_reads(bodies, origins.len());
    for _ in 0..MAX_ROUNDS {
        if bodies.iter_mut().map(|body| remove_unused(body, &mut uses)).sum::<usize>() == 0 {
            break;
        }
    }
    bodies.iter_mut().for_each(|body| prune(body));
    // With shared functions, program order is not execution order.
    if let [body] = bodies {
        drop_inits(body, origins);
    }
}

/// Removes unreachable and empty nodes, and merges adjacent lists of instructions.
fn prune(body: &mut Body) {
    let leaves = |node: &Node| matches!(node, Node::Break(_) | Node::Continue(_) | Node::Return);
    if let Some(end) = body.iter().position(leaves) {
        body.truncate(end + 1);
    }
    let mut pruned: Body = Vec::with_capacity(body.len());
    for mut node in body.drain(..) {
        node.bodies_mut().for_each(prune);
        match node {
            Node::Ops(ops) if ops.is_empty() => {}
            Node::Ops(ops) => match pruned.last_mut() {
                Some(Node::Ops(before)) => before.extend(ops),
                _ => pruned.push(Node::Ops(ops)),
            },
            Node::If(Branch { accept, reject, .. }) if accept.is_empty() && reject.is_empty() => {}
            node => pruned.push(node),
        }
    }
    *body = pruned;
}

/// `if c { x = a; } else { x = b; }` becomes `x = select(b, a, c)`. Loads inside become loads of all lanes: those that
/// are out of bounds read zeros, which are not selected. `negated`: the operands of negations.
fn select_instead(body: &mut Body, origins: &mut Vec<Origin>, negated: &FxHashMap<Reg, Reg>) {
    for node in body.iter_mut() {
        node.bodies_mut().for_each(|inner| select_instead(inner, origins, negated));
        let Node::If(Branch { cond, accept, reject, .. }) = node else { continue };
        let short = |side: &Body| match side.as_slice() {
            [] => Some(0),
            [Node::Ops(ops)] => {
                let plain = |op: &Op| match op {
                    Op::Load(load) => !load.atomic && load.guard.is_none(),
                    op => op.is_pure() || matches!(op, Op::Set { init: false, .. }),
                };
                ops.iter().all(plain).then_some(ops.len())
            }
            _ => None,
        };
        let (Some(first), Some(second)) = (short(accept), short(reject)) else { continue };
        let is_load = |node: &Node| matches!(node, Node::Ops(ops) if ops.iter().any(|op| matches!(op, Op::Load(_))));
        let loads = accept.iter().chain(&*reject).any(is_load);
        if first + second > if loads { MAX_SELECT_OPS_WITH_LOADS } else { MAX_SELECT_OPS } {
            continue;
        }
        let cond = *cond;
        for (side, wanted) in [(&mut *accept, true), (&mut *reject, false)] {
            for_each_op(side, &mut |op| {
                if let Op::Load(load) = op {
                    load.guard = Some(LoadGuard { cond, wanted });
                }
            });
        }
        let mut ops = Vec::new();
        let mut values = [FxHashMap::default(), FxHashMap::default()];
        let mut order = Vec::new();
        for (side, values) in [std::mem::take(accept), std::mem::take(reject)].into_iter().zip(&mut values) {
            for op in side.into_iter().flat_map(|node| if let Node::Ops(ops) = node { ops } else { Vec::new() }) {
                match op {
                    Op::Set { d, a, .. } => {
                        values.insert(d, a);
                        if !order.contains(&d) {
                            order.push(d);
                        }
                    }
                    Op::Compute { opcode: Opcode::Copy, d, from: [a, ..] } => {
                        let a = values.get(&a).copied().unwrap_or(a);
                        ops.push(Op::copy(d, a));
                    }
                    op => ops.push(op),
                }
            }
        }
        let mut sets = Vec::new();
        for variable in order {
            let mut temporary = || register(origins, Origin::Temporary);
            let mut old = None;
            let mut side = |values: &FxHashMap<Reg, Reg>, ops: &mut Vec<Op>, temporary: &mut dyn FnMut() -> Reg| {
                values.get(&variable).copied().unwrap_or_else(|| {
                    *old.get_or_insert_with(|| {
                        let d = temporary();
                        ops.push(Op::copy(d, variable));
                        d
                    })
                })
            };
            let b = side(&values[0], &mut ops, &mut temporary);
            let c = side(&values[1], &mut ops, &mut temporary);
            let d = temporary();
            // Conditions are all ones or zeros.
            let is = |reg: Reg, value: u32| origins[reg.0 as usize] == Origin::Constant(value);
            let (opcode, from) = match negated.get(&cond) {
                _ if is(b, u32::MAX) => (Opcode::Or, [cond, c, c]),
                _ if is(c, 0) => (Opcode::And, [cond, b, b]),
                _ if is(b, 0) => (Opcode::AndNot, [c, cond, cond]),
                Some(inverse) if is(c, u32::MAX) => (Opcode::Or, [*inverse, b, b]),
                Some(inverse) => (Opcode::Select, [*inverse, c, b]),
                None => (Opcode::Select, [cond, b, c]),
            };
            ops.push(Op::Compute { opcode, d, from });
            sets.push(Op::Set { d: variable, a: d, region: crate::code::ALL_LANES, init: false });
        }
        ops.extend(sets);
        *node = Node::Ops(ops);
    }
    prune(body);
}

/// Moves loop invariants out of loops.
pub(super) fn hoist(body: &mut Body, origins: &[Origin], read_only: &dyn Fn(Root) -> bool) {
    let mut result: Body = Vec::with_capacity(body.len());
    for mut node in body.drain(..) {
        node.bodies_mut().for_each(|inner| hoist(inner, origins, read_only));
        if let Node::Loop(Loop { body, continuing, .. }) = &mut node {
            let mut changes = FxHashSet::default();
            for inner in [&mut *body, &mut *continuing] {
                for_each_op(inner, &mut |op| changes.extend(op.results()));
            }
            let mut moved = Vec::new();
            // A shared function may write any variable.
            let is_call = |node: &Node| matches!(node, Node::Call { .. });
            if !body.iter().chain(&*continuing).any(|node| node.any(&is_call)) {
                for inner in [body, continuing] {
                    for_each_list(inner, &mut |ops| {
                        ops.retain_mut(|op| {
                            let mut same = match &*op {
                                // A load that may be out of bounds stays inside its bounds check.
                                Op::Load(load) => load.address.terms.is_empty() && read_only(load.address.root),
                                op => op.is_pure(),
                            };
                            let results = op.results();
                            same &= op.operands().iter().all(|reg| !changes.contains(reg));
                            // Variables are assigned in every iteration.
                            same &= results.iter().all(|reg| origins[reg.0 as usize] == Origin::Temporary);
                            if same {
                                results.iter().for_each(|reg| {
                                    changes.remove(reg);
                                });
                                moved.push(op.clone());
                            }
                            !same
                        });
                    });
                }
            }
            if !moved.is_empty() {
                result.push(Node::Ops(moved));
            }
        }
        result.push(node);
    }
    *body = result;
    prune(body);
}

/// Calls `visit` for every list of instructions, the last one first.
fn for_each_list_back(body: &mut Body, visit: &mut impl FnMut(&mut Vec<Op>)) {
    for node in body.iter_mut().rev() {
        match node {
            Node::Ops(ops) => visit(ops),
            node => node.bodies_mut().rev().for_each(|body| for_each_list_back(body, visit)),
        }
    }
}

/// Removes instructions whose results are never read. Returns how many.
fn remove_unused(body: &mut Body, uses: &mut [u32]) -> usize {
    let mut removed = 0;
    for_each_list_back(body, &mut |ops| {
        let before = ops.len();
        // From the end, because uses come after definitions.
        ops.reverse();
        ops.retain_mut(|op| {
            let unused = match op {
                Op::Compute { d, .. }
                | Op::Set { d, .. }
                | Op::Count { d, .. }
                | Op::Broadcast { d, .. }
                | Op::Subgroup(Subgroup { d, .. }) => uses[d.0 as usize] == 0,
                Op::Wide(Wide { d, high, .. }) => {
                    uses[d.0 as usize] == 0 && high.is_none_or(|high| uses[high.0 as usize] == 0)
                }
                Op::Load(load) => load.parts.iter().all(|part| uses[part.reg.0 as usize] == 0),
                Op::Atomic(atomic) => {
                    if atomic.high.is_none() && atomic.old.is_some_and(|old| uses[old.0 as usize] == 0) {
                        atomic.old = None;
                    }
                    false
                }
                Op::Blend { .. } | Op::Address { .. } | Op::Store(_) | Op::FillLocal { .. } => false,
            };
            if unused {
                op.operands().iter().for_each(|reg| uses[reg.0 as usize] -= 1);
            }
            !unused
        });
        ops.reverse();
        removed += before - ops.len();
    });
    removed
}

/// Drops initial values that are always overwritten before they are read: then a variable that is only ever set to
/// something linear stays linear.
fn drop_inits(body: &mut Body, origins: &[Origin]) {
    let mut order = Order { origins, first: FxHashMap::default(), started: Vec::new(), place: 0 };
    order.number(body);
    let first = order.first;
    for_each_list(body, &mut |ops| {
        ops.retain(|op| match op {
            Op::Set { d, init: true, .. } => !first.get(d).is_some_and(|first| first.sets && first.last < first.end),
            _ => true,
        });
    });
}

/// Where variables are first and last used.
struct Order<'a> {
    origins: &'a [Origin],
    first: FxHashMap<Reg, First>,
    started: Vec<Reg>,
    place: usize,
}

#[derive(Clone, Copy)]
struct First {
    sets: bool,
    /// The end of the body that contains the first use.
    end: usize,
    last: usize,
}

impl Order<'_> {
    fn note(&mut self, reg: Reg, sets: bool) {
        if self.origins[reg.0 as usize] == Origin::Variable {
            let (place, started) = (self.place, &mut self.started);
            let first = self.first.entry(reg).or_insert_with(|| {
                started.push(reg);
                First { sets, end: usize::MAX, last: place }
            });
            first.last = place;
        }
    }

    fn number(&mut self, body: &mut Body) {
        let mine = self.started.len();
        for node in body.iter_mut() {
            self.place += 1;
            match node {
                Node::Ops(ops) => {
                    for op in ops.iter_mut().filter(|op| !matches!(op, Op::Set { init: true, .. })) {
                        self.place += 1;
                        let sets = matches!(op, Op::Set { .. });
                        op.operands().into_iter().for_each(|reg| self.note(reg, false));
                        op.results().into_iter().for_each(|reg| self.note(reg, sets));
                    }
                }
                _ => node.condition().into_iter().for_each(|cond| self.note(cond, false)),
            }
            node.bodies_mut().for_each(|inner| self.number(inner));
        }
        self.place += 1;
        for reg in self.started.split_off(mine) {
            if let Some(first) = self.first.get_mut(&reg) {
                first.end = self.place;
            }
        }
    }
}
