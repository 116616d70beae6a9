//! Rows of a table.

use sortie::Tensor;

use crate::{error::Result, param::Param, params::Params, weight::Weight};

/// Rows of a table by index. An index that is not in the table gives zeros.
#[derive(Clone, Debug)]
pub struct Embedding<W = f32> {
    weight: Param<W>,
}

impl<W: Weight> Embedding<W> {
    /// Reads the parameter `weight`, a table of `rows` rows of `width` elements.
    ///
    /// # Errors
    /// As [`Params::param`].
    pub fn new(params: &Params<'_>, [rows, width]: [usize; 2]) -> Result<Self> {
        Ok(Self { weight: params.param("weight", [rows, width])? })
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.weight.shape()[0]
    }

    /// Its table.
    #[must_use]
    pub fn weight(&self) -> &Param<W> {
        &self.weight
    }

    /// Records the lookup: the shape of the indices, and the width.
    #[must_use]
    #[track_caller]
    pub fn forward<'b>(&self, indices: Tensor<'b, u32>) -> Tensor<'b, f32> {
        self.weight.tensor(indices.batch()).gather(indices).cast()
    }
}
