//! Warnings logged once per process: work runs without GPU hardware.
//!
//! Otherwise a program that opens many devices, or one per request, would fill its log with them.

use std::{
    env,
    io::{self, Write},
    sync::Once,
};

use crate::info::DeviceInfo;

static SAID: Once = Once::new();

/// The built-in CPU was opened because there is no hardware. Without a `tracing` subscriber it is a line on stderr.
pub(super) fn no_hardware(info: &DeviceInfo) {
    SAID.call_once(|| {
        let text = format!("no GPU found: running on {}; see sortie::guide::troubleshooting", info.name);
        if tracing::enabled!(target: "sortie", tracing::Level::WARN) {
            tracing::warn!(target: "sortie", "{text}");
        } else if env::var_os("SORTIE_QUIET").is_none_or(|value| value.is_empty() || value == "0") {
            // A closed stderr is no reason to fail.
            drop(writeln!(io::stderr(), "sortie: {text}; SORTIE_QUIET=1 silences this line"));
        }
    });
}

/// A software driver was opened by name.
pub(super) fn slow(info: &DeviceInfo) {
    SAID.call_once(|| {
        let name = &info.name;
        tracing::warn!(target: "sortie", "running on {name}, a software driver, which is slow; see sortie::guide::troubleshooting");
    });
}
