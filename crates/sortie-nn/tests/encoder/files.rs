//! A small encoder with random weights, in a folder.

use std::{fs, path::Path};

use safetensors::{Dtype, tensor::TensorView};
use tempfile::TempDir;

pub(crate) const CONFIG: &str = r#"{
    "model_type": "bert", "vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 40, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    "hidden_act": "gelu"
}"#;

/// The folder of a model.
pub(crate) struct Folder(TempDir);

impl Folder {
    /// With the weights of [`param`].
    pub(crate) fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::write(folder.path().join("config.json"), CONFIG).unwrap();
        fs::write(folder.path().join("model.safetensors"), file(&shapes())).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A parameter: random, the same for the same name. Scales of norms are near 1.
pub(crate) fn param(name: &str, shape: &[usize]) -> Vec<f32> {
    let seed = name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
    let mut random = fastrand::Rng::with_seed(seed);
    let centre = if name.ends_with("LayerNorm.weight") { 1.0 } else { 0.0 };
    (0..shape.iter().product()).map(|_| centre + 0.4 * (random.f32() - 0.5)).collect()
}

/// Names and shapes of all parameters.
pub(crate) fn shapes() -> Vec<(String, Vec<usize>)> {
    let mut all = Vec::new();
    let mut table = |name: &str, rows| all.push((format!("embeddings.{name}.weight"), vec![rows, 32]));
    table("word_embeddings", 50);
    table("position_embeddings", 40);
    table("token_type_embeddings", 2);
    let norm = |all: &mut Vec<(String, Vec<usize>)>, name: String| {
        all.extend(["weight", "bias"].map(|part| (format!("{name}.{part}"), vec![32])));
    };
    norm(&mut all, "embeddings.LayerNorm".into());
    for layer in 0..2 {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        for (part, [inputs, outputs]) in [
            ("attention.self.query", [32, 32]),
            ("attention.self.key", [32, 32]),
            ("attention.self.value", [32, 32]),
            ("attention.output.dense", [32, 32]),
            ("intermediate.dense", [32, 64]),
            ("output.dense", [64, 32]),
        ] {
            all.push((format!("{}.weight", name(part)), vec![outputs, inputs]));
            all.push((format!("{}.bias", name(part)), vec![outputs]));
        }
        norm(&mut all, name("attention.output.LayerNorm"));
        norm(&mut all, name("output.LayerNorm"));
    }
    all
}

/// A safetensors file of these parameters.
pub(crate) fn file(shapes: &[(String, Vec<usize>)]) -> Vec<u8> {
    let bytes = |(name, shape): &(String, Vec<usize>)| -> Vec<u8> {
        param(name, shape).iter().flat_map(|value| value.to_le_bytes()).collect()
    };
    let all: Vec<Vec<u8>> = shapes.iter().map(bytes).collect();
    let views = shapes
        .iter()
        .zip(&all)
        .map(|((name, shape), bytes)| (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    safetensors::serialize(views, None).unwrap()
}
