//! Idle buffers of one kind, kept by size class for reuse.
//!
//! Invariant: never more than the limits' bytes or count. Each `put` also evicts items older than the limits' age.

use std::collections::BTreeMap;

use crate::{clock::Instant, options::PoolLimits};

/// Smallest size class. Also wgpu's strictest offset alignment, so whole buffers are always aligned.
const MIN_CLASS_BYTES: u64 = 256;

/// Rounds up to a size class: eighths of a power of two, so that at most an eighth is wasted.
pub(crate) fn class(bytes: u64) -> u64 {
    let bytes = bytes.max(MIN_CLASS_BYTES);
    let step = (bytes.next_power_of_two() / 16).max(MIN_CLASS_BYTES);
    bytes.div_ceil(step) * step
}

#[derive(Debug)]
struct Idle<T> {
    item: T,
    since: Instant,
}

#[derive(Debug)]
pub(crate) struct FreeList<T> {
    limits: PoolLimits,
    /// Within a class the oldest comes first and the newest is taken first.
    classes: BTreeMap<u64, Vec<Idle<T>>>,
    pub(crate) bytes: u64,
    count: usize,
}

impl<T> FreeList<T> {
    pub(crate) fn new(limits: PoolLimits) -> Self {
        Self { limits, classes: BTreeMap::new(), bytes: 0, count: 0 }
    }

    /// Takes an item of exactly this class: the preferred one if it is among the newest, else the newest.
    pub(crate) fn take(&mut self, class: u64, preferred: impl Fn(&T) -> bool) -> Option<T> {
        /// Searching further for the preferred item would cost more than the bind group it saves.
        const PROBES: usize = 64;
        let idle = self.classes.get_mut(&class)?;
        let near = idle.len().saturating_sub(PROBES);
        let index = idle[near..]
            .iter()
            .rposition(|idle| preferred(&idle.item))
            .map_or(idle.len().checked_sub(1)?, |i| near + i);
        let taken = idle.remove(index);
        self.bytes -= class;
        self.count -= 1;
        Some(taken.item)
    }

    /// Puts an item back and returns the items evicted because of it.
    pub(crate) fn put(&mut self, class: u64, item: T) -> Vec<T> {
        if class > self.limits.bytes / 4 {
            return vec![item];
        }
        let now = Instant::now();
        self.classes.entry(class).or_default().push(Idle { item, since: now });
        self.bytes += class;
        self.count += 1;
        let mut gone = Vec::new();
        while let Some((class, since)) = self.oldest() {
            let stale = now.saturating_duration_since(since) > self.limits.age;
            if !stale && self.bytes <= self.limits.bytes && self.count <= self.limits.count {
                break;
            }
            gone.extend(self.evict_from(class));
        }
        gone
    }

    /// Removes all items.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.bytes = 0;
        self.count = 0;
        std::mem::take(&mut self.classes).into_values().flatten().map(|idle| idle.item).collect()
    }

    fn oldest(&self) -> Option<(u64, Instant)> {
        self.classes
            .iter()
            .filter_map(|(class, idle)| idle.first().map(|first| (*class, first.since)))
            .min_by_key(|(_, since)| *since)
    }

    fn evict_from(&mut self, class: u64) -> Option<T> {
        let idle = self.classes.get_mut(&class)?;
        let gone = (!idle.is_empty()).then(|| idle.remove(0))?;
        if idle.is_empty() {
            self.classes.remove(&class);
        }
        self.bytes -= class;
        self.count -= 1;
        Some(gone.item)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits(bytes: u64, count: usize) -> PoolLimits {
        PoolLimits { bytes, count, age: Duration::from_secs(3600) }
    }

    #[test]
    fn a_class_holds_what_was_asked_for_and_wastes_at_most_an_eighth() {
        for bytes in (1..5000).chain([1 << 20, (1 << 20) + 1, 100_000_007]) {
            let class = class(bytes);
            assert!(class >= bytes && class.is_multiple_of(MIN_CLASS_BYTES), "{bytes} -> {class}");
            assert!(class <= MIN_CLASS_BYTES.max(bytes + bytes / 8 + MIN_CLASS_BYTES), "{bytes} -> {class}");
            assert_eq!(class, super::class(class), "a class is its own class");
        }
    }

    #[test]
    fn the_oldest_is_evicted_when_bytes_or_count_exceed_the_limit() {
        let mut free_list = FreeList::new(limits(4096, 3));
        for item in 0..3 {
            assert!(free_list.put(256, item).is_empty());
        }
        assert_eq!(free_list.put(512, 3), [0], "count");
        assert_eq!(free_list.put(1024, 4), [1], "count again");
        let mut free_list = FreeList::new(limits(1024, 100));
        assert!((0..4).all(|item| free_list.put(256, item).is_empty()));
        assert_eq!(free_list.put(256, 4), [0], "bytes");
        assert_eq!(free_list.put(512, 9), [9], "over a quarter of the limit: never kept");
    }

    #[test]
    fn items_over_the_age_limit_are_evicted_at_the_next_put() {
        let mut free_list = FreeList::new(PoolLimits { bytes: 1 << 20, count: 10, age: Duration::ZERO });
        free_list.put(256, 1);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(free_list.put(256, 2), [1]);
    }

    #[test]
    fn the_preferred_item_is_found_again() {
        let mut free_list = FreeList::new(limits(1 << 20, 10));
        for item in 0..5 {
            free_list.put(256, item);
        }
        assert_eq!(free_list.take(256, |item| *item == 2), Some(2));
        assert_eq!(free_list.take(256, |item| *item == 77), Some(4), "else the newest");
        assert_eq!(free_list.take(512, |_| true), None);
        assert_eq!((free_list.bytes, free_list.drain().len(), free_list.bytes), (3 * 256, 3, 0));
    }
}
