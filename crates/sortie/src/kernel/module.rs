//! A WGSL source with several kernels.

use std::{panic::Location, sync::Arc};

use super::{Checks, Kernel};
use crate::error::Result;

/// Compiles kernels: the device that a [`Module`] belongs to.
pub(crate) trait ModuleDevice: Send + Sync {
    fn compile_kernel(
        &self,
        source: &str,
        entry: Option<&str>,
        constants: &[(String, f64)],
        checks: Checks,
    ) -> Result<Kernel>;
}

/// A WGSL source with one or more entry points, from [`Device::module`](crate::Device::module). Cheap to clone.
///
/// A kernel takes the bindings that its own entry point [uses](Kernel#which-bindings-it-takes). Adding another entry
/// point to the source changes nothing for the others.
///
/// ```
/// use sortie::Grid;
/// # let device = sortie::Device::cpu()?;
/// let module = device.module("
///     override width: u32 = 64;
///     override step: f32 = 1.0;
///     @group(0) @binding(0) var<storage, read_write> x: array<f32>;
///     @compute @workgroup_size(width) fn up(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] += step; }
///     @compute @workgroup_size(width) fn down(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] -= step; }
/// ")?;
/// assert_eq!(module.entries(), ["up", "down"]);
/// let up = module.kernel("up")?;
/// let down = module.with("width", 128).with("step", 0.5).kernel("down")?;
/// assert_eq!((up.workgroup_size(), down.workgroup_size()), ([64, 1, 1], [128, 1, 1]));
/// let x = device.zeros::<f32>(128)?;
/// let batch = device.batch();
/// batch.dispatch(&up, &[&x], Grid::items(128));
/// batch.dispatch(&down, &[&x], Grid::items(128));
/// batch.submit()?;
/// assert_eq!(x.download()?, [0.5; 128]);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("Module {{ entries: {entries:?}, constants: {constants:?}, .. }}")]
pub struct Module {
    device: Arc<dyn ModuleDevice>,
    source: Arc<str>,
    entries: Arc<[String]>,
    /// Values of `override` constants, by name or by `@id`.
    constants: Vec<(String, f64)>,
    checks: Checks,
}

impl Module {
    pub(crate) fn new(device: Arc<dyn ModuleDevice>, source: &str, entries: Vec<String>, checks: Checks) -> Self {
        Self { device, source: source.into(), entries: entries.into(), constants: Vec::new(), checks }
    }

    /// The names of its compute entry points.
    #[must_use]
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// The same source with another value for an `override` constant, named by its identifier or its `@id`.
    #[must_use]
    pub fn with(&self, name: impl Into<String>, value: impl Into<f64>) -> Self {
        let mut module = self.clone();
        module.constants.push((name.into(), value.into()));
        module
    }

    /// Compiles one of its entry points.
    ///
    /// # Errors
    /// [`Shader`](crate::ErrorKind::Shader) if there is no such entry point, or a constant is unknown or its value
    /// impossible. Else as [`Device::kernel`](crate::Device::kernel).
    #[track_caller]
    pub fn kernel(&self, entry: &str) -> Result<Kernel> {
        self.compile(Some(entry), Location::caller())
    }

    /// Compiles its only entry point, as [`Device::kernel`](crate::Device::kernel) does.
    ///
    /// # Errors
    /// [`Shader`](crate::ErrorKind::Shader) with the names of its entry points, if there are several. Else as
    /// [`Module::kernel`].
    #[track_caller]
    pub fn only_kernel(&self) -> Result<Kernel> {
        self.compile(None, Location::caller())
    }

    fn compile(&self, entry: Option<&str>, here: &'static Location<'static>) -> Result<Kernel> {
        self.device.compile_kernel(&self.source, entry, &self.constants, self.checks).map_err(|error| error.at(here))
    }
}
