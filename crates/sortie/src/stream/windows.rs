//! Windows in flight.

use std::collections::VecDeque;

use super::{Progress, Sink, Source, Stream, bytes};
use crate::{
    clock::Instant,
    error::{Error, ErrorKind, Result},
    finish::{Reading, Ticket},
    tensor::Element,
};

/// The output of a [`Stream`], window by window and in order. From [`Stream::over`].
///
/// An error is the last item: the first failure, with its window. All earlier windows were returned before it. Dropping
/// the iterator early cancels the windows in flight without waiting for them.
///
/// ```
/// # use sortie::{Device, Stream, stream::Source};
/// # let device = Device::cpu()?;
/// let endless = Source::items(0_u32..);
/// let squares = Stream::<u32, u32>::record(&device, |_, x| (x * x).read()).window(64);
/// for window in squares.over(endless) {
///     let window: Vec<u32> = window?;
///     if window.contains(&2500) {
///         break; // dropping the iterator cancels the windows in flight
///     }
/// }
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Windows {{ progress: {progress:?}, under_way: {}, .. }}", self.under_way.len())]
#[must_use = "windows go through only as they are asked for"]
pub struct Windows<'a, T: Element, U: Element> {
    stream: Stream<'a, T, U>,
    source: Source<'a, T>,
    state: State,
    /// Buffer for windows that cannot be borrowed.
    room: Vec<T>,
    /// The oldest first.
    under_way: VecDeque<WindowInFlight<U>>,
    /// Windows submitted, and their elements.
    brought: (u64, u64),
    /// Input and output elements of the last returned window, until it is known to have been used.
    given: Option<(usize, usize)>,
    progress: Progress,
}

/// The state of the source.
///
/// | from | to | when |
/// |---|---|---|
/// | `Fresh` | `Feeding` | the first window is requested, and the stream is valid |
/// | `Feeding` | `Ended` | the source has no more, or a window could not be submitted: windows in flight are still returned, then the error |
/// | any | `Over` | the last item was returned, or user code panicked |
enum State {
    Fresh,
    Feeding { rows: usize, began: Instant },
    Ended { fault: Option<Error>, began: Instant },
    Over,
}

/// A window in flight.
struct WindowInFlight<U> {
    ticket: Ticket,
    reading: Reading<U>,
    number: u64,
    /// Its first element in the source.
    start: u64,
    elements: usize,
    /// Elements of its output, if known; the rest of the reading comes from padding.
    wanted: Option<usize>,
}

impl<'a, T: Element, U: Element> Windows<'a, T, U> {
    pub(super) fn new(stream: Stream<'a, T, U>, source: Source<'a, T>) -> Self {
        let progress = Progress { total: source.len, ..Progress::default() };
        let (room, under_way) = (Vec::new(), VecDeque::with_capacity(stream.in_flight.min(64)));
        Self { stream, source, state: State::Fresh, room, under_way, brought: (0, 0), given: None, progress }
    }

    /// Windows that were processed and used. The last returned window counts once the next is requested.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Writes all windows to a sink.
    pub(super) fn pour(mut self, mut sink: Sink<'_, U>) -> Result<Progress> {
        while let Some(window) = self.next() {
            let window = window?;
            if let Err(error) = (sink.drain)(Some(&window)) {
                let number = self.progress.windows;
                let start = self.progress.elements_in;
                self.abandon();
                return Err(error.within(&place(number, start)));
            }
        }
        (sink.drain)(None)?;
        Ok(self.progress)
    }

    /// Submits windows until enough are in flight.
    fn bring(&mut self) {
        // A panic below comes from user code, and ends the stream.
        let state = std::mem::replace(&mut self.state, State::Over);
        self.state = match state {
            State::Fresh => match self.stream.window_rows() {
                Ok(rows) => self.feed(rows, Instant::now()),
                Err(fault) => State::Ended { fault: Some(fault), began: Instant::now() },
            },
            State::Feeding { rows, began } => self.feed(rows, began),
            State::Ended { .. } | State::Over => state,
        };
    }

    fn feed(&mut self, rows: usize, began: Instant) -> State {
        while self.under_way.len() < self.stream.in_flight {
            match self.submit_one(rows) {
                Ok(true) => {}
                Ok(false) => return State::Ended { fault: None, began },
                Err(fault) => {
                    let fault = fault.within(&place(self.brought.0, self.brought.1));
                    return State::Ended { fault: Some(fault), began };
                }
            }
        }
        State::Feeding { rows, began }
    }

    /// Submits one more window, if there is one.
    fn submit_one(&mut self, rows: usize) -> Result<bool> {
        let widths = self.stream.widths;
        let window = self.source.next(rows * widths.input, &mut self.room)?;
        if window.is_empty() {
            return Ok(false);
        }
        if !window.len().is_multiple_of(widths.input) {
            let all = self.brought.1 + window.len() as u64;
            let message = format!(
                "the source ends after {all} elements, which is not a whole number of rows of {}",
                widths.input
            );
            return Err(Error::new(ErrorKind::Shape, message));
        }
        let elements = window.len();
        let (ticket, reading) = self.stream.transform.send(window, widths, self.stream.here)?;
        let wanted = self.stream.transform.is_rowwise().then(|| elements / widths.input * widths.output);
        let (number, start) = self.brought;
        self.under_way.push_back(WindowInFlight { ticket, reading, number, start, elements, wanted });
        self.brought = (number + 1, start + elements as u64);
        Ok(true)
    }

    /// Counts the last returned window as used.
    fn settle(&mut self) {
        let Some((elements, out)) = self.given.take() else { return };
        let progress = &mut self.progress;
        progress.windows += 1;
        progress.elements_in += elements as u64;
        progress.elements_out += out as u64;
        progress.bytes_in += bytes::<T>(elements);
        progress.bytes_out += bytes::<U>(out);
        if let State::Feeding { began, .. } | State::Ended { began, .. } = &self.state {
            progress.elapsed = began.elapsed();
        }
        if let Some(tell) = &mut self.stream.tell {
            tell(progress);
        }
    }

    /// Ends the stream: nothing is in flight when this returns.
    fn abandon(&mut self) {
        self.state = State::Over;
        self.cancel();
        for window in self.under_way.drain(..) {
            // Its result is irrelevant now.
            drop(window.ticket.wait());
        }
    }

    fn cancel(&self) {
        // The newest first, so that none starts because another has ended.
        self.under_way.iter().rev().for_each(|window| window.ticket.cancel());
    }
}

impl<T: Element, U: Element> Iterator for Windows<'_, T, U> {
    type Item = Result<Vec<U>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.settle();
        if matches!(self.state, State::Over) {
            return None;
        }
        self.bring();
        let Some(oldest) = self.under_way.pop_front() else {
            return match std::mem::replace(&mut self.state, State::Over) {
                State::Ended { fault: Some(fault), .. } => Some(Err(fault)),
                _ => None,
            };
        };
        match oldest.reading.wait() {
            Ok(mut window) => {
                window.truncate(oldest.wanted.unwrap_or(usize::MAX));
                self.given = Some((oldest.elements, window.len()));
                Some(Ok(window))
            }
            Err(error) => {
                self.abandon();
                Some(Err(error.within(&place(oldest.number, oldest.start))))
            }
        }
    }
}

impl<T: Element, U: Element> std::iter::FusedIterator for Windows<'_, T, U> {}

impl<T: Element, U: Element> Drop for Windows<'_, T, U> {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// A window, as errors name it.
fn place(number: u64, start: u64) -> String {
    format!("window {number}, from element {start} on")
}
