//! Kernels: validated WGSL with its interface.
//!
//! Source goes through token limits (`source`), naga (`parse`) and reflection (`interface`). A grid over the device's
//! limit, or immediates on a device without them, need a rewrite of the entry point in naga's IR (`rewrite`). A backend
//! compiles the result (`compiled`). All of it runs on a thread with a large stack, because naga recurses.

mod array_element;
mod bound;
mod cache;
mod checks;
mod compile_thread;
mod compiled;
mod declared;
mod elements;
mod frexp;
mod interface;
mod limits;
mod module;
mod overrides;
mod parse;
mod reach;
mod rewrite;
mod size;
mod source;
mod tokens;
mod writable;

use std::{
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub(crate) use self::{
    array_element::{HostNumbers, HostType},
    cache::KernelCache,
    checks::Checks,
    compile_thread::{Compiling, Deadline, compile, on_large_stack},
    compiled::{CompiledKernel, KernelCompiler},
    interface::{Binding, BindingKind, Interface},
    limits::{check_hidden_group, check_hidden_immediates, check_size},
    module::ModuleDevice,
    parse::{Parsed, validate},
    rewrite::{ImmediatesAs, Variant, immediates_fit_uniform, rewrite},
};
pub use self::{
    declared::{BindingInfo, Scalar},
    module::Module,
};
use self::{parse::KernelError, size::KernelSize, writable::WritableForms};
use crate::{
    error::{Error, ErrorKind, Result},
    info::Limits,
};

/// Validated WGSL with its interface, derived by reflection: bindings, access, workgroup size, immediates.
///
/// Bindings are passed to [`Batch::dispatch`](crate::Batch::dispatch) in the order of `@group`, then `@binding`. Cheap
/// to clone; compiling the same source again returns the cached kernel.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let dot = device.kernel("
///     @group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
///     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
///     @compute @workgroup_size(8, 8) fn dot_all(@builtin(global_invocation_id) id: vec3<u32>) {
///         y[id.x] = dot(x[id.x], x[id.y]);
///     }
/// ")?;
/// assert_eq!((dot.entry(), dot.workgroup_size(), dot.num_bindings()), ("dot_all", [8, 8, 1], 2));
/// // Errors of a source contain naga's message.
/// assert!(device.kernel("@compute fn main() {}").is_err());
/// # Ok::<(), sortie::Error>(())
/// ```
///
/// # Which bindings it takes
/// Those that its entry point uses, itself or through functions that it calls. Other bindings of the same source are
/// ignored, whatever they are: they are not passed, and the device need not support them (textures, `f16`, more buffers
/// than it allows). Positions count only the used ones. Mentioning a binding uses it: `_ = &x;` keeps one that is
/// otherwise unused.
///
/// ```
/// use sortie::Grid;
/// # let device = sortie::Device::cpu()?;
/// let module = device.module("
///     @group(0) @binding(0) var<storage, read> x: array<f32>;
///     @group(0) @binding(1) var<storage, read> scale: array<f32>;
///     @group(0) @binding(2) var<storage, read_write> y: array<f32>;
///     @group(0) @binding(3) var image: texture_2d<f32>;
///     @compute @workgroup_size(1) fn twice() { y[0] = 2.0 * x[0]; }
///     @compute @workgroup_size(1) fn from_image() { y[0] = scale[0] * textureLoad(image, vec2(0), 0).x; }
/// ")?;
/// let twice = module.kernel("twice")?;
/// let names: Vec<_> = twice.bindings().into_iter().map(|binding| binding.name).collect();
/// assert_eq!(names, ["x", "y"]);
/// let (x, y) = (device.upload(&[3.0_f32])?, device.zeros::<f32>(1)?);
/// let batch = device.batch();
/// batch.dispatch(&twice, &[&x, &y], Grid::groups(1)); // no `scale` between them
/// batch.submit()?;
/// assert_eq!(y.download()?, [6.0]);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Kernel {{ entry: {:?}, bindings: {}, .. }}", self.entry(), self.interface().bindings.len())]
pub struct Kernel {
    inner: Arc<Inner>,
}

struct Inner {
    id: u64,
    device: u64,
    interface: Interface,
    /// `None` for a kernel without WGSL.
    source: Option<Arc<Source>>,
    compiled: Box<dyn CompiledKernel>,
    /// Cached from the compiled form: every recorded dispatch reads it.
    hidden_immediates: u32,
    /// The same kernel with its immediates in memory; created on first use.
    bound: OnceLock<Kernel>,
    /// The same kernel with bindings that it may write, though it does not.
    writable: WritableForms,
}

/// The source of a kernel.
struct Source {
    /// For messages.
    text: Box<str>,
    origin: Origin,
    module: naga::Module,
    size: KernelSize,
    checks: Checks,
}

/// The author of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    User,
    /// This crate: large matrix products are unrolled far beyond the limits for users.
    Generated,
}

impl Kernel {
    /// The names of the compute entry points of a WGSL source. Compiles nothing and needs no device.
    ///
    /// ```
    /// let source = "@compute @workgroup_size(1) fn first() {} @compute @workgroup_size(1) fn second() {}";
    /// assert_eq!(sortie::Kernel::entries(source)?, ["first", "second"]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Shader`](ErrorKind::Shader) with naga's message and the line; [`TooLarge`](ErrorKind::TooLarge) if the source
    /// exceeds a limit.
    #[track_caller]
    pub fn entries(source: &str) -> Result<Vec<String>> {
        let here = Location::caller();
        let budget = crate::options::DeviceOptions::default().compile_budget;
        Self::entries_within(source, budget).map_err(|error| error.at(here))
    }

    pub(crate) fn entries_within(source: &str, budget: Duration) -> Result<Vec<String>> {
        let source = source.to_owned();
        compile(Deadline::after(budget), "the source", move || parse::entries(&source)).and_then(|entries| Ok(entries?))
    }

    getters! { self:
        /// The name of the entry point.
        entry: &str = &self.interface().entry;

        /// Invocations of a workgroup in each dimension.
        workgroup_size: [u32; 3] = self.interface().workgroup;

        /// Number of bindings that a dispatch takes.
        num_bindings: usize = self.interface().bindings.len();

        /// Bytes of its `var<immediate>`; 0 if it has none.
        immediate_bytes: usize = self.interface().immediates.as_ref().map_or(0, |immediates| immediates.size as usize);

        /// Its buffers as declared, in the order of [`Batch::dispatch`](crate::Batch::dispatch), for programs that run
        /// kernels they did not write.
        ///
        /// ```
        /// # let device = sortie::Device::cpu()?;
        /// let kernel = device.kernel("
        ///     @group(0) @binding(0) var<storage, read> points: array<vec3<f32>>;
        ///     @group(0) @binding(4) var<storage, read_write> count: atomic<u32>;
        ///     @compute @workgroup_size(1) fn main() { atomicAdd(&count, u32(points[0].x)); }
        /// ")?;
        /// let [points, count] = &kernel.bindings()[..] else { unreachable!("it has two") };
        /// assert_eq!((points.name.as_str(), points.stride, points.bytes(10)), ("points", Some(16), Some(160)));
        /// assert_eq!((count.binding, count.writes, count.scalar), (4, true, Some(sortie::kernel::Scalar::U32)));
        /// # Ok::<(), sortie::Error>(())
        /// ```
        bindings: Vec<BindingInfo> = self.interface().bindings.iter().map(BindingInfo::new).collect();
    }

    /// Whether it writes a binding, numbered as in [`Batch::dispatch`](crate::Batch::dispatch): the entry point, or a
    /// function that it calls. One that is declared `read_write` and only read is not written.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let copy = device.kernel("
    ///     @group(0) @binding(0) var<storage, read> x: array<u32>;
    ///     @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    ///     @compute @workgroup_size(1) fn main() { y[0] = x[0]; }
    /// ")?;
    /// assert_eq!([0, 1, 2].map(|binding| copy.writes(binding)), [false, true, false]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn writes(&self, binding: usize) -> bool {
        let binding = self.interface().bindings.get(binding);
        binding.is_some_and(|binding| matches!(binding.kind, BindingKind::Storage { writes: true }))
    }

    /// Whether it actually reads a binding, and actually writes it, regardless of the declared access.
    pub(crate) fn moves(&self, binding: usize) -> [bool; 2] {
        // An access that is not a binding, such as the counts of an indirect dispatch, is only read.
        self.interface().bindings.get(binding).map_or([true, false], |binding| binding.moves)
    }

    /// The deadline of compiling it now.
    pub(crate) fn deadline(&self, budget: Duration) -> Deadline {
        match self.inner.source.as_deref() {
            Some(Source { origin: Origin::User, .. }) => Deadline::after(budget),
            _ => Deadline::after(Duration::MAX),
        }
    }

    /// Its name in messages.
    pub(crate) fn described(&self) -> String {
        format!("kernel {:?}", self.entry())
    }

    fn new(device: u64, interface: Interface, source: Option<Arc<Source>>, compiled: Box<dyn CompiledKernel>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let inner = Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device,
            interface,
            source,
            hidden_immediates: compiled.hidden_immediates(),
            compiled,
            bound: OnceLock::new(),
            writable: WritableForms::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn id(&self) -> u64 {
        self.inner.id
    }

    pub(crate) fn device_id(&self) -> u64 {
        self.inner.device
    }

    pub(crate) fn interface(&self) -> &Interface {
        &self.inner.interface
    }

    /// The module that it was compiled from.
    pub(crate) fn module(&self) -> Result<&naga::Module> {
        self.source().map(|source| &source.module)
    }

    /// The checks that are compiled into it.
    pub(crate) fn checks(&self) -> Checks {
        self.inner.source.as_ref().map_or(Checks::ALL, |source| source.checks)
    }

    fn source(&self) -> Result<&Source> {
        self.inner.source.as_deref().ok_or_else(|| Error::internal("a native kernel was asked for its source"))
    }

    /// Whether its backend made it without WGSL.
    pub(crate) fn is_native(&self) -> bool {
        self.inner.source.is_none()
    }

    /// The compiled form. Each backend has a function that returns it as its own type.
    pub(crate) fn compiled(&self) -> &dyn CompiledKernel {
        &*self.inner.compiled
    }

    /// Bytes of immediates passed through the parameter buffer; 0 if they are native or there are none.
    #[inline]
    pub(crate) fn hidden_immediates(&self) -> u32 {
        self.inner.hidden_immediates
    }

    /// Checks that a bind group is left for hidden parameters.
    pub(crate) fn check_hidden(&self, limits: &Limits) -> Result<()> {
        check_hidden_group(self.interface(), limits)
    }
}

impl From<KernelError> for Error {
    fn from(error: KernelError) -> Self {
        let message = error.to_string();
        let kind = match error {
            KernelError::Refused(source::SourceError::TooLong { bytes, limit }) => {
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
