//! The error type of the crate.
//!
//! An error has a kind ([`ErrorKind`]), the recorded op it concerns, and the line of the user's source that recorded
//! it. It is cheap to clone, because a ticket and all readings of one batch report the same first error.
//!
//! Invariants: `Display` prints one level; the cause is in `source()`. The printed text is a few kilobytes at most and
//! has no control characters.

mod text;

use std::{fmt, panic::Location, sync::Arc};

pub(crate) use self::text::printable;

/// The line of the caller's source that recorded an op or made a call.
pub(crate) type CallSite = &'static Location<'static>;

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with the op and the source line it belongs to.
///
/// The error of a refused batch contains all its mistakes. [`Error::mistakes`] lists them. `Display` prints the first
/// ten, one per line, and the number of further ones.
///
/// ```
/// use sortie::ErrorKind;
/// # let device = sortie::Device::cpu()?;
/// let (x, short) = (device.zeros::<f32>(100)?, device.zeros::<f32>(50)?);
/// let batch = device.batch();
/// batch.copy(&x, &short);
/// batch.write(&x, &[0.0; 99]);
/// let error = batch.submit().unwrap_err(); // nothing has run
/// assert_eq!((error.kind(), error.mistakes().len()), (ErrorKind::Shape, 2));
/// let first = &error.mistakes()[0];
/// assert_eq!((first.op(), first.location().map(|at| at.file())), (Some(0), Some(file!())));
/// assert!(first.to_string().starts_with("copy: 400 bytes into 200; op 0, "));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    op: Option<OpName>,
    location: Option<CallSite>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    /// All mistakes of a refused batch, this one first; empty if there is only one.
    mistakes: Vec<Error>,
}

/// Number of mistakes that `Display` prints: a loop that records the same mistake a thousand times must not fill a log.
const MISTAKES_SHOWN: usize = 10;

/// Bytes that `Display` prints of each message, if there are several mistakes, and of an op's label.
const MISTAKE_SHOWN: usize = 512;
const LABEL_SHOWN: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpName {
    pub(crate) index: usize,
    pub(crate) label: String,
}

/// The kind of a failure.
///
/// ```
/// use sortie::{Device, DeviceOptions, ErrorKind};
///
/// let device = Device::cpu_with(DeviceOptions::default().with_memory_budget(1 << 20))?;
/// match device.zeros::<f32>(1 << 20).map_err(|error| error.kind()) {
///     Err(ErrorKind::OutOfMemory { wanted, budget }) => assert_eq!((wanted, budget), (4 << 20, 1 << 20)),
///     other => panic!("{other:?}"), // non-exhaustive
/// }
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No device matches the request.
    NoDevice,
    /// Not supported by the device, or by this version of the crate.
    Unsupported,
    /// The WGSL is invalid, or exceeds the limits that protect the compiler.
    Shader,
    /// A binding does not fit the kernel: count, length, usage, overlap, or a handle of another device or batch.
    Bindings,
    /// Lengths or shapes of an operation do not match.
    Shape,
    /// The grid cannot be run.
    Grid,
    /// Larger than the device or the crate allows.
    TooLarge {
        /// The requested amount.
        wanted: u64,
        /// The limit.
        limit: u64,
    },
    /// Exceeds the memory budget, or the device's memory.
    OutOfMemory {
        /// Bytes requested.
        wanted: u64,
        /// Total bytes allowed; 0 if the device itself refused.
        budget: u64,
    },
    /// The device is lost; [`Device::reopen`](crate::Device::reopen) opens it again.
    DeviceLost,
    /// Not completed in time. Waiting may be repeated; a kernel that exceeded the
    /// [budget](crate::DeviceOptions::kernel_budget) of a CPU device was stopped.
    Timeout,
    /// The batch was dropped before it was submitted, or [canceled](crate::Ticket::cancel).
    Canceled,
    /// A reading was waited for before its batch was submitted. It can be waited for again after the submit.
    NotSubmitted,
    /// The deadline has passed.
    Expired,
    /// The queue was full, or the answer would have exceeded the [target](crate::batcher::BatchSizing::Target).
    Overloaded,
    /// A job panicked.
    JobPanicked,
    /// A [job](crate::batcher::DeviceJob) does not accept this input.
    Input,
    /// A failed submission left the buffer in an undefined state; write, fill or copy all of it to use it again.
    Poisoned,
    /// A kernel has a data race, a barrier that not all invocations reach, or an index out of bounds. Detected by a CPU
    /// device with [`check_races`](crate::DeviceOptions::check_races).
    Race,
    /// A file could not be written.
    File,
    /// The [source](crate::stream::Source) of a stream failed; its error is the `source()`.
    Source,
    /// The [sink](crate::stream::Sink) of a stream failed; its error is the `source()`.
    Sink,
    /// A bug in this crate or in the driver; please report it.
    Internal,
}

impl Error {
    getters! { self:
        /// The kind of the failure.
        kind: ErrorKind = self.0.kind;

        /// The line of the caller's source that recorded the op or made the call, if known.
        location: Option<&'static Location<'static>> = self.0.location;

        /// The number of the op in its batch, counted from 0, if the error belongs to one.
        op: Option<usize> = self.0.op.as_ref().map(|op| op.index);

        /// The label of the op, if it has one.
        label: Option<&str> = self.0.op.as_ref().map(|op| op.label.as_str()).filter(|label| !label.is_empty());

        /// All mistakes of a refused batch in recording order; for any other error just itself.
        mistakes: &[Error] = if self.0.mistakes.is_empty() { std::slice::from_ref(self) } else { &self.0.mistakes };
    }

    /// For a [`DeviceJob`](crate::batcher::DeviceJob): an input that it does not accept, and why.
    ///
    /// ```
    /// use sortie::{Error, ErrorKind};
    ///
    /// let error = Error::input("3 numbers are not a row of 4");
    /// assert_eq!((error.kind(), error.to_string()), (ErrorKind::Input, "3 numbers are not a row of 4".into()));
    /// ```
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: printable(message.into()),
            op: None,
            location: None,
            source: None,
            mistakes: Vec::new(),
        }))
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    pub(crate) fn too_large(what: impl fmt::Display, wanted: u64, limit: u64) -> Self {
        Self::new(ErrorKind::TooLarge { wanted, limit }, format!("{what}: {wanted} is over the limit of {limit}"))
    }

    /// Reserves room for `more` elements, or returns `OutOfMemory`.
    pub(crate) fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
        list.try_reserve(more).map_err(|error| {
            let wanted = (more as u64).saturating_mul(size_of::<T>() as u64);
            let message = format!("the host cannot allocate {wanted} bytes");
            Self::new(ErrorKind::OutOfMemory { wanted, budget: 0 }, message).caused_by(error)
        })
    }

    pub(crate) fn at(self, location: CallSite) -> Self {
        self.with(|inner| inner.location = Some(location))
    }

    pub(crate) fn on(self, op: OpName) -> Self {
        self.with(|inner| inner.op = Some(op))
    }

    /// Prefixes the message with its context.
    pub(crate) fn within(self, what: &str) -> Self {
        self.with(|inner| {
            inner.message = printable(format!("{what}: {}", inner.message));
            inner.mistakes = std::mem::take(&mut inner.mistakes).into_iter().map(|own| own.within(what)).collect();
        })
    }

    pub(crate) fn caused_by(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.with(|inner| inner.source = Some(Arc::new(source)))
    }

    /// Combines the mistakes of a batch into one error; `None` if there are none.
    pub(crate) fn all(mut mistakes: Vec<Error>) -> Option<Self> {
        match mistakes.len() {
            0 => None,
            1 => mistakes.pop(),
            _ => {
                let first = mistakes[0].clone();
                Some(first.with(|inner| inner.mistakes = mistakes))
            }
        }
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        change(&mut inner);
        Self(Arc::new(inner))
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, most: usize) -> fmt::Result {
        f.write_str(&text::elided(&self.0.message, most))?;
        // naga's messages draw the source; nothing may follow on their last line.
        let mut separator = if self.0.message.contains('\n') { "\n" } else { "; " };
        if let Some(op) = &self.0.op {
            write!(f, "{separator}op {}", op.index)?;
            if !op.label.is_empty() {
                write!(f, " {:?}", text::elided(&op.label, LABEL_SHOWN))?;
            }
            separator = ", ";
        }
        if let Some(at) = self.0.location {
            write!(f, "{separator}{}:{}", at.file(), at.line())?;
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = if self.mistakes().len() > 1 { MISTAKE_SHOWN } else { text::MAX_TEXT_BYTES };
        for (index, mistake) in self.mistakes().iter().take(MISTAKES_SHOWN).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            mistake.line(f, most)?;
        }
        match self.mistakes().len() {
            all if all > MISTAKES_SHOWN => write!(f, "\n… {} more", all - MISTAKES_SHOWN),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug.field("kind", &self.0.kind).field("message", &self.to_string());
        if let Some(source) = &self.0.source {
            debug.field("source", &format_args!("{}", printable(format!("{source:?}"))));
        }
        debug.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_the_op_its_label_and_the_line() {
        let here = Location::caller();
        let error =
            Error::new(ErrorKind::Shape, "copy: 4 bytes into 8").on(OpName { index: 3, label: "proj".into() }).at(here);
        assert_eq!(error.to_string(), format!("copy: 4 bytes into 8; op 3 \"proj\", {}:{}", here.file(), here.line()));
        assert_eq!((error.op(), error.label(), error.location()), (Some(3), Some("proj"), Some(here)));
    }

    #[test]
    fn several_mistakes_print_one_per_line_and_keep_the_first_kind() {
        let all = Error::all(vec![Error::new(ErrorKind::Shape, "one"), Error::new(ErrorKind::Grid, "two")]);
        let all = all.expect("two mistakes make an error");
        assert_eq!(all.kind(), ErrorKind::Shape);
        assert_eq!(all.to_string(), "one\ntwo");
        assert_eq!(all.mistakes().len(), 2);
        assert!(Error::all(Vec::new()).is_none());
    }

    #[test]
    fn only_ten_mistakes_are_printed_and_the_rest_counted() {
        let of = |count: usize| {
            let mistakes = (0..count).map(|number| Error::new(ErrorKind::Shape, format!("mistake {number}")));
            Error::all(mistakes.collect()).expect("mistakes make an error")
        };
        let ten = of(10).to_string();
        assert_eq!((ten.lines().count(), ten.lines().last()), (10, Some("mistake 9")));
        let eleven = of(11);
        assert_eq!((eleven.mistakes().len(), eleven.to_string()), (11, format!("{ten}\n… 1 more")));
    }

    #[test]
    fn the_context_comes_first_on_every_line() {
        let all = Error::all(vec![Error::new(ErrorKind::Shape, "one"), Error::new(ErrorKind::Grid, "two")]);
        let all = all.expect("two mistakes make an error").within("window 3");
        assert_eq!(all.to_string(), "window 3: one\nwindow 3: two");
    }

    #[test]
    fn whatever_is_quoted_an_error_prints_a_few_kilobytes_without_control_characters() {
        let giant = "\u{1b}[2Jgiant ".repeat(1 << 18);
        let name = OpName { index: 0, label: giant.clone() };
        let one = Error::internal(&giant).on(name).caused_by(std::io::Error::other(giant.clone())).within(&giant);
        let many = Error::all(vec![one.clone(); 1000]).expect("mistakes make an error");
        for error in [one, many] {
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(text.len() < 16 << 10, "{} bytes", text.len());
                assert!(!text.contains(|character: char| character.is_control() && character != '\n'));
            }
        }
    }

    #[test]
    fn the_cause_is_a_source_and_not_in_the_message() {
        let error = Error::internal("outer").caused_by(Error::internal("inner"));
        assert_eq!(error.to_string(), "outer");
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("inner"));
    }
}
