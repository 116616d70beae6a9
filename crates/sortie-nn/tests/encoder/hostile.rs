//! Files that are not what they should be: an error that names the file and the tensor, and nothing on the device.

use std::fs;

use safetensors::{Dtype, tensor::TensorView};
use sortie::{Device, half};
use sortie_nn::{Encoder, EncoderConfig, Error, Linear, Param, Weights};

use crate::files::{self, CONFIG, Folder};

/// A file of this header and so many bytes of tensors.
fn with_header(header: &str, bytes: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; bytes]].concat()
}

/// The error of opening these bytes.
fn refused(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    fs::write(&path, bytes).unwrap();
    let error = Weights::open(&path).unwrap_err().to_string();
    assert!(error.contains("model.safetensors"), "{error}");
    error
}

#[test]
fn files_that_lie_about_their_tensors_are_refused() {
    let tensor = |shape: &str, offsets: &str| format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#);
    let one = |shape: &str, offsets: &str| format!(r#"{{"a":{}}}"#, tensor(shape, offsets));
    let two = |first: &str, second: &str| format!(r#"{{"a":{},"b":{}}}"#, tensor("[2]", first), tensor("[2]", second));
    for (bytes, reason) in [
        (b"".to_vec(), "0 bytes"),
        (vec![0; 7], "7 bytes"),
        (u64::MAX.to_le_bytes().to_vec(), "a header of 18446744073709551615 bytes"),
        (100_u64.to_le_bytes().to_vec(), "a header of 100 bytes, in a file of 8"),
        (with_header("{}", 1), "describes a file of 10 bytes, but it has 11"),
        (with_header("[", 0), "invalid type"),
        (with_header("{", 0), "EOF"),
        (with_header(&format!("{{\"a\":{}", "[".repeat(100_000)), 0), "recursion limit"),
        (with_header(&one("[2]", "[0,8]"), 7), "but it has"),
        (with_header(&one("[2]", "[0,8]"), 9), "but it has"),
        (with_header(&one("[2]", "[8,16]"), 16), "offset"),
        (with_header(&one("[2]", "[8,0]"), 8), "offset"),
        (with_header(&one("[3]", "[0,8]"), 8), "invalid shape"),
        (with_header(&one("[-2]", "[0,8]"), 8), "invalid value"),
        (with_header(&one("[4294967296,4294967296,4]", "[0,8]"), 8), "overflow"),
        (with_header(&one("[2]", "[0,99999999999999999999]"), 8), "at line 1"),
        (with_header(&two("[0,8]", "[4,12]"), 12), "offset"),
        (with_header(&two("[0,8]", "[12,20]"), 20), "offset"),
        (with_header(&two("[0,8]", "[0,8]"), 8), "offset"),
        (with_header(r#"{"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}"#, 8), "F99"),
    ] {
        let error = refused(&bytes);
        assert!(error.contains(reason), "{error}, not {reason}");
    }
}

#[test]
fn every_prefix_of_a_file_is_refused() {
    let folder = Folder::new();
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let lengths = (0..whole.len()).step_by(whole.len() / 97).chain([whole.len() - 1]);
    for length in lengths {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(Weights::open(&path).is_err(), "{length} bytes of {}", whole.len());
    }
}

#[test]
fn one_error_lists_everything_that_does_not_fit_and_nothing_is_uploaded() {
    let folder = Folder::new();
    let mut shapes = files::shapes();
    shapes.retain(|(name, _)| name != "embeddings.LayerNorm.bias");
    shapes.push(("a stranger".into(), vec![3]));
    for (name, shape) in &mut shapes {
        if name == "encoder.layer.1.output.dense.weight" {
            shape.reverse();
        }
    }
    fs::write(folder.path().join("model.safetensors"), files::file(&shapes)).unwrap();
    let device = Device::cpu().unwrap();
    let error = <Encoder>::open(folder.path(), &device).unwrap_err();
    let Error::Params { problems, .. } = &error else { panic!("{error}") };
    assert_eq!(problems.len(), 3, "{error}");
    for line in [
        "\"embeddings.LayerNorm.bias\" is missing; its shape should be [32]",
        "\"encoder.layer.1.output.dense.weight\" has the shape [64, 32] instead of [32, 64]",
        "\"a stranger\" of shape [3] is unexpected",
    ] {
        assert!(error.to_string().contains(line), "{error}");
    }
    // Placeholders only: the parameters themselves have 80 KiB.
    assert!(device.metrics().pool_bytes_peak < 16 << 10, "{}", device.metrics().pool_bytes_peak);
}

#[test]
fn configurations_of_other_models_are_refused() {
    let folder = Folder::new();
    let path = folder.path().join("config.json");
    for (from, to, reason) in [
        ("\"bert\"", "\"llama\"", "a model of type \"llama\""),
        ("\"gelu\"", "\"mish\"", "the activation \"mish\""),
        ("\"hidden_size\": 32", "\"hidden_size\": 30", "no multiple of num_attention_heads"),
        ("\"hidden_size\": 32", "\"hidden_size\": 99999999999", "hidden_size is 99999999999"),
        ("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 999999999", "num_hidden_layers is 999999999"),
        ("\"num_attention_heads\": 4", "\"num_attention_heads\": 0", "num_attention_heads is 0"),
        ("\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": -1", "layer_norm_eps is -1"),
        ("\"vocab_size\": 50,", "", "missing field `vocab_size`"),
        ("}", ", \"position_embedding_type\": \"relative_key\"}", "positions of type \"relative_key\""),
        ("}", ", \"is_decoder\": true}", "a decoder"),
    ] {
        fs::write(&path, CONFIG.replace(from, to)).unwrap();
        let error = EncoderConfig::open(&path).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("config.json"), "{error}, not {reason}");
    }
    fs::write(&path, CONFIG).unwrap();
    fs::create_dir(folder.path().join("1_Pooling")).unwrap();
    fs::write(folder.path().join("1_Pooling/config.json"), r#"{"pooling_mode_max_tokens": true}"#).unwrap();
    assert!(EncoderConfig::open(&path).unwrap_err().to_string().contains("pooling"));
}

#[test]
fn shards_with_an_index_are_one_model_and_an_index_that_lies_is_refused() {
    let folder = Folder::new();
    let device = Device::cpu().unwrap();
    let shapes = files::shapes();
    let (one, other) = shapes.split_at(9);
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    let index = |first: &str, second: &str| {
        let line = |file: &str, shapes: &[(String, Vec<usize>)]| {
            shapes.iter().map(|(name, _)| format!("{name:?}: {file:?}")).collect::<Vec<_>>()
        };
        let lines = [line(first, one), line(second, other)].concat().join(",");
        let index = format!(r#"{{"metadata": {{}}, "weight_map": {{{lines}}}}}"#);
        fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    };
    fs::write(folder.path().join("1.safetensors"), files::file(one)).unwrap();
    fs::write(folder.path().join("2.safetensors"), files::file(other)).unwrap();
    index("1.safetensors", "2.safetensors");
    <Encoder>::open(folder.path(), &device).unwrap();
    for (first, second, reason) in [
        ("2.safetensors", "1.safetensors", "the index does not say so"),
        ("1.safetensors", "../2.safetensors", "is no name of a file beside it"),
        ("1.safetensors", "/etc/passwd", "is no name of a file beside it"),
        ("1.safetensors", "1.safetensors", "should be in \"1.safetensors\", but is not"),
        ("1.safetensors", "3.safetensors", "cannot be read"),
    ] {
        index(first, second);
        let error = Weights::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}, not {reason}");
    }
}

#[test]
fn stored_elements_are_converted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.safetensors");
    let values = [1.0_f32, -2.5, 0.125, 3.0];
    let halves: Vec<u8> = values.iter().flat_map(|x| half::f16::from_f32(*x).to_le_bytes()).collect();
    let brains: Vec<u8> = values.iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect();
    let longs = [0; 32];
    let device = Device::cpu().unwrap();
    for (dtype, bytes) in [(Dtype::F16, &halves[..]), (Dtype::BF16, &brains[..]), (Dtype::I64, &longs[..])] {
        let view = TensorView::new(dtype, vec![2, 2], bytes).unwrap();
        fs::write(&path, safetensors::serialize([("weight", view)], None).unwrap()).unwrap();
        let loaded = Weights::open(&path).unwrap().load(&device, |params| params.param::<f32>("weight", [2, 2]));
        match dtype {
            Dtype::I64 => assert!(loaded.unwrap_err().to_string().contains("elements of type I64"), "{dtype}"),
            _ => assert_eq!(loaded.unwrap().buffer().download().unwrap(), values, "{dtype}"),
        }
    }
}

#[test]
fn layers_whose_widths_do_not_fit_are_refused() {
    let device = Device::cpu().unwrap();
    let param = |shape: &[usize]| Param::new(device.zeros::<f32>(shape.iter().product()).unwrap(), shape).unwrap();
    assert!(Param::new(device.zeros::<f32>(3).unwrap(), [2, 2]).is_err());
    assert!(Linear::of(param(&[2, 3]), Some(param(&[3]))).is_err());
    assert!(Linear::of(param(&[6]), None).is_err());
    let linear = |outputs, inputs| Linear::of(param(&[outputs, inputs]), None).unwrap();
    let attention = |widths: [[usize; 2]; 4], heads| {
        sortie_nn::Attention::new(widths.map(|[outputs, inputs]| linear(outputs, inputs)), heads)
    };
    assert!(attention([[8, 8]; 4], 3).is_err());
    assert!(attention([[8, 8]; 4], 0).is_err());
    assert!(attention([[8, 8], [6, 8], [6, 8], [8, 8]], 4).is_err());
    assert!(attention([[8, 8], [4, 8], [2, 8], [8, 8]], 4).is_err());
    assert!(attention([[8, 8], [4, 8], [4, 8], [8, 8]], 4).is_ok());
}
