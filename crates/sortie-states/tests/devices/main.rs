//! Every operation on the built-in CPU and on both software drivers, against the reference.
//!
//! The seed is fixed, so a run is the same every time. `SORTIE_CASES=full` runs ten times as many cases.

mod answers;
mod counts;
mod mistakes;

#[path = "../../../sortie/tests/drivers/mod.rs"]
mod drivers;

use sortie::Device;
use sortie_states::States;

/// Runs a test on each device that there is.
fn on_each(test: impl Fn(&str, &Device, &States)) {
    let open = |name| if name == "cpu" { drivers::cpu() } else { drivers::open(name) };
    for name in ["cpu", "llvmpipe", "swiftshader"] {
        let Some(device) = open(name) else { continue };
        let states = States::new(&device).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        test(name, &device, &states);
    }
}
