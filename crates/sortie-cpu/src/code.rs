//! The instruction set: what a kernel is lowered to.
//!
//! A register holds one scalar of 32 bits for every lane. Values of composite types are split into scalars, so there
//! are no vectors, matrices or structs here. Booleans are all zeros or all ones; an `f16` is kept as the `f32` of the
//! same value. Straight-line code ([`Op`]) ignores which lanes are active, except where an effect outlives it:
//! [`Op::Blend`], stores and atomics. Control flow is a tree of [`Node`]s.
//!
//! A mask's register is defined only where not all lanes are active. A block without an active lane is not computed, so
//! nothing may be read from it.

use naga::Span;
use smallvec::SmallVec;

use crate::{opcode::Opcode, shape::Shape, wide_opcode::WideOpcode};

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Reg(pub(crate) u32);

/// A set of lanes that is active together, with the register of its mask. Number 0 is all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Region(pub(crate) u32);

/// The name of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LoopId(pub(crate) u32);

/// All lanes.
pub(crate) const ALL_LANES: Region = Region(0);

/// What [`Op::Blend`] does to a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blend {
    Assign,
    AddI,
    AddF,
}

/// The kind of memory of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Root {
    /// A bound buffer, by slot.
    Buffer(u32),
    /// `var<immediate>`.
    Immediate,
    /// Workgroup memory; offsets are into all of it.
    Workgroup,
    /// A private array of the invocation, by number.
    Local(u32),
}

/// How many elements an index may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    /// Proved to be in bounds.
    None,
    /// A fixed number.
    Fixed(u32),
    /// The elements that fit into the buffer: an entry of [`crate::compiled::Compiled::counts`].
    Count(u32),
}

/// A dynamic index of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) index: Reg,
    /// In units of the access.
    pub(crate) stride: u32,
    pub(crate) limit: Limit,
}

/// The memory that an access refers to. Units are words, or half words where `half` is set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    pub(crate) root: Root,
    pub(crate) half: bool,
    /// Constant part, in units.
    pub(crate) offset: u32,
    /// All dynamic indices until lowering folds all but one of them into `base`.
    pub(crate) terms: SmallVec<[Term; 2]>,
    /// The sum of the folded indices; all ones if one of them is out of bounds.
    pub(crate) base: Option<Reg>,
    /// By how much the index of the last term grows from lane to lane of a row, where that is known.
    pub(crate) linear: Option<u32>,
    /// The index is the invocation's own `global_invocation_id.x`, and nothing else varies.
    pub(crate) own: bool,
}

/// A part of an access: a register and its offset from the address, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub(crate) reg: Reg,
    pub(crate) offset: u32,
}

pub(crate) type Parts = SmallVec<[Part; 4]>;

/// An access to memory.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) address: Address,
    pub(crate) parts: Parts,
    pub(crate) region: Region,
    pub(crate) mask: Option<Reg>,
    /// The shape of a load's result: that of the address and of the memory.
    pub(crate) shape: Shape,
    /// `atomicLoad` or `atomicStore`; used for fences and checks.
    pub(crate) atomic: bool,
    /// Of a load that was in an `if`: the lanes that it was for. Used for checks; the others are not used.
    pub(crate) guard: Option<LoadGuard>,
    pub(crate) span: Span,
}

/// The lanes of a load whose value is used: those for which the condition is `wanted`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadGuard {
    pub(crate) cond: Reg,
    pub(crate) wanted: bool,
}

/// What an atomic does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AtomicOp {
    Add,
    Sub,
    And,
    Or,
    Xor,
    MinI,
    MaxI,
    MinU,
    MaxU,
    Exchange,
    CompareExchange,
}

/// An atomic on one word per lane, or on two.
#[derive(Clone, Debug)]
pub(crate) struct Atomic {
    /// `parts` is empty; the word is at the address itself.
    pub(crate) access: Access,
    pub(crate) atomic_op: AtomicOp,
    pub(crate) value: Reg,
    pub(crate) compare: Option<Reg>,
    /// What was there before.
    pub(crate) old: Option<Reg>,
    /// The high words of all of these, if the atomic has 64 bits.
    pub(crate) high: Option<AtomicWords>,
}

/// The operands of an atomic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtomicWords {
    pub(crate) value: Reg,
    pub(crate) compare: Option<Reg>,
    pub(crate) old: Option<Reg>,
}

/// What the active lanes of a subgroup do together. Lanes are numbered within the subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubgroupOp {
    /// One bit for each lane whose value is true.
    Ballot,
    Reduce(Opcode),
    InclusiveScan(Opcode),
    ExclusiveScan(Opcode),
    BroadcastFirst,
    /// From the lane with this index.
    Shuffle,
    /// From the lane this far below, or above.
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    QuadBroadcast,
    /// From the lane whose number differs in these bits.
    QuadSwap(u32),
}

/// An operation of the lanes of a subgroup on each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subgroup {
    pub(crate) op: SubgroupOp,
    pub(crate) d: Reg,
    pub(crate) a: Reg,
    pub(crate) index: Option<Reg>,
    pub(crate) region: Region,
    pub(crate) mask: Option<Reg>,
}

/// A pure instruction on 64-bit integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    pub(crate) opcode: WideOpcode,
    /// The low word of the result, or all of it.
    pub(crate) d: Reg,
    pub(crate) high: Option<Reg>,
    /// Low and high words of the operands.
    pub(crate) from: [Reg; 4],
}

/// A step of straight-line code.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A pure instruction.
    Compute {
        opcode: Opcode,
        d: Reg,
        /// The operands; the last one fills the rest.
        from: [Reg; 3],
    },
    /// Assigns a variable. Replaced by a copy or a blend when masks are known.
    Set {
        d: Reg,
        a: Reg,
        region: Region,
        /// Its initial value.
        init: bool,
    },
    /// A pure instruction on 64-bit integers.
    Wide(Wide),
    /// Changes a variable where the mask is set.
    Blend {
        f: Blend,
        d: Reg,
        a: Reg,
        mask: Reg,
    },
    /// `base + index · stride`, or all ones when the index is over the limit or the base is all ones.
    Address {
        d: Reg,
        base: Option<Reg>,
        index: Reg,
        stride: u32,
        limit: Limit,
    },
    /// The number of elements of a runtime-sized array.
    Count {
        d: Reg,
        count: u32,
    },
    Load(Box<Access>),
    Store(Box<Access>),
    Atomic(Box<Atomic>),
    Subgroup(Subgroup),
    /// All words of a local array start with this value.
    FillLocal {
        local: u32,
        value: Reg,
        region: Region,
    },
    /// All lanes get the value of the first lane of their workgroup.
    Broadcast {
        d: Reg,
        a: Reg,
    },
}

/// Control flow.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Ops(Vec<Op>),
    If(Branch),
    Loop(Loop),
    /// Lanes leave the loop.
    Break(LoopExit),
    /// Lanes go on with the next iteration of the loop.
    Continue(LoopExit),
    Return,
    /// Catches `Return`: a function at its only call.
    Scope(Body),
    /// A function that several calls share.
    Call {
        function: usize,
        region: Region,
    },
    /// Lanes run in lockstep, so it is used for checks only.
    Barrier {
        flags: naga::Barrier,
        span: Span,
    },
}

pub(crate) type Body = Vec<Node>;

/// An `if`.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) cond: Reg,
    pub(crate) accept: Body,
    pub(crate) reject: Body,
    pub(crate) plan: BranchPlan,
}

/// A loop. A `switch` with a `break` inside is a loop that runs once.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) id: LoopId,
    pub(crate) body: Body,
    pub(crate) continuing: Body,
    pub(crate) break_if: Option<Reg>,
    pub(crate) plan: LoopPlan,
}

/// How lanes run an `if`.
#[derive(Clone, Debug, Default)]
pub(crate) struct BranchPlan {
    /// Lanes may diverge: the regions of the two sides. `None`: all lanes take the same side.
    pub(crate) split: Option<[Region; 2]>,
    /// The region of the `if`.
    pub(crate) outer: Option<Region>,
    /// Lanes may leave inside: the regions at the ends of the two sides, and the region after the `if`, which may be
    /// one of them.
    pub(crate) join: Option<Join>,
    /// All lanes leave inside: none continues after it.
    pub(crate) all_leave: bool,
    /// Whether the sides do anything that needs their lanes.
    pub(crate) runs: [bool; 2],
    /// The comparison that computes the condition, if the first and last lane of a row decide for all.
    pub(crate) guard: Option<Box<Guard>>,
}

/// A comparison of an index that grows by one from lane to lane with something that is the same for all:
/// `if id.x >= n { return; }`. If both ends of a row agree, so do all lanes between, and the comparison need not be
/// computed per lane.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// Computes the condition, for when they do not agree.
    pub(crate) compare: Op,
    pub(crate) opcode: Opcode,
    pub(crate) index: Reg,
    pub(crate) limit: Reg,
    /// The index is the left operand.
    pub(crate) index_first: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Join {
    pub(crate) ends: [Option<Region>; 2],
    pub(crate) into: Region,
}

/// How lanes run a loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoopPlan {
    pub(crate) split: Option<DivergentLoop>,
    /// How its lanes are packed; `None` if they are not.
    pub(crate) pack: Option<Box<PackPlan>>,
    /// The shape of the lanes that stay, grown until it no longer changes.
    pub(crate) shape: Shape,
}

/// A loop whose lanes may be packed into fewer blocks when many have left.
#[derive(Clone, Debug)]
pub(crate) struct PackPlan {
    pub(crate) carried: Vec<CarriedRegister>,
}

/// A register that moves with its lanes: it has a value when the loop starts, or when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarriedRegister {
    pub(crate) reg: Reg,
    /// In the loop.
    pub(crate) written: bool,
}

/// A loop that lanes leave in different iterations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DivergentLoop {
    pub(crate) outer: Region,
    pub(crate) region: Region,
    /// The region in which the body ends, if it does.
    pub(crate) end: Option<Region>,
    /// Collects the lanes that continue early.
    pub(crate) continued: Option<Reg>,
    /// Collects the lanes that break, and the region that they go on in; only where lanes may return inside.
    pub(crate) broke: Option<(Reg, Region)>,
}

/// Lanes leave a body early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopExit {
    pub(crate) target: LoopId,
    /// For a loop that lanes leave in different iterations: the region that exits, and the register that collects its lanes.
    pub(crate) split: Option<(Region, Option<Reg>)>,
}

impl Op {
    pub(crate) fn copy(d: Reg, a: Reg) -> Self {
        Self::Compute { opcode: Opcode::Copy, d, from: [a; 3] }
    }

    /// Calls `read` for each register it reads and `write` for each it writes.
    pub(crate) fn registers(&mut self, read: &mut impl FnMut(&mut Reg), write: &mut impl FnMut(&mut Reg)) {
        fn access(access: &mut Access, read: &mut impl FnMut(&mut Reg)) {
            access.address.terms.iter_mut().for_each(|term| read(&mut term.index));
            let guard = access.guard.as_mut().map(|guard| &mut guard.cond);
            access.address.base.iter_mut().chain(&mut access.mask).chain(guard).for_each(read);
        }
        match self {
            Self::Set { d, a, .. } | Self::Broadcast { d, a } => {
                read(a);
                write(d);
            }
            Self::Compute { opcode, d, from } => {
                let (operands, rest) = from.split_at_mut(opcode.operands());
                operands.iter_mut().for_each(read);
                rest.fill(operands[operands.len() - 1]);
                write(d);
            }
            Self::Wide(Wide { d, high, from, .. }) => {
                from.iter_mut().for_each(read);
                write(d);
                high.iter_mut().for_each(write);
            }
            Self::Blend { d, a, mask, .. } => {
                read(a);
                read(mask);
                read(d);
                write(d);
            }
            Self::Address { d, base, index, .. } => {
                base.iter_mut().for_each(&mut *read);
                read(index);
                write(d);
            }
            Self::Count { d, .. } => write(d),
            Self::Load(load) => {
                access(load, read);
                load.parts.iter_mut().for_each(|part| write(&mut part.reg));
            }
            Self::Store(store) => {
                access(store, read);
                store.parts.iter_mut().for_each(|part| read(&mut part.reg));
            }
            Self::Atomic(atomic) => {
                access(&mut atomic.access, read);
                read(&mut atomic.value);
                atomic.compare.iter_mut().for_each(&mut *read);
                atomic.old.iter_mut().for_each(&mut *write);
                if let Some(high) = &mut atomic.high {
                    read(&mut high.value);
                    high.compare.iter_mut().for_each(read);
                    high.old.iter_mut().for_each(write);
                }
            }
            Self::Subgroup(Subgroup { d, a, index, mask, .. }) => {
                read(a);
                index.iter_mut().chain(mask).for_each(read);
                write(d);
            }
            Self::FillLocal { value, .. } => read(value),
        }
    }

    /// Calls `visit` for each register that it names, once for each place.
    pub(crate) fn registers_once(&mut self, visit: &mut impl FnMut(&mut Reg)) {
        if let Self::Blend { d, a, mask, .. } = self {
            [d, a, mask].into_iter().for_each(visit);
            return;
        }
        let visit = std::cell::RefCell::new(visit);
        self.registers(&mut |reg| (visit.borrow_mut())(reg), &mut |reg| (visit.borrow_mut())(reg));
    }

    /// The registers it reads.
    pub(crate) fn operands(&mut self) -> SmallVec<[Reg; 4]> {
        let mut operands = SmallVec::new();
        self.registers(&mut |reg| operands.push(*reg), &mut |_| {});
        operands
    }

    /// The registers it writes.
    pub(crate) fn results(&mut self) -> SmallVec<[Reg; 4]> {
        let mut results = SmallVec::new();
        self.registers(&mut |_| {}, &mut |reg| results.push(*reg));
        results
    }

    /// Its access to memory, if it has one.
    pub(crate) fn access(&mut self) -> Option<&mut Access> {
        match self {
            Self::Load(access) | Self::Store(access) => Some(access),
            Self::Atomic(atomic) => Some(&mut atomic.access),
            _ => None,
        }
    }

    /// Depends on nothing but its registers, and changes nothing but its result.
    pub(crate) fn is_pure(&self) -> bool {
        matches!(self, Self::Compute { .. } | Self::Wide(_) | Self::Address { .. } | Self::Count { .. })
    }
}

impl Node {
    /// The bodies inside it, in program order.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Body> {
        match self {
            Self::If(branch) => [Some(&branch.accept), Some(&branch.reject)],
            Self::Loop(node) => [Some(&node.body), Some(&node.continuing)],
            Self::Scope(body) => [Some(body), None],
            _ => [None, None],
        }
        .into_iter()
        .flatten()
    }

    /// As [`Node::bodies`], to change them.
    pub(crate) fn bodies_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Body> {
        match self {
            Self::If(branch) => [Some(&mut branch.accept), Some(&mut branch.reject)],
            Self::Loop(node) => [Some(&mut node.body), Some(&mut node.continuing)],
            Self::Scope(body) => [Some(body), None],
            _ => [None, None],
        }
        .into_iter()
        .flatten()
    }

    /// The register that decides how lanes go on.
    pub(crate) fn condition(&self) -> Option<Reg> {
        match self {
            Self::If(branch) => Some(branch.cond),
            Self::Loop(node) => node.break_if,
            _ => None,
        }
    }

    /// Whether `wanted` holds for this node or for one nested in it.
    pub(crate) fn any(&self, wanted: &impl Fn(&Self) -> bool) -> bool {
        wanted(self) || self.bodies().flatten().any(|node| node.any(wanted))
    }
}

/// A word that depends on which invocation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Builtin {
    GlobalId(u8),
    LocalId(u8),
    LocalIndex,
    GroupId(u8),
    NumGroups(u8),
    /// All ones for lanes that exist.
    Entry,
}
