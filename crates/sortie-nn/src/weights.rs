//! Where the parameters of a model come from: safetensors files, or a function.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;
use sortie::Device;

use crate::{
    error::{Error, Result, quoted},
    json::read_json,
    params::{self, Params},
    shard::Shard,
    source::Source,
};

/// Files that an index may name.
const MAX_SHARDS: usize = 1000;

/// The weights of a model: one safetensors file, or several with an index.
///
/// ```no_run
/// use sortie::Device;
/// use sortie_nn::{Linear, Weights};
///
/// # fn main() -> sortie_nn::Result<()> {
/// let weights = Weights::open("model.safetensors")?; // reads the header only
/// let linear: Linear = weights.load(&Device::open()?, |params| Linear::new(&params.at("dense"), [384, 1536]))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    source: Source,
}

/// `model.safetensors.index.json`.
#[derive(Deserialize)]
struct Index {
    /// The file of each tensor.
    weight_map: BTreeMap<String, String>,
}

impl Weights {
    /// Opens a safetensors file, an index of several (`….safetensors.index.json`), or a folder with one of both. Reads
    /// and checks headers only.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Format`] if the file is truncated, or its header does not describe it exactly.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if path.is_dir() {
            let [one, index] = ["model.safetensors", "model.safetensors.index.json"].map(|name| path.join(name));
            return if !one.exists() && index.exists() { Self::sharded(&index) } else { Self::single(&one) };
        }
        let is_index = path.extension().is_some_and(|extension| extension == "json");
        if is_index { Self::sharded(path) } else { Self::single(path) }
    }

    /// Weights that a function makes of a parameter's name and shape: for tests, and models that are not trained yet.
    #[must_use]
    pub fn from_fn(make: impl Fn(&str, &[usize]) -> Vec<f32> + Send + Sync + 'static) -> Self {
        Self { path: PathBuf::new(), source: Source::Function(Box::new(make)) }
    }

    /// Names of all stored tensors with their shapes, sorted.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[usize])> {
        let tensors = match &self.source {
            Source::Files { tensors, .. } => Some(tensors),
            Source::Function(_) => None,
        };
        tensors.into_iter().flatten().map(|(name, (_, stored))| (name.as_str(), stored.shape.as_slice()))
    }

    /// Builds a model on a device. The function is called twice: first all names and shapes that it asks for are
    /// checked, then tensors are read in pieces of a few megabytes and uploaded, each once.
    ///
    /// # Errors
    /// [`Error::Params`] lists every parameter that is missing or unexpected, or has another shape or type; nothing has
    /// been uploaded then.
    pub fn load<M>(&self, device: &Device, build: impl Fn(&Params<'_>) -> Result<M>) -> Result<M> {
        params::load(&self.source, &self.path, device, build)
    }

    fn single(path: &Path) -> Result<Self> {
        let shard = Shard::open(path)?;
        let tensors = shard.tensors().map(|(name, stored)| (name, (0, stored))).collect();
        Ok(Self { path: path.into(), source: Source::Files { shards: vec![shard], tensors } })
    }

    fn sharded(path: &Path) -> Result<Self> {
        let wrong = |reason: String| Error::format(path, reason);
        let index: Index = read_json(path)?;
        let mut files: Vec<&String> = index.weight_map.values().collect();
        files.sort_unstable();
        files.dedup();
        if files.len() > MAX_SHARDS {
            return Err(wrong(format!("it names {} files; at most {MAX_SHARDS} are expected", files.len())));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let (mut shards, mut tensors) = (Vec::new(), BTreeMap::new());
        for (at, file) in files.into_iter().enumerate() {
            // A file outside the folder is none of the model's.
            let mut parts = Path::new(file).components();
            if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) {
                return Err(wrong(format!("{} is no name of a file beside it", quoted(file))));
            }
            let shard = Shard::open(&folder.join(file))?;
            for (name, stored) in shard.tensors() {
                if index.weight_map.get(&name) != Some(file) {
                    let reason = format!("{} is in {}, but the index does not say so", quoted(&name), quoted(file));
                    return Err(wrong(reason));
                }
                tensors.insert(name, (at, stored));
            }
            shards.push(shard);
        }
        if let Some((name, file)) = index.weight_map.iter().find(|(name, _)| !tensors.contains_key(*name)) {
            return Err(wrong(format!("{} should be in {}, but is not", quoted(name), quoted(file))));
        }
        Ok(Self { path: path.into(), source: Source::Files { shards, tensors } })
    }
}
