//! Finds loops that only retry:
//! `loop { let old = atomicLoad(&x); if atomicCompareExchangeWeak(&x, old, f(old)).exchanged { break; } }`.
//!
//! In each round the first invocation that reaches the exchange succeeds, unless another has changed the word since it
//! was read, which has then succeeded itself. So in every round one invocation makes progress, and none waits for a
//! workgroup that has not started.
//!
//! Invariant: true only if each iteration that does not leave the loop tries the exchange with the value just read from
//! the same word, and leaves the loop if it succeeds.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::{
    code::{Address, Atomic, AtomicOp, Body, Branch, Loop, LoopId, Node, Op, Reg},
    opcode::Opcode,
};

/// Maximum length of a chain of definitions.
const MAX_OP_DISTANCE: u32 = 16;

/// Whether each iteration tries a compare-and-exchange, and the loop ends as soon as that succeeds.
pub(super) fn retries(node: &Loop) -> bool {
    let mut every_round = EveryRound { id: node.id, ops: Vec::new(), exits: Vec::new(), whole: true };
    every_round.walk(&node.body);
    // All lanes of the next iteration execute the continuing block.
    every_round.whole = true;
    every_round.walk(&node.continuing);
    every_round.exits.extend(node.break_if.map(|cond| (cond, true)));
    let exchanges = every_round.ops.iter().filter_map(|op| match op {
        Op::Atomic(atomic) if atomic.atomic_op == AtomicOp::CompareExchange => Some(&**atomic),
        _ => None,
    });
    let exchanges: Vec<&Atomic> = exchanges.collect();
    if exchanges.is_empty() {
        return false;
    }
    let values = Values::new(node, &every_round.ops);
    exchanges.into_iter().any(|exchange| {
        values.is_fresh(exchange)
            && every_round
                .exits
                .iter()
                .any(|(cond, when)| values.tells_success(*cond, *when, exchange, MAX_OP_DISTANCE))
    })
}

/// The instructions that run in every iteration that does not leave the loop.
struct EveryRound<'a> {
    id: LoopId,
    ops: Vec<&'a Op>,
    /// Exit conditions, with their value at the exit.
    exits: Vec<(Reg, bool)>,
    /// No `continue` was passed so far.
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

    /// Whether a side always leaves the loop.
    fn always_leaves(&self, side: &Body) -> bool {
        !self.goes_on(side)
            && match side.last() {
                Some(Node::Return | Node::Break(_)) => true,
                Some(Node::Continue(leave)) => leave.target != self.id,
                _ => false,
            }
    }

    /// Whether a body has a `continue` of the loop.
    fn goes_on(&self, body: &Body) -> bool {
        body.iter().any(|node| node.any(&|node| matches!(node, Node::Continue(leave) if leave.target == self.id)))
    }
}

/// Definitions of the values of a loop.
#[derive(Default)]
struct Values<'a> {
    /// Instructions of the loop, by result.
    made: FxHashMap<Reg, &'a Op>,
    /// Values assigned to variables in the loop, and whether in every iteration.
    set: FxHashMap<Reg, SmallVec<[(Reg, bool); 2]>>,
    /// Results of what every round runs.
    every_round: FxHashSet<Reg>,
    /// A shared function is called, which may write any variable.
    calls: bool,
}

impl<'a> Values<'a> {
    fn new(node: &'a Loop, every_round: &[&'a Op]) -> Self {
        let mut values = Self::default();
        let every: FxHashSet<*const Op> = every_round.iter().map(|op| std::ptr::from_ref(*op)).collect();
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
            self.every_round.extend(every.then_some(reg));
        }
    }

    /// The register at the start of a chain of copies.
    fn origin(&self, mut reg: Reg) -> Reg {
        for _ in 0..MAX_OP_DISTANCE {
            match self.made.get(&reg) {
                Some(Op::Compute { opcode: Opcode::Copy, from: [a, ..], .. }) => reg = *a,
                _ => break,
            }
        }
        reg
    }

    /// Whether the exchange expects the value of its word in this iteration or the previous one.
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

    /// Whether every iteration loads the register from this address.
    fn is_loaded(&self, reg: Reg, address: &Address) -> bool {
        let Some(Op::Load(load)) = self.made.get(&reg) else { return false };
        let [part] = load.parts[..] else { return false };
        load.atomic && part.offset == 0 && load.address == *address && self.every_round.contains(&reg)
    }

    /// Whether an address is the same in every iteration.
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

    /// Whether a successful exchange makes the condition equal `when`.
    fn tells_success(&self, cond: Reg, when: bool, exchange: &Atomic, distance: u32) -> bool {
        let Some(nearer) = distance.checked_sub(1) else { return false };
        if let Some(values) = self.set.get(&cond) {
            return matches!(values[..], [(value, true)] if self.tells_success(value, when, exchange, nearer));
        }
        match self.made.get(&cond) {
            Some(Op::Compute { opcode: Opcode::Copy, from: [a, ..], .. }) => {
                self.tells_success(*a, when, exchange, nearer)
            }
            Some(Op::Compute { opcode: Opcode::Not, from: [a, ..], .. }) => {
                self.tells_success(*a, !when, exchange, nearer)
            }
            // One operand is enough.
            Some(Op::Compute { opcode: Opcode::Or, from: [a, b, _], .. }) if when => {
                [a, b].into_iter().any(|reg| self.tells_success(*reg, when, exchange, nearer))
            }
            Some(Op::Compute { opcode: Opcode::And, from: [a, b, _], .. }) if !when => {
                [a, b].into_iter().any(|reg| self.tells_success(*reg, when, exchange, nearer))
            }
            Some(Op::Compute { opcode, from: [a, b, _], .. })
                if *opcode == if when { Opcode::EqI } else { Opcode::NeI } =>
            {
                let is = |old: Reg, compare: Reg| {
                    exchange.old == Some(self.origin(old)) && exchange.compare == Some(compare)
                };
                is(*a, *b) || is(*b, *a)
            }
            _ => false,
        }
    }
}
