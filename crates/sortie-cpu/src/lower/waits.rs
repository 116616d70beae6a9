//! Which kernels wait for other workgroups.
//!
//! A loop waits if its exit depends on the result of an atomic operation on a buffer inside it: a flag that another
//! workgroup sets, a lock, a counter. Lanes of a rectangle iterate together, so a workgroup that waits for another in
//! its rectangle would never end. A kernel with such a loop runs its workgroups one at a time, started in order (see
//! [`crate::geometry`]).
//!
//! Invariant: every waiting loop is found. False positives are only slower. Loops that are proved to retry
//! ([`super::retries`]) are excluded: they compare and exchange the value read just before, which fails only if another
//! invocation succeeded.
//!
//! Work queues and the probing of hash tables count as waiting whether they wait or not. That costs about 1 µs per
//! workgroup: ×1.7 in a hash table's inserts with workgroups of 64, ×1.2 with 256, and two orders of magnitude with
//! workgroups of one invocation.

use rustc_hash::FxHashSet;

use super::retries::retries;
use crate::code::{Body, Branch, Loop, LoopId, Node, Op, Reg, Root};

/// Maximum instruction visits. A kernel that needs more (thousands of nested loops with atomics) counts as waiting.
const MAX_VISITED_OPS: usize = 4 << 20;

/// Whether workgroups of this code may wait for each other.
pub(super) fn waits(body: &Body, shared: &[Body]) -> bool {
    let asks = |node: &Node| matches!(node, Node::Ops(ops) if ops.iter().any(is_asking));
    if !std::iter::once(body).chain(shared).flatten().any(|node| node.any(&asks)) {
        return false;
    }
    let mut budget = MAX_VISITED_OPS;
    std::iter::once(body).chain(shared).any(|body| has_waiting_loop(body, shared, &mut budget))
}

fn has_waiting_loop(body: &Body, shared: &[Body], budget: &mut usize) -> bool {
    body.iter().any(|node| {
        let inside = node.bodies().any(|body| has_waiting_loop(body, shared, budget));
        let Node::Loop(node) = node else { return inside };
        inside || AtomicTrace::new(node.id, shared, budget).waits(node) && !retries(node)
    })
}

/// Whether this is an atomic on a buffer whose result is used.
fn is_asking(op: &Op) -> bool {
    match op {
        Op::Load(load) => load.atomic && matches!(load.address.root, Root::Buffer(_)),
        Op::Atomic(atomic) => atomic.old.is_some() && matches!(atomic.access.address.root, Root::Buffer(_)),
        _ => false,
    }
}

/// The registers and memory that depend on atomics within one loop, by iteration to a fixed point. It ignores program
/// order.
struct AtomicTrace<'a> {
    id: LoopId,
    shared: &'a [Body],
    budget: &'a mut usize,
    registers: FxHashSet<Reg>,
    memory: FxHashSet<Root>,
    /// Inner loops whose exit depends on an atomic: so do the values they assign.
    loops: FxHashSet<LoopId>,
    /// Shared functions visited in this round, and whether the call depends on an atomic.
    called: FxHashSet<(usize, bool)>,
    grown: bool,
    found: bool,
}

/// Loops and functions whose exit depends on an atomic: so does the code that follows in them.
#[derive(Default)]
struct EarlyExits {
    loops: FxHashSet<LoopId>,
    function: bool,
}

impl EarlyExits {
    fn any(&self) -> bool {
        self.function || !self.loops.is_empty()
    }

    fn add(&mut self, other: Self) {
        self.loops.extend(other.loops);
        self.function |= other.function;
    }
}

impl<'a> AtomicTrace<'a> {
    fn new(id: LoopId, shared: &'a [Body], budget: &'a mut usize) -> Self {
        Self {
            id,
            shared,
            budget,
            registers: FxHashSet::default(),
            memory: FxHashSet::default(),
            loops: FxHashSet::default(),
            called: FxHashSet::default(),
            grown: false,
            found: false,
        }
    }

    fn waits(mut self, node: &Loop) -> bool {
        loop {
            self.grown = false;
            self.called.clear();
            let mut left = self.body(&node.body, false);
            left.add(self.body(&node.continuing, false));
            // Leaving an outer loop or the function leaves this loop.
            let beyond = left.function || left.loops.iter().any(|id| *id != self.id);
            let ends = node.break_if.is_some_and(|cond| self.registers.contains(&cond));
            if beyond || ends || self.found || *self.budget == 0 {
                return true;
            }
            if !self.grown {
                return false;
            }
        }
    }

    /// `decided`: whether this body runs depends on an atomic.
    fn body(&mut self, body: &Body, decided: bool) -> EarlyExits {
        let mut left = EarlyExits::default();
        for node in body {
            let decided = decided || left.any();
            match node {
                Node::Ops(ops) => ops.iter().for_each(|op| self.op(op, decided)),
                Node::If(Branch { cond, accept, reject, .. }) => {
                    let decided = decided || self.registers.contains(cond);
                    left.add(self.body(accept, decided));
                    left.add(self.body(reject, decided));
                }
                Node::Loop(Loop { id, body, continuing, break_if, .. }) => {
                    let decided = decided || self.loops.contains(id);
                    let mut inside = self.body(body, decided);
                    inside.add(self.body(continuing, decided));
                    let ends = break_if.is_some_and(|cond| self.registers.contains(&cond));
                    if inside.loops.remove(id) || inside.any() || ends {
                        self.grown |= self.loops.insert(*id);
                    }
                    left.add(inside);
                }
                Node::Break(leave) | Node::Continue(leave) => {
                    self.found |= decided && leave.target == self.id && matches!(node, Node::Break(_));
                    left.loops.extend(decided.then_some(leave.target));
                }
                Node::Return => left.function |= decided,
                Node::Scope(body) => drop(self.body(body, decided)),
                Node::Call { function, .. } => {
                    if self.called.insert((*function, decided)) {
                        let shared = self.shared;
                        drop(self.body(&shared[*function], decided));
                    }
                }
                Node::Barrier { .. } => {}
            }
        }
        left
    }

    fn op(&mut self, op: &Op, decided: bool) {
        *self.budget = self.budget.saturating_sub(1);
        let mut op = op.clone();
        let (from, into) = match &op {
            Op::Load(load) => (Some(load.address.root), None),
            Op::Store(store) => (None, Some(store.address.root)),
            Op::Atomic(atomic) => (Some(atomic.access.address.root), Some(atomic.access.address.root)),
            Op::FillLocal { local, .. } => (None, Some(Root::Local(*local))),
            _ => (None, None),
        };
        let asks = is_asking(&op);
        let mut depends = decided || from.is_some_and(|root| self.memory.contains(&root));
        depends |= op.operands().iter().any(|reg| self.registers.contains(reg));
        if depends || asks {
            op.results().into_iter().for_each(|reg| self.grown |= self.registers.insert(reg));
        }
        if depends {
            into.into_iter().for_each(|root| self.grown |= self.memory.insert(root));
        }
    }
}
