//! Every operation on the built-in CPU and on both software drivers, against the reference.
//!
//! The seed is fixed, so a run is the same every time. `SORTIE_CASES=full` runs ten times as many cases.

mod answers;
mod batched;
mod counts;
mod mistakes;

#[path = "../../../sortie/tests/drivers/mod.rs"]
mod drivers;

use sortie::Device;
use sortie_states::States;

/// Runs a test on each device that there is.
fn on_each(test: impl Fn(&str, &Device, &States)) {
    let with_states = |name: &str, device: &Device| {
        let states = States::new(device).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        test(name, device, &states);
    };
    if let Some(device) = drivers::cpu() {
        with_states("cpu", &device);
    }
    on_each_driver(with_states);
}

/// Runs a test on each Vulkan driver that there is.
fn on_each_driver(test: impl Fn(&str, &Device)) {
    for name in ["llvmpipe", "swiftshader"] {
        if let Some(device) = drivers::open(name) {
            test(name, &device);
        }
    }
}
