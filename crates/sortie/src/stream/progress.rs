//! How far a stream is.

use std::time::Duration;

/// How far a [`Stream`](super::Stream) is: what has gone through it and been taken away.
///
/// ```
/// # use sortie::{Device, Stream, stream::Source};
/// # let device = Device::cpu()?;
/// let stream = Stream::<u32, u32>::record(&device, |batch, x| batch.add(x, x)).window(1 << 10);
/// let done = stream.run(Source::items(0..1000), &mut Vec::new())?;
/// assert_eq!((done.windows, done.elements_in, done.bytes_out), (4, 1000, 4000));
/// assert_eq!(done.fraction(), Some(1.0));
/// println!("{:.1} MB/s", done.bytes_per_second() / 1e6);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Windows that have gone through.
    pub windows: u64,
    /// Elements that went in.
    pub elements_in: u64,
    /// Elements that came out.
    pub elements_out: u64,
    /// Bytes that went in.
    pub bytes_in: u64,
    /// Bytes that came out.
    pub bytes_out: u64,
    /// Elements of the source, where it knows.
    pub total: Option<u64>,
    /// Time since the first window was asked for.
    pub elapsed: Duration,
}

impl Progress {
    /// The part that is done, from 0 to 1, where the source knows how long it is.
    #[must_use]
    pub fn fraction(&self) -> Option<f64> {
        match self.total? {
            0 => Some(1.0),
            total => Some((self.elements_in as f64 / total as f64).min(1.0)),
        }
    }

    /// Bytes of the input in a second, so far; 0 before there is anything to tell.
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
