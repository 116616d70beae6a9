//! Attention with several heads.

use sortie::Tensor;

use crate::{
    cache::KeyValueCache,
    error::{Error, Result},
    linear::Linear,
    rotary::{Rotary, dims},
    weight::Weight,
};

/// Attention of each position to all others. Queries may have more heads than keys and values: consecutive heads share
/// one of theirs.
///
/// [`forward`](Attention::forward) is that of an encoder, over whole sequences. [`step`](Attention::step) is that of a
/// decoder: one position, whose key and value join those of the positions before it.
#[derive(Clone, Debug)]
pub struct Attention<W = f32> {
    query: Linear<W>,
    key: Linear<W>,
    value: Linear<W>,
    output: Linear<W>,
    /// Of keys and values.
    shared_heads: usize,
    /// Heads of queries that share one of keys and values.
    group: usize,
    rotary: Option<Rotary>,
}

impl<W: Weight> Attention<W> {
    /// Sets the number of query heads. Keys and values have as many heads as their widths say.
    ///
    /// # Errors
    /// [`Error::Layer`] if the widths do not fit each other and the heads.
    pub fn new([query, key, value, output]: [Linear<W>; 4], heads: usize) -> Result<Self> {
        let widths = [query.outputs(), key.outputs(), value.outputs(), output.inputs()];
        let [of_query, of_key, of_value, of_output] = widths;
        let wrong =
            |rule: &str| Error::Layer(format!("attention with {heads} heads and products of {widths:?}: {rule}"));
        let width = of_query.checked_div(heads).filter(|width| *width > 0 && width * heads == of_query);
        let width = width.ok_or_else(|| wrong("queries are no whole number for each head"))?;
        let shared_heads = of_key / width;
        if of_key != of_value
            || shared_heads * width != of_key
            || shared_heads == 0
            || !heads.is_multiple_of(shared_heads)
        {
            return Err(wrong("keys and values need a divisor of the heads of queries"));
        }
        if of_output != of_query {
            return Err(wrong("the last product takes what queries make"));
        }
        Ok(Self { query, key, value, output, shared_heads, group: heads / shared_heads, rotary: None })
    }

    /// Rotates queries and keys by their positions.
    #[must_use]
    pub fn with_rotary(mut self, rotary: Rotary) -> Self {
        self.rotary = Some(rotary);
        self
    }

    /// Width of all keys of a position.
    #[must_use]
    pub fn key_width(&self) -> usize {
        self.key.outputs()
    }

    /// Records attention within sequences: `x` has the shape `[rows, positions, width]`. The mask is added to the
    /// scores, and broadcast to `[rows, heads, positions, positions]`: −∞ where a position is not seen.
    #[must_use]
    #[track_caller]
    pub fn forward<'b>(&self, x: Tensor<'b, f32>, mask: Option<Tensor<'b, f32>>) -> Tensor<'b, f32> {
        let [rows, length, ..] = dims(&x.shape());
        let positions = self.rotary.is_some().then(|| {
            let all: Vec<u32> = (0..length as u32).collect();
            x.batch().tensor_from(&all, [length])
        });
        let query = self.rotated(self.query.forward(x), [rows, length], positions);
        let key = self.rotated(self.key.forward(x), [rows, length], positions);
        let value = self.in_heads(self.value.forward(x), [rows, length]);
        self.attend(query, key.permute(&[0, 2, 1, 3]), value.permute(&[0, 2, 1, 3]), mask)
    }

    /// Records attention of the next position, `x` of shape `[1, width]`, to those before it and itself. `position`, of
    /// shape `[1]`, is where its key and value go in the cache.
    #[must_use]
    #[track_caller]
    pub fn step<'b>(&self, x: Tensor<'b, f32>, position: Tensor<'b, u32>, cache: &KeyValueCache) -> Tensor<'b, f32> {
        let width = x.shape().last().copied().unwrap_or(0);
        let query = self.rotated(self.query.forward(x), [1, 1], Some(position));
        let key = self.rotated(self.key.forward(x), [1, 1], Some(position));
        let value = self.value.forward(x);
        let [keys, values, mask] = cache.push(key, value, position);
        let split = |all: Tensor<'b, f32>| self.in_heads(all, [1, cache.positions()]).permute(&[0, 2, 1, 3]);
        self.attend(query, split(keys), split(values), Some(mask)).reshape([1, width])
    }

    /// Positions by heads, rotated.
    #[track_caller]
    fn rotated<'b>(&self, x: Tensor<'b, f32>, at: [usize; 2], positions: Option<Tensor<'b, u32>>) -> Tensor<'b, f32> {
        let x = self.in_heads(x, at);
        match (&self.rotary, positions) {
            (Some(rotary), Some(positions)) => rotary.forward(x, positions),
            _ => x,
        }
    }

    /// Positions by heads.
    #[track_caller]
    fn in_heads<'b>(&self, x: Tensor<'b, f32>, [rows, length]: [usize; 2]) -> Tensor<'b, f32> {
        let width = self.key.outputs() / self.shared_heads;
        let heads = x.shape().last().copied().unwrap_or(0) / width;
        x.reshape([rows, length, heads, width])
    }

    /// Queries of `[rows, positions, heads, width]`; keys and values of `[rows, heads, positions, width]`.
    #[track_caller]
    fn attend<'b>(
        &self,
        query: Tensor<'b, f32>,
        key: Tensor<'b, f32>,
        value: Tensor<'b, f32>,
        mask: Option<Tensor<'b, f32>>,
    ) -> Tensor<'b, f32> {
        let [rows, length, heads, width] = dims(&query.shape());
        let query = query.permute(&[0, 2, 1, 3]);
        let mixed = match self.group {
            1 => attention(query, key, value, mask),
            // Queries of heads that share a key are further rows of one product.
            group => {
                let query = query.reshape([rows, self.shared_heads, group * length, width]);
                let mask = mask.map(|mask| match mask.shape()[..] {
                    [.., tokens, keys] if tokens > 1 => mask.broadcast([rows, heads, tokens, keys]).reshape([
                        rows,
                        self.shared_heads,
                        group * tokens,
                        keys,
                    ]),
                    _ => mask,
                });
                attention(query, key, value, mask).reshape([rows, heads, length, width])
            }
        };
        self.output.forward(mixed.permute(&[0, 2, 1, 3]).reshape([rows, length, heads * width]))
    }
}

/// softmax(q kᵀ ∕ √width + mask) v, for `[rows, heads, positions, width]`.
#[track_caller]
fn attention<'b>(
    query: Tensor<'b, f32>,
    key: Tensor<'b, f32>,
    value: Tensor<'b, f32>,
    mask: Option<Tensor<'b, f32>>,
) -> Tensor<'b, f32> {
    let [.., width] = dims(&query.shape());
    let scores = query.matmul(key.transpose()) * (1.0 / (width as f32).sqrt());
    let scores = match mask {
        Some(mask) => scores + mask,
        None => scores,
    };
    scores.softmax().matmul(value)
}
