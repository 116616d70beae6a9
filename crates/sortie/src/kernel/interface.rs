//! The interface of a kernel: bindings, access, workgroup size, immediates. Plain data, derived from naga's IR.
//!
//! Invariant: an [`Interface`] lists every binding that the entry point uses once, sorted by group and number, and each
//! of them is a buffer. As in WebGPU, mentioning a binding (`_ = &x;`) uses it.

use naga::{
    AddressSpace, ArraySize, GlobalVariable, Handle, Module, StorageAccess, Type, TypeInner,
    valid::{GlobalUse, ModuleInfo},
};

use super::{
    array_element::ArrayElement,
    declared::{self, Scalar},
    parse::KernelError,
};

/// naga and wgpu track the immediates that a kernel reads in a mask of 64 bits, one per 4 bytes.
const IMMEDIATE_BYTES: u32 = 256;

/// How a kernel sees a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BindingKind {
    /// `writes`: the entry point, or a function that it calls, writes it. One that is declared `read_write` and only
    /// read is compiled as `read` ([`set_access`]).
    Storage {
        writes: bool,
    },
    Uniform,
}

/// The trailing runtime-sized array of a binding: it has `(length - offset) / stride` elements, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RuntimeArray {
    pub(crate) offset: u64,
    pub(crate) stride: u64,
}

/// One buffer of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) group: u32,
    pub(crate) binding: u32,
    pub(crate) name: String,
    pub(crate) kind: BindingKind,
    /// Whether it is declared `read_write`.
    pub(crate) declared_writes: bool,
    /// Minimum size that wgpu accepts: the type's size, with one element of a runtime-sized array.
    pub(crate) min_bytes: u64,
    pub(crate) tail: Option<RuntimeArray>,
    /// Whether the kernel actually reads it, and actually writes it.
    pub(crate) moves: [bool; 2],
    /// The type of its numbers, if they are all the same.
    pub(crate) scalar: Option<Scalar>,
    /// Its elements, if it is an array.
    pub(crate) array: Option<ArrayElement>,
}

impl Binding {
    /// A storage buffer that is not declared in WGSL. It is either read or written.
    pub(crate) fn storage(group: u32, binding: u32, name: String, writes: bool, min_bytes: u64) -> Self {
        let kind = BindingKind::Storage { writes };
        Self {
            group,
            binding,
            name,
            kind,
            declared_writes: writes,
            min_bytes,
            tail: None,
            moves: [!writes, writes],
            scalar: None,
            array: None,
        }
    }
}

/// The kernel's `var<immediate>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Immediates {
    /// Its size, a multiple of 4.
    pub(crate) size: u32,
    /// End of its last member; the rest up to `size` is padding.
    pub(crate) end: u32,
}

/// The interface that a caller needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) entry: String,
    pub(crate) workgroup: [u32; 3],
    pub(crate) bindings: Vec<Binding>,
    pub(crate) immediates: Option<Immediates>,
    /// Workgroup memory in use; each variable is rounded up to 16 bytes, as in WebGPU.
    pub(crate) workgroup_bytes: u64,
    /// Bytes of `var<private>` and of the variables of all functions.
    pub(crate) private_bytes: u64,
    /// Names of bindings and immediates that the source declares but the entry point does not use, for messages.
    pub(crate) unused: Vec<String>,
}

/// The names of all bindings and immediates of a module.
pub(crate) fn declared(module: &Module) -> Vec<String> {
    let from_outside = |var: &&GlobalVariable| var.binding.is_some() || var.space == AddressSpace::Immediate;
    module.global_variables.iter().map(|(_, var)| var).filter(from_outside).map(|var| name(var).to_owned()).collect()
}

/// Derives the interface of a valid module that was reduced to its entry point. `declared`: the names that its source
/// declares.
pub(crate) fn reflect(module: &Module, info: &ModuleInfo, declared: Vec<String>) -> Interface {
    let usage = info.get_entry_point(0);
    let entry = &module.entry_points[0];
    let variables = || module.global_variables.iter();
    let mut bindings: Vec<_> = variables().filter_map(|(handle, var)| binding(module, var, usage[handle])).collect();
    bindings.sort_by_key(|binding| (binding.group, binding.binding));
    let immediates = variables().find(|(_, var)| var.space == AddressSpace::Immediate);
    let in_space = |space| variables().filter(move |(_, var)| var.space == space).map(|(_, var)| var.ty);
    let functions = module.functions.iter().map(|(_, function)| function).chain([&entry.function]);
    let local = functions.flat_map(|function| function.local_variables.iter().map(|(_, var)| var.ty));
    let bytes = |ty| u64::from(size(module, ty));
    let used = |wanted: &String| variables().any(|(_, var)| name(var) == wanted);
    Interface {
        entry: entry.name.clone(),
        workgroup: entry.workgroup_size,
        bindings,
        immediates: immediates.map(|(_, var)| Immediates { size: size(module, var.ty), end: end(module, var.ty) }),
        workgroup_bytes: in_space(AddressSpace::WorkGroup).map(|ty| bytes(ty).next_multiple_of(16)).sum(),
        private_bytes: in_space(AddressSpace::Private).chain(local).map(bytes).sum(),
        unused: declared.into_iter().filter(|name| !used(name)).collect(),
    }
}

impl Interface {
    /// The interface of a kernel without WGSL: storage buffers in one group, each either read or written.
    pub(crate) fn native(entry: &str, writes: impl Iterator<Item = bool>) -> Self {
        let binding = |(binding, writes): (u32, bool)| Binding::storage(0, binding, String::new(), writes, 0);
        Self {
            entry: entry.into(),
            workgroup: [1; 3],
            bindings: (0..).zip(writes).map(binding).collect(),
            immediates: None,
            workgroup_bytes: 0,
            private_bytes: 0,
            unused: Vec::new(),
        }
    }

    /// The same interface, but the kernel may write these bindings, which are storage buffers.
    pub(crate) fn with_writable(&self, bindings: &[usize]) -> Self {
        let mut interface = self.clone();
        bindings.iter().for_each(|at| interface.bindings[*at].kind = BindingKind::Storage { writes: true });
        interface
    }

    /// The first group after those that the kernel uses.
    pub(crate) fn hidden_group(&self) -> u32 {
        self.bindings.last().map_or(0, |last| last.group + 1)
    }
}

/// Gives the storage buffers of a module the access that its interface states. Returns whether one has changed.
pub(crate) fn set_access(module: &mut Module, interface: &Interface) -> bool {
    let mut changed = false;
    for (_, var) in module.global_variables.iter_mut() {
        let (AddressSpace::Storage { access }, Some(at)) = (&mut var.space, var.binding) else { continue };
        let mut bindings = interface.bindings.iter();
        let stated = bindings.find(|one| (one.group, one.binding) == (at.group, at.binding)).map(|one| one.kind);
        let Some(BindingKind::Storage { writes }) = stated else { continue };
        let before = *access;
        access.set(StorageAccess::STORE, writes);
        changed |= *access != before;
    }
    changed
}

/// Refuses immediates that make naga's validator panic: too large for its mask, or of unknown size.
pub(crate) fn check_immediates(source: &str, module: &Module) -> Result<(), KernelError> {
    for (handle, var) in module.global_variables.iter().filter(|(_, var)| var.space == AddressSpace::Immediate) {
        let inner = &module.types[var.ty].inner;
        let construct = match (inner, inner.try_size(module.to_ctx())) {
            (TypeInner::Array { size: ArraySize::Pending(_), .. }, _) => "with an `override` size".to_owned(),
            (_, Some(size)) if size <= IMMEDIATE_BYTES => continue,
            (_, Some(size)) => format!("of {size} bytes, where {IMMEDIATE_BYTES} is the limit,"),
            (_, None) => "without a size".to_owned(),
        };
        let construct = format!("`var<immediate>` {construct} `{}`", name(var));
        return Err(KernelError::Unsupported { construct, line: line(source, module, handle) });
    }
    Ok(())
}

/// Refuses resources that are not buffers, in a module that was reduced to its entry point.
pub(crate) fn check_resources(source: &str, module: &Module) -> Result<(), KernelError> {
    for (handle, var) in module.global_variables.iter() {
        kind(module, var).map_err(|what| KernelError::Unsupported {
            construct: format!("{what} `{}`", name(var)),
            line: line(source, module, handle),
        })?;
    }
    Ok(())
}

/// The binding kind of a variable as declared, if it is a binding.
fn kind(module: &Module, var: &GlobalVariable) -> Result<Option<BindingKind>, &'static str> {
    let Some(at) = var.binding else { return Ok(None) };
    let kind = match (&module.types[var.ty].inner, var.space) {
        // Rewrites need a higher group.
        _ if at.group == u32::MAX => return Err("@group(4294967295) of"),
        (TypeInner::Image { .. }, _) => return Err("texture"),
        (TypeInner::Sampler { .. }, _) => return Err("sampler"),
        (TypeInner::AccelerationStructure { .. }, _) => return Err("acceleration structure"),
        (TypeInner::BindingArray { .. }, _) => return Err("binding array"),
        (_, AddressSpace::Uniform) => BindingKind::Uniform,
        (_, AddressSpace::Storage { access }) => BindingKind::Storage { writes: access.contains(StorageAccess::STORE) },
        _ => return Err("resource"),
    };
    Ok(Some(kind))
}

fn binding(module: &Module, var: &GlobalVariable, usage: GlobalUse) -> Option<Binding> {
    let (at, declared) = (var.binding?, kind(module, var).ok()??);
    let moves = [GlobalUse::READ, GlobalUse::WRITE].map(|way| usage.intersects(way | GlobalUse::ATOMIC));
    let declared_writes = declared == BindingKind::Storage { writes: true };
    Some(Binding {
        group: at.group,
        binding: at.binding,
        name: name(var).to_owned(),
        kind: if declared_writes { BindingKind::Storage { writes: moves[1] } } else { declared },
        declared_writes,
        min_bytes: u64::from(size(module, var.ty)),
        tail: tail(module, var.ty),
        moves,
        scalar: declared::scalar(module, var.ty),
        array: ArrayElement::of(module, var.ty),
    })
}

fn name(var: &GlobalVariable) -> &str {
    var.name.as_deref().unwrap_or_default()
}

fn line(source: &str, module: &Module, handle: Handle<GlobalVariable>) -> Option<u32> {
    let span = module.global_variables.get_span(handle);
    span.is_defined().then(|| span.location(source).line_number)
}

/// Bytes of a type, with one element of a runtime-sized array. Validation has bounded them.
fn size(module: &Module, ty: Handle<Type>) -> u32 {
    module.types[ty].inner.try_size(module.to_ctx()).unwrap_or(0)
}

fn tail(module: &Module, ty: Handle<Type>) -> Option<RuntimeArray> {
    match module.types[ty].inner {
        TypeInner::Array { size: ArraySize::Dynamic, stride, .. } => {
            Some(RuntimeArray { offset: 0, stride: u64::from(stride) })
        }
        TypeInner::Struct { ref members, .. } => {
            let last = members.last()?;
            let tail = tail(module, last.ty)?;
            Some(RuntimeArray { offset: u64::from(last.offset) + tail.offset, ..tail })
        }
        _ => None,
    }
}

/// The end of the last scalar of a type.
fn end(module: &Module, ty: Handle<Type>) -> u32 {
    match module.types[ty].inner {
        TypeInner::Struct { ref members, .. } => {
            members.iter().map(|member| member.offset + end(module, member.ty)).max().unwrap_or(0)
        }
        TypeInner::Array { base, size: ArraySize::Constant(count), stride } => {
            (count.get() - 1) * stride + end(module, base)
        }
        TypeInner::Matrix { columns, rows, scalar } => {
            let column = rows as u32 * u32::from(scalar.width);
            (columns as u32 - 1) * column.next_power_of_two() + column
        }
        _ => size(module, ty),
    }
}

#[cfg(test)]
mod tests {
    use naga::valid::Capabilities;

    use super::{super::parse::parse, *};

    fn interface(source: &str) -> Interface {
        parse(source, None, &[], Capabilities::all()).unwrap_or_else(|error| panic!("{error}")).interface
    }

    fn error(source: &str) -> String {
        parse(source, None, &[], Capabilities::all()).expect_err("refused").to_string()
    }

    /// The interface of a kernel whose only binding has type `ty`, with `declarations` before it.
    fn storage(declarations: &str, ty: &str) -> Binding {
        let source = format!(
            "enable f16; {declarations} @group(2) @binding(3) var<storage, read_write> x: {ty};
            @compute @workgroup_size(1) fn main() {{ _ = &x; }}"
        );
        interface(&source).bindings.remove(0)
    }

    #[test]
    fn a_runtime_array_needs_one_element() {
        for (ty, stride) in [("f32", 4), ("vec3<f32>", 16), ("vec2<f16>", 4), ("atomic<u32>", 4), ("mat3x3<f32>", 48)] {
            let binding = storage("", &format!("array<{ty}>"));
            assert_eq!((binding.min_bytes, binding.tail), (stride, Some(RuntimeArray { offset: 0, stride })), "{ty}");
        }
    }

    #[test]
    fn a_trailing_array_starts_at_its_offset() {
        let tail = |offset, stride| Some(RuntimeArray { offset, stride });
        let binding = storage("struct S { n: u32, data: array<vec3<f32>> }", "S");
        assert_eq!((binding.min_bytes, binding.tail), (32, tail(16, 16)));
        // wgpu requires the struct's own size, which is rounded up to its alignment.
        let binding = storage("struct S { v: vec4<f32>, n: u32, data: array<u32> }", "S");
        assert_eq!((binding.min_bytes, binding.tail), (32, tail(20, 4)));
        let binding = storage("struct I { a: vec3<f32>, b: f32 } struct S { i: array<I, 2>, data: array<I> }", "S");
        assert_eq!((binding.min_bytes, binding.tail), (48, tail(32, 16)));
    }

    #[test]
    fn sized_bindings_have_no_tail() {
        let binding = storage("struct I { a: vec3<f32> } struct S { n: u32, i: I, m: array<f32, 3> }", "S");
        assert_eq!((binding.min_bytes, binding.tail), (48, None));
        assert_eq!((binding.group, binding.binding, binding.name.as_str()), (2, 3, "x"));
    }

    #[test]
    fn bindings_are_those_that_the_entry_point_uses_sorted() {
        let interface = interface(
            "@group(1) @binding(0) var<uniform> c: vec4<f32>;
            @group(0) @binding(7) var<storage, read_write> unused: array<u32>;
            @group(0) @binding(4) var<storage, read_write> b: array<atomic<u32>>;
            @group(0) @binding(1) var<storage> a: array<f32>;
            @group(2) @binding(0) var unused_texture: texture_2d<f32>;
            @compute @workgroup_size(4, 2) fn main() { atomicAdd(&b[arrayLength(&a)], u32(c.x)); }",
        );
        let kinds: Vec<_> = interface.bindings.iter().map(|b| (b.group, b.binding, b.name.as_str(), b.kind)).collect();
        let expected = [
            (0, 1, "a", BindingKind::Storage { writes: false }),
            (0, 4, "b", BindingKind::Storage { writes: true }),
            (1, 0, "c", BindingKind::Uniform),
        ];
        assert_eq!(kinds, expected);
        assert_eq!((interface.entry.as_str(), interface.workgroup, interface.hidden_group()), ("main", [4, 2, 1], 2));
        assert_eq!(interface.unused, ["unused", "unused_texture"]);
    }

    #[test]
    fn a_binding_that_is_only_mentioned_is_used() {
        let names = |body: &str| {
            let source = format!(
                "@group(0) @binding(0) var<storage, read_write> x: array<u32>; var<immediate> i: u32;
                @compute @workgroup_size(1) fn main() {{ {body} }}"
            );
            let interface = interface(&source);
            (interface.bindings.len(), interface.immediates.is_some())
        };
        assert_eq!(names(""), (0, false));
        assert_eq!(names("_ = &x;"), (1, false));
        assert_eq!(names("let p = &x; _ = i;"), (1, true));
        assert_eq!(names("if false { x[0] = i; }"), (1, true));
    }

    #[test]
    fn of_several_entry_points_each_exposes_what_it_uses_through_helpers_too() {
        let source = "@group(0) @binding(0) var<storage, read_write> a: array<u32>;
            @group(0) @binding(0) var<storage, read_write> b: array<f32>;
            @group(1) @binding(0) var t: texture_2d<f32>;
            var<immediate> i: u32; var<immediate> j: vec4<u32>;
            fn helper() { a[0] = 1; }
            @compute @workgroup_size(1) fn first() { helper(); a[1] = i; }
            @compute @workgroup_size(2) fn second() { b[j.x] = 1.0; }
            @compute @workgroup_size(2) fn third() {}";
        let names = |entry| {
            let parsed = parse(source, Some(entry), &[], Capabilities::all()).unwrap_or_else(|error| panic!("{error}"));
            let names: Vec<_> = parsed.interface.bindings.iter().map(|binding| binding.name.clone()).collect();
            (names.join(","), parsed.interface.immediates.map(|immediates| immediates.size))
        };
        assert_eq!(names("first"), ("a".into(), Some(4)));
        assert_eq!(names("second"), ("b".into(), Some(16)));
        assert_eq!(names("third"), (String::new(), None));
    }

    #[test]
    fn of_unused_bindings_at_one_place_the_used_one_is_exposed() {
        let interface = interface(
            "@group(0) @binding(0) var<uniform> unused: vec4<f32>;
            @group(0) @binding(0) var<storage, read_write> used: array<u32>;
            @compute @workgroup_size(1) fn main() { used[0] = 1; }",
        );
        assert_eq!(interface.bindings.len(), 1);
        assert_eq!(interface.bindings[0].name, "used");
    }

    #[test]
    fn two_used_bindings_at_one_place_are_an_error() {
        let message = error(
            "@group(0) @binding(0) var<storage, read_write> a: array<u32>;
            @group(0) @binding(0) var<storage, read_write> b: array<u32>;
            @compute @workgroup_size(1) fn main() { a[0] = b[0]; }",
        );
        assert!(message.contains("binding"), "{message}");
    }

    #[test]
    fn what_is_no_buffer_is_unsupported_by_name_and_line() {
        for (ty, what) in [
            ("texture_2d<f32>", "texture"),
            ("texture_storage_2d<rgba8unorm, write>", "texture"),
            ("sampler", "sampler"),
            ("acceleration_structure", "acceleration structure"),
            ("binding_array<texture_2d<f32>, 4>", "binding array"),
        ] {
            let enable = "enable wgpu_ray_query; enable wgpu_binding_array;";
            let body = if ty.starts_with("binding_array") { "_ = textureDimensions(x[0]);" } else { "_ = x;" };
            let source = format!(
                "{enable}\n@group(0) @binding(0) var x: {ty};\n@compute @workgroup_size(1) fn main() {{ {body} }}"
            );
            assert_eq!(error(&source), format!("{what} `x` at line 2 is not supported"));
        }
    }

    #[test]
    fn immediates_end_before_their_padding() {
        for (declarations, ty, size, end) in [
            ("", "u32", 4, 4),
            ("", "vec3<f32>", 12, 12),
            ("", "array<u32, 5>", 20, 20),
            ("", "array<vec3<f32>, 2>", 32, 28),
            ("", "mat3x3<f32>", 48, 44),
            ("struct S { v: vec4<f32>, n: u32 }", "S", 32, 20),
            ("struct I { v: vec3<f32> } struct S { n: u32, i: array<I, 2> }", "S", 48, 44),
            ("struct S { n: u32, k: array<f32, 4> }", "S", 20, 20),
        ] {
            let source =
                format!("{declarations} var<immediate> x: {ty}; @compute @workgroup_size(1) fn main() {{ _ = x; }}");
            assert_eq!(interface(&source).immediates, Some(Immediates { size, end }), "{declarations} {ty}");
        }
    }

    #[test]
    fn immediates_that_would_panic_naga_are_refused_with_their_line() {
        let kernel = |var: &str| format!("{var}\n@compute @workgroup_size(1) fn main() {{ _ = x[0]; }}");
        interface(&kernel("var<immediate> x: array<u32, 64>;"));
        let too_large = error(&kernel("\nvar<immediate> x: array<u32, 65>;"));
        assert_eq!(too_large, "`var<immediate>` of 260 bytes, where 256 is the limit, `x` at line 2 is not supported");
        let pending = error(&kernel("override n: u32 = 4; var<immediate> x: array<u32, n>;"));
        assert_eq!(pending, "`var<immediate>` with an `override` size `x` at line 1 is not supported");
        error(&kernel("var<immediate> x: array<array<u32, 65536>, 65536>;"));
        error(&kernel("var<immediate> x: array<u32>;"));
    }

    #[test]
    fn workgroup_memory_counts_used_variables_in_steps_of_16() {
        let source = "var<workgroup> a: array<f32, 5>; var<workgroup> b: u32; var<workgroup> unused: array<f32, 100>;
            fn helper() { a[0] = f32(b); }
            @compute @workgroup_size(1) fn main() { helper(); }";
        assert_eq!(interface(source).workgroup_bytes, 32 + 16);
    }
}
