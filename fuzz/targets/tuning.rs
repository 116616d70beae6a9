//! Any bytes as a tuning file: the device opens, and what it computes is right.
#![no_main]

use std::{fs, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use sortie::{Device, DeviceOptions, device::TuningFile};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(|file: &[u8]| {
    let path = FOLDER.path().join("tuning.toml");
    fs::write(&path, file).expect("a file");
    let options = DeviceOptions::default().with_tuning(TuningFile::At(path)).with_threads(1);
    let device = Device::cpu_with(options).expect("a tuning file is only advice");
    let batch = device.batch();
    let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    let square = x.matmul(x).read();
    batch.submit().expect("a product");
    assert_eq!(square.wait().expect("a product"), [7.0, 10.0, 15.0, 22.0]);
});
