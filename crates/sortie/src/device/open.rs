//! Opening a device: the one place where its backend is selected.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{
    DeviceCore,
    adapter::{self, OpenedAdapter},
};
use crate::{
    backend::{
        cpu::{CpuBackend, CpuThreads},
        vulkan::VulkanRecorder,
        wgpu::{Gpu, WgpuBackend, WgpuOpened},
    },
    error::{Error, ErrorKind, Result},
    exit::Loading,
    info::{DeviceInfo, DeviceKind},
    lost::Lost,
    options::{DeviceOptions, TuningFile},
    policy::{Split, SubmitPolicy},
    submit::Driver,
    tuning::Tuning,
};

/// Opens the built-in CPU, with the driver of its queue.
pub(super) fn cpu(options: DeviceOptions, driver: Box<dyn Driver>) -> Result<DeviceCore> {
    let threads = CpuThreads::new(&options)?;
    let info = held_to(DeviceInfo::cpu(threads.count()), &options);
    let tuning = Tuning::new(&options.tuning, &info);
    DeviceCore::open(info, options, tuning, Arc::default(), |args| CpuBackend::open(threads, args, driver))
}

/// Opens a wgpu device, our own or the application's.
pub(super) fn wgpu(opened: OpenedAdapter, options: DeviceOptions, guest: bool) -> Result<DeviceCore> {
    if options.check_races {
        let message = format!("{info} cannot check for races: open the built-in CPU for that", info = opened.info);
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let _loading = Loading::begin();
    let OpenedAdapter { device, queue, info, downlevel } = opened;
    let info = held_to(info, &options);
    let lost = Arc::new(Lost::default());
    let gpu = if guest { Gpu::borrowed(device) } else { own(device, &lost) };
    // A guest has no tuning file: its host decides how the queue is used.
    let tuning = Tuning::new(if guest { &TuningFile::Off } else { &options.tuning }, &info);
    let features = kernel_features(&gpu, &options);
    let recorders = vec![Box::new(VulkanRecorder::default()) as _];
    let opened = WgpuOpened { gpu, queue, features, downlevel, recorders };
    DeviceCore::open(info, options, tuning, lost, |args| WgpuBackend::open(opened, args))
}

/// The submit policy of a device: from its options, else from the tuning file, else the default.
pub(super) fn policy(options: &DeviceOptions, tuning: &Tuning, kind: DeviceKind) -> SubmitPolicy {
    options.policy.or(tuning.policy).unwrap_or_else(|| default_policy(kind))
}

/// The device info with the limits that the options impose.
fn held_to(info: DeviceInfo, options: &DeviceOptions) -> DeviceInfo {
    if options.portable { info.portable() } else { info }
}

/// The default policy of a device. The built-in CPU has no watchdog: splitting a batch only makes it slower there.
pub(crate) fn default_policy(kind: DeviceKind) -> SubmitPolicy {
    match kind {
        DeviceKind::Cpu => SubmitPolicy { split: Split::Never, ..SubmitPolicy::default() },
        _ => SubmitPolicy::default(),
    }
}

/// Assumed nanoseconds per workgroup of a kernel that was never measured. Low rather than high: batches are split only
/// for known costs.
pub(super) fn default_cost(kind: DeviceKind) -> f64 {
    match kind {
        DeviceKind::Noop => 0.0,
        DeviceKind::Cpu | DeviceKind::Software => 64.0,
        _ => 1.0,
    }
}

/// The features that kernels may use. A guest's device may have more features than its options allow.
fn kernel_features(gpu: &Gpu, options: &DeviceOptions) -> wgpu::Features {
    let all = gpu.features();
    if options.portable { all.difference(adapter::OPTIONAL) } else { all }
}

/// A device id, unique within the process.
pub(super) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Installs our own handlers: wgpu's default one panics, and a device loss must set our flag.
fn own(device: wgpu::Device, lost: &Arc<Lost>) -> Gpu {
    let flag = lost.clone();
    device.set_device_lost_callback(move |reason, message| flag.set(format!("{reason:?} {message}").trim()));
    Gpu::owned(device)
}
