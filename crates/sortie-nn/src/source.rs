//! What parameters are made of: tensors in files, or a function.

use std::collections::BTreeMap;

use crate::shard::{Shard, Stored};

/// Makes a parameter of a name and a shape.
type MakeParam = Box<dyn Fn(&str, &[usize]) -> Vec<f32> + Send + Sync>;

/// Where parameters come from.
#[derive(derive_more::Debug)]
pub(crate) enum Source {
    /// Files, and the tensors in them: the number of the file, and the place in it.
    Files { shards: Vec<Shard>, tensors: BTreeMap<String, (usize, Stored)> },
    #[debug("Function")]
    Function(MakeParam),
}
