//! Any bytes as a safetensors file, and as the configuration of a model: an error, or tensors that are within the file.
#![no_main]

use std::{fs, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use sortie::{Device, DeviceOptions};
use sortie_nn::{EncoderConfig, Weights};
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));
static DEVICE: LazyLock<Device> =
    LazyLock::new(|| Device::cpu_with(DeviceOptions::default().with_threads(1)).expect("a device"));

fuzz_target!(|file: &[u8]| {
    let path = FOLDER.path().join("model.safetensors");
    fs::write(&path, file).expect("a file");
    if let Ok(weights) = Weights::open(&path) {
        let tensors: Vec<(String, Vec<usize>)> =
            weights.tensors().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect();
        let elements: usize = tensors.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
        assert!(elements / 2 <= file.len(), "{elements} elements in {} bytes", file.len());
        let loaded = weights.load(&DEVICE, |params| {
            let all = tensors.iter().map(|(name, shape)| params.param::<f32>(name, shape));
            all.collect::<Result<Vec<_>, _>>()
        });
        // Of all types but f32, f16 and bf16.
        if let Ok(params) = loaded {
            assert!(params.iter().zip(&tensors).all(|(param, (_, shape))| param.shape() == shape));
        }
    }
    let config = FOLDER.path().join("config.json");
    fs::write(&config, file).expect("a file");
    if let Ok(config) = EncoderConfig::open(&config) {
        assert!(config.width.is_multiple_of(config.heads));
    }
});
