//! The two devices that are compared.

use std::sync::LazyLock;

use sortie::{Device, DeviceOptions};

type Named = (&'static str, Device);

/// The built-in CPU device and lavapipe; while there is no such device, lavapipe and SwiftShader.
pub(crate) fn pair() -> Option<(&'static Named, &'static Named)> {
    static PAIR: LazyLock<Option<(Named, Named)>> = LazyLock::new(|| {
        let lavapipe = ("llvmpipe", open("llvmpipe")?);
        Some(match cpu() {
            Some(cpu) => (("cpu", cpu), lavapipe),
            None => (lavapipe, ("swiftshader", open("swiftshader")?)),
        })
    });
    PAIR.as_ref().map(|(one, other)| (one, other))
}

/// The built-in CPU device; there is none yet.
fn cpu() -> Option<Device> {
    None
}

/// A Vulkan driver. The same name may answer through GL where there is none.
fn open(driver: &str) -> Option<Device> {
    let list = Device::list();
    let index = list.iter().position(|info| info.backend == "vulkan" && info.name.to_lowercase().contains(driver));
    let Some(index) = index else {
        let required = std::env::var_os("SORTIE_REQUIRE_GPU").is_some();
        assert!(!required, "SORTIE_REQUIRE_GPU is set, but there is no Vulkan driver called {driver}");
        let skipped = format!("SKIPPED: random kernels need {driver}, and there is no Vulkan driver of that name\n");
        // Straight to the terminal: the harness hides what a passing test prints.
        drop(std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes()));
        return None;
    };
    let options = DeviceOptions { device: Some(index.to_string()), ..DeviceOptions::default() };
    Some(Device::open_with(options).unwrap_or_else(|error| panic!("{driver} is listed but does not open: {error}")))
}
