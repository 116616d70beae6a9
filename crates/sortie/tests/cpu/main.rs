//! The built-in CPU, which needs nothing: opening, transfers, tickets, cancelling, memory, limits and counts.

mod cancel;
mod counts;
mod exit;
mod gate;
mod kernels;
mod memory;
mod open;
mod races;
mod refused;
mod stops;
mod tickets;
mod transfers;

use sortie::{
    Device, DeviceOptions,
    policy::{Split, SubmitPolicy},
};

fn cpu() -> Device {
    cpu_with(DeviceOptions::default())
}

fn cpu_with(mut options: DeviceOptions) -> Device {
    // On a busy machine everything seems to take long; cut by that, it would be more submissions than are counted.
    options.policy.get_or_insert(SubmitPolicy { split: Split::Never, ..SubmitPolicy::default() });
    Device::cpu_with(options).expect("the built-in CPU opens anywhere")
}
