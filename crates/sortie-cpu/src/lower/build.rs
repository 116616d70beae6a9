//! Emits instructions: folds constants, shares what was computed before, remembers what variables hold.

use naga::Span;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    code::{
        ALL_LANES, Access, Address, Binary, Body, Builtin, LoopId, Node, Op, Part, Parts, Reg, Root, Ternary, Unary,
    },
    eval::{self, One},
    shape::Shape,
};

/// Where a register's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Always this.
    Constant(u32),
    /// Filled before the code runs.
    Builtin(Builtin),
    /// Written once.
    Temporary,
    /// Written any number of times.
    Variable,
}

/// What a register was computed from.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Pure {
    Unary(Unary, Reg),
    Binary(Binary, Reg, Reg),
    Ternary(Ternary, Reg, Reg, Reg),
    Count(u32),
    Load(Box<Address>, u32),
}

/// What is known at a place in the code.
#[derive(Default)]
pub(super) struct Known {
    /// What has been computed, and may be used again: entries go when the body they stand in ends.
    computed: FxHashMap<Pure, Reg>,
    entries: Vec<Pure>,
    /// What variables hold, where that is known.
    held: FxHashMap<Reg, Reg>,
}

/// Code under construction.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) origins: Vec<Origin>,
    constants: FxHashMap<u32, Reg>,
    builtins: FxHashMap<Builtin, Reg>,
    known: Known,
    /// Variables that were set, in order, to forget them where bodies meet.
    touched: Vec<Reg>,
    bodies: Vec<Body>,
    loops: u32,
    /// Loads and stores are atomic.
    pub(super) atomic: bool,
    /// Instructions so far.
    pub(super) size: usize,
}

/// What was known when a body was opened.
pub(super) struct BodyMark {
    entries: usize,
    touched: usize,
    /// What variables held outside, where the body knows nothing of it. Otherwise it is what is held in the body,
    /// without the variables that were touched in it: nothing is copied for each body.
    held: Option<FxHashMap<Reg, Reg>>,
}

/// A new register.
pub(super) fn register(origins: &mut Vec<Origin>, origin: Origin) -> Reg {
    origins.push(origin);
    Reg(u32::try_from(origins.len() - 1).unwrap_or_else(|_| unreachable!("bounded by the source")))
}

impl Builder {
    pub(super) fn constant(&mut self, value: u32) -> Reg {
        *self.constants.entry(value).or_insert_with(|| register(&mut self.origins, Origin::Constant(value)))
    }

    pub(super) fn float(&mut self, value: f32) -> Reg {
        self.constant(value.to_bits())
    }

    pub(super) fn builtin(&mut self, builtin: Builtin) -> Reg {
        *self.builtins.entry(builtin).or_insert_with(|| register(&mut self.origins, Origin::Builtin(builtin)))
    }

    pub(super) fn variable(&mut self) -> Reg {
        register(&mut self.origins, Origin::Variable)
    }

    pub(super) fn temporary(&mut self) -> Reg {
        register(&mut self.origins, Origin::Temporary)
    }

    pub(super) fn value(&self, reg: Reg) -> Option<u32> {
        match self.origins[reg.0 as usize] {
            Origin::Constant(value) => Some(value),
            _ => None,
        }
    }

    pub(super) fn op(&mut self, op: Op) {
        self.size += match &op {
            Op::Load(access) | Op::Store(access) => access.parts.len(),
            _ => 1,
        };
        let body = self.current();
        match body.last_mut() {
            Some(Node::Ops(ops)) => ops.push(op),
            _ => body.push(Node::Ops(vec![op])),
        }
    }

    pub(super) fn node(&mut self, node: Node) {
        self.size += 1;
        self.current().push(node);
    }

    pub(super) fn next_loop(&mut self) -> LoopId {
        self.loops += 1;
        LoopId(self.loops)
    }

    /// Opens a body that is entered from here, with all that is known here.
    pub(super) fn open(&mut self) -> BodyMark {
        self.bodies.push(Vec::new());
        BodyMark { entries: self.known.entries.len(), touched: self.touched.len(), held: None }
    }

    /// As [`Builder::open`], for a body that may be entered from elsewhere too: nothing is known of variables.
    pub(super) fn open_loop(&mut self) -> BodyMark {
        BodyMark { held: Some(std::mem::take(&mut self.known.held)), ..self.open() }
    }

    /// Ends a body. What was computed in it is not to be used after it.
    pub(super) fn close(&mut self, mark: BodyMark) -> Body {
        for pure in self.known.entries.drain(mark.entries..) {
            self.known.computed.remove(&pure);
        }
        if let Some(held) = mark.held {
            self.known.held = held;
        }
        for variable in &self.touched[mark.touched..] {
            self.known.held.remove(variable);
        }
        self.close_in_line()
    }

    /// Ends a body that will stand in line with the one around it: all stays known.
    pub(super) fn close_in_line(&mut self) -> Body {
        self.bodies.pop().unwrap_or_else(|| unreachable!("a body is open"))
    }

    /// How many bodies are open, one in the other.
    pub(super) fn depth(&self) -> usize {
        self.bodies.len()
    }

    /// The body that is open.
    pub(super) fn current(&mut self) -> &mut Body {
        self.bodies.last_mut().unwrap_or_else(|| unreachable!("a body is open"))
    }

    /// Opens a body that stands on its own: nothing is known in it.
    pub(super) fn open_apart(&mut self) -> Known {
        self.bodies.push(Vec::new());
        std::mem::take(&mut self.known)
    }

    /// Ends a body that stands on its own. `outside`: what was known where it was opened.
    pub(super) fn close_apart(&mut self, outside: Known) -> Body {
        self.known = outside;
        self.close_in_line()
    }

    /// Forgets what variables hold.
    pub(super) fn forget(&mut self) {
        self.touched.extend(self.known.held.keys());
        self.known.held.clear();
    }

    fn remember(&mut self, pure: Pure, reg: Reg) {
        self.known.computed.insert(pure.clone(), reg);
        self.known.entries.push(pure);
    }

    /// What was computed before, or what this instruction computes now.
    fn compute(&mut self, pure: Pure, op: impl FnOnce(Reg) -> Op) -> Reg {
        if let Some(reg) = self.known.computed.get(&pure) {
            return *reg;
        }
        let d = self.temporary();
        self.op(op(d));
        self.remember(pure, d);
        d
    }

    pub(super) fn unary(&mut self, f: Unary, a: Reg) -> Reg {
        if let Some(a) = self.value(a) {
            return self.constant(eval::unary(f, One([a, 0, 0])));
        }
        self.compute(Pure::Unary(f, a), |d| Op::Unary { f, d, a, grid: false })
    }

    pub(super) fn binary(&mut self, f: Binary, a: Reg, b: Reg) -> Reg {
        let (left, right) = (self.value(a), self.value(b));
        if let (Some(a), Some(b)) = (left, right) {
            return self.constant(eval::binary(f, One([a, b, 0])));
        }
        let commutes = matches!(
            f,
            Binary::AddI | Binary::MulI | Binary::And | Binary::Or | Binary::Xor | Binary::EqI | Binary::NeI
        );
        let (known, other) = if commutes && left.is_some() { (left, b) } else { (right, a) };
        // What holds for every value, floats excepted: x + 0.0 turns -0.0 into 0.0.
        let (f, n) = match (f, known) {
            (
                Binary::AddI | Binary::SubI | Binary::Or | Binary::Xor | Binary::Shl | Binary::ShrI | Binary::ShrU,
                Some(0),
            )
            | (Binary::MulI | Binary::DivU | Binary::DivI, Some(1))
            | (Binary::And, Some(u32::MAX)) => return other,
            (Binary::MulI | Binary::And, Some(0)) => return self.constant(0),
            (Binary::MulI, Some(n)) if n.is_power_of_two() => (Binary::Shl, Some(n.trailing_zeros())),
            (Binary::DivU, Some(n)) if n.is_power_of_two() => (Binary::ShrU, Some(n.trailing_zeros())),
            (Binary::RemU, Some(n)) if n.is_power_of_two() => (Binary::And, Some(n - 1)),
            _ => (f, None),
        };
        if let Some(n) = n {
            let n = self.constant(n);
            return self.binary(f, other, n);
        }
        let pure = if commutes && b < a { Pure::Binary(f, b, a) } else { Pure::Binary(f, a, b) };
        self.compute(pure, |d| Op::Binary { f, d, a, b, grid: false })
    }

    pub(super) fn ternary(&mut self, f: Ternary, a: Reg, b: Reg, c: Reg) -> Reg {
        match (f, self.value(a), self.value(b), self.value(c)) {
            (_, Some(a), Some(b), Some(c)) => return self.constant(eval::ternary(f, One([a, b, c]))),
            (Ternary::Select, Some(0), ..) => return c,
            (Ternary::Select, Some(_), ..) => return b,
            (Ternary::Select, ..) if b == c => return b,
            _ => {}
        }
        self.compute(Pure::Ternary(f, a, b, c), |d| Op::Ternary { f, d, a, b, c, grid: false })
    }

    pub(super) fn select(&mut self, condition: Reg, accept: Reg, reject: Reg) -> Reg {
        self.ternary(Ternary::Select, condition, accept, reject)
    }

    pub(super) fn count(&mut self, count: u32) -> Reg {
        self.compute(Pure::Count(count), |d| Op::Count { d, count })
    }

    /// What a variable holds.
    pub(super) fn get(&mut self, variable: Reg) -> Reg {
        if let Some(reg) = self.known.held.get(&variable) {
            return *reg;
        }
        let d = self.temporary();
        self.op(Op::Unary { f: Unary::Copy, d, a: variable, grid: false });
        self.hold(variable, d);
        d
    }

    pub(super) fn set(&mut self, variable: Reg, value: Reg) {
        self.op(Op::Set { d: variable, a: value, region: ALL_LANES, init: false });
        self.hold(variable, value);
    }

    /// The value that a variable starts with.
    pub(super) fn init(&mut self, variable: Reg, value: Reg) {
        self.op(Op::Set { d: variable, a: value, region: ALL_LANES, init: true });
        self.hold(variable, value);
    }

    fn hold(&mut self, variable: Reg, value: Reg) {
        self.known.held.insert(variable, value);
        self.touched.push(variable);
    }

    /// Loads one scalar for each offset. Memory that cannot change is loaded once.
    pub(super) fn load(&mut self, address: &Address, offsets: &[u32], steady: bool, span: Span) -> SmallVec<[Reg; 4]> {
        let key = |offset| Pure::Load(Box::new(address.clone()), offset);
        let mut parts = Parts::new();
        let regs = offsets
            .iter()
            .map(|offset| {
                let found = if steady { self.known.computed.get(&key(*offset)).copied() } else { None };
                found.unwrap_or_else(|| {
                    let reg = self.temporary();
                    parts.push(Part { reg, offset: *offset });
                    reg
                })
            })
            .collect();
        for part in parts.iter().filter(|_| steady) {
            self.remember(key(part.offset), part.reg);
        }
        if !parts.is_empty() {
            let atomic = self.atomic;
            self.op(Op::Load(Box::new(Access { atomic, ..access(address.clone(), parts, span) })));
        }
        regs
    }

    pub(super) fn store(&mut self, address: Address, parts: Parts, span: Span) {
        let atomic = self.atomic;
        self.op(Op::Store(Box::new(Access { atomic, ..access(address, parts, span) })));
    }
}

pub(super) fn access(address: Address, parts: Parts, span: Span) -> Access {
    Access { address, parts, region: ALL_LANES, mask: None, shape: Shape::UNIFORM, atomic: false, span }
}

/// Whether memory is never written while the kernel runs.
pub(super) fn is_steady(root: Root, writes: impl Fn(u32) -> bool) -> bool {
    match root {
        Root::Buffer(slot) => !writes(slot),
        Root::Immediate => true,
        Root::Workgroup | Root::Local(_) => false,
    }
}
