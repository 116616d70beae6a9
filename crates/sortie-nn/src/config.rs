//! The configuration of an encoder: the `config.json` beside its weights.
//!
//! Untrusted: lengths are bounded, and what this crate does not compute is refused instead of computed wrongly.

use std::path::Path;

use serde::Deserialize;
use sortie::Tensor;

use crate::{
    error::{Error, Result, quoted},
    json::read_json,
};

/// More layers than any encoder has.
const MAX_LAYERS: usize = 1000;
/// More elements than any width, vocabulary or number of positions has.
const MAX_LENGTH: usize = 1 << 24;

/// The function between the products of a [`FeedForward`](crate::FeedForward).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// x · Φ(x), with Φ the normal distribution.
    Gelu,
    /// The approximation of it by `tanh`.
    GeluTanh,
    /// The maximum of x and 0.
    Relu,
    /// x · sigmoid(x).
    Silu,
}

/// How the positions of a sequence become one embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first one.
    First,
}

/// The dimensions of a BERT-style encoder.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EncoderConfig {
    /// Ids of tokens are below this.
    pub vocabulary: usize,
    /// Elements of a position, and of an embedding.
    pub width: usize,
    /// Number of layers.
    pub layers: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Elements between the products of a feed-forward layer.
    pub inner_width: usize,
    /// Maximum tokens of a sequence.
    pub positions: usize,
    /// Types of tokens; all tokens have the first.
    pub token_types: usize,
    /// Of the normalisation.
    pub epsilon: f32,
    /// Between the products of a feed-forward layer.
    pub activation: Activation,
    /// How the positions become one embedding.
    pub pooling: Pooling,
}

/// `config.json` of `BertModel`. Values that are not given are BERT's own.
#[derive(Deserialize)]
struct Bert {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    #[serde(default)]
    type_vocab_size: usize,
    layer_norm_eps: f64,
    hidden_act: String,
    #[serde(default)]
    position_embedding_type: Option<String>,
    #[serde(default)]
    is_decoder: bool,
}

/// `1_Pooling/config.json` of a sentence transformer.
#[derive(Deserialize)]
struct PoolingFile {
    #[serde(default)]
    pooling_mode_mean_tokens: bool,
    #[serde(default)]
    pooling_mode_cls_token: bool,
}

impl Activation {
    /// Records it.
    #[must_use]
    #[track_caller]
    pub fn of(self, x: Tensor<'_, f32>) -> Tensor<'_, f32> {
        match self {
            Self::Gelu => x.gelu(),
            Self::GeluTanh => x.gelu_tanh(),
            Self::Relu => x.relu(),
            Self::Silu => x.swish(),
        }
    }
}

impl EncoderConfig {
    /// Reads `config.json`, and the pooling from `1_Pooling/config.json` beside it, if there is one (else it is the
    /// mean).
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Format`] if it is of another architecture, or its lengths make no encoder.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |reason: String| Error::format(path, reason);
        let bert: Bert = read_json(path)?;
        if bert.model_type != "bert" || bert.is_decoder {
            let kind = if bert.is_decoder { "a decoder of type" } else { "a model of type" };
            return Err(wrong(format!("{kind} {}; encoders of type \"bert\" are known", quoted(&bert.model_type))));
        }
        if let Some(kind) = bert.position_embedding_type.filter(|kind| kind != "absolute") {
            return Err(wrong(format!("positions of type {}; \"absolute\" is known", quoted(&kind))));
        }
        let activation = match &*bert.hidden_act {
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            "silu" | "swish" => Activation::Silu,
            other => return Err(wrong(format!("the activation {} is not known", quoted(other)))),
        };
        let config = Self {
            vocabulary: bert.vocab_size,
            width: bert.hidden_size,
            layers: bert.num_hidden_layers,
            heads: bert.num_attention_heads,
            inner_width: bert.intermediate_size,
            positions: bert.max_position_embeddings,
            token_types: bert.type_vocab_size,
            epsilon: bert.layer_norm_eps as f32,
            activation,
            pooling: pooling(&path.with_file_name("1_Pooling").join("config.json"))?,
        };
        config.check().map_err(wrong)?;
        Ok(config)
    }

    /// Checks the tokens of a sequence: for the `check` of a batcher's job.
    ///
    /// # Errors
    /// [`ErrorKind::Input`](sortie::ErrorKind::Input) if there are none, too many, or one that is not in the vocabulary.
    pub fn check_tokens(&self, tokens: &[u32]) -> sortie::Result<()> {
        if tokens.is_empty() || tokens.len() > self.positions {
            let message = format!("a sequence of {} tokens; 1 to {} are possible", tokens.len(), self.positions);
            return Err(sortie::Error::input(message));
        }
        match tokens.iter().position(|token| *token as usize >= self.vocabulary) {
            Some(at) => {
                let (token, size) = (tokens[at], self.vocabulary);
                Err(sortie::Error::input(format!("token {at} is {token}, but the vocabulary has {size} words")))
            }
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), String> {
        let lengths = [
            ("vocab_size", self.vocabulary, 1),
            ("hidden_size", self.width, 1),
            ("num_attention_heads", self.heads, 1),
            ("intermediate_size", self.inner_width, 1),
            ("max_position_embeddings", self.positions, 1),
            ("type_vocab_size", self.token_types, 0),
        ];
        for (name, length, least) in lengths {
            if !(least..=MAX_LENGTH).contains(&length) {
                return Err(format!("{name} is {length}; {least} to {MAX_LENGTH} are possible"));
            }
        }
        if self.layers > MAX_LAYERS {
            return Err(format!("num_hidden_layers is {}; at most {MAX_LAYERS} are possible", self.layers));
        }
        if !self.width.is_multiple_of(self.heads) {
            let (width, heads) = (self.width, self.heads);
            return Err(format!("hidden_size is {width}, which is no multiple of num_attention_heads, {heads}"));
        }
        if !(0.0..1.0).contains(&self.epsilon) {
            return Err(format!("layer_norm_eps is {}; 0 to 1 are possible", self.epsilon));
        }
        Ok(())
    }
}

fn pooling(path: &Path) -> Result<Pooling> {
    if !path.exists() {
        return Ok(Pooling::Mean);
    }
    match read_json(path)? {
        PoolingFile { pooling_mode_mean_tokens: true, pooling_mode_cls_token: false } => Ok(Pooling::Mean),
        PoolingFile { pooling_mode_mean_tokens: false, pooling_mode_cls_token: true } => Ok(Pooling::First),
        _ => Err(Error::format(path, "pooling by the mean or by the first token is known, one of both")),
    }
}
