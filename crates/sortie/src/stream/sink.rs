//! The output of a stream.

use std::io;

use crate::{
    error::{Error, ErrorKind, Result},
    tensor::Element,
};

/// Receives the output of a [`Stream`](super::Stream), window by window and in order. A `&mut Vec` converts into one.
///
/// ```
/// use sortie::{Device, Stream, stream::Sink};
///
/// # let device = Device::cpu()?;
/// let (mut all, mut file, mut sum) = (Vec::new(), Vec::new(), 0);
/// let sinks = [
///     Sink::from(&mut all),
///     Sink::writer(&mut file), // anything that is `std::io::Write`
///     Sink::each(|window: &[u32]| {
///         sum += window.iter().sum::<u32>();
///         Ok::<(), std::io::Error>(()) // an error ends the stream
///     }),
/// ];
/// for sink in sinks {
///     Stream::<u32, u32>::record(&device, |_, x| (x + x).read()).run(&[1, 2, 3], sink)?;
/// }
/// assert_eq!((all, file, sum), (vec![2, 4, 6], vec![2, 0, 0, 0, 4, 0, 0, 0, 6, 0, 0, 0], 12));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Sink {{ .. }}")]
pub struct Sink<'a, U> {
    pub(super) drain: Drain<'a, U>,
}

/// Takes each window, and `None` after the last.
type Drain<'a, U> = Box<dyn FnMut(Option<&[U]>) -> Result<()> + 'a>;

impl<'a, U: Element> Sink<'a, U> {
    /// Writes bytes in native byte order, and flushes at the end.
    #[must_use]
    pub fn writer(mut writer: impl io::Write + 'a) -> Self {
        Self::new(move |window| match window {
            Some(window) => writer.write_all(bytemuck::cast_slice(window)).map_err(failed),
            None => writer.flush().map_err(failed),
        })
    }

    /// Calls a function with each window. An error ends the stream.
    #[must_use]
    pub fn each<E>(mut take: impl FnMut(&[U]) -> Result<(), E> + 'a) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        Self::new(move |window| window.map_or(Ok(()), &mut take).map_err(failed))
    }

    fn new(drain: impl FnMut(Option<&[U]>) -> Result<()> + 'a) -> Self {
        Self { drain: Box::new(drain) }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Sink, "the sink failed").caused_by(error)
}

impl<'a, U: Element> From<&'a mut Vec<U>> for Sink<'a, U> {
    fn from(all: &'a mut Vec<U>) -> Self {
        Self::new(|window| {
            let window = window.unwrap_or_default();
            Error::reserve(all, window.len())?;
            all.extend_from_slice(window);
            Ok(())
        })
    }
}
