//! The error of this crate: why a batcher refused or failed a request.
//!
//! A job has its own error type, which converts from this one. Other errors are kept as the
//! [source](std::error::Error::source), accessible by downcast.
//!
//! Invariant: `Display` prints one level; the cause is in `source()`.

use std::{error, fmt, sync::Arc};

/// Why a batcher refused or failed a request. Cheap to clone: all requests of a failed batch report the same error.
///
/// ```
/// use std::io;
/// use sortie_batcher::{Error, ErrorKind};
///
/// let error = Error::other(io::Error::other("connection reset"));
/// assert_eq!(error.kind(), ErrorKind::Other);
/// assert_eq!(error.downcast_ref::<io::Error>().map(ToString::to_string).as_deref(), Some("connection reset"));
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The batcher was closed before the request was admitted, or has lost its last worker.
    Canceled,
    /// The deadline passed before the request was started.
    Expired,
    /// The queue was full, or the answer would have exceeded the [target](crate::BatchSizing::Target).
    Overloaded,
    /// A job panicked.
    JobPanicked,
    /// A job does not accept this input.
    Input,
    /// A job returned a wrong number of answers, or split an input into no parts.
    Shape,
    /// A bug in this crate, or a thread that did not start.
    Internal,
    /// Another failure, described by the source.
    Other,
}

impl Error {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    /// For a [`Job`](crate::Job): an input that it does not accept, and why.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// A failure of something that the job uses, kept as the source.
    pub fn other(source: impl error::Error + Send + Sync + 'static) -> Self {
        Self::new(ErrorKind::Other, "the job failed").with_source(source)
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(self, source: impl error::Error + Send + Sync + 'static) -> Self {
        let (kind, message) = (self.0.kind, self.0.message.clone());
        Self(Arc::new(Inner { kind, message, source: Some(Box::new(source)) }))
    }

    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Its source, if it has this type.
    #[must_use]
    pub fn downcast_ref<E: error::Error + 'static>(&self) -> Option<&E> {
        self.0.source.as_ref()?.downcast_ref()
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.0.kind).field("message", &self.0.message);
        if let Some(source) = &self.0.source {
            debug.field("source", source);
        }
        debug.finish()
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_kept_and_found_by_its_type() {
        let error = Error::new(ErrorKind::Internal, "outer").with_source(Error::input("inner"));
        assert_eq!((error.to_string().as_str(), error.kind()), ("outer", ErrorKind::Internal));
        assert_eq!(error.downcast_ref::<Error>().map(Error::kind), Some(ErrorKind::Input));
        assert!(error.downcast_ref::<fmt::Error>().is_none());
        assert_eq!(error::Error::source(&error).map(ToString::to_string).as_deref(), Some("inner"));
    }
}
