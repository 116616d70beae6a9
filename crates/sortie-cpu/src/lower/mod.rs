//! Compiles naga's IR: scalarises values, resolves pointers, specialises functions.
//!
//! Calls are inlined: each gets its own copy of the callee, so that the arguments (constants, pointers, uniform values)
//! are known inside. A module that would grow beyond
//! [`MIN_SHARED_CALLEE_SIZE`](crate::compiled::MIN_SHARED_CALLEE_SIZE) instructions that way shares copies from there
//! on: one for each function and set of memory that its pointers point into.
//!
//! Lowering is a sequence of passes:
//!
//! | pass | does |
//! |---|---|
//! | `lower` | naga's IR to instructions on scalar registers |
//! | `unroll` | `for` loops of few iterations become copies of their body, private arrays that they index registers |
//! | `optimise` | short `if`s become selects, loop invariants are hoisted, unread results are removed |
//! | `waits`, `retries` | finds kernels with loops that wait for an atomic of a buffer: their workgroups run one at a time |
//! | `subgroup` | subgroup and quad operations |
//! | `wide` | 64-bit integers, as pairs of registers |
//! | `regions` | which lanes are active where; whether a register is uniform, per row, per column or per lane |
//! | `linear` | which indices grow by the same step along a row, which are in bounds, which are the invocation's own |
//! | `pairs` | two instructions in one: products with sums, sums that respect a mask |
//! | `pack` | loops whose lanes may be packed once many have left |
//! | `allocate` | registers whose live ranges do not overlap share a slot |

mod allocate;
mod build;
mod expression;
mod finish;
mod function;
mod linear;
mod math;
mod matrix;
mod optimise;
mod pack;
mod pairs;
mod peephole;
mod pointer;
mod regions;
mod retries;
mod subgroup;
mod types;
mod unroll;
mod waits;
mod wide;

use naga::{
    AddressSpace, BuiltIn, Function, Handle, Module, Span, StorageAccess,
    valid::{FunctionInfo, GlobalUse, ModuleInfo},
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

pub(crate) use self::build::Origin;
use self::{
    build::Builder,
    pointer::{Indexing, VariableStorage},
    types::{MemoryLayout, Ty},
};
use crate::{
    ProgramBinding, Unsupported,
    code::{Body, Builtin, Node, Op, Reg, Root},
    compiled::{Compiled, Count, LoweringOptions},
    geometry::SUBGROUP_SIZE,
    opcode::Opcode,
};

/// Nesting depth of bodies, those of functions included. Bodies are executed recursively, on a stack that may be 2 MiB,
/// at 8 KiB a level in unoptimised builds.
const MAX_DEPTH: u32 = 200;

/// The registers of a value, one for each scalar.
type Value = SmallVec<[Reg; 4]>;

type Result<T> = std::result::Result<T, Unsupported>;

/// Adds the source location to an error.
trait Located<T> {
    fn at(self, span: Span) -> Result<T>;
}

impl<T> Located<T> for std::result::Result<T, String> {
    fn at(self, span: Span) -> Result<T> {
        self.map_err(|what| Unsupported { what, span })
    }
}

/// Lowers one entry point.
pub(crate) fn lower(module: &Module, info: &ModuleInfo, entry: &str, tuning: LoweringOptions) -> Result<Compiled> {
    match lower_with(module, info, entry, tuning, true)? {
        Some(compiled) => Ok(compiled),
        None => lower_with(module, info, entry, tuning, false)
            .map(|compiled| compiled.unwrap_or_else(|| unreachable!("all indexed arrays are in memory"))),
    }
}

/// Lowers one entry point. `None`: an array was kept in registers, but an index into it is not a constant.
fn lower_with(
    module: &Module,
    info: &ModuleInfo,
    entry: &str,
    tuning: LoweringOptions,
    unrolls: bool,
) -> Result<Option<Compiled>> {
    let missing =
        || Unsupported { what: format!("an entry point {entry:?} that does not exist"), span: Span::UNDEFINED };
    let index = module.entry_points.iter().position(|point| point.name == entry).ok_or_else(missing)?;
    let point = &module.entry_points[index];
    let info_of_entry = info.get_entry_point(index);
    let mut lower = Lower {
        module,
        info,
        build: Builder::default(),
        min_shared_callee_size: tuning.min_shared_callee_size,
        floor: 0,
        slots: Vec::new(),
        written: Vec::new(),
        slot_of: FxHashMap::default(),
        counts: Vec::new(),
        locals: Vec::new(),
        free_locals: FxHashMap::default(),
        globals: FxHashMap::default(),
        workgroup_words: 0,
        workgroup_offsets: FxHashMap::default(),
        facts: FxHashMap::default(),
        unrolls,
        unknown_index: false,
        shared: Vec::new(),
        shared_by: FxHashMap::default(),
        barriers: false,
        subgroups: false,
        wide_atomics: false,
        workgroup: point.workgroup_size,
    };
    lower.bind(info_of_entry)?;

    let mark = lower.build.open();
    lower.private_variables(&point.function, info_of_entry)?;
    let mut arguments = Vec::new();
    for argument in &point.function.arguments {
        arguments.push(pointer::Lowered::Value(lower.inputs(argument)?));
    }
    let lowered = lower.function(&point.function, info_of_entry, arguments);
    if lower.unknown_index {
        return Ok(None);
    }
    lowered?;
    let mut body = lower.build.close(mark);
    function::straighten(&mut body, function::MAX_STRAIGHTEN_DEPTH);

    if depth(&body, &lower.shared) > MAX_DEPTH {
        return Err(Unsupported { what: too_deep(), span: Span::UNDEFINED });
    }
    Ok(Some(finish::finish(lower, body, point.workgroup_size, tuning.pack_always)))
}

fn too_deep() -> String {
    format!("control flow more than {MAX_DEPTH} levels deep, functions included")
}

/// The nesting depth of a body, callees included.
fn depth(body: &Body, shared: &[Body]) -> u32 {
    fn of(body: &Body, called: &[u32]) -> u32 {
        let one = |node: &Node| match node {
            Node::Call { function, .. } => called[*function] + 1,
            node => node.bodies().map(|body| of(body, called) + 1).max().unwrap_or(0),
        };
        body.iter().map(one).max().unwrap_or(0)
    }
    // Callees are lowered before their callers are complete.
    let mut called = Vec::new();
    for body in shared {
        called.push(of(body, &called));
    }
    of(body, &called)
}

struct Lower<'a> {
    module: &'a Module,
    info: &'a ModuleInfo,
    build: Builder,
    /// Kernels with at least this many instructions share one copy of a function between calls.
    min_shared_callee_size: usize,
    /// The nesting depth at the start of the current shared function.
    floor: usize,
    slots: Vec<ProgramBinding>,
    /// By slot: whether the entry point writes to it.
    written: Vec<bool>,
    slot_of: FxHashMap<Handle<naga::GlobalVariable>, u32>,
    counts: Vec<Count>,
    /// Words of each local array.
    locals: Vec<u32>,
    /// Local arrays that are no longer used, by their words.
    free_locals: FxHashMap<u32, Vec<u32>>,
    /// Private variables.
    globals: FxHashMap<Handle<naga::GlobalVariable>, VariableStorage>,
    workgroup_words: u32,
    workgroup_offsets: FxHashMap<Handle<naga::GlobalVariable>, u32>,
    facts: FxHashMap<Option<Handle<Function>>, std::rc::Rc<pointer::FunctionFacts>>,
    /// Short loops are unrolled. Private arrays that only their counters index are in registers.
    unrolls: bool,
    /// An index into one of these arrays is not a constant: lowering starts over without unrolling.
    unknown_index: bool,
    shared: Vec<Body>,
    shared_by: FxHashMap<(Handle<Function>, Vec<pointer::Target>), function::SharedFunction>,
    barriers: bool,
    /// Has subgroup operations or subgroup builtins.
    subgroups: bool,
    /// Has 64-bit atomics.
    wide_atomics: bool,
    workgroup: [u32; 3],
}

impl<'a> Lower<'a> {
    /// Assigns slots to buffers, and offsets to workgroup variables.
    fn bind(&mut self, info: &FunctionInfo) -> Result<()> {
        let mut buffers = Vec::new();
        for (handle, variable) in self.module.global_variables.iter().filter(|(handle, _)| !info[*handle].is_empty()) {
            let span = self.module.global_variables.get_span(handle);
            let refuse = |what: String| Unsupported { what, span };
            match (variable.space, &variable.binding) {
                (AddressSpace::Uniform | AddressSpace::Storage { .. }, Some(binding)) => {
                    let writes = matches!(variable.space, AddressSpace::Storage { access } if access.contains(StorageAccess::STORE));
                    self.check_type(variable.ty, span)?;
                    buffers.push((ProgramBinding { group: binding.group, binding: binding.binding, writes }, handle));
                }
                (AddressSpace::WorkGroup, _) => {
                    let words =
                        Ty::of_handle(self.module, variable.ty).and_then(|ty| ty.cells(self.module)).at(span)?;
                    self.workgroup_offsets.insert(handle, self.workgroup_words);
                    self.workgroup_words = self.workgroup_words.saturating_add(words);
                    if self.workgroup_words > 1 << 24 {
                        return Err(refuse("more than 64 MiB of workgroup memory".into()));
                    }
                }
                (AddressSpace::Private | AddressSpace::Immediate, _) => self.check_type(variable.ty, span)?,
                (AddressSpace::Handle, _) => {
                    let what = Ty::of_handle(self.module, variable.ty).err().unwrap_or_else(|| "a resource".into());
                    return Err(refuse(what));
                }
                (space, _) => return Err(refuse(format!("the address space {space:?}"))),
            }
        }
        buffers.sort_by_key(|(slot, _)| (slot.group, slot.binding));
        for (number, (slot, handle)) in (0..).zip(buffers) {
            self.slots.push(slot);
            self.written.push(info[handle].contains(GlobalUse::WRITE));
            self.slot_of.insert(handle, number);
        }
        Ok(())
    }

    /// Checks that all scalars of a type are supported.
    fn check_type(&self, handle: Handle<naga::Type>, span: Span) -> Result<()> {
        // Each type is visited once: nested structs have few types but many members.
        let mut seen = FxHashSet::default();
        let mut left = vec![handle];
        while let Some(handle) = left.pop() {
            if !seen.insert(handle) {
                continue;
            }
            match Ty::of_handle(self.module, handle).at(span)? {
                Ty::Scalar(_) | Ty::Vector(..) | Ty::Matrix(..) => {}
                Ty::Array { base, .. } => left.push(base),
                Ty::Struct(handle) => {
                    if let naga::TypeInner::Struct { members, .. } = &self.module.types[handle].inner {
                        left.extend(members.iter().rev().map(|member| member.ty));
                    }
                }
            }
        }
        Ok(())
    }

    /// Variables that live as long as the invocation.
    fn private_variables(&mut self, entry: &Function, info: &FunctionInfo) -> Result<()> {
        let facts = self.facts_of(None, entry, info);
        for (handle, variable) in self.module.global_variables.iter() {
            if variable.space != AddressSpace::Private || info[handle].is_empty() {
                continue;
            }
            let span = self.module.global_variables.get_span(handle);
            let init = variable.init.map(|init| self.global_constant(init, span)).transpose()?;
            let indexed = facts.globals.contains(&handle);
            let indexing = if indexed { Indexing::AtRunTime } else { Indexing::Constant };
            let place = self.variable(variable.ty, indexing, init, span)?;
            self.globals.insert(handle, place);
        }
        Ok(())
    }

    /// The builtin inputs of an argument of the entry point, which may be a struct of them.
    fn inputs(&mut self, argument: &naga::FunctionArgument) -> Result<Value> {
        let mut bindings = Vec::new();
        match &argument.binding {
            Some(binding) => bindings.push(binding),
            None => {
                if let naga::TypeInner::Struct { members, .. } = &self.module.types[argument.ty].inner {
                    bindings.extend(members.iter().filter_map(|member| member.binding.as_ref()));
                }
            }
        }
        let mut value = Value::new();
        for binding in bindings {
            let naga::Binding::BuiltIn(builtin) = binding else { unreachable!("checked by naga") };
            let three = |build: &mut Builder, make: fn(u8) -> Builtin| [0, 1, 2].map(|axis| build.builtin(make(axis)));
            match builtin {
                BuiltIn::GlobalInvocationId => value.extend(three(&mut self.build, Builtin::GlobalId)),
                BuiltIn::LocalInvocationId => value.extend(three(&mut self.build, Builtin::LocalId)),
                BuiltIn::WorkGroupId => value.extend(three(&mut self.build, Builtin::GroupId)),
                BuiltIn::NumWorkGroups => value.extend(three(&mut self.build, Builtin::NumGroups)),
                BuiltIn::LocalInvocationIndex => value.push(self.build.builtin(Builtin::LocalIndex)),
                BuiltIn::SubgroupSize => value.push(self.build.constant(SUBGROUP_SIZE)),
                BuiltIn::NumSubgroups => {
                    let invocations: u32 = self.workgroup.iter().product();
                    value.push(self.build.constant(invocations.div_ceil(SUBGROUP_SIZE)));
                }
                BuiltIn::SubgroupInvocationId | BuiltIn::SubgroupId => {
                    self.subgroups = true;
                    let index = self.build.builtin(Builtin::LocalIndex);
                    let size = self.build.constant(SUBGROUP_SIZE);
                    let is_lane = *builtin == BuiltIn::SubgroupInvocationId;
                    value.push(self.build.binary(if is_lane { Opcode::RemU } else { Opcode::DivU }, index, size));
                }
                other => {
                    let span = self.module.types.get_span(argument.ty);
                    return Err(Unsupported { what: format!("the builtin input {other:?}"), span });
                }
            }
        }
        Ok(value)
    }

    /// An entry of the table of array lengths.
    fn count_of(&mut self, slot: u32, offset: u32, stride: u32) -> u32 {
        let count = Count { slot, offset, stride };
        let found = self.counts.iter().position(|other| *other == count);
        let index = found.unwrap_or_else(|| {
            self.counts.push(count);
            self.counts.len() - 1
        });
        u32::try_from(index).unwrap_or_else(|_| unreachable!("bounded by the source"))
    }

    fn is_read_only(&self, root: Root) -> bool {
        build::is_read_only(root, |slot| self.written[slot as usize])
    }

    fn layout_of(root: Root) -> MemoryLayout {
        match root {
            Root::Buffer(_) | Root::Immediate => MemoryLayout::Host,
            Root::Workgroup | Root::Local(_) => MemoryLayout::Cells,
        }
    }
}

/// Calls `visit` for every list of instructions of a body and of what is nested in it, in program order.
fn for_each_list(body: &mut Body, visit: &mut impl FnMut(&mut Vec<Op>)) {
    for node in body {
        match node {
            Node::Ops(ops) => visit(ops),
            node => node.bodies_mut().for_each(|body| for_each_list(body, visit)),
        }
    }
}

/// Calls `visit` for every instruction of a body and of what is nested in it, in program order.
fn for_each_op(body: &mut Body, visit: &mut impl FnMut(&mut Op)) {
    for_each_list(body, &mut |ops| ops.iter_mut().for_each(&mut *visit));
}

/// How often each register is read, by instructions and as a condition.
fn count_reads(bodies: &mut [&mut Body], registers: usize) -> Vec<u32> {
    fn count(node: &mut Node, reads: &mut [u32]) {
        node.condition().into_iter().for_each(|reg| reads[reg.0 as usize] += 1);
        match node {
            Node::Ops(ops) => ops.iter_mut().flat_map(Op::operands).for_each(|reg| reads[reg.0 as usize] += 1),
            node => node.bodies_mut().flatten().for_each(|node| count(node, reads)),
        }
    }
    let mut reads = vec![0; registers];
    bodies.iter_mut().flat_map(|body| body.iter_mut()).for_each(|node| count(node, &mut reads));
    reads
}
