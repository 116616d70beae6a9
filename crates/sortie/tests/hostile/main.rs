//! Kernel sources that are made to hurt a compiler, on every device: they compile, or are refused by an error that names what there is too much of.
//!
//! What each of them costs is measured by `benches/hostile.rs`, in a process of its own; here only outcomes count.

#[path = "../drivers/mod.rs"]
mod drivers;
mod sources;

use std::time::Duration;

use sortie::{Device, DeviceOptions, ErrorKind, device::CacheDir};

use sources::{FAMILIES, Family};

/// Nothing here may depend on how busy the machine is.
fn options() -> DeviceOptions {
    DeviceOptions::default().with_cache(CacheDir::Off).with_compile_budget(Duration::MAX)
}

fn compile(device: &Device, family: &Family, size: usize) -> Result<(), sortie::Error> {
    let source = (family.make)(size);
    match family.name {
        "entry_points" => device.module(&source)?.kernel("main").map(drop),
        _ => device.kernel(&source).map(drop),
    }
}

fn small_ones_compile(device: &Device) {
    for family in FAMILIES {
        for size in family.compiles {
            if let Err(error) = compile(device, family, *size) {
                panic!("{} of {size} on {}: {error}", family.name, device.info());
            }
        }
    }
}

fn large_ones_are_refused(device: &Device) {
    for family in FAMILIES {
        for size in family.refused {
            let what = format!("{} of {size} on {}", family.name, device.info());
            match compile(device, family, *size) {
                Ok(()) => panic!("{what} compiles"),
                Err(error) => {
                    let kind = error.kind();
                    let clear = matches!(kind, ErrorKind::TooLarge { .. } | ErrorKind::Shader | ErrorKind::Unsupported);
                    assert!(clear, "{what}: {error}");
                }
            }
        }
    }
}

#[test]
fn small_ones_compile_on_the_cpu() {
    small_ones_compile(&Device::cpu_with(options()).expect("always there"));
}

#[test]
fn large_ones_end_on_the_cpu() {
    let device = Device::cpu_with(options()).expect("always there");
    for family in FAMILIES {
        for size in family.refused {
            if let Err(error) = compile(&device, family, *size) {
                let kind = error.kind();
                let clear = matches!(kind, ErrorKind::TooLarge { .. } | ErrorKind::Shader | ErrorKind::Unsupported);
                assert!(clear, "{} of {size}: {error}", family.name);
            }
        }
    }
}

#[test]
fn small_ones_compile_on_lavapipe() {
    if let Some(device) = drivers::open_with("llvmpipe", options()) {
        small_ones_compile(&device);
    }
}

#[test]
fn large_ones_are_refused_on_lavapipe() {
    if let Some(device) = drivers::open_with("llvmpipe", options()) {
        large_ones_are_refused(&device);
    }
}

#[test]
fn small_ones_compile_on_swiftshader() {
    if let Some(device) = drivers::open_with("swiftshader", options()) {
        small_ones_compile(&device);
    }
}

#[test]
fn large_ones_are_refused_on_swiftshader() {
    if let Some(device) = drivers::open_with("swiftshader", options()) {
        large_ones_are_refused(&device);
    }
}

#[test]
fn a_refusal_names_what_there_is_too_much_of() {
    let device = Device::open_with(options().with_device("noop")).expect("always there");
    for (name, size, says) in [
        ("doubling_constants", 24, "elements of constants"),
        ("negated_zero_of_a_huge_array", 0, "zero values"),
        ("doubling_structs", 27, "members of a type"),
        ("doubling_calls", 20, "instructions after inlining"),
        ("temporary_array", 65_536, "arrays that are values"),
        ("statements", 60_000, "names and numbers"),
        ("ifs", 20_000, "names and numbers"),
    ] {
        let family = FAMILIES.iter().find(|family| family.name == name).expect("there is one");
        let error = compile(&device, family, size).expect_err(name);
        assert!(error.to_string().contains(says), "{name}: {error}");
    }
}
