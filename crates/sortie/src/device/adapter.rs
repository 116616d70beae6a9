//! Finding a device and opening it: wgpu's adapters, and the built-in CPU among them.
//!
//! The CPU device is recognised by name before any driver is loaded, so opening it loads none.

use std::{sync::LazyLock, thread};

use super::{adapter_info::describe, quiet};
use crate::{
    error::{Error, ErrorKind, Result},
    exit::{self, Loading},
    info::{CPU_NAME, DeviceInfo, DeviceKind},
    options::DeviceOptions,
};

/// Features that are enabled if the adapter has them.
const WANTED: wgpu::Features = OPTIONAL
    .union(wgpu::Features::TIMESTAMP_QUERY)
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS)
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES)
    .union(wgpu::Features::PIPELINE_CACHE);

/// Those of them that kernels and programs can use, beyond the WebGPU baseline.
pub(super) const OPTIONAL: wgpu::Features = wgpu::Features::IMMEDIATES
    .union(wgpu::Features::SHADER_F16)
    .union(wgpu::Features::SHADER_F64)
    .union(wgpu::Features::SHADER_I16)
    .union(wgpu::Features::SHADER_INT64)
    .union(wgpu::Features::SHADER_INT64_ATOMIC_MIN_MAX)
    .union(wgpu::Features::SHADER_INT64_ATOMIC_ALL_OPS)
    .union(wgpu::Features::SHADER_FLOAT32_ATOMIC)
    .union(wgpu::Features::SUBGROUP)
    .union(wgpu::Features::SUBGROUP_BARRIER);

/// An opened adapter.
pub(crate) struct OpenedAdapter {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) info: DeviceInfo,
    pub(crate) downlevel: wgpu::DownlevelFlags,
}

/// The device found for a name.
pub(crate) enum SelectedDevice {
    Wgpu(Box<OpenedAdapter>),
    /// The built-in CPU, which is always available.
    Cpu {
        /// Opened because there is no hardware.
        instead: bool,
    },
}

/// All devices that can compute, the best first.
pub(crate) fn list() -> Vec<DeviceInfo> {
    candidates().into_iter().map(|(_, info)| info).collect()
}

/// Opens the device that the options name, else the one `SORTIE_DEVICE` names, else the best one.
pub(crate) fn open(options: &DeviceOptions) -> Result<SelectedDevice> {
    let named = Named::by(options.device.clone(), std::env::var("SORTIE_DEVICE").ok());
    let found = |opened: OpenedAdapter| SelectedDevice::Wgpu(Box::new(opened));
    match named.as_ref().map(|named| named.name.as_str()) {
        Some(name) if name.eq_ignore_ascii_case("noop") => return noop(options).map(found),
        // Found without a driver.
        Some(name) if is_cpu(name) => return Ok(SelectedDevice::Cpu { instead: false }),
        _ => {}
    }
    let Some(named) = named else {
        let hardware = if quiet::only_software() { None } else { hardware_of(candidates(), options) };
        return Ok(hardware.map_or(SelectedDevice::Cpu { instead: true }, found));
    };
    let candidates = candidates();
    let index = pick(&named.name, candidates.iter().map(|(_, info)| info));
    match index.map(|index| &candidates[index]) {
        None => Err(none_found(&named, candidates.iter().map(|(_, info)| info))),
        // The best is first.
        Some((None, _)) => Ok(SelectedDevice::Cpu { instead: candidates[0].0.is_none() }),
        Some((Some(adapter), _)) => request(adapter, adapter.limits(), options).map(found),
    }
}

/// The name of a device, and its origin.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    name: String,
    /// Set by `SORTIE_DEVICE`.
    by_variable: bool,
}

impl Named {
    /// The options' name, else the variable's. A blank name counts as none.
    fn by(option: Option<String>, variable: Option<String>) -> Option<Self> {
        let by_variable = option.is_none();
        let name = option.or(variable)?.trim().to_owned();
        (!name.is_empty()).then_some(Self { name, by_variable })
    }
}

/// Opens the best hardware.
pub(crate) fn hardware(options: &DeviceOptions) -> Result<OpenedAdapter> {
    let candidates = candidates();
    let known = known(candidates.iter().map(|(_, info)| info));
    let none = || Error::new(ErrorKind::NoDevice, format!("no GPU was found or opened; the devices are {known}"));
    hardware_of(candidates, options).ok_or_else(none)
}

/// Opens the first of these that is hardware. One that fails to open (a broken driver, a GPU in exclusive use) is
/// skipped.
fn hardware_of(candidates: Vec<(Option<wgpu::Adapter>, DeviceInfo)>, options: &DeviceOptions) -> Option<OpenedAdapter> {
    for (adapter, info) in candidates {
        // The built-in CPU comes after all hardware.
        let adapter = adapter?;
        match request(&adapter, adapter.limits(), options) {
            Ok(opened) => return Some(opened),
            Err(error) => tracing::warn!(target: "sortie", "{info} is skipped: {error}"),
        }
    }
    None
}

/// Whether a name can only mean the built-in CPU: `cpu`, or its own name with or without its threads.
fn is_cpu(name: &str) -> bool {
    let begins = name.get(..CPU_NAME.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(CPU_NAME));
    begins || name.eq_ignore_ascii_case("cpu")
}

/// Opens an adapter again.
pub(crate) fn reopen(before: &DeviceInfo, options: &DeviceOptions) -> Result<OpenedAdapter> {
    if before.kind == DeviceKind::Noop {
        return noop(options);
    }
    let same =
        |info: &DeviceInfo| (&info.name, info.backend, &info.driver) == (&before.name, before.backend, &before.driver);
    match adapters().into_iter().find(|(_, info)| same(info)) {
        Some((adapter, _)) => request(&adapter, adapter.limits(), options),
        None => Err(Error::new(ErrorKind::NoDevice, format!("{before} no longer exists"))),
    }
}

/// One for the process (except for GL), never dropped. wgpu distinguishes handles only within an instance: with one
/// instance per device, a buffer of another device could be mistaken for ours. Sharing it also avoids loading the
/// drivers for every open.
static PRIMARY: LazyLock<wgpu::Instance> = LazyLock::new(|| instance(wgpu::Backends::PRIMARY | wgpu::Backends::NOOP));

fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle_from_env();
    // Environment variables may restrict the backends; noop is always included.
    descriptor.backends = (descriptor.backends | wgpu::Backends::NOOP) & backends;
    descriptor.backend_options.noop = wgpu::NoopBackendOptions::enabled();
    // Loading drivers registers their exit handlers.
    exit::run_at_exit();
    let instance = wgpu::Instance::new(descriptor);
    exit::run_at_exit();
    instance
}

/// The available devices, the best first; the built-in CPU has no adapter.
fn candidates() -> Vec<(Option<wgpu::Adapter>, DeviceInfo)> {
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let cpu = (None, DeviceInfo::cpu(threads));
    let adapters = adapters().into_iter().map(|(adapter, info)| (Some(adapter), info));
    let mut all: Vec<_> = adapters.chain([cpu]).collect();
    all.sort_by_key(|(_, info)| rank(info));
    all
}

/// GL is queried only if nothing else is found: elsewhere it lists the same hardware again, with fewer features.
fn adapters() -> Vec<(wgpu::Adapter, DeviceInfo)> {
    let _loading = Loading::begin();
    let found = adapters_of(&PRIMARY, wgpu::Backends::PRIMARY);
    if !found.is_empty() {
        return found;
    }
    // A new instance each time: all devices of a GL adapter share one context, and wgpu panics if one waits for another
    // too long.
    adapters_of(&instance(wgpu::Backends::SECONDARY), wgpu::Backends::SECONDARY)
}

fn adapters_of(instance: &wgpu::Instance, backends: wgpu::Backends) -> Vec<(wgpu::Adapter, DeviceInfo)> {
    let adapters = pollster::block_on(instance.enumerate_adapters(backends));
    exit::run_at_exit();
    adapters
        .into_iter()
        .filter(|adapter| adapter.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS))
        .map(|adapter| {
            let info = describe(&adapter.get_info(), &adapter.limits(), adapter.features());
            (adapter, info)
        })
        .collect()
}

/// Hardware, then the built-in CPU, then software drivers, which are slower.
fn rank(info: &DeviceInfo) -> u8 {
    match info.kind {
        DeviceKind::Discrete => 0,
        DeviceKind::Integrated => 1,
        DeviceKind::Virtual => 2,
        DeviceKind::Other => 3,
        DeviceKind::Cpu => 4,
        DeviceKind::Software => 5,
        DeviceKind::Noop => 6,
    }
}

/// Finds a device by index in the list, else by a part of the name or driver, ignoring case.
fn pick<'a>(wanted: &str, infos: impl Iterator<Item = &'a DeviceInfo>) -> Option<usize> {
    let infos: Vec<_> = infos.collect();
    if let Ok(index) = wanted.parse::<usize>() {
        return (index < infos.len()).then_some(index);
    }
    let wanted = wanted.to_lowercase();
    let says = |text: &str| text.to_lowercase().contains(&wanted);
    let by_name = infos.iter().position(|info| says(&info.name));
    by_name.or_else(|| infos.iter().position(|info| says(&info.driver) || says(info.backend)))
}

/// The available devices, with their indices.
fn known<'a>(infos: impl Iterator<Item = &'a DeviceInfo>) -> String {
    let known: Vec<_> = infos.enumerate().map(|(index, info)| format!("{index}: {info}")).collect();
    known.join(", ")
}

fn none_found<'a>(named: &Named, infos: impl Iterator<Item = &'a DeviceInfo>) -> Error {
    let whose = if named.by_variable { ", as SORTIE_DEVICE says" } else { "" };
    let message = format!("no device is called {:?}{whose}; there is {}", named.name, known(infos));
    Error::new(ErrorKind::NoDevice, message)
}

fn request(adapter: &wgpu::Adapter, limits: wgpu::Limits, options: &DeviceOptions) -> Result<OpenedAdapter> {
    let _loading = Loading::begin();
    // A portable device requests no more than its limits, so that wgpu checks them too.
    let (wanted, limits) = match options.portable {
        true => (WANTED.difference(OPTIONAL), wgpu::Limits::defaults().or_worse_values_from(&limits)),
        false => (WANTED, limits),
    };
    let features = adapter.features() & wanted;
    let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        label: Some("sortie"),
        required_features: features,
        required_limits: limits,
        experimental_features: wgpu::ExperimentalFeatures::disabled(),
        memory_hints: wgpu::MemoryHints::Performance,
        trace: wgpu::Trace::Off,
    }))
    .map_err(|error| {
        Error::new(ErrorKind::NoDevice, format!("{} did not open", adapter.get_info().name)).caused_by(error)
    })?;
    let info = describe(&adapter.get_info(), &device.limits(), features);
    Ok(OpenedAdapter { device, queue, info, downlevel: adapter.get_downlevel_capabilities().flags })
}

/// wgpu's noop device, with the limits that WebGPU guarantees, and immediates.
fn noop(options: &DeviceOptions) -> Result<OpenedAdapter> {
    let adapter = pollster::block_on(PRIMARY.enumerate_adapters(wgpu::Backends::NOOP)).into_iter().next();
    let adapter = adapter.ok_or_else(|| Error::new(ErrorKind::NoDevice, "wgpu's noop adapter did not answer"))?;
    request(&adapter, wgpu::Limits { max_immediate_size: 128, ..Default::default() }, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, driver: &str) -> DeviceInfo {
        let mut info =
            noop(&DeviceOptions::default()).map(|opened| opened.info).unwrap_or_else(|error| panic!("{error}"));
        info.name = name.into();
        info.driver = driver.into();
        info
    }

    #[test]
    fn a_device_is_picked_by_index_or_by_part_of_its_name() {
        let infos = [
            info("Radeon", "radv"),
            info("llvmpipe (LLVM 15)", "Mesa"),
            info("SwiftShader Device", "SwiftShader driver"),
        ];
        let pick = |wanted| pick(wanted, infos.iter());
        assert_eq!((pick("0"), pick("2"), pick("3")), (Some(0), Some(2), None));
        assert_eq!(
            (pick("LLVMpipe"), pick("swiftshader"), pick("radv"), pick("nvidia")),
            (Some(1), Some(2), Some(0), None)
        );
    }

    #[test]
    fn the_built_in_cpu_is_known_by_its_own_names_only() {
        let names = ["cpu", "CPU", "sortie cpu", "Sortie CPU (8 threads)"];
        assert!(names.into_iter().all(is_cpu));
        assert!(!["", "llvmpipe", "cpu 1", "sortie", "Intel CPU", "sörtie cpu"].into_iter().any(is_cpu));
    }

    #[test]
    fn the_built_in_cpu_stands_between_hardware_and_software_drivers() {
        let kinds = [DeviceKind::Software, DeviceKind::Cpu, DeviceKind::Integrated, DeviceKind::Discrete];
        let mut infos = kinds.map(|kind| DeviceInfo { kind, ..info("a", "b") });
        infos.sort_by_key(rank);
        let sorted = [DeviceKind::Discrete, DeviceKind::Integrated, DeviceKind::Cpu, DeviceKind::Software];
        assert_eq!(infos.map(|info| info.kind), sorted);
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let known = info("llvmpipe", "Mesa");
        let error = |option: Option<&str>, variable: Option<&str>| {
            let named = Named::by(option.map(str::to_owned), variable.map(str::to_owned)).expect("a name");
            none_found(&named, [&known].into_iter()).to_string()
        };
        let there = "; there is 0: llvmpipe (noop, noop)";
        assert_eq!(error(Some("nvidia"), None), format!("no device is called \"nvidia\"{there}"));
        assert_eq!(error(Some("nvidia"), Some("cpu")), format!("no device is called \"nvidia\"{there}"));
        assert_eq!(
            error(None, Some(" nvidia ")),
            format!("no device is called \"nvidia\", as SORTIE_DEVICE says{there}")
        );
        assert_eq!(Named::by(Some(" ".into()), Some("cpu".into())), None);
    }
}
