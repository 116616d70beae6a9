//! Converts errors of the batcher to errors of this crate, and back. An error without an equivalent is kept as the
//! source, and restored from there when it is converted back.

use sortie_batcher::{Error as BatcherError, ErrorKind as BatcherErrorKind};

use crate::error::{Error, ErrorKind};

const EQUIVALENT: [(BatcherErrorKind, ErrorKind); 6] = [
    (BatcherErrorKind::Canceled, ErrorKind::Canceled),
    (BatcherErrorKind::Expired, ErrorKind::Expired),
    (BatcherErrorKind::Overloaded, ErrorKind::Overloaded),
    (BatcherErrorKind::JobPanicked, ErrorKind::JobPanicked),
    (BatcherErrorKind::Input, ErrorKind::Input),
    (BatcherErrorKind::Shape, ErrorKind::Shape),
];

impl From<BatcherError> for Error {
    fn from(error: BatcherError) -> Self {
        if let Some(own) = error.downcast_ref::<Error>() {
            return own.clone();
        }
        let kind = EQUIVALENT.iter().find(|(of_batcher, _)| *of_batcher == error.kind());
        let kind = kind.map_or(ErrorKind::Internal, |(_, own)| *own);
        Self::new(kind, error.to_string()).caused_by(error)
    }
}

impl From<Error> for BatcherError {
    fn from(error: Error) -> Self {
        let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<BatcherError>());
        if let Some(own) = source {
            return own.clone();
        }
        let kind = EQUIVALENT.iter().find(|(_, own)| *own == error.kind());
        let kind = kind.map_or(BatcherErrorKind::Other, |(of_batcher, _)| *of_batcher);
        Self::new(kind, "a job on a device failed").with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_this_crate_is_found_again_behind_one_of_the_batcher() {
        for error in [Error::new(ErrorKind::DeviceLost, "gone"), Error::input("no row"), Error::internal("oh")] {
            let back = Error::from(BatcherError::from(error.clone()));
            assert_eq!((back.kind(), back.to_string()), (error.kind(), error.to_string()));
        }
        let error = BatcherError::from(Error::new(ErrorKind::DeviceLost, "gone"));
        assert_eq!(error.kind(), BatcherErrorKind::Other);
        assert_eq!(error.downcast_ref::<Error>().map(Error::kind), Some(ErrorKind::DeviceLost));
    }

    #[test]
    fn an_error_of_the_batcher_is_found_again_behind_one_of_this_crate() {
        let error = BatcherError::new(BatcherErrorKind::Expired, "late");
        let own = Error::from(error.clone());
        assert_eq!((own.kind(), own.to_string()), (ErrorKind::Expired, "late".into()));
        let back = BatcherError::from(own);
        assert_eq!((back.kind(), back.to_string()), (error.kind(), error.to_string()));
    }
}
