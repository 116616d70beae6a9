//! A BERT-style encoder of sentences.

use std::path::{Path, PathBuf};

use sortie::{Device, Tensor, batcher::Sequences};

use crate::{
    attention::Attention,
    config::{EncoderConfig, Pooling},
    embedding::Embedding,
    error::Result,
    feed_forward::FeedForward,
    linear::Linear,
    norm::LayerNorm,
    params::Params,
    rotary::dims,
    weight::Weight,
    weights::Weights,
};

/// A BERT-style encoder: tokens become one embedding of length 1 for each sequence.
///
/// ```no_run
/// use sortie::Device;
/// use sortie_nn::Encoder;
///
/// # fn main() -> sortie_nn::Result<()> {
/// let device = Device::open()?;
/// let encoder = <Encoder>::open("all-MiniLM-L6-v2", &device)?; // config.json and model.safetensors
/// let batch = device.batch();
/// // Two sequences; the second is padded from 3 tokens to 4.
/// let tokens = batch.tensor_from(&[101, 7592, 2088, 102, 101, 7592, 102, 0], [2, 4]);
/// let embeddings = encoder.embed(tokens, batch.tensor_from(&[4, 3], [2])).read();
/// batch.submit()?;
/// assert_eq!(embeddings.wait()?.len(), 2 * encoder.config().width);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Encoder<W = f32> {
    config: EncoderConfig,
    words: Embedding<W>,
    positions: Embedding<W>,
    token_types: Option<Embedding<W>>,
    norm: LayerNorm<W>,
    layers: Vec<Layer<W>>,
}

#[derive(Clone, Debug)]
struct Layer<W> {
    attention: Attention<W>,
    after_attention: LayerNorm<W>,
    feed_forward: FeedForward<W>,
    after_feed_forward: LayerNorm<W>,
}

impl<W: Weight> Encoder<W> {
    /// Opens the model in a folder: `config.json`, and `model.safetensors` or its shards with their index.
    ///
    /// # Errors
    /// Of [`EncoderConfig::open`], [`Weights::open`] and [`Weights::load`].
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let config = EncoderConfig::open(folder.as_ref().join("config.json"))?;
        Weights::open(folder)?.load(device, |params| Self::new(params, &config))
    }

    /// The job of a batcher that embeds sequences of tokens with the model in a folder. The model is opened on each of the
    /// batcher's devices. A sequence that is empty or too long, or has a token that is not in the vocabulary, is refused.
    ///
    /// ```no_run
    /// use sortie::{BatchConfig, Batcher, Device};
    /// use sortie_nn::Encoder;
    ///
    /// # fn main() -> sortie::Result<()> {
    /// let job = <Encoder>::job("all-MiniLM-L6-v2")?;
    /// let batcher = Batcher::new(&Device::open()?, job, BatchConfig::default())?;
    /// let embedding = batcher.call_blocking(vec![101, 7592, 2088, 102])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of [`EncoderConfig::open`].
    pub fn job(folder: impl Into<PathBuf>) -> Result<Sequences<u32, f32>> {
        let folder = folder.into();
        let config = EncoderConfig::open(folder.join("config.json"))?;
        let job = Sequences::new(
            config.width,
            move |device| Ok(Self::open(&folder, device)?),
            |encoder: &Self, tokens, lengths| encoder.embed(tokens, lengths),
        );
        Ok(job.with_max_length(config.positions).with_check(move |tokens| config.check_tokens(tokens)))
    }

    /// The parameters of a BERT model, by their usual names.
    ///
    /// # Errors
    /// As [`Params::param`].
    pub fn new(params: &Params<'_>, config: &EncoderConfig) -> Result<Self> {
        let EncoderConfig { width, epsilon, .. } = *config;
        // Files of whole models have a prefix; the layer after pooling is not used.
        let prefixed = params.has("bert.embeddings.word_embeddings.weight");
        let inner = prefixed.then(|| params.at("bert"));
        let params = inner.as_ref().unwrap_or(params);
        params.ignore("pooler.");
        params.ignore("embeddings.position_ids");
        let table = |name: &str, rows: usize| Embedding::new(&params.at("embeddings").at(name), [rows, width]);
        let token_types = (config.token_types > 0).then(|| table("token_type_embeddings", config.token_types));
        let layers = (0..config.layers).map(|at| Layer::new(&params.at("encoder.layer").at(at), config));
        Ok(Self {
            config: config.clone(),
            words: table("word_embeddings", config.vocabulary)?,
            positions: table("position_embeddings", config.positions)?,
            token_types: token_types.transpose()?,
            norm: LayerNorm::new(&params.at("embeddings.LayerNorm"), width, epsilon)?,
            layers: layers.collect::<Result<_>>()?,
        })
    }

    /// Its dimensions.
    #[must_use]
    pub fn config(&self) -> &EncoderConfig {
        &self.config
    }

    /// Records the last layer's output for tokens of `[rows, positions]`: `[rows, positions, width]`. Each row has as
    /// many tokens as `lengths`, of shape `[rows]`, says, at least 1; what follows is padding and changes nothing.
    #[must_use]
    #[track_caller]
    pub fn forward<'b>(&self, tokens: Tensor<'b, u32>, lengths: Tensor<'b, u32>) -> Tensor<'b, f32> {
        let (batch, [rows, length, ..]) = (tokens.batch(), dims(&tokens.shape()));
        let width = self.config.width;
        let positions = self.positions.weight().wide(batch).slice(&[0..length, 0..width]);
        let positions = match &self.token_types {
            Some(types) => positions + types.weight().wide(batch).slice(&[0..1, 0..width]),
            None => positions,
        };
        let mut x = self.norm.forward(self.words.forward(tokens) + positions);
        let mask = present(lengths, length).select(0.0, f32::NEG_INFINITY).reshape([rows, 1, 1, length]);
        for layer in &self.layers {
            x = layer.forward(x, mask);
        }
        x.reshape([rows, length, width])
    }

    /// Records the embeddings of sequences, of length 1: `[rows, width]`. Arguments as of [`forward`](Self::forward).
    #[must_use]
    #[track_caller]
    pub fn embed<'b>(&self, tokens: Tensor<'b, u32>, lengths: Tensor<'b, u32>) -> Tensor<'b, f32> {
        let [rows, length, ..] = dims(&tokens.shape());
        let x = self.forward(tokens, lengths);
        let pooled = match self.config.pooling {
            Pooling::First => x.slice(&[0..rows, 0..1]).reshape([rows, self.config.width]),
            Pooling::Mean => {
                let shares = present(lengths, length).cast::<f32>() / lengths.cast::<f32>().reshape([rows, 1]);
                (x * shares.reshape([rows, length, 1])).sum(&[1])
            }
        };
        let square = (pooled * pooled).sum(&[1]).reshape([rows, 1]);
        // As in PyTorch: an embedding of zeros stays zero.
        pooled / square.sqrt().maximum(1e-12)
    }
}

/// 1 where a position has a token: `[rows, positions]`.
#[track_caller]
fn present(lengths: Tensor<'_, u32>, length: usize) -> Tensor<'_, u32> {
    let positions: Vec<u32> = (0..length as u32).collect();
    let positions = lengths.batch().tensor_from(&positions, [1, length]);
    positions.less(lengths.reshape([lengths.len(), 1]))
}

impl<W: Weight> Layer<W> {
    fn new(params: &Params<'_>, config: &EncoderConfig) -> Result<Self> {
        let EncoderConfig { width, inner_width, epsilon, .. } = *config;
        let linear = |name: &str, widths| Linear::new(&params.at(name), widths);
        let norm = |name: &str| LayerNorm::new(&params.at(name), width, epsilon);
        let products = [
            linear("attention.self.query", [width; 2])?,
            linear("attention.self.key", [width; 2])?,
            linear("attention.self.value", [width; 2])?,
            linear("attention.output.dense", [width; 2])?,
        ];
        let up = linear("intermediate.dense", [width, inner_width])?;
        let down = linear("output.dense", [inner_width, width])?;
        Ok(Self {
            attention: Attention::new(products, config.heads)?,
            after_attention: norm("attention.output.LayerNorm")?,
            feed_forward: FeedForward::new(up, down, config.activation)?,
            after_feed_forward: norm("output.LayerNorm")?,
        })
    }

    #[track_caller]
    fn forward<'b>(&self, x: Tensor<'b, f32>, mask: Tensor<'b, f32>) -> Tensor<'b, f32> {
        let x = self.after_attention.forward(x + self.attention.forward(x, Some(mask)));
        self.after_feed_forward.forward(x + self.feed_forward.forward(x))
    }
}
