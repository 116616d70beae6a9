//! Compiled variants of a kernel: rewritten for what they need, laid out, and compiled once each.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Instant,
};

use naga::{
    back::{pipeline_constants::process_overrides, spv},
    valid::Capabilities,
};
use parking_lot::Mutex;

use super::{
    Form, Kernel, Layout,
    compile_thread::{Compiling, Deadline, compile, on_large_stack},
    fold::GRID_BLOCK,
    interface::{BindingKind, Interface},
    layouts::{Signature, SignatureKind},
    limits,
    parse::{Parsed, validate},
    rewrite::{self, ImmediatesAs, Variant},
};
use crate::{
    device::{PipelineCache, Shared},
    error::{Error, ErrorKind, Result},
    info::Limits,
    metrics::Count,
};

/// The variants of a kernel on a wgpu device, with what they have in common.
pub(super) struct Variants {
    groups: Vec<Group>,
    immediates: ImmediatesAs,
    /// Plain and wrapped. A failure is not kept: memory may come back.
    pipelines: [OnceLock<Pipeline>; 2],
    /// One compilation at a time, so that nobody compiles what another is compiling.
    compiling: Mutex<()>,
}

/// One bind group of a kernel.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) number: u32,
    /// Which of the interface's bindings are in it.
    pub(crate) bindings: std::ops::Range<usize>,
    pub(crate) layout: Arc<Layout>,
}

/// A compiled variant of a kernel.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) raw: wgpu::ComputePipeline,
    /// Parameters that the user does not see, bound with dynamic offsets: immediates, then the grid.
    pub(crate) hidden: Option<Hidden>,
    /// Immediates are set natively.
    pub(crate) immediates: bool,
}

#[derive(Debug)]
pub(crate) struct Hidden {
    pub(crate) number: u32,
    pub(crate) layout: Arc<Layout>,
    pub(crate) immediates: Option<u64>,
    pub(crate) grid: bool,
}

impl Variants {
    pub(super) fn new(shared: &Shared, parsed: &Parsed, capabilities: Capabilities) -> Result<Self> {
        let immediates = match &parsed.interface.immediates {
            None => ImmediatesAs::Native,
            Some(own) if shared.native_immediates() && own.size <= shared.limits().immediate_bytes => {
                ImmediatesAs::Native
            }
            Some(_) if rewrite::immediates_fit_uniform(parsed, capabilities) => ImmediatesAs::Uniform,
            Some(_) => ImmediatesAs::Storage,
        };
        let groups = groups(&parsed.interface, shared)?;
        Ok(Self { groups, immediates, pipelines: [OnceLock::new(), OnceLock::new()], compiling: Mutex::new(()) })
    }
}

/// What kernels may use on a wgpu device. Immediates are rewritten where it has none, so they may always be written.
pub(super) fn capabilities(shared: &Shared) -> Capabilities {
    wgpu_naga_bridge::features_to_naga_capabilities(shared.kernel_features(), shared.downlevel())
        | Capabilities::IMMEDIATES
}

fn groups(interface: &Interface, shared: &Shared) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    let mut start = 0;
    for bindings in interface.bindings.chunk_by(|a, b| a.group == b.group) {
        let signature = bindings
            .iter()
            .map(|binding| Signature {
                binding: binding.binding,
                kind: match binding.kind {
                    BindingKind::Storage { writes: false } => SignatureKind::Read,
                    BindingKind::Storage { writes: true } => SignatureKind::ReadWrite,
                    BindingKind::Uniform => SignatureKind::Uniform,
                },
                min_bytes: binding.min_bytes,
                dynamic: false,
            })
            .collect();
        let layout = shared.executor().layouts().get(shared.gpu(), signature).map_err(refused)?;
        groups.push(Group { number: bindings[0].group, bindings: start..start + bindings.len(), layout });
        start += bindings.len();
    }
    Ok(groups)
}

impl Kernel {
    #[inline]
    pub(crate) fn groups(&self) -> &[Group] {
        &self.variants().groups
    }

    /// Bytes of immediates that go through the parameter buffer; 0 when they are native or there are none.
    pub(crate) fn hidden_immediates(&self) -> u32 {
        let Form::Wgpu(variants) = &self.inner.form else { return 0 };
        match (variants.immediates, &self.interface().immediates) {
            (ImmediatesAs::Native, _) | (_, None) => 0,
            (ImmediatesAs::Uniform | ImmediatesAs::Storage, Some(own)) => own.size,
        }
    }

    #[inline]
    fn variants(&self) -> &Variants {
        match &self.inner.form {
            Form::Wgpu(variants) => variants,
            Form::Cpu(_) => unreachable!("wgpu's executor is given kernels of wgpu's"),
        }
    }

    /// Whether there is a bind group left for hidden parameters.
    pub(crate) fn check_hidden(&self, limits: &Limits) -> Result<()> {
        limits::check_hidden_group(self.interface(), limits)
    }

    /// The pipeline of a variant that has been compiled.
    pub(crate) fn compiled(&self, wrapped: bool) -> Option<&Pipeline> {
        self.variants().pipelines[usize::from(wrapped)].get()
    }

    /// The pipeline of a variant, compiled now if it has not been.
    pub(crate) fn pipeline(&self, shared: &Arc<Shared>, wrapped: bool) -> Result<&Pipeline> {
        self.pipeline_until(shared, wrapped, self.deadline(shared))
    }

    pub(super) fn pipeline_until(&self, shared: &Arc<Shared>, wrapped: bool, deadline: Deadline) -> Result<&Pipeline> {
        if self.compiled(wrapped).is_none() {
            let (kernel, parts) = (self.clone(), Arc::clone(shared));
            compile(deadline, &self.said(), move || kernel.compile_once(&parts, wrapped))??;
            keep(shared);
        }
        self.compiled(wrapped).ok_or_else(|| Error::internal("a pipeline that was compiled is not there"))
    }

    /// Compiles several variants side by side.
    pub(crate) fn compile_all(shared: &Arc<Shared>, variants: &[(&Kernel, bool)]) -> Result<()> {
        let start = |(kernel, wrapped): &(&Kernel, bool)| {
            let (theirs, parts, wrapped) = (Kernel::clone(kernel), Arc::clone(shared), *wrapped);
            let deadline = kernel.deadline(shared);
            (kernel.said(), deadline, Compiling::start(move || theirs.compile_once(&parts, wrapped)))
        };
        let under_way: Vec<_> = variants.iter().map(start).collect();
        // All are waited for, also after one has failed.
        let wait =
            |(what, deadline, one): (String, Deadline, Result<Compiling<Result<()>>>)| one?.wait(deadline, &what)?;
        let done: Vec<_> = under_way.into_iter().map(wait).collect();
        done.into_iter().collect::<Result<()>>()?;
        keep(shared);
        Ok(())
    }

    /// Must run on a large stack.
    fn compile_once(&self, shared: &Shared, wrapped: bool) -> Result<()> {
        let _turn = self.variants().compiling.lock();
        let place = &self.variants().pipelines[usize::from(wrapped)];
        if place.get().is_none() {
            let pipeline = self.compile(shared, wrapped)?;
            place.get_or_init(|| pipeline);
        }
        Ok(())
    }

    fn compile(&self, shared: &Shared, wrapped: bool) -> Result<Pipeline> {
        let start = Instant::now();
        let variant = Variant { immediates: self.variants().immediates, wrapped };
        let rewritten = rewrite::rewrite(&self.inner.parsed, variant);
        let device = shared.gpu();
        let hidden = self.hidden(shared, rewritten.hidden_group, wrapped)?;
        let immediate_bytes = self.native_immediate_bytes();

        let last =
            self.groups().iter().map(|group| group.number).chain(hidden.as_ref().map(|hidden| hidden.number)).max();
        let mut layouts = vec![None; last.map_or(0, |last| last as usize + 1)];
        for group in self.groups() {
            layouts[group.number as usize] = Some(group.layout.raw());
        }
        if let Some(hidden) = &hidden {
            layouts[hidden.number as usize] = Some(hidden.layout.raw());
        }
        let label = Some(self.entry());
        let scopes = device.scopes();
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label,
            source: wgpu::ShaderSource::Naga(Cow::Owned(rewritten.module)),
        });
        let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label,
            bind_group_layouts: &layouts,
            immediate_size: immediate_bytes,
        });
        let raw = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&layout),
            module: &module,
            entry_point: label,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: shared.pipeline_cache().map(PipelineCache::raw),
        });
        scopes.pop(|| format!("the kernel {:?}", self.entry()), 0).map_err(refused)?;
        shared.counters().pipelines_created.add(1);
        tracing::debug!(target: "sortie", entry = self.entry(), wrapped, time = ?start.elapsed(), "a pipeline is compiled");
        if let Some(cache) = shared.pipeline_cache() {
            cache.count();
        }
        Ok(Pipeline { raw, hidden, immediates: immediate_bytes > 0 })
    }

    /// Bytes of immediates that are set natively.
    pub(crate) fn native_immediate_bytes(&self) -> u32 {
        let native = self.variants().immediates == ImmediatesAs::Native;
        if native { u32::try_from(self.immediate_bytes()).unwrap_or(u32::MAX) } else { 0 }
    }

    /// A variant as SPIR-V.
    pub(crate) fn spirv(&self, shared: &Shared, wrapped: bool, options: &spv::Options<'_>) -> Result<Vec<u32>> {
        on_large_stack(|| {
            let variant = Variant { immediates: self.variants().immediates, wrapped };
            let module = rewrite::rewrite(&self.inner.parsed, variant).module;
            let wrong = |error: String| Error::internal(format!("kernel {:?} as SPIR-V: {error}", self.entry()));
            let info = validate("", &module, capabilities(shared)).map_err(|error| wrong(error.to_string()))?;
            let stage = naga::ShaderStage::Compute;
            // As wgpu does it: of several entry points one is left.
            let constants = naga::back::PipelineConstants::default();
            let (module, info) = process_overrides(&module, &info, Some((stage, self.entry())), &constants)
                .map_err(|error| wrong(error.to_string()))?;
            let entry = spv::PipelineOptions { shader_stage: stage, entry_point: self.entry().into() };
            spv::write_vec(&module, &info, options, Some(&entry)).map_err(|error| wrong(error.to_string()))
        })?
    }

    fn hidden(&self, shared: &Shared, number: u32, grid: bool) -> Result<Option<Hidden>> {
        let immediates = (self.hidden_immediates() > 0).then_some(u64::from(self.hidden_immediates()));
        if immediates.is_none() && !grid {
            return Ok(None);
        }
        self.check_hidden(shared.limits())?;
        let uniform = self.variants().immediates == ImmediatesAs::Uniform;
        if immediates.is_some() {
            limits::check_hidden_immediates(self.interface(), shared.limits(), uniform)?;
        }
        let kind = if uniform { SignatureKind::Uniform } else { SignatureKind::Read };
        let immediates_at = immediates.map(|min_bytes| Signature { binding: 0, kind, min_bytes, dynamic: true });
        let grid_at = grid.then_some(Signature {
            binding: 1,
            kind: SignatureKind::Uniform,
            min_bytes: GRID_BLOCK,
            dynamic: true,
        });
        let signature = immediates_at.into_iter().chain(grid_at).collect();
        let layout = shared.executor().layouts().get(shared.gpu(), signature)?;
        Ok(Some(Hidden { number, layout, immediates, grid }))
    }
}

/// Outside the lock under which pipelines are compiled: others need not wait for the disk.
fn keep(shared: &Shared) {
    if let Some(cache) = shared.pipeline_cache() {
        cache.save_if_due();
    }
}

/// What naga accepts and wgpu does not is the kernel's doing: something that this device lacks.
pub(super) fn refused(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Internal => Error::new(ErrorKind::Unsupported, error.to_string()).caused_by(error),
        _ => error,
    }
}
