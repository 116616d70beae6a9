//! The command's own failures, and how a failed run ends: an exit code and one report on stderr.

use std::{error::Error, fmt, io, process::ExitCode};

use crate::terminal;

/// Compares all answers with what is expected. The error names the first wrong one: its strategy, its index and the
/// expected value.
pub(crate) fn check_answers<T: fmt::Display>(
    strategy: &dyn fmt::Display,
    noun: &str,
    answers: &[T],
    expected: &[T],
    same: impl Fn(&T, &T) -> bool,
) -> Result<(), String> {
    if answers.len() != expected.len() {
        return Err(format!("{strategy} gave {} answers instead of {}", answers.len(), expected.len()));
    }
    match answers.iter().zip(expected).position(|(answer, expected)| !same(answer, expected)) {
        None => Ok(()),
        Some(at) => {
            let (answer, expected) = (&answers[at], &expected[at]);
            Err(format!("{strategy} gave {answer} for {noun} {at}, but it should be {expected}"))
        }
    }
}

#[expect(clippy::print_stderr, reason = "this is where the command reports its failure")]
pub(crate) fn exit_code(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe has closed it (`sortie devices | head -1`).
        Err(error) if is_closed_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", terminal::report(&chain(error.as_ref())));
            ExitCode::FAILURE
        }
    }
}

fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The error and its causes, outermost first.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the device did not open")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_is_printed_with_its_causes() {
        let error = Outer(io::Error::other("no memory"));
        assert_eq!(chain(&error), "the device did not open: no memory");
    }

    #[test]
    fn only_a_closed_pipe_is_no_failure() {
        assert!(is_closed_pipe(&io::Error::from(io::ErrorKind::BrokenPipe)));
        assert!(!is_closed_pipe(&io::Error::from(io::ErrorKind::StorageFull)));
    }

    #[test]
    fn a_wrong_answer_is_named_with_its_index() {
        let check = |answers: &[u32], expected: &[u32]| {
            check_answers(&"one batch", "item", answers, expected, PartialEq::eq).err()
        };
        assert_eq!(check(&[1, 2], &[1, 2]), None);
        assert_eq!(check(&[1, 3], &[1, 2]).as_deref(), Some("one batch gave 3 for item 1, but it should be 2"));
        assert_eq!(check(&[], &[1]).as_deref(), Some("one batch gave 0 answers instead of 1"));
    }
}
