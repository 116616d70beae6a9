//! One test per bug found, each failing without its fix.

mod exit;
mod foreign;
mod mistakes;
mod scopes;
mod threads;
mod tickets;

use sortie::{Device, DeviceOptions};

fn noop() -> Device {
    Device::open_with(DeviceOptions { device: Some("noop".into()), ..DeviceOptions::default() })
        .expect("the noop device opens")
}

/// Reads its first binding and writes its second.
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = 2u * x[id.x] + 1u; }
    }
";
