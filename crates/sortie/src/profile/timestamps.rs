//! Converts device timestamps to times, and rejects implausible ones.
//!
//! Devices write zeros, go backwards, and count in steps far coarser than their ticks. Times from such timestamps are
//! left out: an unknown time is not a time of 0.

/// Minimum length of a timed interval in clock steps: each of its two ends is off by up to one.
const TELLING: u64 = 4;

/// Begin and end of intervals, in nanoseconds since the first plausible timestamp; `None` for implausible ones. `pairs`
/// are the indices of their timestamps, in the order they were written; `period` is the length of a tick in
/// nanoseconds.
pub(super) fn times(stamps: &[u64], pairs: &[(u32, u32)], period: f64) -> Vec<Option<(u64, u64)>> {
    let stamp = |number: u32| stamps.get(number as usize).copied().unwrap_or(0);
    let mut written: Vec<u32> = pairs.iter().flat_map(|(begin, end)| [*begin, *end]).collect();
    written.dedup();
    let believed = rising(&written.iter().map(|number| stamp(*number)).collect::<Vec<_>>());
    let kept: Vec<u32> = written.iter().zip(&believed).filter(|(_, kept)| **kept).map(|(number, _)| *number).collect();
    let first = kept.first().map_or(0, |number| stamp(*number));
    let quantum = quantum(kept.iter().map(|number| stamp(*number)));
    let known = |number: u32| kept.binary_search(&number).is_ok();
    let nanoseconds = |at: u64| scaled(at - first, period);
    let time = |(begin, end): &(u32, u32)| {
        if !known(*begin) || !known(*end) {
            return None;
        }
        let (begin, end) = (stamp(*begin), stamp(*end));
        let telling = end.checked_sub(begin)? >= quantum.saturating_mul(TELLING);
        telling.then(|| (nanoseconds(begin), nanoseconds(end)))
    };
    pairs.iter().map(time).collect()
}

/// Nanoseconds between the first and the last plausible timestamp; `None` if there are not two.
pub(super) fn extent(stamps: &[u64], numbers: &[u32], period: f64) -> Option<u64> {
    let all: Vec<u64> = numbers.iter().map(|number| stamps.get(*number as usize).copied().unwrap_or(0)).collect();
    let mut kept = all.iter().zip(rising(&all)).filter(|(_, kept)| *kept).map(|(stamp, _)| *stamp);
    let first = kept.next()?;
    let last = kept.next_back()?;
    (last > first).then(|| scaled(last - first, period))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "2⁵³ ns are 104 days"
)]
fn scaled(ticks: u64, period: f64) -> u64 {
    (ticks as f64 * period) as u64
}

/// Marks the longest non-decreasing subsequence, ignoring zeros. So one bad timestamp does not discard all the others.
fn rising(values: &[u64]) -> Vec<bool> {
    // `ends`: per length, the index where the subsequence with the smallest last value ends. `before`: predecessors.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; values.len()];
    for (at, value) in values.iter().enumerate().filter(|(_, value)| **value != 0) {
        let length = ends.partition_point(|end| values[*end] <= *value);
        before[at] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut kept = vec![false; values.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        kept[at] = true;
        next = before[at];
    }
    kept
}

/// The step of a clock in ticks: the greatest common divisor of its values, or of their differences.
fn quantum(stamps: impl Iterator<Item = u64>) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut distinct: Vec<u64> = stamps.collect();
    distinct.dedup();
    let absolute = match (distinct.len(), distinct.iter().copied().fold(0, divisor)) {
        // Two values may have a small common divisor by chance.
        (0 | 1, _) | (2, ..1000) => 1,
        (_, common) => common,
    };
    let relative = match distinct.len() {
        // A clock need not start at a multiple of its step. The divisor of a few differences is not significant.
        16.. => distinct.windows(2).map(|pair| pair[1] - pair[0]).fold(0, divisor),
        _ => 0,
    };
    absolute.max(relative).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of consecutive ops.
    fn chain(stamps: &[u64]) -> Vec<Option<u64>> {
        let pairs: Vec<_> = (1..stamps.len() as u32).map(|end| (end - 1, end)).collect();
        times(stamps, &pairs, 1.0).into_iter().map(|time| time.map(|(begin, end)| end - begin)).collect()
    }

    #[test]
    fn times_are_differences_scaled_by_the_period() {
        let times = times(&[1000, 1100, 1101, 1351], &[(0, 1), (2, 3)], 2.5);
        assert_eq!(times, [Some((0, 250)), Some((252, 877))]);
    }

    #[test]
    fn a_zero_is_not_a_time() {
        assert_eq!(chain(&[0, 0, 0]), [None, None]);
        assert_eq!(chain(&[1000, 0, 3001]), [None, None]);
        assert_eq!(chain(&[1000, 2003, 0, 4001, 5003]), [Some(1003), None, None, Some(1002)]);
    }

    #[test]
    fn one_stamp_out_of_order_takes_only_its_neighbours_along() {
        assert_eq!(chain(&[1000, 2001, 900_000, 3003, 4007]), [Some(1001), None, None, Some(1004)]);
        assert_eq!(chain(&[1000, 2001, 17, 3003, 4007]), [Some(1001), None, None, Some(1004)]);
    }

    #[test]
    fn what_is_shorter_than_the_clock_can_tell_is_not_known() {
        let step = 100_000;
        assert_eq!(chain(&[5 * step, 5 * step, 6 * step, 16 * step]), [None, None, Some(10 * step)]);
        assert_eq!(chain(&[1001, 1001, 1003, 2002]), [None, None, Some(999)]);
    }

    #[test]
    fn a_coarse_clock_that_started_anywhere_is_found_out_by_its_differences() {
        let stamps: Vec<u64> = (0..20).map(|at| 7 + 1000 * (at + at / 10 * 8)).collect();
        let times = chain(&stamps);
        assert_eq!(times.iter().filter(|time| time.is_some()).collect::<Vec<_>>(), [&Some(9000)]);
    }

    #[test]
    fn the_extent_is_that_of_what_can_be_believed() {
        assert_eq!(extent(&[0, 100, 900_000, 200, 350], &[0, 1, 2, 3, 4], 2.0), Some(500));
        assert_eq!(extent(&[0, 0], &[0, 1], 1.0), None);
        assert_eq!(extent(&[7, 7], &[0, 1], 1.0), None);
        assert_eq!(extent(&[], &[0, 1], 1.0), None);
    }
}
