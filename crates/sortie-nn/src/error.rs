//! The error type of the crate.
//!
//! `Display` prints one level; the cause is in `source()`.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Problems of parameters that a message lists.
const SHOWN: usize = 20;
/// Bytes of a name from a file that a message quotes.
const QUOTED: usize = 200;

/// A failure to load a model, or of the device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("{}: it cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is no safetensors file, no index of one, or no configuration of a known model.
    #[error("{}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The parameters of the file are not those of the model. Nothing has been loaded.
    #[error("{}: {}", path.display(), listed(problems))]
    Params {
        /// The file.
        path: PathBuf,
        /// One line for each parameter that is missing, unexpected, or has another shape or type.
        problems: Vec<String>,
    },
    /// A layer cannot have these dimensions.
    #[error("{0}")]
    Layer(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] sortie::Error),
}

impl Error {
    pub(crate) fn format(path: &Path, reason: impl Into<String>) -> Self {
        Self::Format { path: path.into(), reason: reason.into() }
    }

    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}

/// For functions of a batcher's job, which return errors of `sortie`: an error of the device as it is, others as
/// [`ErrorKind::Input`](sortie::ErrorKind::Input) with the whole text.
impl From<Error> for sortie::Error {
    fn from(error: Error) -> Self {
        if let Error::Device(error) = error {
            return error;
        }
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            write!(text, ": {next}").unwrap_or_else(|_| unreachable!("a string takes any text"));
            cause = next.source();
        }
        Self::input(text)
    }
}

/// A name from a file, in quotes, without control characters and of bounded length.
pub(crate) fn quoted(name: &str) -> String {
    let end = name.floor_char_boundary(QUOTED);
    let more = if end < name.len() { "…" } else { "" };
    format!("{:?}{more}", &name[..end])
}

fn listed(problems: &[String]) -> String {
    let mut text = format!("{} of its parameters do not fit the model", problems.len());
    for problem in problems.iter().take(SHOWN) {
        text.push_str("\n  ");
        text.push_str(problem);
    }
    if problems.len() > SHOWN {
        text.push_str(&format!("\n  … and {} more", problems.len() - SHOWN));
    }
    text
}
