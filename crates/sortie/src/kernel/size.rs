//! The size of a kernel with all calls inlined, as drivers do.
//!
//! Invariant: each function is measured once, however often it is called, and sums saturate. So functions that each
//! call the previous one twice take time linear in the source.

use naga::{
    AddressSpace, Block, Expression, Function, Handle, MathFunction, Module, Statement, TypeInner,
    proc::TypeResolution,
    valid::{FunctionInfo, ModuleInfo},
};
use rustc_hash::FxHashSet;

/// Totals of an entry point and all functions that it calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelSize {
    /// Approximate scalar operations.
    pub(crate) instructions: u64,
    /// Scalars read from or written to memory.
    pub(crate) accesses: u64,
    pub(crate) loops: u64,
    /// Bytes of values indexed at run time, which a driver puts into memory. Counted once per function.
    pub(crate) temporary_bytes: u64,
}

impl KernelSize {
    /// Adds the cost of a call. Temporary memory is not added: it exists once per callee.
    fn call(&mut self, callee: Self) {
        self.instructions = self.instructions.saturating_add(callee.instructions).saturating_add(1);
        self.accesses = self.accesses.saturating_add(callee.accesses);
        self.loops = self.loops.saturating_add(callee.loops);
    }
}

/// The size of a module with one entry point.
pub(crate) fn measure(module: &Module, info: &ModuleInfo) -> KernelSize {
    let mut measure = Measure { module, cells: cells(module), functions: Vec::new() };
    let mut temporary_bytes = 0_u64;
    // naga lists callees before their callers.
    for (handle, function) in module.functions.iter() {
        let size = measure.function(function, &info[handle]);
        temporary_bytes = temporary_bytes.saturating_add(size.temporary_bytes);
        measure.functions.push(size);
    }
    let mut entry = match module.entry_points.first() {
        Some(entry) => measure.function(&entry.function, info.get_entry_point(0)),
        None => KernelSize::default(),
    };
    entry.temporary_bytes = entry.temporary_bytes.saturating_add(temporary_bytes);
    entry
}

/// Scalars of each type, by index. A type comes after its component types.
fn cells(module: &Module) -> Vec<u64> {
    let mut cells: Vec<u64> = Vec::with_capacity(module.types.len());
    for (_, ty) in module.types.iter() {
        let count = match ty.inner {
            TypeInner::Array { base, size: naga::ArraySize::Constant(length), .. } => {
                cells[base.index()].saturating_mul(u64::from(length.get()))
            }
            TypeInner::Struct { ref members, .. } => {
                members.iter().fold(0, |sum: u64, member| sum.saturating_add(cells[member.ty.index()]))
            }
            ref inner => plain_cells(inner),
        };
        cells.push(count);
    }
    cells
}

fn plain_cells(inner: &TypeInner) -> u64 {
    match *inner {
        TypeInner::Scalar(_) | TypeInner::Atomic(_) => 1,
        TypeInner::Vector { size, .. } => size as u64,
        TypeInner::Matrix { columns, rows, .. } => columns as u64 * rows as u64,
        _ => 0,
    }
}

struct Measure<'a> {
    module: &'a Module,
    cells: Vec<u64>,
    /// Sizes of measured functions, by index.
    functions: Vec<KernelSize>,
}

impl Measure<'_> {
    fn function(&self, function: &Function, info: &FunctionInfo) -> KernelSize {
        let mut size = KernelSize::default();
        let mut indexed = FxHashSet::default();
        for (handle, expression) in function.expressions.iter() {
            let cells = self.cells_of(&info[handle].ty);
            let cost = match *expression {
                Expression::Literal(_)
                | Expression::Constant(_)
                | Expression::Override(_)
                | Expression::FunctionArgument(_)
                | Expression::GlobalVariable(_)
                | Expression::LocalVariable(_) => 0,
                Expression::Load { pointer } => {
                    if self.is_memory(function, info, pointer) {
                        size.accesses = size.accesses.saturating_add(cells);
                    }
                    cells
                }
                Expression::Access { base, .. } => {
                    let whole = self.composite(&info[base].ty);
                    if whole > 0 && indexed.insert(base) {
                        size.temporary_bytes = size.temporary_bytes.saturating_add(whole.saturating_mul(4));
                    }
                    cells.max(1)
                }
                Expression::Math { fun, .. } => cells.max(1).saturating_mul(weight(fun)),
                _ => cells.max(1),
            };
            size.instructions = size.instructions.saturating_add(cost);
        }
        self.block(&function.body, function, info, &mut size);
        size
    }

    fn block(&self, block: &Block, function: &Function, info: &FunctionInfo, size: &mut KernelSize) {
        for statement in block {
            match statement {
                Statement::Emit(_) => continue,
                Statement::Block(block) => self.block(block, function, info, size),
                Statement::If { accept, reject, .. } => {
                    self.block(accept, function, info, size);
                    self.block(reject, function, info, size);
                }
                Statement::Switch { cases, .. } => {
                    for case in cases {
                        size.instructions = size.instructions.saturating_add(1);
                        self.block(&case.body, function, info, size);
                    }
                }
                Statement::Loop { body, continuing, .. } => {
                    size.loops = size.loops.saturating_add(1);
                    self.block(body, function, info, size);
                    self.block(continuing, function, info, size);
                }
                Statement::Store { pointer, value } => {
                    let cells = self.cells_of(&info[*value].ty);
                    if self.is_memory(function, info, *pointer) {
                        size.accesses = size.accesses.saturating_add(cells);
                    }
                    size.instructions = size.instructions.saturating_add(cells);
                }
                Statement::Atomic { .. } => size.accesses = size.accesses.saturating_add(1),
                Statement::ControlBarrier(_) | Statement::MemoryBarrier(_) | Statement::WorkGroupUniformLoad { .. } => {
                    size.accesses = size.accesses.saturating_add(BARRIER);
                }
                Statement::Call { function: callee, .. } => {
                    size.call(self.functions.get(callee.index()).copied().unwrap_or_default());
                }
                _ => {}
            }
            size.instructions = size.instructions.saturating_add(1);
        }
    }

    fn cells_of(&self, ty: &TypeResolution) -> u64 {
        match ty {
            TypeResolution::Handle(handle) => self.cells[handle.index()],
            TypeResolution::Value(inner) => plain_cells(inner),
        }
    }

    /// Scalars of an array or struct that is a value, not behind a pointer; otherwise 0.
    fn composite(&self, ty: &TypeResolution) -> u64 {
        match ty.inner_with(&self.module.types) {
            TypeInner::Array { .. } | TypeInner::Struct { .. } => self.cells_of(ty),
            _ => 0,
        }
    }

    /// Whether a pointer is into memory, and not to a variable that a driver keeps in registers.
    fn is_memory(&self, function: &Function, info: &FunctionInfo, pointer: Handle<Expression>) -> bool {
        let space = match *info[pointer].ty.inner_with(&self.module.types) {
            TypeInner::Pointer { space, .. } | TypeInner::ValuePointer { space, .. } => space,
            _ => return false,
        };
        let own = matches!(space, AddressSpace::Function | AddressSpace::Private);
        !own || matches!(function.expressions[pointer], Expression::Access { .. })
    }
}

/// The cost of a barrier for a driver that runs invocations on a CPU: it saves all live values.
const BARRIER: u64 = 4;

/// Instructions per component that a function compiles to.
fn weight(fun: MathFunction) -> u64 {
    use MathFunction as F;
    match fun {
        F::Abs | F::Min | F::Max | F::Clamp | F::Saturate | F::Floor | F::Ceil | F::Trunc | F::Fma | F::Sqrt => 1,
        F::Determinant => 64,
        F::Pow
        | F::Cos
        | F::Cosh
        | F::Sin
        | F::Sinh
        | F::Tan
        | F::Tanh
        | F::Acos
        | F::Asin
        | F::Atan
        | F::Atan2
        | F::Asinh
        | F::Acosh
        | F::Atanh
        | F::Exp
        | F::Exp2
        | F::Log
        | F::Log2 => 16,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use naga::valid::Capabilities;

    use super::{super::parse::parse, *};

    fn size(source: &str) -> KernelSize {
        let source = format!("@group(0) @binding(0) var<storage, read_write> o: array<u32>; {source}");
        let parsed = parse(&source, None, &[], Capabilities::all()).unwrap_or_else(|error| panic!("{error}"));
        parsed.size
    }

    #[test]
    fn a_call_counts_as_what_it_calls_and_sums_do_not_overflow() {
        let functions: String =
            (1..100).map(|n| format!("fn run{n}() {{ run{}(); run{}(); }}", n - 1, n - 1)).collect();
        let with = |calls: &str| {
            size(&format!(
                "fn run0() {{ o[0] += 1u; }} {functions} @compute @workgroup_size(1) fn main() {{ {calls} }}"
            ))
        };
        let (one, eight) = (with("run0();"), with("run3();"));
        assert_eq!((one.accesses, eight.accesses), (2, 16));
        assert!(eight.instructions >= 8 * one.instructions - 8, "{one:?} {eight:?}");
        assert_eq!(with("run99();").instructions, u64::MAX);
    }

    #[test]
    fn values_that_are_indexed_at_run_time_are_memory() {
        let at = |expression: &str| {
            size(&format!(
                "@compute @workgroup_size(1) fn main(@builtin(local_invocation_index) i: u32) {{ o[i] = {expression}; }}"
            ))
        };
        assert_eq!(at("array<u32, 1000>()[i]").temporary_bytes, 4000);
        assert_eq!(at("array<u32, 1000>()[7]").temporary_bytes, 0);
        assert_eq!(at("o[i + 1u]").temporary_bytes, 0);
    }

    #[test]
    fn copies_of_whole_arrays_count_every_element() {
        let copy = "@group(0) @binding(1) var<storage, read_write> a: array<u32, 500>; @compute @workgroup_size(1) fn main() { let x = a; a = x; }";
        let size = size(copy);
        assert_eq!(size.accesses, 1000);
        assert!(size.instructions >= 1000, "{size:?}");
    }
}
