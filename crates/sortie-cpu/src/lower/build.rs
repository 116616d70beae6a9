//! Emits instructions: folds constants, shares what was computed before, remembers what variables hold.

use naga::Span;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{
    code::{Access, Address, Binary, Body, Builtin, EVERY, Loop, Node, Op, Part, Parts, Reg, Root, Ternary, Unary},
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

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pure {
    Unary(Unary, Reg),
    Binary(Binary, Reg, Reg),
    Ternary(Ternary, Reg, Reg, Reg),
    Count(u32),
}

/// Code under construction.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) origins: Vec<Origin>,
    constants: FxHashMap<u32, Reg>,
    builtins: FxHashMap<Builtin, Reg>,
    /// What has been computed, and may be used again: entries go when the body they stand in ends.
    computed: FxHashMap<Pure, Reg>,
    loaded: FxHashMap<(Address, u32), Reg>,
    entries: Vec<Entry>,
    /// What variables hold, where that is known.
    held: FxHashMap<Reg, Reg>,
    /// Variables that were set, in order, to forget them where bodies meet.
    touched: Vec<Reg>,
    bodies: Vec<Body>,
    loops: u32,
    /// Loads and stores are atomic.
    pub(super) atomic: bool,
    /// Instructions so far.
    pub(super) size: usize,
}

enum Entry {
    Pure(Pure),
    Load((Address, u32)),
}

/// What was known when a body was opened.
pub(super) struct Mark {
    entries: usize,
    touched: usize,
    /// What variables held outside, where the body knows nothing of it. Otherwise it is what is held in the body, without the variables
    /// that were touched in it: nothing is copied for each body.
    held: Option<FxHashMap<Reg, Reg>>,
}

/// What was known outside a body that stands on its own.
pub(super) struct Apart {
    computed: FxHashMap<Pure, Reg>,
    loaded: FxHashMap<(Address, u32), Reg>,
    entries: Vec<Entry>,
    held: FxHashMap<Reg, Reg>,
}

impl Builder {
    fn register(&mut self, origin: Origin) -> Reg {
        let reg = Reg(u32::try_from(self.origins.len()).unwrap_or_else(|_| unreachable!("bounded by the source")));
        self.origins.push(origin);
        reg
    }

    pub(super) fn constant(&mut self, value: u32) -> Reg {
        if let Some(reg) = self.constants.get(&value) {
            return *reg;
        }
        let reg = self.register(Origin::Constant(value));
        self.constants.insert(value, reg);
        reg
    }

    pub(super) fn float(&mut self, value: f32) -> Reg {
        self.constant(value.to_bits())
    }

    pub(super) fn builtin(&mut self, builtin: Builtin) -> Reg {
        if let Some(reg) = self.builtins.get(&builtin) {
            return *reg;
        }
        let reg = self.register(Origin::Builtin(builtin));
        self.builtins.insert(builtin, reg);
        reg
    }

    pub(super) fn variable(&mut self) -> Reg {
        self.register(Origin::Variable)
    }

    fn temporary(&mut self) -> Reg {
        self.register(Origin::Temporary)
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
        let Some(body) = self.bodies.last_mut() else { unreachable!("a body is open") };
        match body.last_mut() {
            Some(Node::Ops(ops)) => ops.push(op),
            _ => body.push(Node::Ops(vec![op])),
        }
    }

    pub(super) fn node(&mut self, node: Node) {
        self.size += 1;
        let Some(body) = self.bodies.last_mut() else { unreachable!("a body is open") };
        body.push(node);
    }

    pub(super) fn next_loop(&mut self) -> Loop {
        self.loops += 1;
        Loop(self.loops)
    }

    /// Opens a body that is entered from here, with all that is known here.
    pub(super) fn open(&mut self) -> Mark {
        self.bodies.push(Vec::new());
        Mark { entries: self.entries.len(), touched: self.touched.len(), held: None }
    }

    /// As [`Builder::open`], for a body that may be entered from elsewhere too: nothing is known of variables.
    pub(super) fn open_loop(&mut self) -> Mark {
        Mark { held: Some(std::mem::take(&mut self.held)), ..self.open() }
    }

    /// Ends a body. What was computed in it is not to be used after it.
    pub(super) fn close(&mut self, mark: Mark) -> Body {
        for entry in self.entries.drain(mark.entries..) {
            match entry {
                Entry::Pure(pure) => drop(self.computed.remove(&pure)),
                Entry::Load(load) => drop(self.loaded.remove(&load)),
            }
        }
        if let Some(held) = mark.held {
            self.held = held;
        }
        for variable in &self.touched[mark.touched..] {
            self.held.remove(variable);
        }
        self.bodies.pop().unwrap_or_else(|| unreachable!("a body is open"))
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
    pub(super) fn current(&self) -> &Body {
        self.bodies.last().unwrap_or_else(|| unreachable!("a body is open"))
    }

    /// Opens a body that stands on its own: nothing is known in it.
    pub(super) fn open_apart(&mut self) -> Apart {
        self.bodies.push(Vec::new());
        Apart {
            computed: std::mem::take(&mut self.computed),
            loaded: std::mem::take(&mut self.loaded),
            entries: std::mem::take(&mut self.entries),
            held: std::mem::take(&mut self.held),
        }
    }

    /// Ends a body that stands on its own.
    pub(super) fn close_apart(&mut self, apart: Apart) -> Body {
        self.computed = apart.computed;
        self.loaded = apart.loaded;
        self.entries = apart.entries;
        self.held = apart.held;
        self.bodies.pop().unwrap_or_else(|| unreachable!("a body is open"))
    }

    /// Forgets what variables hold.
    pub(super) fn forget(&mut self) {
        self.touched.extend(self.held.keys());
        self.held.clear();
    }

    fn remember(&mut self, pure: Pure, reg: Reg) {
        self.computed.insert(pure, reg);
        self.entries.push(Entry::Pure(pure));
    }

    pub(super) fn unary(&mut self, f: Unary, a: Reg) -> Reg {
        if let Some(a) = self.value(a) {
            return self.constant(eval::unary(f, One([a, 0, 0])));
        }
        let pure = Pure::Unary(f, a);
        if let Some(reg) = self.computed.get(&pure) {
            return *reg;
        }
        let d = self.temporary();
        self.op(Op::Unary { f, d, a, grid: false });
        self.remember(pure, d);
        d
    }

    pub(super) fn binary(&mut self, f: Binary, a: Reg, b: Reg) -> Reg {
        let (left, right) = (self.value(a), self.value(b));
        if let (Some(a), Some(b)) = (left, right) {
            return self.constant(eval::binary(f, One([a, b, 0])));
        }
        // What holds for every value, floats excepted: x + 0.0 turns -0.0 into 0.0.
        match (f, left, right) {
            (Binary::AddI | Binary::Or | Binary::Xor, Some(0), _) => return b,
            (
                Binary::AddI | Binary::SubI | Binary::Or | Binary::Xor | Binary::Shl | Binary::ShrI | Binary::ShrU,
                _,
                Some(0),
            ) => {
                return a;
            }
            (Binary::MulI | Binary::And, Some(0), _) | (Binary::MulI | Binary::And, _, Some(0)) => {
                return self.constant(0);
            }
            (Binary::MulI, Some(1), _) | (Binary::And, Some(u32::MAX), _) => return b,
            (Binary::MulI | Binary::DivU | Binary::DivI, _, Some(1)) | (Binary::And, _, Some(u32::MAX)) => return a,
            (Binary::MulI, _, Some(n)) if n.is_power_of_two() => {
                let n = self.constant(n.trailing_zeros());
                return self.binary(Binary::Shl, a, n);
            }
            (Binary::MulI, Some(n), _) if n.is_power_of_two() => {
                let n = self.constant(n.trailing_zeros());
                return self.binary(Binary::Shl, b, n);
            }
            (Binary::DivU, _, Some(n)) if n.is_power_of_two() => {
                let n = self.constant(n.trailing_zeros());
                return self.binary(Binary::ShrU, a, n);
            }
            (Binary::RemU, _, Some(n)) if n.is_power_of_two() => {
                let n = self.constant(n - 1);
                return self.binary(Binary::And, a, n);
            }
            _ => {}
        }
        let commutes = matches!(
            f,
            Binary::AddI | Binary::MulI | Binary::And | Binary::Or | Binary::Xor | Binary::EqI | Binary::NeI
        );
        let pure = if commutes && b < a { Pure::Binary(f, b, a) } else { Pure::Binary(f, a, b) };
        if let Some(reg) = self.computed.get(&pure) {
            return *reg;
        }
        let d = self.temporary();
        self.op(Op::Binary { f, d, a, b, grid: false });
        self.remember(pure, d);
        d
    }

    pub(super) fn ternary(&mut self, f: Ternary, a: Reg, b: Reg, c: Reg) -> Reg {
        match (f, self.value(a), self.value(b), self.value(c)) {
            (_, Some(a), Some(b), Some(c)) => return self.constant(eval::ternary(f, One([a, b, c]))),
            (Ternary::Select, Some(0), ..) => return c,
            (Ternary::Select, Some(_), ..) => return b,
            (Ternary::Select, ..) if b == c => return b,
            _ => {}
        }
        let pure = Pure::Ternary(f, a, b, c);
        if let Some(reg) = self.computed.get(&pure) {
            return *reg;
        }
        let d = self.temporary();
        self.op(Op::Ternary { f, d, a, b, c, grid: false });
        self.remember(pure, d);
        d
    }

    pub(super) fn select(&mut self, condition: Reg, accept: Reg, reject: Reg) -> Reg {
        self.ternary(Ternary::Select, condition, accept, reject)
    }

    pub(super) fn count(&mut self, count: u32) -> Reg {
        let pure = Pure::Count(count);
        if let Some(reg) = self.computed.get(&pure) {
            return *reg;
        }
        let d = self.temporary();
        self.op(Op::Count { d, count });
        self.remember(pure, d);
        d
    }

    /// What a variable holds.
    pub(super) fn get(&mut self, variable: Reg) -> Reg {
        if let Some(reg) = self.held.get(&variable) {
            return *reg;
        }
        let d = self.temporary();
        self.op(Op::Unary { f: Unary::Copy, d, a: variable, grid: false });
        self.held.insert(variable, d);
        self.touched.push(variable);
        d
    }

    pub(super) fn set(&mut self, variable: Reg, value: Reg) {
        self.op(Op::Set { d: variable, a: value, region: EVERY, init: false });
        self.held.insert(variable, value);
        self.touched.push(variable);
    }

    /// The value that a variable starts with.
    pub(super) fn init(&mut self, variable: Reg, value: Reg) {
        self.op(Op::Set { d: variable, a: value, region: EVERY, init: true });
        self.held.insert(variable, value);
        self.touched.push(variable);
    }

    /// Loads one scalar for each offset. What nobody can change meanwhile is loaded once.
    pub(super) fn load(&mut self, address: &Address, offsets: &[u32], steady: bool, span: Span) -> SmallVec<[Reg; 4]> {
        let found: SmallVec<[Option<Reg>; 4]> = offsets
            .iter()
            .map(|offset| self.loaded.get(&(address.clone(), *offset)).copied().filter(|_| steady))
            .collect();
        let mut parts = Parts::new();
        let mut regs = SmallVec::new();
        for (offset, found) in offsets.iter().zip(found) {
            let reg = found.unwrap_or_else(|| {
                let reg = self.temporary();
                parts.push(Part { reg, offset: *offset });
                reg
            });
            regs.push(reg);
        }
        if steady {
            for part in &parts {
                let key = (address.clone(), part.offset);
                self.loaded.insert(key.clone(), part.reg);
                self.entries.push(Entry::Load(key));
            }
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

    pub(super) fn fresh(&mut self) -> Reg {
        self.temporary()
    }
}

pub(super) fn access(address: Address, parts: Parts, span: Span) -> Access {
    Access { address, parts, region: EVERY, mask: None, shape: Shape::UNIFORM, atomic: false, span }
}

/// Memory that nobody writes while a kernel runs.
pub(super) fn is_steady(root: Root, writes: impl Fn(u32) -> bool) -> bool {
    match root {
        Root::Slot(slot) => !writes(slot),
        Root::Immediate => true,
        Root::Workgroup | Root::Local(_) => false,
    }
}
