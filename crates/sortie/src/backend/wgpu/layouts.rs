//! Bind group layouts, one per signature, so that kernels with the same bindings share bind groups.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::Gpu;
use crate::{error::Result, kernel::BindingKind};

/// One binding of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BindingSignature {
    pub(crate) binding: u32,
    pub(crate) kind: BindingKind,
    pub(crate) min_bytes: u64,
    /// Bound with a dynamic offset: hidden parameters.
    pub(crate) dynamic: bool,
}

#[derive(Debug)]
pub(crate) struct GroupLayout {
    pub(crate) id: u64,
    pub(super) raw: wgpu::BindGroupLayout,
    pub(crate) signature: Vec<BindingSignature>,
}

/// Layouts in use. A layout is dropped with its last kernel.
#[derive(Debug, Default)]
pub(crate) struct LayoutCache {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    layouts: FxHashMap<Vec<BindingSignature>, Weak<GroupLayout>>,
}

impl LayoutCache {
    pub(crate) fn get(&self, gpu: &Gpu, signature: Vec<BindingSignature>) -> Result<Arc<GroupLayout>> {
        let mut known = self.known.lock();
        if let Some(layout) = known.layouts.get(&signature).and_then(Weak::upgrade) {
            return Ok(layout);
        }
        let entries: Vec<_> = signature.iter().map(entry).collect();
        let scopes = gpu.scopes();
        let raw =
            gpu.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: Some("sortie"), entries: &entries });
        scopes.pop(|| "a kernel's bindings".into(), 0)?;
        known.next += 1;
        let layout = Arc::new(GroupLayout { id: known.next, raw, signature: signature.clone() });
        known.layouts.retain(|_, layout| layout.strong_count() > 0);
        known.layouts.insert(signature, Arc::downgrade(&layout));
        Ok(layout)
    }
}

fn entry(signature: &BindingSignature) -> wgpu::BindGroupLayoutEntry {
    let ty = match signature.kind {
        BindingKind::Storage { writes } => wgpu::BufferBindingType::Storage { read_only: !writes },
        BindingKind::Uniform => wgpu::BufferBindingType::Uniform,
    };
    wgpu::BindGroupLayoutEntry {
        binding: signature.binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty,
            has_dynamic_offset: signature.dynamic,
            // Set, so that wgpu need not check the size at every dispatch.
            min_binding_size: wgpu::BufferSize::new(signature.min_bytes),
        },
        count: None,
    }
}
