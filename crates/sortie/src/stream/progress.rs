//! The progress of a stream.

use std::time::Duration;

/// The progress of a [`Stream`](super::Stream): the windows that were processed and consumed.
///
/// ```
/// # use sortie::{Device, Stream, stream::Source};
/// # let device = Device::cpu()?;
/// let stream = Stream::<u32, u32>::record(&device, |_, x| (x + x).read()).window(1 << 10);
/// let done = stream.run(Source::items(0..1000), &mut Vec::new())?;
/// assert_eq!((done.windows, done.elements_in, done.bytes_out), (4, 1000, 4000));
/// assert_eq!(done.fraction(), Some(1.0));
/// println!("{:.1} MB/s", done.bytes_per_second() / 1e6);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Windows processed.
    pub windows: u64,
    /// Input elements.
    pub elements_in: u64,
    /// Output elements.
    pub elements_out: u64,
    /// Input bytes.
    pub bytes_in: u64,
    /// Output bytes.
    pub bytes_out: u64,
    /// Elements of the source, if known.
    pub total: Option<u64>,
    /// Time since the first window was requested.
    pub elapsed: Duration,
}

impl Progress {
    /// The completed fraction, from 0 to 1, if the length of the source is known.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        match self.total? {
            0 => Some(1.0),
            total => Some((self.elements_in as f64 / total as f64).min(1.0)),
        }
    }

    /// Input bytes per second so far; 0 at the start.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.bytes_in as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_known_only_of_a_known_whole() {
        let progress = Progress { elements_in: 3, total: Some(4), ..Default::default() };
        assert_eq!(progress.fraction(), Some(0.75));
        assert_eq!(Progress { total: None, ..progress }.fraction(), None);
        assert_eq!(Progress { total: Some(0), ..progress }.fraction(), Some(1.0));
    }

    #[test]
    fn no_time_is_no_rate() {
        let progress = Progress { bytes_in: 8, elapsed: Duration::from_secs(2), ..Default::default() };
        assert_eq!(progress.bytes_per_second().to_bits(), 4.0_f64.to_bits());
        assert_eq!(Progress { elapsed: Duration::ZERO, ..progress }.bytes_per_second().to_bits(), 0);
    }
}
