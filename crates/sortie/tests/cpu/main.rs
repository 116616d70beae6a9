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

use sortie::{Device, DeviceOptions};

fn cpu() -> Device {
    Device::cpu().expect("the built-in CPU opens anywhere")
}

fn cpu_with(options: DeviceOptions) -> Device {
    Device::cpu_with(options).expect("the built-in CPU opens anywhere")
}
