//! Any text as WGSL on the built-in CPU: it compiles, or is refused with an error of the caller's.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sortie::{Device, ErrorKind};

static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::cpu().expect("the built-in CPU"));

fuzz_target!(|source: &str| {
    if let Err(error) = DEVICE.kernel(source) {
        assert!(error.kind() != ErrorKind::Internal, "{error:?}");
        assert!(error.to_string().len() <= 16 << 10, "an error of {} bytes", error.to_string().len());
    }
});
