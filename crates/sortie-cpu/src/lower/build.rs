//! Emits instructions: folds constants, eliminates common subexpressions, tracks the values of variables.

use naga::Span;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    code::{ALL_LANES, Access, Address, Body, Builtin, LoopId, Node, Op, Part, Parts, Reg, Root, Wide},
    opcode::{One, Opcode},
    shape::Shape,
    wide_opcode::{WideOpcode, join, split},
};

/// Where a register's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A constant.
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
    Compute(Opcode, [Reg; 3]),
    Count(u32),
    Load(Box<Address>, u32),
    /// The low or the high word.
    Wide(WideOpcode, [Reg; 4], bool),
}

/// Facts at the current position in the code.
#[derive(Default)]
pub(super) struct Known {
    /// Values that may be reused. Entries are removed at the end of the body that computed them.
    computed: FxHashMap<Pure, Reg>,
    entries: Vec<Pure>,
    /// The current values of variables, where known.
    held: FxHashMap<Reg, Reg>,
}

/// Code under construction.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) origins: Vec<Origin>,
    constants: FxHashMap<u32, Reg>,
    builtins: FxHashMap<Builtin, Reg>,
    known: Known,
    /// Assigned variables in order. Their values are forgotten where control flow merges.
    touched: Vec<Reg>,
    bodies: Vec<Body>,
    loops: u32,
    /// The counters of the loops that are being unrolled.
    pub(super) counters: Vec<Reg>,
    /// Loads and stores are atomic.
    pub(super) atomic: bool,
    /// Instructions so far.
    pub(super) size: usize,
}

/// The facts when a body was opened.
pub(super) struct BodyMark {
    entries: usize,
    touched: usize,
    /// The values of variables outside, if the body starts without them. Otherwise they are the values at the end of
    /// the body minus the variables assigned in it, so that nothing is copied per body.
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

    /// Opens a body that is entered only from here: all facts hold in it.
    pub(super) fn open(&mut self) -> BodyMark {
        self.bodies.push(Vec::new());
        BodyMark { entries: self.known.entries.len(), touched: self.touched.len(), held: None }
    }

    /// As [`Builder::open`], for a body with other predecessors too: the values of variables are unknown.
    pub(super) fn open_loop(&mut self) -> BodyMark {
        BodyMark { held: Some(std::mem::take(&mut self.known.held)), ..self.open() }
    }

    /// Ends a body. Values computed in it are not reused after it.
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

    /// Ends a body that becomes part of the one around it: all facts stay valid.
    pub(super) fn close_in_line(&mut self) -> Body {
        self.bodies.pop().unwrap_or_else(|| unreachable!("a body is open"))
    }

    /// The nesting depth of open bodies.
    pub(super) fn depth(&self) -> usize {
        self.bodies.len()
    }

    /// The innermost open body.
    pub(super) fn current(&mut self) -> &mut Body {
        self.bodies.last_mut().unwrap_or_else(|| unreachable!("a body is open"))
    }

    /// Opens the body of a shared function, without any facts.
    pub(super) fn open_apart(&mut self) -> Known {
        self.bodies.push(Vec::new());
        std::mem::take(&mut self.known)
    }

    /// Ends the body of a shared function. `outside`: the facts when it was opened.
    pub(super) fn close_apart(&mut self, outside: Known) -> Body {
        self.known = outside;
        self.close_in_line()
    }

    /// Forgets the values of variables, except of counters, which only their loops assign.
    pub(super) fn forget(&mut self) {
        let (counters, touched) = (&self.counters, &mut self.touched);
        self.known.held.retain(|variable, _| {
            let stays = counters.contains(variable);
            if !stays {
                touched.push(*variable);
            }
            stays
        });
    }

    /// Forgets the values of variables, except constants.
    pub(super) fn forget_computed(&mut self) {
        let origins = &self.origins;
        let is_constant = |reg: &Reg| matches!(origins[reg.0 as usize], Origin::Constant(_));
        let touched = &mut self.touched;
        self.known.held.retain(|variable, value| {
            let stays = is_constant(value);
            if !stays {
                touched.push(*variable);
            }
            stays
        });
    }

    /// Whether the value of a variable is a known constant here.
    pub(super) fn holds_constant(&self, variable: Reg) -> bool {
        self.known.held.get(&variable).is_some_and(|value| self.value(*value).is_some())
    }

    fn remember(&mut self, pure: Pure, reg: Reg) {
        self.known.computed.insert(pure.clone(), reg);
        self.known.entries.push(pure);
    }

    /// The register of an equal value computed before, or that of a new instruction.
    fn once(&mut self, pure: Pure, op: impl FnOnce(Reg) -> Op) -> Reg {
        if let Some(reg) = self.known.computed.get(&pure) {
            return *reg;
        }
        let d = self.temporary();
        self.op(op(d));
        self.remember(pure, d);
        d
    }

    fn compute(&mut self, opcode: Opcode, from: [Reg; 3]) -> Reg {
        if let [Some(a), Some(b), Some(c)] = from.map(|reg| self.value(reg)) {
            return self.constant(opcode.apply(One([a, b, c])));
        }
        self.once(Pure::Compute(opcode, from), |d| Op::Compute { opcode, d, from })
    }

    pub(super) fn unary(&mut self, opcode: Opcode, a: Reg) -> Reg {
        self.compute(opcode, [a; 3])
    }

    pub(super) fn binary(&mut self, opcode: Opcode, a: Reg, b: Reg) -> Reg {
        let (left, right) = (self.value(a), self.value(b));
        let commutes = matches!(
            opcode,
            Opcode::AddI | Opcode::MulI | Opcode::And | Opcode::Or | Opcode::Xor | Opcode::EqI | Opcode::NeI
        );
        let (known, other) = if commutes && left.is_some() { (left, b) } else { (right, a) };
        // Integer identities only: for floats, x + 0.0 turns -0.0 into 0.0.
        let (opcode, n) = match (opcode, known) {
            (
                Opcode::AddI | Opcode::SubI | Opcode::Or | Opcode::Xor | Opcode::Shl | Opcode::ShrI | Opcode::ShrU,
                Some(0),
            )
            | (Opcode::MulI | Opcode::DivU | Opcode::DivI, Some(1))
            | (Opcode::And, Some(u32::MAX)) => return other,
            (Opcode::MulI | Opcode::And, Some(0)) => return self.constant(0),
            (Opcode::MulI, Some(n)) if n.is_power_of_two() => (Opcode::Shl, Some(n.trailing_zeros())),
            (Opcode::DivU, Some(n)) if n.is_power_of_two() => (Opcode::ShrU, Some(n.trailing_zeros())),
            (Opcode::RemU, Some(n)) if n.is_power_of_two() => (Opcode::And, Some(n - 1)),
            _ => (opcode, None),
        };
        if let Some(n) = n {
            let n = self.constant(n);
            return self.binary(opcode, other, n);
        }
        let (a, b) = if commutes && b < a { (b, a) } else { (a, b) };
        self.compute(opcode, [a, b, b])
    }

    pub(super) fn ternary(&mut self, opcode: Opcode, a: Reg, b: Reg, c: Reg) -> Reg {
        match (opcode, self.value(a)) {
            (Opcode::Select, Some(0)) => c,
            (Opcode::Select, Some(_)) => b,
            (Opcode::Select, None) if b == c => b,
            _ => self.compute(opcode, [a, b, c]),
        }
    }

    pub(super) fn select(&mut self, condition: Reg, accept: Reg, reject: Reg) -> Reg {
        self.ternary(Opcode::Select, condition, accept, reject)
    }

    /// An instruction on 64-bit integers: one register, or two.
    pub(super) fn wide(&mut self, opcode: WideOpcode, from: [Reg; 4]) -> SmallVec<[Reg; 2]> {
        let words = if opcode.is_narrow() { 1 } else { 2 };
        if let [Some(a), Some(b), Some(c), Some(d)] = from.map(|reg| self.value(reg)) {
            let value = split(opcode.apply(join([a, b]), join([c, d])));
            return value[..words].iter().map(|word| self.constant(*word)).collect();
        }
        let keys = [false, true].map(|high| Pure::Wide(opcode, from, high));
        let known: SmallVec<[Reg; 2]> =
            keys[..words].iter().filter_map(|key| self.known.computed.get(key).copied()).collect();
        if known.len() == words {
            return known;
        }
        let results: SmallVec<[Reg; 2]> = (0..words).map(|_| self.temporary()).collect();
        self.op(Op::Wide(Wide { opcode, d: results[0], high: results.get(1).copied(), from }));
        for (key, reg) in keys.into_iter().zip(&results) {
            self.remember(key, *reg);
        }
        results
    }

    pub(super) fn count(&mut self, count: u32) -> Reg {
        self.once(Pure::Count(count), |d| Op::Count { d, count })
    }

    /// The value of a variable.
    pub(super) fn get(&mut self, variable: Reg) -> Reg {
        if let Some(reg) = self.known.held.get(&variable) {
            return *reg;
        }
        let d = self.temporary();
        self.op(Op::copy(d, variable));
        self.hold(variable, d);
        d
    }

    pub(super) fn set(&mut self, variable: Reg, value: Reg) {
        self.op(Op::Set { d: variable, a: value, region: ALL_LANES, init: false });
        self.hold(variable, value);
    }

    /// Sets the initial value of a variable.
    pub(super) fn init(&mut self, variable: Reg, value: Reg) {
        self.op(Op::Set { d: variable, a: value, region: ALL_LANES, init: true });
        self.hold(variable, value);
    }

    fn hold(&mut self, variable: Reg, value: Reg) {
        self.known.held.insert(variable, value);
        self.touched.push(variable);
    }

    /// Loads one scalar for each offset. Memory that cannot change is loaded once.
    pub(super) fn load(
        &mut self,
        address: &Address,
        offsets: &[u32],
        read_only: bool,
        span: Span,
    ) -> SmallVec<[Reg; 4]> {
        let key = |offset| Pure::Load(Box::new(address.clone()), offset);
        let mut parts = Parts::new();
        let regs = offsets
            .iter()
            .map(|offset| {
                let found = if read_only { self.known.computed.get(&key(*offset)).copied() } else { None };
                found.unwrap_or_else(|| {
                    let reg = self.temporary();
                    parts.push(Part { reg, offset: *offset });
                    reg
                })
            })
            .collect();
        for part in parts.iter().filter(|_| read_only) {
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
    Access { address, parts, region: ALL_LANES, mask: None, shape: Shape::UNIFORM, atomic: false, guard: None, span }
}

/// Whether the kernel never writes this memory.
pub(super) fn is_read_only(root: Root, writes: impl Fn(u32) -> bool) -> bool {
    match root {
        Root::Buffer(slot) => !writes(slot),
        Root::Immediate => true,
        Root::Workgroup | Root::Local(_) => false,
    }
}
