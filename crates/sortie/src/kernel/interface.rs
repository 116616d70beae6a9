//! What a kernel takes from outside: bindings, access, workgroup size, immediates. Plain data, read off naga's IR.
//!
//! Invariant: an [`Interface`] lists every binding once, sorted by group and number, and each of them is a buffer. With one
//! entry point in the module everything declared is listed, used or not, so that a kernel takes the same bindings while a
//! line of it is commented out; with several, what the chosen one uses.

use naga::{
    AddressSpace, ArraySize, GlobalVariable, Handle, Module, StorageAccess, Type, TypeInner, valid::ModuleInfo,
};

use super::parse::KernelError;

/// naga and wgpu keep the immediates that a kernel reads as 64 bits of 4 bytes each.
const IMMEDIATE_BYTES: u32 = 256;

/// How a kernel sees a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BindingKind {
    /// `writes` is the declared access (`read_write`), whether the kernel writes or not.
    Storage {
        writes: bool,
    },
    Uniform,
}

/// A runtime-sized array that ends a binding: `(length - offset) % stride` must be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tail {
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
    /// The least that wgpu lets one bind: the type's size, a runtime-sized array counted with one element.
    pub(crate) min_bytes: u64,
    pub(crate) tail: Option<Tail>,
}

/// The kernel's `var<immediate>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Immediates {
    /// Its size, a multiple of 4.
    pub(crate) size: u32,
    /// Where its last member ends; from here to `size` there is only padding.
    pub(crate) end: u32,
}

/// All that a caller has to know of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) entry: String,
    pub(crate) workgroup: [u32; 3],
    pub(crate) bindings: Vec<Binding>,
    pub(crate) immediates: Option<Immediates>,
    /// Workgroup memory in use, each variable rounded up to 16 bytes as WebGPU counts it.
    pub(crate) workgroup_bytes: u64,
}

/// Reads the interface of entry point number `entry` off a valid module.
pub(crate) fn reflect(
    source: &str,
    module: &Module,
    info: &ModuleInfo,
    entry: usize,
) -> Result<Interface, KernelError> {
    let usage = info.get_entry_point(entry);
    let alone = module.entry_points.len() == 1;
    let mut bindings = Vec::new();
    let mut immediates = Vec::new();
    for (handle, var) in module.global_variables.iter() {
        let used = !usage[handle].is_empty();
        if !(used || alone) {
            continue;
        }
        if var.space == AddressSpace::Immediate {
            immediates.push((!used, Immediates { size: size(module, var.ty), end: end(module, var.ty) }));
        } else if let Some(binding) = binding(source, module, handle, var)? {
            bindings.push((binding, !used));
        }
    }
    // naga lets unused variables share a place; the used one, or else the first, is what the pipeline sees.
    bindings.sort_by_key(|(binding, unused)| (binding.group, binding.binding, *unused));
    bindings.dedup_by_key(|(binding, _)| (binding.group, binding.binding));
    let mut interface = Interface {
        entry: module.entry_points[entry].name.clone(),
        workgroup: [0; 3],
        bindings: bindings.into_iter().map(|(binding, _)| binding).collect(),
        immediates: immediates.into_iter().min_by_key(|(unused, _)| *unused).map(|(_, immediates)| immediates),
        workgroup_bytes: 0,
    };
    interface.settle(module, info, entry);
    Ok(interface)
}

impl Interface {
    /// Reads what `override` constants decide again, now that they have values.
    pub(crate) fn settle(&mut self, module: &Module, info: &ModuleInfo, entry: usize) {
        let usage = info.get_entry_point(entry);
        self.workgroup = module.entry_points[entry].workgroup_size;
        self.workgroup_bytes = module
            .global_variables
            .iter()
            .filter(|(handle, var)| var.space == AddressSpace::WorkGroup && !usage[*handle].is_empty())
            .map(|(_, var)| u64::from(size(module, var.ty)).next_multiple_of(16))
            .sum();
    }

    /// The first group above all that the kernel uses.
    pub(crate) fn hidden_group(&self) -> u32 {
        self.bindings.last().map_or(0, |last| last.group.saturating_add(1))
    }
}

/// Refuses immediates that naga's validator would panic on: too large for its mask, or of a size not known yet.
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

fn binding(
    source: &str,
    module: &Module,
    handle: Handle<GlobalVariable>,
    var: &GlobalVariable,
) -> Result<Option<Binding>, KernelError> {
    let Some(at) = var.binding else { return Ok(None) };
    let resource = match (&module.types[var.ty].inner, var.space) {
        (TypeInner::Image { .. }, _) => Err("texture"),
        (TypeInner::Sampler { .. }, _) => Err("sampler"),
        (TypeInner::AccelerationStructure { .. }, _) => Err("acceleration structure"),
        (TypeInner::BindingArray { .. }, _) => Err("binding array"),
        (_, AddressSpace::Uniform) => Ok(BindingKind::Uniform),
        (_, AddressSpace::Storage { access }) => {
            Ok(BindingKind::Storage { writes: access.contains(StorageAccess::STORE) })
        }
        _ => Err("resource"),
    };
    let kind = resource.map_err(|what| KernelError::Unsupported {
        construct: format!("{what} `{}`", name(var)),
        line: line(source, module, handle),
    })?;
    Ok(Some(Binding {
        group: at.group,
        binding: at.binding,
        name: name(var).to_owned(),
        kind,
        min_bytes: u64::from(size(module, var.ty)),
        tail: tail(module, var.ty),
    }))
}

fn name(var: &GlobalVariable) -> &str {
    var.name.as_deref().unwrap_or_default()
}

fn line(source: &str, module: &Module, handle: Handle<GlobalVariable>) -> Option<u32> {
    let span = module.global_variables.get_span(handle);
    span.is_defined().then(|| span.location(source).line_number)
}

/// Bytes of a type, one element for a runtime-sized array. Validation has bounded them.
fn size(module: &Module, ty: Handle<Type>) -> u32 {
    module.types[ty].inner.try_size(module.to_ctx()).unwrap_or(0)
}

fn tail(module: &Module, ty: Handle<Type>) -> Option<Tail> {
    match module.types[ty].inner {
        TypeInner::Array { size: ArraySize::Dynamic, stride, .. } => {
            Some(Tail { offset: 0, stride: u64::from(stride) })
        }
        TypeInner::Struct { ref members, .. } => {
            let last = members.last()?;
            let tail = tail(module, last.ty)?;
            Some(Tail { offset: u64::from(last.offset) + tail.offset, ..tail })
        }
        _ => None,
    }
}

/// Where the last scalar of a type ends.
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
