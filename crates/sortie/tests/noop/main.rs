//! What needs no driver: exact counts of what reaches wgpu, and every mistake a user can make, on wgpu's noop device.

mod counts;
mod limits;
mod memory;
mod mistakes;
mod readings;

use sortie::{
    Device, DeviceOptions,
    policy::{Split, SubmitPolicy},
};

/// Reads its first binding and writes its second.
const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = 2.0 * x[id.x]; }
    }
";

fn noop() -> Device {
    noop_with(DeviceOptions::default())
}

fn noop_with(mut options: DeviceOptions) -> Device {
    options.device = Some("noop".into());
    // On a busy machine nothing takes long, too; cut by that, it would be more submissions than are counted.
    options.policy.get_or_insert(SubmitPolicy { split: Split::Never, ..SubmitPolicy::default() });
    Device::open_with(options).expect("the noop device opens anywhere")
}
