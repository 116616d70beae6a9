//! The parameters that a model asks for.
//!
//! A model is built twice: first every name and shape that it asks for is checked, then, if all fit, they are read and
//! uploaded. So nothing is uploaded of a file that does not fit, and one error lists everything that is wrong.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    path::Path,
};

use sortie::Device;

use crate::{
    error::{Error, Result, quoted},
    param::{Param, len_of},
    shard::Stored,
    source::Source,
    weight::{Weight, converted, stored_bytes},
};

/// Bytes that are read at a time.
const PIECE: usize = 4 << 20;

/// What a model asks for its parameters: [`Weights::load`](crate::Weights::load) passes it to the function that builds
/// the model.
///
/// Names are those of the file. [`at`](Params::at) gives the parameters below a prefix, as `encoder.layer.0`.
#[derive(Debug)]
pub struct Params<'a> {
    load: &'a Load<'a>,
    /// With its dot at the end, or empty.
    prefix: String,
}

/// One of the two times that a model is built.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    source: &'a Source,
    device: &'a Device,
    /// `None` if parameters are read and uploaded.
    check: Option<RefCell<Check>>,
}

/// Findings while names and shapes are checked.
#[derive(Debug, Default)]
struct Check {
    problems: Vec<String>,
    used: BTreeSet<String>,
    ignored: Vec<String>,
}

impl Params<'_> {
    /// The parameters below a prefix.
    #[must_use]
    pub fn at(&self, name: impl Display) -> Self {
        Self { load: self.load, prefix: format!("{}{name}.", self.prefix) }
    }

    /// The device that parameters are uploaded to.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.load.device
    }

    /// Whether there is a parameter of this name; a function has none until it is asked.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        match self.load.source {
            Source::Files { tensors, .. } => tensors.contains_key(&self.full(name)),
            Source::Function(_) => false,
        }
    }

    /// Parameters whose names begin with this are not unexpected, although the model does not use them.
    pub fn ignore(&self, name: &str) {
        if let Some(check) = &self.load.check {
            check.borrow_mut().ignored.push(self.full(name));
        }
    }

    /// A parameter. Stored elements (f32, f16 or bf16) are converted to `T`.
    ///
    /// # Errors
    /// The file or the device failed. A parameter that is missing, or has another shape or type, is reported by
    /// [`Weights::load`](crate::Weights::load), together with all others.
    pub fn param<T: Weight>(&self, name: &str, shape: impl AsRef<[usize]>) -> Result<Param<T>> {
        let (name, shape) = (self.full(name), shape.as_ref());
        let Load { source, device, check } = self.load;
        if let Some(check) = check {
            check.borrow_mut().ask(source, &name, shape);
            return Ok(Param::unread(device.zeros(0)?, shape));
        }
        let len = len_of(shape).unwrap_or_else(|| unreachable!("shapes were checked"));
        match source {
            Source::Function(make) => {
                let values: Vec<T> = make(&name, shape).into_iter().map(T::from_f32).collect();
                Param::new(device.upload(&values)?, shape)
            }
            Source::Files { shards, tensors } => {
                let (shard, stored) = tensors.get(&name).unwrap_or_else(|| unreachable!("names were checked"));
                let buffer = device.zeros::<T>(len)?;
                let (mut values, mut at) = (Vec::new(), 0);
                shards[*shard].read(stored, PIECE, |bytes| {
                    converted(stored.dtype, bytes, &mut values);
                    buffer.slice(at..at + values.len()).write(&values)?;
                    at += values.len();
                    Ok(())
                })?;
                Ok(Param::unread(buffer, shape))
            }
        }
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// Builds a model: checks what it asks for, then loads it.
pub(crate) fn load<M>(
    source: &Source,
    path: &Path,
    device: &Device,
    build: impl Fn(&Params<'_>) -> Result<M>,
) -> Result<M> {
    let checked = Load { source, device, check: Some(RefCell::default()) };
    build(&Params { load: &checked, prefix: String::new() })?;
    let check = checked.check.map(RefCell::into_inner).unwrap_or_default();
    if let Source::Files { tensors, .. } = source {
        let problems = check.finish(tensors);
        if !problems.is_empty() {
            return Err(Error::Params { path: path.into(), problems });
        }
    }
    build(&Params { load: &Load { source, device, check: None }, prefix: String::new() })
}

impl Check {
    fn ask(&mut self, source: &Source, name: &str, shape: &[usize]) {
        if let Source::Files { tensors, .. } = source {
            let problem = match tensors.get(name) {
                None => Some(format!("{} is missing; its shape should be {shape:?}", quoted(name))),
                Some((_, stored)) if stored.shape != shape => {
                    Some(format!("{} has the shape {:?} instead of {shape:?}", quoted(name), stored.shape))
                }
                Some((_, stored)) if stored_bytes(stored.dtype).is_none() => {
                    Some(format!("{} has elements of type {}; f32, f16 and bf16 are known", quoted(name), stored.dtype))
                }
                Some(_) => None,
            };
            self.problems.extend(problem);
        }
        self.used.insert(name.to_owned());
    }

    /// All problems: what was missing or wrong, and tensors that the model does not use.
    fn finish(mut self, tensors: &BTreeMap<String, (usize, Stored)>) -> Vec<String> {
        for (name, (_, stored)) in tensors {
            let ignored = || self.ignored.iter().any(|prefix| name.starts_with(prefix));
            if !self.used.contains(name) && !ignored() {
                self.problems.push(format!("{} of shape {:?} is unexpected", quoted(name), stored.shape));
            }
        }
        self.problems
    }
}
