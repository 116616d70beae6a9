//! Pointers, resolved while lowering: to registers, or to an address in memory.

use std::rc::Rc;

use naga::{Expression, Function, Handle, Span, Statement};
use rustc_hash::FxHashSet;
use smallvec::{SmallVec, smallvec};

use super::{
    Lower, Result, Value,
    types::{Kind, Layout, Leaf, Ty},
};
use crate::{
    Unsupported,
    code::{Address, Binary, Limit, Op, Part, Parts, Reg, Root, Term, Unary},
};

/// Words of arrays up to which no two calls share one, and beyond which there are none.
const FEW_WORDS: u32 = 1 << 10;
const MOST_WORDS: u32 = 1 << 20;

/// What an expression came to.
#[derive(Clone, Debug)]
pub(super) enum Lowered {
    Value(Value),
    Pointer(Pointer),
}

/// Where a variable lives.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In registers, one for each scalar.
    Registers(Rc<[Reg]>),
    /// In an array of the invocation's own, because it is indexed at run time.
    Local(u32),
}

/// A place, and what is there.
#[derive(Clone, Debug)]
pub(super) struct Pointer {
    pub(super) ty: Ty,
    pub(super) to: Target,
}

#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Some of a variable's registers, from `first` on.
    Registers { registers: Rc<[Reg]>, first: usize },
    /// A component, chosen at run time, of the vector whose registers start at `first`.
    Component { registers: Rc<[Reg]>, first: usize, size: u32, index: Reg },
    /// Memory; offsets in bytes or words, as the root's layout has it.
    Memory { root: Root, offset: u32, terms: SmallVec<[Term; 2]> },
}

/// What a shared function is specialised for, of one pointer that it is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Registers(Vec<Reg>, usize),
    Component(Vec<Reg>, usize),
    Memory(Root, u32, Vec<(u32, Limit)>),
}

impl Pointer {
    pub(super) fn key(&self) -> Key {
        match &self.to {
            Target::Registers { registers, first } => Key::Registers(registers.to_vec(), *first),
            Target::Component { registers, first, .. } => Key::Component(registers.to_vec(), *first),
            Target::Memory { root, offset, terms } => {
                Key::Memory(*root, *offset, terms.iter().map(|term| (term.stride, term.limit)).collect())
            }
        }
    }

    /// The registers that say where it points at run time.
    pub(super) fn indices(&mut self) -> SmallVec<[&mut Reg; 2]> {
        match &mut self.to {
            Target::Registers { .. } => smallvec![],
            Target::Component { index, .. } => smallvec![index],
            Target::Memory { terms, .. } => terms.iter_mut().map(|term| &mut term.index).collect(),
        }
    }
}

/// Variables of a function that are indexed at run time, itself or by what it calls.
#[derive(Debug, Default)]
pub(super) struct Indexed {
    locals: FxHashSet<Handle<naga::LocalVariable>>,
    pub(super) globals: FxHashSet<Handle<naga::GlobalVariable>>,
    arguments: FxHashSet<u32>,
}

impl Indexed {
    pub(super) fn has_local(&self, handle: Handle<naga::LocalVariable>) -> bool {
        self.locals.contains(&handle)
    }

    fn mark(&mut self, function: &Function, mut pointer: Handle<Expression>) {
        loop {
            match function.expressions[pointer] {
                Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => pointer = base,
                Expression::LocalVariable(handle) => {
                    self.locals.insert(handle);
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
    /// Looks through a function and what it calls, once.
    pub(super) fn indexed_of(&mut self, handle: Option<Handle<Function>>, function: &Function) -> Rc<Indexed> {
        if let Some(known) = self.indexed.get(&handle) {
            return known.clone();
        }
        let mut indexed = Indexed::default();
        for (_, expression) in function.expressions.iter() {
            if let Expression::Access { base, .. } = expression {
                // The component of a vector is found by selects; all else needs memory.
                let is_vector = self.points_to_vector(handle, function, *base);
                if !is_vector {
                    indexed.mark(function, *base);
                }
            }
        }
        let module = self.module;
        let mut bodies = vec![&function.body];
        while let Some(body) = bodies.pop() {
            for statement in body.iter() {
                match statement {
                    Statement::Block(inner) => bodies.push(inner),
                    Statement::If { accept, reject, .. } => bodies.extend([accept, reject]),
                    Statement::Switch { cases, .. } => bodies.extend(cases.iter().map(|case| &case.body)),
                    Statement::Loop { body, continuing, .. } => bodies.extend([body, continuing]),
                    Statement::Call { function: callee, arguments, .. } => {
                        let inner = self.indexed_of(Some(*callee), &module.functions[*callee]);
                        indexed.globals.extend(&inner.globals);
                        for (index, argument) in (0..).zip(arguments) {
                            if inner.arguments.contains(&index) {
                                indexed.mark(function, *argument);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        let indexed = Rc::new(indexed);
        self.indexed.insert(handle, indexed.clone());
        indexed
    }

    fn points_to_vector(
        &self,
        handle: Option<Handle<Function>>,
        function: &Function,
        base: Handle<Expression>,
    ) -> bool {
        let resolution = match handle {
            Some(handle) => &self.info[handle][base].ty,
            None => {
                let found =
                    self.module.entry_points.iter().position(|point| std::ptr::eq(&raw const point.function, function));
                match found {
                    Some(index) => &self.info.get_entry_point(index)[base].ty,
                    None => return false,
                }
            }
        };
        matches!(Ty::pointee(self.module, resolution), Ok(Ty::Vector(..)))
    }

    /// Makes a variable, and gives it its first value.
    pub(super) fn variable(
        &mut self,
        ty: Handle<naga::Type>,
        indexed: bool,
        init: Option<Value>,
        span: Span,
    ) -> Result<Place> {
        let refuse = |what: String| Unsupported { what, span };
        let ty = Ty::of_handle(self.module, ty).map_err(refuse)?;
        let cells = ty.cells(self.module).map_err(refuse)?;
        if cells > 1 << 20 {
            return Err(refuse("a variable of more than 4 MiB".into()));
        }
        if indexed {
            let local = self.local(cells, span)?;
            let zero = self.build.constant(0);
            let zeroed = init.as_ref().is_none_or(|value| value.iter().all(|reg| *reg == zero));
            self.build.op(Op::FillLocal { local, value: zero, region: crate::code::EVERY });
            if let Some(value) = init.filter(|_| !zeroed) {
                let pointer =
                    Pointer { ty, to: Target::Memory { root: Root::Local(local), offset: 0, terms: smallvec![] } };
                self.write(&pointer, &value, span)?;
            }
            return Ok(Place::Local(local));
        }
        let registers: Rc<[Reg]> = (0..cells).map(|_| self.build.variable()).collect();
        let zero = self.build.constant(0);
        for (index, register) in registers.iter().enumerate() {
            let value = init.as_ref().map_or(zero, |value| value[index]);
            self.build.init(*register, value);
        }
        Ok(Place::Registers(registers))
    }

    /// An array of the invocation's own. It may hold what another left there.
    pub(super) fn local(&mut self, cells: u32, span: Span) -> Result<u32> {
        let words: u32 = self.locals.iter().fold(cells, |sum, words| sum.saturating_add(*words));
        // As long as there are few, each has the shape that its own uses ask for.
        if words > FEW_WORDS
            && let Some(local) = self.free_locals.get_mut(&cells).and_then(Vec::pop)
        {
            return Ok(local);
        }
        if words > MOST_WORDS {
            return Err(Unsupported { what: "more than 4 MiB of arrays for each invocation".into(), span });
        }
        self.locals.push(cells);
        Ok(u32::try_from(self.locals.len() - 1).unwrap_or_else(|_| unreachable!("bounded by the source")))
    }

    pub(super) fn pointer_to(&self, place: &Place, ty: Handle<naga::Type>, span: Span) -> Result<Pointer> {
        let ty = Ty::of_handle(self.module, ty).map_err(|what| Unsupported { what, span })?;
        let to = match place {
            Place::Registers(registers) => Target::Registers { registers: registers.clone(), first: 0 },
            Place::Local(local) => Target::Memory { root: Root::Local(*local), offset: 0, terms: smallvec![] },
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
            _ => (Root::Slot(self.slot_of[&handle]), 0),
        };
        let ty = Ty::of_handle(self.module, variable.ty).map_err(|what| Unsupported { what, span })?;
        Ok(Pointer { ty, to: Target::Memory { root, offset, terms: smallvec![] } })
    }

    /// `pointer[index]` or `pointer.member`, known now.
    pub(super) fn step(&self, pointer: &Pointer, index: u32, span: Span) -> Result<Pointer> {
        let refuse = |what: String| Unsupported { what, span };
        let layout = match &pointer.to {
            Target::Memory { root, .. } => Self::layout_of(*root),
            Target::Registers { .. } | Target::Component { .. } => Layout::Cells,
        };
        let (ty, step) = match pointer.ty {
            Ty::Struct(_) => pointer.ty.member(self.module, layout, index as usize).map_err(refuse)?,
            _ => {
                let (element, _, stride) = pointer.ty.elements(self.module, layout).map_err(refuse)?;
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

    /// `pointer[index]`, known at run time.
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
        let refuse = |what: String| Unsupported { what, span };
        match &pointer.to {
            Target::Registers { registers, first } => {
                let Ty::Vector(size, kind) = pointer.ty else {
                    unreachable!("what is indexed at run time is in memory")
                };
                let to = Target::Component { registers: registers.clone(), first: *first, size, index };
                Ok(Pointer { ty: Ty::Scalar(kind), to })
            }
            Target::Memory { root, offset, terms } => {
                let layout = Self::layout_of(*root);
                let (element, count, stride) = pointer.ty.elements(self.module, layout).map_err(refuse)?;
                let limit = match (count, root) {
                    (Some(count), _) => Limit::Fixed(count),
                    (None, Root::Slot(slot)) => Limit::Count(self.count_of(*slot, *offset, stride)),
                    (None, _) => unreachable!("runtime-sized arrays are in buffers"),
                };
                let mut terms = terms.clone();
                terms.push(Term { index, stride, limit });
                Ok(Pointer { ty: element, to: Target::Memory { root: *root, offset: *offset, terms } })
            }
            Target::Component { .. } => unreachable!("a scalar has no parts"),
        }
    }

    /// Reads what it points to.
    pub(super) fn read(&mut self, pointer: &Pointer, span: Span) -> Result<Value> {
        let cells = pointer.ty.cells(self.module).map_err(|what| Unsupported { what, span })?;
        if cells > 1 << 20 {
            return Err(Unsupported { what: "a value of more than 4 MiB".into(), span });
        }
        match &pointer.to {
            Target::Registers { registers, first } => {
                let registers = registers.clone();
                Ok(registers[*first..][..cells as usize].iter().map(|register| self.build.get(*register)).collect())
            }
            Target::Component { registers, first, size, index } => {
                let all: Value =
                    registers[*first..][..*size as usize].iter().map(|register| self.build.get(*register)).collect();
                Ok(smallvec![self.pick(&all, 1, *index)[0]])
            }
            Target::Memory { root, .. } => {
                let steady = self.is_steady(*root);
                let mut value: Value = smallvec![Reg(0); cells as usize];
                for half in [false, true] {
                    let (address, leaves) = self.address(pointer, half, span)?;
                    if leaves.is_empty() {
                        continue;
                    }
                    let offsets: SmallVec<[u32; 4]> = leaves.iter().map(|(_, leaf)| leaf.offset).collect();
                    let registers = self.build.load(&address, &offsets, steady, span);
                    for ((index, _), register) in leaves.iter().zip(registers) {
                        value[*index] = if half { self.build.unary(Unary::HalfFromBits, register) } else { register };
                    }
                }
                Ok(value)
            }
        }
    }

    /// Writes what it points to.
    pub(super) fn write(&mut self, pointer: &Pointer, value: &[Reg], span: Span) -> Result<()> {
        match &pointer.to {
            Target::Registers { registers, first } => {
                for (register, value) in registers[*first..].iter().zip(value) {
                    self.build.set(*register, *value);
                }
            }
            Target::Component { registers, first, size, index } => {
                for (component, register) in (0..*size).zip(&registers[*first..]) {
                    let component = self.build.constant(component);
                    let chosen = self.build.binary(Binary::EqI, *index, component);
                    let old = self.build.get(*register);
                    let new = self.build.select(chosen, value[0], old);
                    self.build.set(*register, new);
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
                        let reg = if half { self.build.unary(Unary::HalfBits, reg) } else { reg };
                        parts.push(Part { reg, offset: leaf.offset });
                    }
                    self.build.store(address, parts, span);
                }
            }
        }
        Ok(())
    }

    /// The address of a pointer into memory in words or half words, and the scalars there with their number in the value.
    pub(super) fn address(&self, pointer: &Pointer, half: bool, span: Span) -> Result<(Address, Vec<(usize, Leaf)>)> {
        let Target::Memory { root, offset, terms } = &pointer.to else { unreachable!("not in memory") };
        let layout = Self::layout_of(*root);
        let unit = match layout {
            Layout::Cells => 1,
            Layout::Host if half => 2,
            Layout::Host => 4,
        };
        let mut leaves = Vec::new();
        let mut index = 0;
        pointer
            .ty
            .leaves(self.module, layout, 0, &mut |leaf| {
                let is_half = layout == Layout::Host && leaf.kind == Kind::Half;
                if is_half == half {
                    leaves.push((index, Leaf { kind: leaf.kind, offset: leaf.offset / unit }));
                }
                index += 1;
            })
            .map_err(|what| Unsupported { what, span })?;
        let terms = terms.iter().map(|term| Term { stride: term.stride / unit, ..*term }).collect();
        let address = Address { root: *root, half, offset: offset / unit, terms, base: None, linear: None, own: false };
        Ok((address, leaves))
    }

    /// One of several equal parts of a value, chosen at run time; zero when there is no such part.
    pub(super) fn pick(&mut self, value: &[Reg], each: usize, index: Reg) -> Value {
        let zero = self.build.constant(0);
        let mut chosen: Value = smallvec![zero; each];
        for (number, part) in (0..).zip(value.chunks(each)) {
            let number = self.build.constant(number);
            let hit = self.build.binary(Binary::EqI, index, number);
            for (chosen, part) in chosen.iter_mut().zip(part) {
                *chosen = self.build.select(hit, *part, *chosen);
            }
        }
        chosen
    }
}
