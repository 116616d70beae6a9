//! `DeviceOptions::portable`: every device takes and refuses the same.

use sortie::{
    Device, ErrorKind, Grid, Result,
    device::{DeviceKind, Limits},
};

use crate::{DRIVERS, drivers};

/// Every device there is, held to what all of them have.
fn portable() -> Vec<Device> {
    let options = drivers::uncut().with_portable(true);
    let named = |name: &str| {
        let options = options.clone().with_device(name);
        Device::open_with(options).unwrap_or_else(|error| panic!("{name} does not open: {error}"))
    };
    let software = DRIVERS.into_iter().filter_map(|driver| Some(named(&drivers::find(driver)?.to_string())));
    [named("cpu"), named("noop")].into_iter().chain(software).collect()
}

#[test]
fn indirect_counts_over_the_limit_run_nothing() -> Result<()> {
    const COUNT: &str = "
        @group(0) @binding(0) var<storage, read_write> n: array<atomic<u32>>;
        @compute @workgroup_size(1) fn main() { atomicAdd(&n[0], 1u); }";
    for device in portable().into_iter().filter(|device| device.info().kind != DeviceKind::Noop) {
        let count = device.kernel(COUNT)?;
        for (counts, expected) in [([65_535, 1, 1], 65_535), ([65_536, 1, 1], 0), ([2, 65_536, 1], 0), ([2, 3, 4], 24)]
        {
            let (grid, n) = (device.upload(&counts)?, device.zeros::<u32>(1)?);
            let batch = device.batch();
            batch.dispatch(&count, &[&n], Grid::indirect(&grid));
            batch.submit()?;
            assert_eq!(n.download()?, [expected], "{counts:?} on {}", device.info());
        }
    }
    Ok(())
}

fn too_large(wanted: u64, limit: u64) -> ErrorKind {
    ErrorKind::TooLarge { wanted, limit }
}

/// A kernel that uses this many buffers of a kind.
fn buffers(count: u32, kind: &str, ty: &str) -> String {
    let declared = |index| format!("@group(0) @binding({index}) var<{kind}> b{index}: {ty};");
    let used: String = (0..count).map(|index| format!("_ = &b{index};")).collect();
    (0..count).map(declared).chain([format!("@compute @workgroup_size(1) fn main() {{ {used} }}")]).collect()
}

#[test]
fn all_devices_have_the_default_limits() {
    let limits: Vec<Limits> = portable().iter().map(|device| device.info().limits).collect();
    for each in &limits {
        assert_eq!(each, &limits[0]);
    }
    let Limits { buffer_bytes, binding_bytes, uniform_bytes, storage_buffers, uniform_buffers, .. } = limits[0];
    assert_eq!((buffer_bytes, binding_bytes, uniform_bytes), (256 << 20, 128 << 20, 64 << 10));
    assert_eq!((storage_buffers, uniform_buffers, limits[0].bind_groups, limits[0].binding_numbers), (8, 12, 4, 1000));
    assert_eq!((limits[0].workgroup_invocations, limits[0].workgroup_size), (256, [256, 256, 64]));
    assert_eq!((limits[0].workgroup_bytes, limits[0].groups), (16 << 10, 65_535));
    assert_eq!((limits[0].immediate_bytes, limits[0].slice_alignment), (0, 256));
    assert_eq!((limits[0].subgroup_min_size, limits[0].subgroup_max_size), (0, 0));
}

#[test]
fn what_the_default_limits_do_not_allow_is_refused_alike() {
    let storage = |count| buffers(count, "storage, read_write", "array<u32>");
    let with_immediates = |source: String, ty: &str| {
        source
            .replace("fn main() {", "fn main() { _ = im; ")
            .replace("@compute", &format!("var<immediate> im: {ty};\n@compute"))
    };
    let group = |number| {
        format!(
            "@group({number}) @binding(0) var<uniform> u: vec4<u32>; @compute @workgroup_size(1) fn main() {{ _ = u; }}"
        )
    };
    let sources = [
        (storage(9), too_large(9, 8)),
        (buffers(13, "uniform", "vec4<u32>"), too_large(13, 12)),
        (
            "@group(0) @binding(1000) var<uniform> u: vec4<u32>; @compute @workgroup_size(1) fn main() { _ = u; }"
                .into(),
            too_large(1001, 1000),
        ),
        (group(4), too_large(5, 4)),
        ("@compute @workgroup_size(257) fn main() {}".into(), too_large(257, 256)),
        ("@compute @workgroup_size(16, 32) fn main() {}".into(), too_large(512, 256)),
        (
            "var<workgroup> w: array<u32, 4097>; @compute @workgroup_size(1) fn main() { w[0] = 1; }".into(),
            too_large(16_400, 16_384),
        ),
        ("enable f16; @compute @workgroup_size(1) fn main() { var x = 1.0h; x *= x; }".into(), ErrorKind::Unsupported),
        ("@compute @workgroup_size(1) fn main() { var x = 1lu; x *= x; }".into(), ErrorKind::Unsupported),
        ("@compute @workgroup_size(64) fn main() { _ = subgroupAdd(1u); }".into(), ErrorKind::Unsupported),
        ("@compute @workgroup_size(64) fn main() { var x = 1lu; x += 1lu; }".into(), ErrorKind::Unsupported),
        // Immediates take a bind group, and a uniform or (as an array of numbers does) a storage buffer.
        (with_immediates(group(3), "u32"), ErrorKind::Unsupported),
        (with_immediates(storage(8), "array<u32, 2>"), too_large(9, 8)),
        (with_immediates(buffers(12, "uniform", "vec4<u32>"), "u32"), too_large(13, 12)),
    ];
    for device in portable() {
        for (source, kind) in &sources {
            let error = device.kernel(source).expect_err(source);
            assert_eq!(error.kind(), *kind, "{source} on {}: {error}", device.info());
        }
        let error = device.zeros::<u8>((256 << 20) + 4).expect_err("too large");
        assert_eq!(error.kind(), too_large((256 << 20) + 4, 256 << 20), "{}", device.info());
    }
}

#[test]
fn what_cannot_be_bound_elsewhere_cannot_be_bound() -> Result<()> {
    for device in portable() {
        let step = device.kernel(crate::STEP)?;
        let apart = device.kernel(
            "@group(3) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) { x[id.x] = 1u; }",
        )?;
        let (x, y) = (device.zeros::<u32>(256)?, device.zeros::<u32>(256)?);
        let batch = device.batch();
        batch.dispatch(&step, &[&x.slice(1..), &y], Grid::items(4));
        batch.dispatch(&step, &[&x, &y.slice(63..)], Grid::items(4));
        batch.dispatch(&apart, &[&x], Grid::groups(65_536)).label("folded, without a group left for it");
        let error = batch.submit().expect_err("three mistakes");
        let kinds: Vec<_> = error.mistakes().iter().map(sortie::Error::kind).collect();
        assert_eq!(kinds, [ErrorKind::Bindings, ErrorKind::Bindings, ErrorKind::Unsupported], "{error}");
    }
    Ok(())
}

#[test]
fn what_the_default_limits_allow_runs() -> Result<()> {
    for device in portable() {
        let add = device.kernel(
            "var<immediate> by: u32;
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(workgroup_id) id: vec3<u32>) { if id.x < arrayLength(&x) { x[id.x] += by; } }",
        )?;
        let x = device.zeros::<u32>(128)?;
        let batch = device.batch();
        batch.dispatch(&add, &[&x.slice(64..)], Grid::groups(65_536)).immediates(&3_u32);
        let t = batch.tensor(&x, [2, 64]);
        let sums = t.sum(&[1]);
        let sums = batch.read(sums);
        batch.submit()?;
        let sums = sums.wait()?;
        if device.info().backend != "noop" {
            assert_eq!(sums, [0, 192], "{}", device.info());
        }
    }
    Ok(())
}

#[test]
fn a_guest_is_held_to_the_same() -> Result<()> {
    let owner = Device::open_with(drivers::uncut().with_device("noop"))?;
    let (gpu, queue) = owner.wgpu().expect("a wgpu device");
    let options = drivers::uncut().with_portable(true);
    let guest = Device::from_wgpu_with(gpu.clone(), queue.clone(), options)?;
    assert_eq!((owner.info().limits.immediate_bytes, guest.info().limits.immediate_bytes), (128, 0));
    let half = "enable f16; @compute @workgroup_size(1) fn main() { var x = 1.0h; x *= x; }";
    assert!(owner.kernel(half).is_ok());
    assert_eq!(guest.kernel(half).expect_err("optional").kind(), ErrorKind::Unsupported);
    Ok(())
}
