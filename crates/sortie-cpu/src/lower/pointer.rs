//! Pointers, resolved while lowering: to registers, or to an address in memory.

use std::rc::Rc;

use naga::{Expression, Function, Handle, Span, Statement, valid::FunctionInfo};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

use super::{
    Located, Lower, Result, Value,
    types::{Kind, Leaf, MemoryLayout, Ty},
    unroll::{CountedLoops, inner_blocks},
};
use crate::{
    Unsupported,
    code::{Address, Limit, Op, Part, Parts, Reg, Root, Term},
    opcode::Opcode,
};

/// Up to this many words of private arrays, calls do not share arrays.
const MAX_UNSHARED_WORDS: u32 = 1 << 10;
/// Variables that counters index are in memory if they have more scalars.
const MAX_REGISTERS: u32 = 1 << 7;
/// Words of private arrays per invocation, and of one value.
const MAX_WORDS: u32 = 1 << 20;

/// The lowered form of an expression.
#[derive(Clone, Debug)]
pub(super) enum Lowered {
    Value(Value),
    Pointer(Pointer),
}

/// The storage of a variable.
#[derive(Clone, Debug)]
pub(super) enum VariableStorage {
    /// In registers, one for each scalar.
    Registers(Rc<[Reg]>),
    /// In a private array, because it is indexed at run time.
    Local(u32),
}

/// A resolved pointer: its target and the type there.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    pub(super) ty: Ty,
    pub(super) to: Target,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// Some of a variable's registers, from `first` on.
    Registers { registers: Rc<[Reg]>, first: usize },
    /// A component, selected at run time, of the vector whose registers start at `first`.
    Component { registers: Rc<[Reg]>, first: usize, size: u32, index: Reg },
    /// Memory; offsets in bytes or words, as the root's layout has it.
    Memory { root: Root, offset: u32, terms: SmallVec<[Term; 2]> },
}

impl Lowered {
    /// The registers that hold its value, or its indices, at run time.
    pub(super) fn registers(&mut self) -> SmallVec<[&mut Reg; 4]> {
        match self {
            Self::Value(value) => value.iter_mut().collect(),
            Self::Pointer(pointer) => pointer.to.indices(),
        }
    }
}

impl Pointer {
    /// The specialisation of a shared function for this pointer: its target, without the indices that are known only at
    /// run time.
    pub(super) fn key(&self) -> Target {
        let mut to = self.to.clone();
        to.indices().into_iter().for_each(|index| *index = Reg(0));
        to
    }
}

impl Target {
    /// The start of some memory.
    pub(super) fn start(root: Root) -> Self {
        Self::Memory { root, offset: 0, terms: smallvec![] }
    }

    /// The registers that hold its indices at run time.
    fn indices(&mut self) -> SmallVec<[&mut Reg; 4]> {
        match self {
            Self::Registers { .. } => smallvec![],
            Self::Component { index, .. } => smallvec![index],
            Self::Memory { terms, .. } => terms.iter_mut().map(|term| &mut term.index).collect(),
        }
    }
}

/// Variables of a function that are indexed at run time, itself or by what it calls, and its loops to unroll.
#[derive(Debug, Default)]
pub(super) struct FunctionFacts {
    locals: FxHashSet<Handle<naga::LocalVariable>>,
    pub(super) globals: FxHashSet<Handle<naga::GlobalVariable>>,
    arguments: FxHashSet<u32>,
    /// Indexed by counters of unrolled loops.
    counted: FxHashSet<Handle<naga::LocalVariable>>,
    pub(super) loops: CountedLoops,
}

/// How a variable is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Indexing {
    /// By constants only.
    Constant,
    /// By counters of unrolled loops, too.
    Counted,
    AtRunTime,
}

impl FunctionFacts {
    pub(super) fn indexing(&self, variable: Handle<naga::LocalVariable>) -> Indexing {
        match variable {
            _ if self.locals.contains(&variable) => Indexing::AtRunTime,
            _ if self.counted.contains(&variable) => Indexing::Counted,
            _ => Indexing::Constant,
        }
    }

    /// Marks the variable of a pointer that is indexed. `known`: once loops are unrolled.
    fn mark(&mut self, function: &Function, mut pointer: Handle<Expression>, known: bool) {
        loop {
            match function.expressions[pointer] {
                Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => pointer = base,
                Expression::LocalVariable(handle) => {
                    let indexed = if known { &mut self.counted } else { &mut self.locals };
                    indexed.insert(handle);
                    return;
                }
                Expression::GlobalVariable(handle) => {
                    self.globals.insert(handle);
                    return;
                }
                Expression::FunctionArgument(index) => {
                    self.arguments.insert(index);
                    return;
                }
                _ => return,
            }
        }
    }
}

impl Lower<'_> {
    /// Finds the indexed variables of a function and its callees, once per function.
    pub(super) fn facts_of(
        &mut self,
        handle: Option<Handle<Function>>,
        function: &Function,
        info: &FunctionInfo,
    ) -> Rc<FunctionFacts> {
        if let Some(known) = self.facts.get(&handle) {
            return known.clone();
        }
        let module = self.module;
        let mut indexed = FunctionFacts { loops: CountedLoops::of(module, function), ..FunctionFacts::default() };
        for (_, expression) in function.expressions.iter() {
            // A vector component is selected in registers; everything else needs memory.
            if let Expression::Access { base, index } = expression
                && !matches!(Ty::pointee(module, &info[*base].ty), Ok(Ty::Vector(..)))
            {
                let known = self.unrolls && indexed.loops.knows(function, *index);
                indexed.mark(function, *base, known);
            }
        }
        let mut bodies = vec![&function.body];
        while let Some(body) = bodies.pop() {
            for statement in body.iter() {
                bodies.extend(inner_blocks(statement));
                if let Statement::Call { function: callee, arguments, .. } = statement {
                    let inner = self.facts_of(Some(*callee), &module.functions[*callee], &self.info[*callee]);
                    indexed.globals.extend(&inner.globals);
                    for (index, argument) in (0..).zip(arguments) {
                        if inner.arguments.contains(&index) {
                            indexed.mark(function, *argument, false);
                        }
                    }
                }
            }
        }
        let indexed = Rc::new(indexed);
        self.facts.insert(handle, indexed.clone());
        indexed
    }

    /// Allocates a variable and sets its initial value.
    pub(super) fn variable(
        &mut self,
        ty: Handle<naga::Type>,
        indexing: Indexing,
        init: Option<Value>,
        span: Span,
    ) -> Result<VariableStorage> {
        let ty = Ty::of_handle(self.module, ty).at(span)?;
        let cells = self.cells(ty, "a variable", span)?;
        if indexing == Indexing::AtRunTime || indexing == Indexing::Counted && cells > MAX_REGISTERS {
            let local = self.local(cells, span)?;
            let zero = self.build.constant(0);
            let zeroed = init.as_ref().is_none_or(|value| value.iter().all(|reg| *reg == zero));
            self.build.op(Op::FillLocal { local, value: zero, region: crate::code::ALL_LANES });
            if let Some(value) = init.filter(|_| !zeroed) {
                self.write(&Pointer { ty, to: Target::start(Root::Local(local)) }, &value, span)?;
            }
            return Ok(VariableStorage::Local(local));
        }
        let registers: Rc<[Reg]> = (0..cells).map(|_| self.build.variable()).collect();
        let zero = self.build.constant(0);
        for (index, register) in registers.iter().enumerate() {
            let value = init.as_ref().map_or(zero, |value| value[index]);
            self.build.init(*register, value);
        }
        Ok(VariableStorage::Registers(registers))
    }

    /// The number of scalars of a type. An error names `what` if it is over the limit.
    pub(super) fn cells(&self, ty: Ty, what: &str, span: Span) -> Result<u32> {
        let cells = ty.cells(self.module).at(span)?;
        if cells > MAX_WORDS {
            return Err(Unsupported { what: format!("{what} of more than 4 MiB"), span });
        }
        Ok(cells)
    }

    /// Allocates a private array. Its contents are undefined.
    pub(super) fn local(&mut self, cells: u32, span: Span) -> Result<u32> {
        let words: u32 = self.locals.iter().fold(cells, |sum, words| sum.saturating_add(*words));
        // Below this size, arrays are not shared, so that each has the shape that its own uses need.
        if words > MAX_UNSHARED_WORDS
            && let Some(local) = self.free_locals.get_mut(&cells).and_then(Vec::pop)
        {
            return Ok(local);
        }
        if words > MAX_WORDS {
            return Err(Unsupported { what: "more than 4 MiB of arrays for each invocation".into(), span });
        }
        self.locals.push(cells);
        Ok(u32::try_from(self.locals.len() - 1).unwrap_or_else(|_| unreachable!("bounded by the source")))
    }

    pub(super) fn pointer_to(&self, place: &VariableStorage, ty: Handle<naga::Type>, span: Span) -> Result<Pointer> {
        let ty = Ty::of_handle(self.module, ty).at(span)?;
        let to = match place {
            VariableStorage::Registers(registers) => Target::Registers { registers: registers.clone(), first: 0 },
            VariableStorage::Local(local) => Target::start(Root::Local(*local)),
        };
        Ok(Pointer { ty, to })
    }

    /// A pointer to a global variable.
    pub(super) fn global(&mut self, handle: Handle<naga::GlobalVariable>) -> Result<Pointer> {
        let variable = &self.module.global_variables[handle];
        let span = self.module.global_variables.get_span(handle);
        let (root, offset) = match variable.space {
            naga::AddressSpace::Private => match self.globals.get(&handle) {
                Some(place) => return self.pointer_to(&place.clone(), variable.ty, span),
                None => unreachable!("made before the code that uses it"),
            },
            naga::AddressSpace::WorkGroup => (Root::Workgroup, self.workgroup_offsets[&handle]),
            naga::AddressSpace::Immediate => (Root::Immediate, 0),
            _ => (Root::Buffer(self.slot_of[&handle]), 0),
        };
        let ty = Ty::of_handle(self.module, variable.ty).at(span)?;
        Ok(Pointer { ty, to: Target::Memory { root, offset, terms: smallvec![] } })
    }

    /// `pointer[index]` or `pointer.member` with a constant index.
    pub(super) fn step(&self, pointer: &Pointer, index: u32, span: Span) -> Result<Pointer> {
        let layout = match &pointer.to {
            Target::Memory { root, .. } => Self::layout_of(*root),
            Target::Registers { .. } | Target::Component { .. } => MemoryLayout::Cells,
        };
        let (ty, step) = match pointer.ty {
            Ty::Struct(_) => pointer.ty.member(self.module, layout, index as usize).at(span)?,
            _ => {
                let (element, _, stride) = pointer.ty.elements(self.module, layout).at(span)?;
                (element, index.saturating_mul(stride))
            }
        };
        let mut to = pointer.to.clone();
        match &mut to {
            Target::Registers { first, .. } => *first += step as usize,
            Target::Memory { offset, .. } => *offset = offset.saturating_add(step),
            Target::Component { .. } => unreachable!("a scalar has no parts"),
        }
        Ok(Pointer { ty, to })
    }

    /// `pointer[index]` with a dynamic index.
    pub(super) fn index(&mut self, pointer: &Pointer, index: Reg, span: Span) -> Result<Pointer> {
        if let Some(known) = self.build.value(index) {
            let in_bounds = match pointer.ty {
                Ty::Vector(size, _) => known < size,
                Ty::Matrix(columns, ..) => known < columns,
                Ty::Array { count, .. } => count.is_some_and(|count| known < count),
                Ty::Scalar(_) | Ty::Struct(_) => true,
            };
            if in_bounds {
                return self.step(pointer, known, span);
            }
        }
        match &pointer.to {
            Target::Registers { registers, first } => {
                let Ty::Vector(size, kind) = pointer.ty else {
                    // A loop was not unrolled, or its index is out of bounds. `lower` starts over.
                    self.unknown_index = true;
                    return Err(Unsupported { what: "an index that is not known".into(), span });
                };
                let to = Target::Component { registers: registers.clone(), first: *first, size, index };
                Ok(Pointer { ty: Ty::Scalar(kind), to })
            }
            Target::Memory { root, offset, terms } => {
                let layout = Self::layout_of(*root);
                let (element, count, stride) = pointer.ty.elements(self.module, layout).at(span)?;
                let limit = match (count, root) {
                    (Some(count), _) => Limit::Fixed(count),
                    (None, Root::Buffer(slot)) => Limit::Count(self.count_of(*slot, *offset, stride)),
                    (None, _) => unreachable!("runtime-sized arrays are in buffers"),
                };
                let mut terms = terms.clone();
                terms.push(Term { index, stride, limit });
                Ok(Pointer { ty: element, to: Target::Memory { root: *root, offset: *offset, terms } })
            }
            Target::Component { .. } => unreachable!("a scalar has no parts"),
        }
    }

    /// Loads the value at a pointer.
    pub(super) fn read(&mut self, pointer: &Pointer, span: Span) -> Result<Value> {
        let cells = self.cells(pointer.ty, "a value", span)?;
        match &pointer.to {
            Target::Registers { registers, first } => {
                let registers = registers.clone();
                Ok(registers[*first..][..cells as usize].iter().map(|register| self.build.get(*register)).collect())
            }
            Target::Component { registers, first, size, index } => {
                let count = (size * cells) as usize;
                let all: Value =
                    registers[*first..][..count].iter().map(|register| self.build.get(*register)).collect();
                Ok(self.pick(&all, cells as usize, *index))
            }
            Target::Memory { root, .. } => {
                let read_only = self.is_read_only(*root);
                let mut value: Value = smallvec![Reg(0); cells as usize];
                for half in [false, true] {
                    let (address, leaves) = self.address(pointer, half, span)?;
                    let offsets: SmallVec<[u32; 4]> = leaves.iter().map(|(_, leaf)| leaf.offset).collect();
                    let registers = self.build.load(&address, &offsets, read_only, span);
                    for ((index, _), register) in leaves.iter().zip(registers) {
                        value[*index] = if half { self.build.unary(Opcode::HalfFromBits, register) } else { register };
                    }
                }
                Ok(value)
            }
        }
    }

    /// Stores a value to a pointer.
    pub(super) fn write(&mut self, pointer: &Pointer, value: &[Reg], span: Span) -> Result<()> {
        match &pointer.to {
            Target::Registers { registers, first } => {
                for (register, value) in registers[*first..].iter().zip(value) {
                    self.build.set(*register, *value);
                }
            }
            Target::Component { registers, first, size, index } => {
                for (component, words) in (0..*size).zip(registers[*first..].chunks(value.len())) {
                    let component = self.build.constant(component);
                    let chosen = self.build.binary(Opcode::EqI, *index, component);
                    for (register, value) in words.iter().zip(value) {
                        let old = self.build.get(*register);
                        let new = self.build.select(chosen, *value, old);
                        self.build.set(*register, new);
                    }
                }
            }
            Target::Memory { .. } => {
                for half in [false, true] {
                    let (address, leaves) = self.address(pointer, half, span)?;
                    if leaves.is_empty() {
                        continue;
                    }
                    let mut parts = Parts::new();
                    for (index, leaf) in leaves {
                        let reg = value[index];
                        let reg = if half { self.build.unary(Opcode::HalfBits, reg) } else { reg };
                        parts.push(Part { reg, offset: leaf.offset });
                    }
                    self.build.store(address, parts, span);
                }
            }
        }
        Ok(())
    }

    /// The address of a pointer into memory in words or half words, and the scalars there with their number in the
    /// value.
    pub(super) fn address(&self, pointer: &Pointer, half: bool, span: Span) -> Result<(Address, Vec<(usize, Leaf)>)> {
        let Target::Memory { root, offset, terms } = &pointer.to else { unreachable!("not in memory") };
        let layout = Self::layout_of(*root);
        let unit = match layout {
            MemoryLayout::Cells => 1,
            MemoryLayout::Host if half => 2,
            MemoryLayout::Host => 4,
        };
        let mut leaves = Vec::new();
        let mut index = 0;
        pointer
            .ty
            .leaves(self.module, layout, 0, &mut |leaf| {
                let is_half = layout == MemoryLayout::Host && leaf.kind == Kind::Half;
                if is_half == half {
                    leaves.push((index, Leaf { kind: leaf.kind, offset: leaf.offset / unit }));
                }
                index += 1;
            })
            .at(span)?;
        let terms = terms.iter().map(|term| Term { stride: term.stride / unit, ..*term }).collect();
        let address = Address { root: *root, half, offset: offset / unit, terms, base: None, linear: None, own: false };
        Ok((address, leaves))
    }

    /// One of several equal parts of a value, selected at run time; zero if the index is out of range.
    pub(super) fn pick(&mut self, value: &[Reg], each: usize, index: Reg) -> Value {
        let zero = self.build.constant(0);
        let mut chosen: Value = smallvec![zero; each];
        for (number, part) in (0..).zip(value.chunks(each)) {
            let number = self.build.constant(number);
            let hit = self.build.binary(Opcode::EqI, index, number);
            for (chosen, part) in chosen.iter_mut().zip(part) {
                *chosen = self.build.select(hit, *part, *chosen);
            }
        }
        chosen
    }
}
