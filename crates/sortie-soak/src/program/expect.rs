//! What is expected of readings and errors.

use sortie::{Error, ErrorKind, Reading, Result};

/// What must not happen.
pub type Fault = String;

/// Readings with what they must say.
pub(super) type Readings = Vec<(Reading<u32>, Vec<u32>)>;

pub(super) fn check(readings: Readings) -> Result<(), Fault> {
    for (reading, expected) in readings {
        match reading.wait() {
            Ok(found) if found == expected => {}
            Ok(found) => return Err(differs("a reading", &found, &expected)),
            Err(error) => return Err(format!("a reading: {error:?}")),
        }
    }
    Ok(())
}

/// A batch was refused: by a mistake, and its readings fail too.
pub(super) fn refused(error: &Error, readings: Readings) -> Result<(), Fault> {
    mistake(error)?;
    readings
        .into_iter()
        .try_for_each(|(reading, _)| expect_error("a reading of a refused batch", reading.wait().map(drop)))
}

/// The error is one of a caller's mistakes.
pub(super) fn mistake(error: &Error) -> Result<(), Fault> {
    let is_mistake = |error: &Error| {
        use ErrorKind::{Bindings, Grid, Shader, Shape, TooLarge, Unsupported};
        matches!(error.kind(), Bindings | Grid | Shader | Shape | TooLarge { .. } | Unsupported)
    };
    if error.mistakes().iter().all(is_mistake) { Ok(()) } else { Err(format!("a mistake ends with {error:?}")) }
}

/// An error, but not one of the library's own.
pub(super) fn expect_error(of: &str, outcome: Result<()>) -> Result<(), Fault> {
    match outcome {
        Ok(()) => Err(format!("{of} succeeds")),
        Err(error) if error.kind() == ErrorKind::Internal => Err(format!("{of}: {error:?}")),
        Err(_) => Ok(()),
    }
}

pub(super) fn differs(what: &str, found: &[u32], expected: &[u32]) -> Fault {
    let at = found.iter().zip(expected).position(|(found, expected)| found != expected).unwrap_or_default();
    let show = |data: &[u32]| data.get(at).copied().unwrap_or_default();
    let lengths = [found.len(), expected.len()];
    format!("{what} is wrong at {at}: {} instead of {} (lengths {lengths:?})", show(found), show(expected))
}
