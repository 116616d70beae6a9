//! How long requests took: a histogram that many threads write and that allocates nothing.
//!
//! Buckets are less than 1 % wide. Each thread writes into one of a few copies, so that cores do not share cache lines.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Bits of a time that count, below its highest.
const BITS: u32 = 7;
/// Times of 2^36 ns, a minute, and beyond share the last bucket.
const BUCKETS: usize = (36 - BITS as usize + 1) << BITS;
/// More than the threads that call.
const COPIES: usize = 4;

/// Times of requests.
pub(crate) struct Histogram {
    copies: [Box<[AtomicU64]>; COPIES],
}

/// The counts at one time.
pub(crate) struct Snapshot(Vec<u64>);

thread_local! {
    static COPY: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Histogram {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self { copies: std::array::from_fn(|_| (0..BUCKETS).map(|_| AtomicU64::new(0)).collect()) }
    }

    /// Records `requests` requests that took `time`.
    pub(crate) fn add(&self, time: Duration, requests: u64) {
        self.copies[copy()][bucket(time)].fetch_add(requests, Ordering::Relaxed);
    }

    /// Reads all counts.
    pub(crate) fn read(&self, snapshot: &mut Snapshot) {
        for (at, sum) in snapshot.0.iter_mut().enumerate() {
            *sum = self.copies.iter().map(|copy| copy[at].load(Ordering::Relaxed)).sum();
        }
    }
}

impl Snapshot {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self(vec![0; BUCKETS])
    }

    /// Requests since another snapshot.
    pub(crate) fn requests(&self, since: &Self) -> u64 {
        self.0.iter().sum::<u64>() - since.0.iter().sum::<u64>()
    }

    /// The quantile, in ns, of the requests since another snapshot.
    pub(crate) fn quantile(&self, since: &Self, share: f64) -> f64 {
        let rank = (self.requests(since) as f64 * share).ceil() as u64;
        let mut seen = 0;
        let reaches = |(now, before): (&u64, &u64)| {
            seen += now - before;
            seen >= rank
        };
        let at = self.0.iter().zip(&since.0).position(reaches).unwrap_or(BUCKETS - 1);
        middle(at)
    }
}

fn copy() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    COPY.get().unwrap_or_else(|| {
        let own = NEXT.fetch_add(1, Ordering::Relaxed) % COPIES;
        COPY.set(Some(own));
        own
    })
}

fn bucket(time: Duration) -> usize {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
    let shift = nanos.ilog2().saturating_sub(BITS);
    // From the second octave on the highest bit is always set, and stands for one more octave.
    let at = ((shift as usize) << BITS) + (nanos >> shift) as usize;
    at.min(BUCKETS - 1)
}

fn middle(at: usize) -> f64 {
    let octave = (at >> BITS).saturating_sub(1);
    let low = at - (octave << BITS);
    (low as f64 + 0.5) * (1_u64 << octave) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_back_to_less_than_a_hundredth() {
        for nanos in (0..31).flat_map(|octave| [1_u64 << octave, (1 << octave) * 3 / 2, (2 << octave) - 1]) {
            let (found, wanted) = (middle(bucket(Duration::from_nanos(nanos))), nanos as f64);
            assert!((found - wanted).abs() <= (0.01 * wanted).max(0.5), "{wanted} read as {found}");
        }
    }

    #[test]
    fn quantiles_are_of_what_came_since() {
        let times = Histogram::new();
        let (mut before, mut after) = (Snapshot::new(), Snapshot::new());
        times.add(Duration::from_secs(1), 1_000);
        times.read(&mut before);
        times.add(Duration::from_micros(10), 99);
        times.add(Duration::from_micros(90), 1);
        times.read(&mut after);
        assert_eq!(after.requests(&before), 100);
        assert!((after.quantile(&before, 0.99) / 10_000.0 - 1.0).abs() < 0.01);
        assert!((after.quantile(&before, 0.999) / 90_000.0 - 1.0).abs() < 0.01);
    }
}
