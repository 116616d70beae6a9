//! The input of a stream.

use std::{io, iter::Fuse};

use crate::{
    error::{Error, ErrorKind, Result},
    tensor::Element,
};

/// Provides the elements of a [`Stream`](super::Stream). A slice converts into one.
///
/// ```
/// use sortie::{Device, Stream, stream::Source};
///
/// # let device = Device::cpu()?;
/// let ready = [1_u32, 2, 3];
/// let pieces = [vec![1_u32], vec![], vec![2, 3]];
/// let file: &[u8] = &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]; // little-endian
/// let sources = [
///     Source::from(&ready),              // also a memory-mapped file
///     Source::bytes(file),               // the same, as bytes
///     Source::items(1..=3),              // one by one
///     Source::chunks(pieces),            // piece by piece
///     Source::reader(file),              // anything that is `std::io::Read`
/// ];
/// for source in sources {
///     let mut out = Vec::new();
///     Stream::<u32, u32>::record(&device, |_, x| (x * x).read()).run(source, &mut out)?;
///     assert_eq!(out, [1, 4, 9]);
/// }
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Source {{ len: {len:?}, .. }}")]
pub struct Source<'a, T> {
    feed: Box<dyn SourceReader<T> + 'a>,
    pub(super) len: Option<u64>,
}

/// Elements of the first read: a short input needs no more memory than this, however large the window.
const FIRST_READ: usize = 1 << 16;

/// Reads windows.
trait SourceReader<T> {
    /// The next `len` elements, fewer at the end, then none. Borrowed in place, or gathered in `room`, whose previous
    /// content is arbitrary.
    fn next<'s>(&'s mut self, len: usize, room: &'s mut Vec<T>) -> Result<&'s [T]>;
}

impl<'a, T: Element> Source<'a, T> {
    /// Elements in memory, or in a memory-mapped file. They are copied to the device directly.
    #[must_use]
    pub fn slice(elements: &'a [T]) -> Self {
        Self { len: Some(elements.len() as u64), feed: Box::new(Slice(elements)) }
    }

    /// As [`Source::slice`], from bytes in native byte order. Misaligned bytes are copied once more.
    #[must_use]
    pub fn bytes(bytes: &'a [u8]) -> Self {
        match bytemuck::try_cast_slice(bytes) {
            Ok(elements) => Self::slice(elements),
            // Misaligned, or not a whole number of elements, which the reader reports at the end.
            Err(_) => Self::reader(bytes).of_len((bytes.len() / size_of::<T>()) as u64),
        }
    }

    /// Single elements.
    #[must_use]
    pub fn items<I: IntoIterator<Item = T, IntoIter: 'a>>(items: I) -> Self {
        let items = items.into_iter();
        let len = exact(items.size_hint());
        Self { len, feed: Box::new(Items(items.fuse())) }
    }

    /// Chunks of elements: vectors, slices or similar. A chunk longer than the rest of a window is borrowed, not
    /// copied.
    #[must_use]
    pub fn chunks<C: AsRef<[T]> + 'a, I: IntoIterator<Item = C, IntoIter: 'a>>(chunks: I) -> Self {
        Self::try_chunks(chunks.into_iter().map(Ok::<C, std::convert::Infallible>))
    }

    /// As [`Source::chunks`], with chunks that may fail. An error ends the stream and is the source of the stream's
    /// error.
    ///
    /// ```
    /// # use std::io;
    /// # use sortie::{Device, ErrorKind, Stream, stream::Source};
    /// # let device = Device::cpu()?;
    /// let pieces = [Ok(vec![1.0_f32; 100]), Err(io::Error::other("the sensor is gone"))];
    /// let mut out = Vec::new();
    /// let stream = Stream::<f32, f32>::record(&device, |_, x| x.exp().read()).window(200);
    /// let error = stream.run(Source::try_chunks(pieces), &mut out).unwrap_err();
    /// assert_eq!((error.kind(), out.len()), (ErrorKind::Source, 100)); // two whole windows came before
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn try_chunks<C, E, I>(chunks: I) -> Self
    where
        C: AsRef<[T]> + 'a,
        E: std::error::Error + Send + Sync + 'static,
        I: IntoIterator<Item = Result<C, E>, IntoIter: 'a>,
    {
        Self { len: None, feed: Box::new(Chunks { chunks: chunks.into_iter().fuse(), current: None, used: 0 }) }
    }

    /// Elements as bytes in native byte order. Short reads are combined, interrupted ones repeated.
    #[must_use]
    pub fn reader(reader: impl io::Read + 'a) -> Self {
        Self { len: None, feed: Box::new(Reader { reader, bytes: 0, ended: false }) }
    }

    /// Sets the number of elements, for progress reports only.
    #[must_use]
    pub fn of_len(mut self, elements: u64) -> Self {
        self.len = Some(elements);
        self
    }

    pub(super) fn next<'s>(&'s mut self, len: usize, room: &'s mut Vec<T>) -> Result<&'s [T]> {
        self.feed.next(len, room)
    }
}

struct Slice<'a, T>(&'a [T]);

impl<T> SourceReader<T> for Slice<'_, T> {
    fn next<'s>(&'s mut self, len: usize, _: &'s mut Vec<T>) -> Result<&'s [T]> {
        let (next, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Ok(next)
    }
}

struct Items<I>(Fuse<I>);

impl<T, I: Iterator<Item = T>> SourceReader<T> for Items<I> {
    fn next<'s>(&'s mut self, len: usize, room: &'s mut Vec<T>) -> Result<&'s [T]> {
        room.clear();
        for item in self.0.by_ref().take(len) {
            if room.len() == room.capacity() {
                Error::reserve(room, room.len().max(FIRST_READ).min(len - room.len()))?;
            }
            room.push(item);
        }
        Ok(room)
    }
}

struct Chunks<C, I> {
    chunks: Fuse<I>,
    current: Option<C>,
    /// Elements of the current chunk that were consumed.
    used: usize,
}

impl<C, I> Chunks<C, I> {
    /// The rest of the current chunk.
    fn rest<T>(&self) -> &[T]
    where
        C: AsRef<[T]>,
    {
        self.current.as_ref().map_or(&[], |chunk| &chunk.as_ref()[self.used..])
    }
}

impl<T, C, E, I> SourceReader<T> for Chunks<C, I>
where
    T: Element,
    C: AsRef<[T]>,
    E: std::error::Error + Send + Sync + 'static,
    I: Iterator<Item = Result<C, E>>,
{
    fn next<'s>(&'s mut self, len: usize, room: &'s mut Vec<T>) -> Result<&'s [T]> {
        room.clear();
        while self.rest().is_empty() {
            let Some(chunk) = self.chunks.next() else { return Ok(&[]) };
            (self.current, self.used) = (Some(chunk.map_err(failed)?), 0);
        }
        if self.rest().len() >= len {
            let start = self.used;
            self.used += len;
            return Ok(self.current.as_ref().map_or(&[], |chunk| &chunk.as_ref()[start..start + len]));
        }
        loop {
            let take = self.rest().len().min(len - room.len());
            Error::reserve(room, take)?;
            room.extend_from_slice(&self.rest()[..take]);
            self.used += take;
            if room.len() == len {
                return Ok(room);
            }
            let Some(chunk) = self.chunks.next() else {
                self.current = None;
                return Ok(room);
            };
            (self.current, self.used) = (Some(chunk.map_err(failed)?), 0);
        }
    }
}

struct Reader<R> {
    reader: R,
    /// Bytes read in total.
    bytes: u64,
    ended: bool,
}

impl<T: Element, R: io::Read> SourceReader<T> for Reader<R> {
    fn next<'s>(&'s mut self, len: usize, room: &'s mut Vec<T>) -> Result<&'s [T]> {
        let size = size_of::<T>();
        let mut filled = 0;
        while filled < len * size && !self.ended {
            // Grows with the data read, up to a window, and never shrinks, so nothing is zeroed twice.
            if filled == room.len() * size {
                let longer = len.min((2 * room.len()).max(FIRST_READ));
                Error::reserve(room, longer - room.len())?;
                room.resize(longer, T::zeroed());
            }
            match self.reader.read(&mut bytemuck::cast_slice_mut(room)[filled..]) {
                Ok(0) => self.ended = true,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.bytes += filled as u64;
        if !filled.is_multiple_of(size) {
            let message = format!(
                "the source ends in the middle of an element: {} bytes are no whole number of {size}",
                self.bytes
            );
            return Err(Error::new(ErrorKind::Shape, message));
        }
        Ok(&room[..filled / size])
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Source, "the source failed").caused_by(error)
}

/// The length, if it is exact.
fn exact((least, most): (usize, Option<usize>)) -> Option<u64> {
    (Some(least) == most).then_some(least as u64)
}

impl<'a, T: Element> From<&'a [T]> for Source<'a, T> {
    fn from(elements: &'a [T]) -> Self {
        Self::slice(elements)
    }
}

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for Source<'a, T> {
    fn from(elements: &'a [T; N]) -> Self {
        Self::slice(elements)
    }
}

impl<'a, T: Element> From<&'a Vec<T>> for Source<'a, T> {
    fn from(elements: &'a Vec<T>) -> Self {
        Self::slice(elements)
    }
}
