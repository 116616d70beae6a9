//! Warnings logged once per process: work runs without GPU hardware.
//!
//! Otherwise a program that opens many devices, or one per request, would fill its log with them.

use std::sync::Once;

use crate::info::DeviceInfo;

static SAID: Once = Once::new();

/// The built-in CPU was opened because there is no hardware.
pub(super) fn no_hardware(info: &DeviceInfo) {
    SAID.call_once(|| {
        tracing::warn!(target: "sortie", "no GPU found: running on {}; see sortie::guide::troubleshooting", info.name);
    });
}

/// A software driver was opened by name.
pub(super) fn slow(info: &DeviceInfo) {
    SAID.call_once(|| {
        let name = &info.name;
        tracing::warn!(target: "sortie", "running on {name}, a software driver, which is slow; see sortie::guide::troubleshooting");
    });
}
