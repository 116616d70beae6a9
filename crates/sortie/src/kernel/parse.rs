//! WGSL text to a checked naga module with its interface.
//!
//! Invariant: a [`Parsed`] module is valid, has one entry point (a compute one, number 0), holds nothing that this entry
//! point does not reach, and has no `override` left: its workgroup size and array lengths are final.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use naga::{
    Module, ShaderStage,
    compact::{KeepUnused, compact},
    front::wgsl,
    valid::{Capabilities, ModuleInfo, ValidationFlags, Validator},
};

use super::{
    interface::{self, Interface},
    overrides::{self, Values},
    source::{self, Refusal},
};

/// Why a kernel could not be made of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelError {
    /// Over a limit that keeps naga's stack from overflowing.
    Refused(Refusal),
    /// Not valid WGSL: naga's own report, with the user's line.
    Shader(String),
    /// Valid, but nothing this crate can run.
    Unsupported { construct: String, line: Option<u32> },
    /// A value for an `override` constant is missing, unknown or impossible.
    Constant(String),
    /// The entry point is missing, unknown or one of several.
    Entry(String),
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Shader(message) | Self::Constant(message) | Self::Entry(message) => f.write_str(message),
            Self::Unsupported { construct, line: Some(line) } => {
                write!(f, "{construct} at line {line} is not supported")
            }
            Self::Unsupported { construct, line: None } => write!(f, "{construct} is not supported"),
        }
    }
}

impl std::error::Error for KernelError {}

/// A kernel as the rest of the crate sees it.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) module: Module,
    pub(crate) info: ModuleInfo,
    pub(crate) interface: Interface,
}

/// Parses and checks `source`, takes its entry point `entry` (`None`: the only one) and gives its `override` constants the
/// values in `constants`, by name or by `@id`.
///
/// Needs the stack that [`source::check`] speaks of.
pub(crate) fn parse(
    source: &str,
    entry: Option<&str>,
    constants: &[(String, f64)],
    capabilities: Capabilities,
) -> Result<Parsed, KernelError> {
    source::check(source).map_err(KernelError::Refused)?;
    // naga has `unreachable!`s that WGSL can reach; those we know are stepped around, and the rest must not take the caller down.
    catch_unwind(AssertUnwindSafe(|| parse_checked(source, entry, constants, capabilities)))
        .unwrap_or_else(|_| Err(KernelError::Shader("naga panicked on this source: please report it".into())))
}

fn parse_checked(
    source: &str,
    entry: Option<&str>,
    constants: &[(String, f64)],
    capabilities: Capabilities,
) -> Result<Parsed, KernelError> {
    let mut options = wgsl::Options::new();
    options.capabilities = capabilities;
    let mut module = wgsl::Frontend::new_with_options(options)
        .parse(source)
        .map_err(|error| KernelError::Shader(error.emit_to_string(source).trim_end().to_owned()))?;
    interface::check_immediates(source, &module)?;
    let info = validate(source, &module, capabilities)?;

    let index = choose(&module, entry)?;
    // Before compaction, because unused bindings belong to the interface too.
    let mut interface = interface::reflect(source, &module, &info, index)?;
    let values = Values::new(&module, constants)?;

    module.entry_points = vec![module.entry_points.swap_remove(index)];
    compact(&mut module, KeepUnused::No);
    let module = overrides::resolve(source, module, &values, capabilities)?;
    let info = validate(source, &module, capabilities)?;
    interface.settle(&module, &info, 0);
    Ok(Parsed { module, info, interface })
}

/// The same check as wgpu's `create_shader_module`; subgroup operations follow from the capabilities.
pub(super) fn validate(source: &str, module: &Module, capabilities: Capabilities) -> Result<ModuleInfo, KernelError> {
    Validator::new(ValidationFlags::all(), capabilities)
        .validate(module)
        .map_err(|error| KernelError::Shader(error.emit_to_string(source).trim_end().to_owned()))
}

fn choose(module: &Module, entry: Option<&str>) -> Result<usize, KernelError> {
    let entries = module.entry_points.iter().enumerate().filter(|(_, entry)| entry.stage == ShaderStage::Compute);
    let entries: Vec<_> = entries.map(|(index, entry)| (index, entry.name.as_str())).collect();
    let names = || list(entries.iter().map(|(_, name)| *name));
    match (entry, entries.as_slice()) {
        (_, []) => Err(KernelError::Entry("the module has no compute entry point".into())),
        (None, [(index, _)]) => Ok(*index),
        (None, _) => Err(KernelError::Entry(format!("the module has several entry points, name one: {}", names()))),
        (Some(wanted), _) => match entries.iter().find(|(_, name)| *name == wanted) {
            Some((index, _)) => Ok(*index),
            None => Err(KernelError::Entry(format!("no compute entry point `{wanted}`; there is: {}", names()))),
        },
    }
}

/// Names for a message: `` `a`, `b` ``.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
