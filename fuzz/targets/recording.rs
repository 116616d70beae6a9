//! Bytes as a program on the public API, misuse included, checked against plain Rust.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sortie::Device;
use sortie_soak::program::{Bytes, Program};

static DEVICES: LazyLock<[Device; 2]> = LazyLock::new(|| [(); 2].map(|()| Device::cpu().expect("the built-in CPU")));

fuzz_target!(|data: &[u8]| {
    let [device, other] = &*DEVICES;
    let mut choices = Bytes(data);
    let program = Program::new(device, other, &mut choices).expect("a program");
    if let Err(fault) = program.run((data.len() / 8).min(60)) {
        panic!("{fault}");
    }
});
