//! Layers of neural networks on [`sortie`], with weights from safetensors files.
//!
//! A layer is a plain struct of [`Param`]s, buffers with a shape, that stay on the device. Its `forward` records tensor
//! operations in the batch of its input: it runs nothing, so layers work in batches, replays and batchers.
//!
//! ```
//! use sortie::Device;
//! use sortie_nn::{Linear, Weights};
//!
//! # fn main() -> sortie_nn::Result<()> {
//! let device = Device::cpu()?;
//! // `Weights::open("model.safetensors")?` for a file.
//! let weights = Weights::from_fn(|_, shape| vec![0.5; shape.iter().product()]);
//! let linear: Linear = weights.load(&device, |params| Linear::new(&params.at("dense"), [3, 2]))?;
//!
//! let batch = device.batch();
//! let y = linear.forward(batch.tensor_from(&[1.0, 2.0, 3.0], [1, 3])).read();
//! batch.submit()?;
//! assert_eq!(y.wait()?, [3.5, 3.5]);
//! # Ok(())
//! # }
//! ```
//!
//! [`Encoder`] is a BERT-style encoder of sentences, configured by the `config.json` beside its weights:
//!
//! ```no_run
//! use sortie::{BatchConfig, Batcher, Device};
//! use sortie_nn::Encoder;
//!
//! # fn main() -> sortie::Result<()> {
//! let batcher = Batcher::new(&Device::open()?, <Encoder>::job("all-MiniLM-L6-v2")?, BatchConfig::default())?;
//! let embedding = batcher.call_blocking(vec![101, 7592, 2088, 102])?; // tokens; from any number of threads and tasks
//! # Ok(())
//! # }
//! ```
//!
//! | module | noun |
//! |---|---|
//! | `weights` | [`Weights`]: where parameters come from; checks all of them before it reads any |
//! | `source`, `shard` | tensors in files or of a function; one safetensors file |
//! | `params` | [`Params`]: names and shapes that a model asks for |
//! | `param` | [`Param`]: a buffer with a shape |
//! | `weight` | [`Weight`]: element types of parameters |
//! | `linear`, `embedding`, `norm`, `feed_forward`, `rotary`, `attention`, `cache` | layers |
//! | `encoder`, `config` | [`Encoder`] and its [`EncoderConfig`] |
//! | `error`, `json` | [`Error`]; JSON files of bounded length |
//!
//! Model files are untrusted: a wrong one is an error that names the file and the tensor, and costs no more memory than
//! it has bytes.

mod attention;
mod cache;
mod config;
mod embedding;
mod encoder;
mod error;
mod feed_forward;
mod json;
mod linear;
mod norm;
mod param;
mod params;
mod rotary;
mod shard;
mod source;
mod weight;
mod weights;

pub use self::{
    attention::Attention,
    cache::KeyValueCache,
    config::{Activation, EncoderConfig, Pooling},
    embedding::Embedding,
    encoder::Encoder,
    error::{Error, Result},
    feed_forward::FeedForward,
    linear::Linear,
    norm::{LayerNorm, RmsNorm},
    param::Param,
    params::Params,
    rotary::Rotary,
    weight::Weight,
    weights::Weights,
};
