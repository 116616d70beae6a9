//! Validated WGSL with its interface, and the pipelines made of it.
//!
//! Source goes through token limits ([`source`]), naga ([`parse`]) and reflection ([`interface`]); what it needs beyond that (grids over
//! the device's limit, immediates on a device without them) is a [`rewrite`] of the entry point in naga's IR. All of it, and wgpu's own
//! compilation, runs on a thread with a large stack, because naga recurses.

mod cache;
mod fold;
mod interface;
mod layouts;
mod overrides;
mod parse;
mod rewrite;
mod source;
mod tokens;

use std::{
    borrow::Cow,
    fmt,
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, Scope, ScopedJoinHandle},
};

use parking_lot::Mutex;

pub(crate) use self::{
    cache::{KernelCache, KernelKey},
    fold::{GRID_BLOCK, fold, grid_block},
    interface::{Binding, BindingKind, Interface},
    layouts::{Layout, Layouts},
};
use self::{
    layouts::{Signature, SignatureKind},
    parse::{KernelError, Parsed},
    rewrite::{ImmediatesAs, Variant},
};
use crate::{
    device::{Device, Limits, Shared},
    error::{Error, ErrorKind, Result},
    metrics::Count,
};

/// naga and the drivers recurse over the source: what [`source::check`] lets through fits in this, debug builds included.
const STACK: usize = 128 << 20;

/// Private and function memory lies in registers or on a driver's stack. WGSL promises 8 KiB; past this, drivers take minutes to compile,
/// hang, or (SwiftShader, at some 400 KB) end the process.
const PRIVATE_BYTES: u64 = 64 << 10;

/// Validated WGSL with its interface, read off by reflection: bindings, access, workgroup size, immediates.
///
/// Bindings are given to [`Batch::dispatch`](crate::Batch::dispatch) in the order of `@group`, then `@binding`. A module with one entry
/// point exposes every buffer it declares; with several, those that the chosen one uses. Cheap to clone; the same source gives the same
/// kernel again without compiling.
#[derive(Clone)]
pub struct Kernel {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    device: u64,
    parsed: Parsed,
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

/// Which entry point to take, and values for its `override` constants.
///
/// ```
/// use sortie::KernelOptions;
/// # let device = sortie::Device::open_with(sortie::DeviceOptions { device: Some("noop".into()), ..Default::default() })?;
/// let source = "
///     override width: u32 = 64;
///     @group(0) @binding(0) var<storage, read_write> x: array<f32>;
///     @compute @workgroup_size(width) fn first(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] = 1.0; }
///     @compute @workgroup_size(1) fn second() { x[0] = 2.0; }
/// ";
/// let options = KernelOptions { entry: Some("first".into()), constants: vec![("width".into(), 128.0)] };
/// let kernel = device.kernel_with(source, &options)?;
/// assert_eq!(kernel.workgroup_size(), [128, 1, 1]);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelOptions {
    /// The entry point; may be left out when there is only one.
    pub entry: Option<String>,
    /// Values of `override` constants, by name or by `@id`.
    pub constants: Vec<(String, f64)>,
}

impl Device {
    /// Compiles a kernel out of WGSL with one entry point.
    ///
    /// # Errors
    /// [`Shader`](ErrorKind::Shader) with naga's message and the line, [`Unsupported`](ErrorKind::Unsupported) naming the construct,
    /// [`TooLarge`](ErrorKind::TooLarge) when the source or what it asks for is over a limit.
    #[track_caller]
    pub fn kernel(&self, source: &str) -> Result<Kernel> {
        let here = Location::caller();
        self.compile(source, &KernelOptions::default()).map_err(|error| error.at(here))
    }

    /// Compiles a kernel out of WGSL: one of several entry points, or with `override` constants.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    #[track_caller]
    pub fn kernel_with(&self, source: &str, options: &KernelOptions) -> Result<Kernel> {
        let here = Location::caller();
        self.compile(source, options).map_err(|error| error.at(here))
    }

    fn compile(&self, source: &str, options: &KernelOptions) -> Result<Kernel> {
        let shared = self.shared();
        shared.lost().check()?;
        let kernel = Kernel::get(shared, source, options)?;
        // Compiled now, so that what the driver refuses is refused here and not in some batch.
        kernel.pipeline(shared, false).map_err(|error| shared.explain(error))?;
        shared.lost().probe(shared.gpu());
        shared.lost().check()?;
        Ok(kernel)
    }
}

impl Kernel {
    /// The name of the entry point.
    #[must_use]
    pub fn entry(&self) -> &str {
        &self.interface().entry
    }

    /// Invocations of a workgroup in each dimension.
    #[must_use]
    pub fn workgroup_size(&self) -> [u32; 3] {
        self.interface().workgroup
    }

    /// How many bindings a dispatch of it takes.
    #[must_use]
    pub fn num_bindings(&self) -> usize {
        self.interface().bindings.len()
    }

    /// Bytes of its `var<immediate>`; 0 when it has none.
    #[must_use]
    pub fn immediate_bytes(&self) -> usize {
        self.interface().immediates.as_ref().map_or(0, |immediates| immediates.size as usize)
    }

    /// The kernel of this source, parsed but perhaps not compiled yet.
    pub(crate) fn get(shared: &Arc<Shared>, source: &str, options: &KernelOptions) -> Result<Self> {
        let cache = shared.executor().kernels();
        let key = KernelKey::new(source, options);
        if let Some(kernel) = cache.get(&key) {
            return Ok(kernel);
        }
        let kernel = on_large_stack(|| Self::new(shared, source, options))??;
        Ok(cache.insert(key, kernel))
    }

    fn new(shared: &Shared, source: &str, options: &KernelOptions) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Immediates are rewritten where the device has none, so they may always be written.
        let capabilities = wgpu_naga_bridge::features_to_naga_capabilities(shared.gpu().features(), shared.downlevel())
            | naga::valid::Capabilities::IMMEDIATES;
        let parsed = parse::parse(source, options.entry.as_deref(), &options.constants, capabilities)?;
        let limits = shared.limits();
        check_limits(&parsed.interface, limits)?;
        let immediates = match &parsed.interface.immediates {
            None => ImmediatesAs::Native,
            Some(own) if shared.native_immediates() && own.size <= limits.immediate_bytes => ImmediatesAs::Native,
            Some(_) if rewrite::immediates_fit_uniform(&parsed, capabilities) => ImmediatesAs::Uniform,
            Some(_) => ImmediatesAs::Storage,
        };
        let groups = groups(&parsed.interface, shared)?;
        let inner = Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device: shared.id(),
            parsed,
            groups,
            immediates,
            pipelines: [OnceLock::new(), OnceLock::new()],
            compiling: Mutex::new(()),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn id(&self) -> u64 {
        self.inner.id
    }

    pub(crate) fn device_id(&self) -> u64 {
        self.inner.device
    }

    pub(crate) fn interface(&self) -> &Interface {
        &self.inner.parsed.interface
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.inner.groups
    }

    /// Bytes of immediates that go through the parameter buffer; 0 when they are native or there are none.
    pub(crate) fn hidden_immediates(&self) -> u32 {
        match (self.inner.immediates, &self.interface().immediates) {
            (ImmediatesAs::Native, _) | (_, None) => 0,
            (ImmediatesAs::Uniform | ImmediatesAs::Storage, Some(own)) => own.size,
        }
    }

    /// Whether there is a bind group left for hidden parameters.
    pub(crate) fn check_hidden(&self, limits: &Limits) -> Result<()> {
        let number = self.interface().hidden_group();
        if number < limits.bind_groups {
            return Ok(());
        }
        let message = format!(
            "kernel {:?} uses bind group {} and needs one more for hidden parameters, but the device has {}",
            self.entry(),
            number - 1,
            limits.bind_groups
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// The pipeline of a variant that has been compiled.
    pub(crate) fn compiled(&self, wrapped: bool) -> Option<&Pipeline> {
        self.inner.pipelines[usize::from(wrapped)].get()
    }

    /// The pipeline of a variant, compiled now if it has not been.
    pub(crate) fn pipeline(&self, shared: &Shared, wrapped: bool) -> Result<&Pipeline> {
        match self.compiled(wrapped) {
            Some(pipeline) => Ok(pipeline),
            None => on_large_stack(|| self.compile_once(shared, wrapped))?,
        }
    }

    /// Compiles several variants side by side.
    pub(crate) fn compile_all(shared: &Shared, variants: &[(&Kernel, bool)]) -> Result<()> {
        thread::scope(|scope| {
            let compile = |(kernel, wrapped): &(&Kernel, bool)| {
                let (kernel, wrapped) = (Kernel::clone(kernel), *wrapped);
                large_stack(scope, move || kernel.compile_once(shared, wrapped).map(drop))
            };
            let threads: Vec<_> = variants.iter().map(compile).collect();
            threads.into_iter().try_for_each(|thread| join(thread?)?)
        })
    }

    /// Must run on a large stack.
    fn compile_once(&self, shared: &Shared, wrapped: bool) -> Result<&Pipeline> {
        let _turn = self.inner.compiling.lock();
        let place = &self.inner.pipelines[usize::from(wrapped)];
        if let Some(pipeline) = place.get() {
            return Ok(pipeline);
        }
        let pipeline = self.compile(shared, wrapped)?;
        Ok(place.get_or_init(|| pipeline))
    }

    fn compile(&self, shared: &Shared, wrapped: bool) -> Result<Pipeline> {
        let variant = Variant { immediates: self.inner.immediates, wrapped };
        let rewritten = rewrite::rewrite(&self.inner.parsed, variant);
        let device = shared.gpu();
        let hidden = self.hidden(shared, rewritten.hidden_group, wrapped)?;
        let native = self.inner.immediates == ImmediatesAs::Native;
        let immediate_bytes = if native { self.immediate_bytes() } else { 0 };

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
            immediate_size: u32::try_from(immediate_bytes).unwrap_or(u32::MAX),
        });
        let raw = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&layout),
            module: &module,
            entry_point: label,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        scopes.pop(|| format!("the kernel {:?}", self.entry()), 0).map_err(refused)?;
        shared.counters().pipelines_created.add(1);
        Ok(Pipeline { raw, hidden, immediates: immediate_bytes > 0 })
    }

    fn hidden(&self, shared: &Shared, number: u32, grid: bool) -> Result<Option<Hidden>> {
        let immediates = (self.hidden_immediates() > 0).then_some(u64::from(self.hidden_immediates()));
        if immediates.is_none() && !grid {
            return Ok(None);
        }
        self.check_hidden(shared.limits())?;
        let uniform = self.inner.immediates == ImmediatesAs::Uniform;
        if immediates.is_some() && !uniform {
            let storage = storage_buffers(self.interface()) + 1;
            check(
                self.entry(),
                "storage buffers, one of them for immediates",
                storage,
                u64::from(shared.limits().storage_buffers),
            )?;
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

fn storage_buffers(interface: &Interface) -> u64 {
    interface.bindings.iter().filter(|binding| matches!(binding.kind, BindingKind::Storage { .. })).count() as u64
}

fn check(entry: &str, what: &str, wanted: u64, limit: u64) -> Result<()> {
    if wanted <= limit { Ok(()) } else { Err(Error::too_large(format!("kernel {entry:?}: {what}"), wanted, limit)) }
}

fn check_limits(interface: &Interface, limits: &Limits) -> Result<()> {
    let check = |what: &str, wanted: u64, limit: u64| check(&interface.entry, what, wanted, limit);
    for (axis, (size, limit)) in ["x", "y", "z"].iter().zip(interface.workgroup.iter().zip(limits.workgroup_size)) {
        check(&format!("workgroup size in {axis}"), u64::from(*size), u64::from(limit))?;
    }
    let invocations = interface.workgroup.iter().map(|size| u64::from(*size)).product();
    check("invocations in a workgroup", invocations, u64::from(limits.workgroup_invocations))?;
    check("bytes of workgroup memory", interface.workgroup_bytes, u64::from(limits.workgroup_bytes))?;
    check("bytes of private and function memory", interface.private_bytes, PRIVATE_BYTES)?;
    check("storage buffers", storage_buffers(interface), u64::from(limits.storage_buffers))?;
    if let Some(last) = interface.bindings.last() {
        check("bind groups", u64::from(last.group) + 1, u64::from(limits.bind_groups))?;
    }
    Ok(())
}

/// What naga accepts and wgpu does not is the kernel's doing: something that this device lacks.
fn refused(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Internal => Error::new(ErrorKind::Unsupported, error.to_string()).caused_by(error),
        _ => error,
    }
}

/// Runs on a thread whose stack is large enough for naga, and waits for it.
fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| join(large_stack(scope, run)?))
}

fn large_stack<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let thread = thread::Builder::new().name("sortie-compile".into()).stack_size(STACK).spawn_scoped(scope, run);
    thread.map_err(|error| Error::internal("the compile thread did not start").caused_by(error))
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> Result<T> {
    thread.join().map_err(|_| Error::internal("the compiler panicked on this kernel; please report it"))
}

impl From<KernelError> for Error {
    fn from(error: KernelError) -> Self {
        let message = error.to_string();
        let kind = match error {
            KernelError::Refused(source::Refusal::TooLong { bytes, limit }) => {
                ErrorKind::TooLarge { wanted: bytes, limit }
            }
            KernelError::Unsupported { .. } => ErrorKind::Unsupported,
            KernelError::Refused(_) | KernelError::Shader(_) | KernelError::Constant(_) | KernelError::Entry(_) => {
                ErrorKind::Shader
            }
        };
        Error::new(kind, message)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interface = self.interface();
        f.debug_struct("Kernel")
            .field("entry", &interface.entry)
            .field("workgroup", &interface.workgroup)
            .field("bindings", &interface.bindings.len())
            .finish_non_exhaustive()
    }
}
