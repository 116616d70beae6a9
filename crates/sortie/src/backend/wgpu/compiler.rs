//! Compiles kernels for a wgpu device: rewrites modules for features that the device lacks, creates layouts, and
//! compiles each variant once.

use std::{borrow::Cow, sync::Arc, time::Duration};

use naga::{
    back::{pipeline_constants::process_overrides, spv},
    valid::Capabilities,
};
use sortie_plan::GRID_BLOCK;

use super::{
    Gpu, PipelineCache,
    kernel::{BindGroupSlot, Hidden, Pipeline, WgpuKernel},
    layouts::{BindingSignature, LayoutCache},
    shader_module,
};
use crate::{
    clock::Instant,
    error::{Error, ErrorKind, Result},
    exit::{EnterOnDrop, Guarded, LeaveOnDrop},
    info::Limits,
    kernel::{
        BindingKind, CompiledKernel, Compiling, Deadline, ImmediatesAs, Interface, Kernel, KernelCompiler, Parsed,
        Variant, check_hidden_group, check_hidden_immediates, check_size, compile, immediates_fit_uniform,
        on_large_stack, rewrite, validate,
    },
    metrics::{AtomicCounter, Counters},
};

/// Compiles the kernels of one wgpu device. Compile threads hold it, so it may outlive the device's handles.
#[derive(Debug)]
pub(crate) struct WgpuCompiler {
    _entering: EnterOnDrop,
    gpu: Gpu,
    layouts: LayoutCache,
    cache: Option<PipelineCache>,
    rules: Rules,
    counters: Arc<Counters>,
    _leaving: LeaveOnDrop,
}

/// Features and limits of kernels, and how they are compiled.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) limits: Limits,
    pub(crate) features: wgpu::Features,
    pub(crate) downlevel: wgpu::DownlevelFlags,
    /// Whether `var<immediate>` is passed natively.
    pub(crate) native_immediates: bool,
    /// The driver runs kernels in software and compiles large ones slowly.
    pub(crate) software: bool,
    /// Longest time for compiling a user's kernel.
    pub(crate) budget: Duration,
}

impl KernelCompiler for WgpuCompiler {
    /// Immediates are rewritten if the device has none, so kernels may always use them.
    fn capabilities(&self) -> Capabilities {
        wgpu_naga_bridge::features_to_naga_capabilities(self.rules.features, self.rules.downlevel)
            | Capabilities::IMMEDIATES
    }

    fn check_size(&self, parsed: &Parsed) -> Result<()> {
        check_size(parsed, self.rules.software)
    }

    fn compile(&self, _source: &str, parsed: &Parsed) -> Result<Box<dyn CompiledKernel>> {
        let Rules { limits, native_immediates, .. } = &self.rules;
        let immediates = match &parsed.interface.immediates {
            None => ImmediatesAs::Native,
            Some(own) if *native_immediates && own.size <= limits.immediate_bytes => ImmediatesAs::Native,
            Some(_) if immediates_fit_uniform(parsed, self.capabilities()) => ImmediatesAs::Uniform,
            Some(_) => ImmediatesAs::Storage,
        };
        let kernel = WgpuKernel::new(&parsed.interface, immediates);
        kernel.groups_or(|| self.groups(&parsed.interface))?;
        Ok(Box::new(Guarded::new(kernel)))
    }

    fn finish(self: Arc<Self>, kernel: &Kernel, deadline: Deadline) -> Result<()> {
        self.pipeline_until(kernel, false, deadline)
    }
}

impl WgpuCompiler {
    pub(crate) fn new(gpu: Gpu, cache: Option<PipelineCache>, rules: Rules, counters: Arc<Counters>) -> Self {
        Self {
            _entering: EnterOnDrop(true),
            gpu,
            layouts: LayoutCache::default(),
            cache,
            rules,
            counters,
            _leaving: LeaveOnDrop(true),
        }
    }

    /// The cache that keeps pipelines between processes, if any.
    pub(crate) fn cache(&self) -> Option<&PipelineCache> {
        self.cache.as_ref()
    }

    /// Compiles a variant unless it is compiled already.
    fn pipeline_until(self: &Arc<Self>, kernel: &Kernel, wrapped: bool, deadline: Deadline) -> Result<()> {
        if WgpuKernel::of(kernel)?.pipeline(wrapped).is_none() {
            let (theirs, compiler) = (kernel.clone(), Arc::clone(self));
            compile(deadline, &kernel.described(), move || compiler.compile_once(&theirs, wrapped))??;
            self.save();
        }
        Ok(())
    }

    /// Compiles several variants side by side.
    pub(crate) fn compile_all(self: &Arc<Self>, variants: &[(&Kernel, bool)]) -> Result<()> {
        let start = |(kernel, wrapped): &(&Kernel, bool)| {
            let (theirs, compiler, wrapped) = (Kernel::clone(kernel), Arc::clone(self), *wrapped);
            let deadline = kernel.deadline(self.rules.budget);
            (kernel.described(), deadline, Compiling::start(move || compiler.compile_once(&theirs, wrapped)))
        };
        let under_way: Vec<_> = variants.iter().map(start).collect();
        // Waits for all, even after one has failed.
        let wait =
            |(what, deadline, one): (String, Deadline, Result<Compiling<Result<()>>>)| one?.wait(deadline, &what)?;
        let done: Vec<_> = under_way.into_iter().map(wait).collect();
        done.into_iter().collect::<Result<()>>()?;
        self.save();
        Ok(())
    }

    /// Must run on a large stack.
    fn compile_once(&self, kernel: &Kernel, wrapped: bool) -> Result<()> {
        let own = WgpuKernel::of(kernel)?;
        let _turn = own.compiling.lock();
        let place = &own.pipelines[usize::from(wrapped)];
        if place.get().is_none() {
            let pipeline = self.compile_variant(kernel, own, wrapped)?;
            place.get_or_init(|| pipeline);
        }
        Ok(())
    }

    fn compile_variant(&self, kernel: &Kernel, own: &WgpuKernel, wrapped: bool) -> Result<Pipeline> {
        let start = Instant::now();
        let variant = Variant { immediates: own.immediates, wrapped };
        let rewritten = rewrite(kernel.module()?, kernel.interface(), variant);
        let device = &self.gpu;
        let hidden = self.hidden(kernel, own.immediates, wrapped)?;
        let immediate_bytes = own.native_immediate_bytes(own.immediates);

        let groups = own.groups_or(|| self.groups(kernel.interface()))?;
        let last = groups.iter().map(|group| group.number).chain(hidden.as_ref().map(|hidden| hidden.number)).max();
        let mut layouts = vec![None; last.map_or(0, |last| last as usize + 1)];
        for group in groups {
            layouts[group.number as usize] = Some(&group.layout.raw);
        }
        if let Some(hidden) = &hidden {
            layouts[hidden.number as usize] = Some(&hidden.layout.raw);
        }
        let label = Some(kernel.entry());
        let scopes = device.scopes();
        let checks = kernel.checks();
        let source = wgpu::ShaderSource::Naga(Cow::Owned(rewritten));
        let module = shader_module::create(device, wgpu::ShaderModuleDescriptor { label, source }, checks);
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
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: checks.zeroed,
                ..wgpu::PipelineCompilationOptions::default()
            },
            cache: self.cache().map(|cache| &cache.raw),
        });
        scopes.pop(|| format!("the kernel {:?}", kernel.entry()), 0).map_err(refused)?;
        self.counters.pipelines_created.add(1);
        tracing::debug!(target: "sortie", entry = kernel.entry(), wrapped, time = ?start.elapsed(), "a pipeline is compiled");
        if let Some(cache) = self.cache() {
            cache.count();
        }
        Ok(Pipeline { raw, hidden, immediates: immediate_bytes > 0 })
    }

    /// A variant as SPIR-V.
    pub(crate) fn spirv(&self, kernel: &Kernel, variant: Variant, options: &spv::Options<'_>) -> Result<Vec<u32>> {
        on_large_stack(|| {
            let module = rewrite(kernel.module()?, kernel.interface(), variant);
            let wrong = |error: String| Error::internal(format!("kernel {:?} as SPIR-V: {error}", kernel.entry()));
            let info = validate("", &module, self.capabilities()).map_err(|error| wrong(error.to_string()))?;
            let stage = naga::ShaderStage::Compute;
            // Like wgpu: only this entry point is kept.
            let constants = naga::back::PipelineConstants::default();
            let (module, info) = process_overrides(&module, &info, Some((stage, kernel.entry())), &constants)
                .map_err(|error| wrong(error.to_string()))?;
            let entry = spv::PipelineOptions { shader_stage: stage, entry_point: kernel.entry().into() };
            spv::write_vec(&module, &info, options, Some(&entry)).map_err(|error| wrong(error.to_string()))
        })?
    }

    fn groups(&self, interface: &Interface) -> Result<Vec<BindGroupSlot>> {
        let mut groups = Vec::new();
        let mut start = 0;
        for bindings in interface.bindings.chunk_by(|a, b| a.group == b.group) {
            let signature = bindings
                .iter()
                .map(|binding| BindingSignature {
                    binding: binding.binding,
                    kind: binding.kind,
                    min_bytes: binding.min_bytes,
                    dynamic: false,
                })
                .collect();
            let layout = self.layouts.get(&self.gpu, signature).map_err(refused)?;
            groups.push(BindGroupSlot { number: bindings[0].group, bindings: start..start + bindings.len(), layout });
            start += bindings.len();
        }
        Ok(groups)
    }

    /// The hidden parameters of a variant.
    pub(crate) fn hidden(&self, kernel: &Kernel, passed: ImmediatesAs, grid: bool) -> Result<Option<Hidden>> {
        let bytes = WgpuKernel::of(kernel)?.hidden_immediates(passed);
        let immediates = (bytes > 0).then_some(u64::from(bytes));
        if immediates.is_none() && !grid {
            return Ok(None);
        }
        let number = kernel.interface().hidden_group();
        let limits = &self.rules.limits;
        check_hidden_group(kernel.interface(), limits)?;
        let uniform = passed == ImmediatesAs::Uniform;
        if immediates.is_some() {
            check_hidden_immediates(kernel.interface(), limits, uniform)?;
        }
        let kind = if uniform { BindingKind::Uniform } else { BindingKind::Storage { writes: false } };
        let immediates_at = immediates.map(|min_bytes| BindingSignature { binding: 0, kind, min_bytes, dynamic: true });
        let grid_at = grid.then_some(BindingSignature {
            binding: 1,
            kind: BindingKind::Uniform,
            min_bytes: GRID_BLOCK,
            dynamic: true,
        });
        let signature = immediates_at.into_iter().chain(grid_at).collect();
        let layout = self.layouts.get(&self.gpu, signature)?;
        Ok(Some(Hidden { number, layout, immediates, grid }))
    }

    /// Outside the compile lock, so that other threads need not wait for the disk.
    fn save(&self) {
        if let Some(cache) = self.cache() {
            cache.save_if_due();
        }
    }
}

/// If naga accepts a kernel and wgpu refuses it, the kernel uses something that this device lacks.
fn refused(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Internal => Error::new(ErrorKind::Unsupported, error.to_string()).caused_by(error),
        _ => error,
    }
}
