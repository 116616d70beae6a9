//! Which loops only try again:
//! `loop { let old = atomicLoad(&x); if atomicCompareExchangeWeak(&x, old, f(old)).exchanged { break; } }`.
//!
//! In each round the first invocation that reaches the exchange succeeds, unless another has changed the word since it
//! was read, which has then succeeded itself. So in every round one invocation makes progress, and none waits for a
//! workgroup that has not started.
//!
//! Invariant: said of a loop only if each round that does not leave it tries the exchange, with what was in the same
//! word a moment ago, and leaves when it succeeds.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::code::{Address, Atomic, AtomicOp, Binary, Body, Branch, Loop, LoopId, Node, Op, Reg, Unary};

/// Instructions between a value and what it comes from.
const MAX_OP_DISTANCE: u32 = 16;

/// Whether a loop is left as soon as one compare-and-exchange has succeeded, which each round tries.
pub(super) fn retries(node: &Loop) -> bool {
    let mut trunk = EveryRound { id: node.id, ops: Vec::new(), exits: Vec::new(), whole: true };
    trunk.walk(&node.body);
    // What goes on with the next round comes through here.
    trunk.whole = true;
    trunk.walk(&node.continuing);
    trunk.exits.extend(node.break_if.map(|cond| (cond, true)));
    let exchanges = trunk.ops.iter().filter_map(|op| match op {
        Op::Atomic(atomic) if atomic.atomic_op == AtomicOp::CompareExchange => Some(&**atomic),
        _ => None,
    });
    let exchanges: Vec<&Atomic> = exchanges.collect();
    if exchanges.is_empty() {
        return false;
    }
    let values = Values::new(node, &trunk.ops);
    exchanges.into_iter().any(|exchange| {
        values.is_fresh(exchange)
            && trunk.exits.iter().any(|(cond, when)| values.tells_success(*cond, *when, exchange, MAX_OP_DISTANCE))
    })
}

/// What every round runs that does not leave the loop.
struct EveryRound<'a> {
    id: LoopId,
    ops: Vec<&'a Op>,
    /// Conditions, and what they are when the loop is left.
    exits: Vec<(Reg, bool)>,
    /// No round has gone on to the next by a side way.
    whole: bool,
}

impl<'a> EveryRound<'a> {
    fn walk(&mut self, body: &'a Body) {
        for node in body {
            if !self.whole {
                return;
            }
            match node {
                Node::Ops(ops) => self.ops.extend(ops),
                Node::If(Branch { cond, accept, reject, .. }) => {
                    match [accept, reject].map(|side| self.always_leaves(side)) {
                        [true, true] => return,
                        [true, false] => {
                            self.exits.push((*cond, true));
                            self.walk(reject);
                        }
                        [false, true] => {
                            self.exits.push((*cond, false));
                            self.walk(accept);
                        }
                        [false, false] => self.whole = !(self.goes_on(accept) || self.goes_on(reject)),
                    }
                }
                Node::Loop(Loop { body, continuing, .. }) => {
                    self.whole = !(self.goes_on(body) || self.goes_on(continuing));
                }
                Node::Break(_) | Node::Continue(_) | Node::Return => return,
                Node::Scope(_) | Node::Call { .. } | Node::Barrier { .. } => {}
            }
        }
    }

    /// Ends outside the loop.
    fn always_leaves(&self, side: &Body) -> bool {
        !self.goes_on(side)
            && match side.last() {
                Some(Node::Return | Node::Break(_)) => true,
                Some(Node::Continue(leave)) => leave.target != self.id,
                _ => false,
            }
    }

    /// Goes on with the next round from the middle.
    fn goes_on(&self, body: &Body) -> bool {
        body.iter().any(|node| node.any(&|node| matches!(node, Node::Continue(leave) if leave.target == self.id)))
    }
}

/// Where values of a loop come from.
#[derive(Default)]
struct Values<'a> {
    /// What the loop computes, by result.
    made: FxHashMap<Reg, &'a Op>,
    /// What the loop sets variables to, and whether every round does.
    set: FxHashMap<Reg, SmallVec<[(Reg, bool); 2]>>,
    /// Results of what every round runs.
    trunk: FxHashSet<Reg>,
    /// A shared function is called, which may set anything.
    calls: bool,
}

impl<'a> Values<'a> {
    fn new(node: &'a Loop, trunk: &[&'a Op]) -> Self {
        let mut values = Self::default();
        let every: FxHashSet<*const Op> = trunk.iter().map(|op| std::ptr::from_ref(*op)).collect();
        values.collect(&node.body, &every);
        values.collect(&node.continuing, &every);
        values
    }

    fn collect(&mut self, body: &'a Body, every: &FxHashSet<*const Op>) {
        for node in body {
            match node {
                Node::Ops(ops) => {
                    ops.iter().for_each(|op| self.collect_op(op, every.contains(&std::ptr::from_ref(op))));
                }
                Node::Call { .. } => self.calls = true,
                node => node.bodies().for_each(|body| self.collect(body, every)),
            }
        }
    }

    fn collect_op(&mut self, op: &'a Op, every: bool) {
        if let Op::Set { d, a, .. } = op {
            self.set.entry(*d).or_default().push((*a, every));
            return;
        }
        for reg in op.clone().results() {
            self.made.insert(reg, op);
            self.trunk.extend(every.then_some(reg));
        }
    }

    /// What a copy is a copy of.
    fn origin(&self, mut reg: Reg) -> Reg {
        for _ in 0..MAX_OP_DISTANCE {
            match self.made.get(&reg) {
                Some(Op::Unary { f: Unary::Copy, a, .. }) => reg = *a,
                _ => break,
            }
        }
        reg
    }

    /// The exchange expects what was in its word in this round, or in the one before.
    fn is_fresh(&self, exchange: &Atomic) -> bool {
        let Some(compare) = exchange.compare.map(|reg| self.origin(reg)) else { return false };
        if self.calls {
            return false;
        }
        match self.set.get(&compare) {
            None => self.is_loaded(compare, &exchange.access.address),
            Some(values) => {
                let same = self.stays(&exchange.access.address);
                values.iter().all(|(value, every)| {
                    let value = self.origin(*value);
                    let seen = same && exchange.old == Some(value);
                    *every && (seen || self.is_loaded(value, &exchange.access.address))
                })
            }
        }
    }

    /// Loaded from there by every round.
    fn is_loaded(&self, reg: Reg, address: &Address) -> bool {
        let Some(Op::Load(load)) = self.made.get(&reg) else { return false };
        let [part] = load.parts[..] else { return false };
        load.atomic && part.offset == 0 && load.address == *address && self.trunk.contains(&reg)
    }

    /// The same word in every round.
    fn stays(&self, address: &Address) -> bool {
        address.terms.iter().all(|term| self.is_invariant(term.index, MAX_OP_DISTANCE))
    }

    fn is_invariant(&self, reg: Reg, distance: u32) -> bool {
        let Some(nearer) = distance.checked_sub(1) else { return false };
        if self.set.contains_key(&reg) {
            return false;
        }
        let Some(op) = self.made.get(&reg) else { return true };
        op.is_pure() && (*op).clone().operands().iter().all(|reg| self.is_invariant(*reg, nearer))
    }

    /// The condition is `when` if the exchange has succeeded.
    fn tells_success(&self, cond: Reg, when: bool, exchange: &Atomic, distance: u32) -> bool {
        let Some(nearer) = distance.checked_sub(1) else { return false };
        if let Some(values) = self.set.get(&cond) {
            return matches!(values[..], [(value, true)] if self.tells_success(value, when, exchange, nearer));
        }
        match self.made.get(&cond) {
            Some(Op::Unary { f: Unary::Copy, a, .. }) => self.tells_success(*a, when, exchange, nearer),
            Some(Op::Unary { f: Unary::Not, a, .. }) => self.tells_success(*a, !when, exchange, nearer),
            // One of the two is enough.
            Some(Op::Binary { f: Binary::Or, a, b, .. }) if when => {
                [a, b].into_iter().any(|reg| self.tells_success(*reg, when, exchange, nearer))
            }
            Some(Op::Binary { f: Binary::And, a, b, .. }) if !when => {
                [a, b].into_iter().any(|reg| self.tells_success(*reg, when, exchange, nearer))
            }
            Some(Op::Binary { f, a, b, .. }) if *f == if when { Binary::EqI } else { Binary::NeI } => {
                let is = |old: Reg, compare: Reg| {
                    exchange.old == Some(self.origin(old)) && exchange.compare == Some(compare)
                };
                is(*a, *b) || is(*b, *a)
            }
            _ => false,
        }
    }
}
