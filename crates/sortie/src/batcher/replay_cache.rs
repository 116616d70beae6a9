//! Replays of a job, by the shape that they are for.
//!
//! A shape that comes for the first time is recorded as a batch: most odd row counts come once. The second time it is
//! frozen. Bound: [`MAX_REPLAYS`] shapes and [`MAX_BYTES`] of the memory that replays keep. Past either, the least
//! recently used is dropped; runs in flight keep theirs. A replay that needs more by itself is not kept at all.

use std::{fmt, hash::Hash};

use lru::LruCache;
use rustc_hash::FxBuildHasher;

use crate::{batch::Batch, device::Device, error::Result, replay::Replay};

/// A loaded batcher has some dozens of shapes: buckets of lengths times common row counts.
const MAX_REPLAYS: usize = 128;
/// As for the device's recorded batches.
const MAX_BYTES: u64 = 256 << 20;

pub(super) struct ReplayCache<K: Hash + Eq, P> {
    shapes: LruCache<K, Shape<P>, FxBuildHasher>,
    /// Memory of all replays.
    bytes: u64,
}

/// What is known of a shape.
enum Shape<P> {
    /// It came once.
    Seen,
    /// It needs too much memory to be kept.
    Large,
    Frozen {
        replay: Replay,
        ports: P,
        bytes: u64,
    },
}

impl<P> Shape<P> {
    fn bytes(&self) -> u64 {
        if let Self::Frozen { bytes, .. } = self { *bytes } else { 0 }
    }
}

impl<K: Hash + Eq + Copy, P: Copy> ReplayCache<K, P> {
    pub(super) fn new() -> Self {
        Self { shapes: LruCache::unbounded_with_hasher(FxBuildHasher), bytes: 0 }
    }

    /// The replay of a shape, with its inputs and outputs; `None` if this batch should be recorded.
    pub(super) fn get(
        &mut self,
        device: &Device,
        key: K,
        record: impl FnOnce(&Batch) -> P,
    ) -> Result<Option<(Replay, P)>> {
        match self.shapes.get(&key) {
            None => {
                self.insert(key, Shape::Seen);
                return Ok(None);
            }
            Some(Shape::Large) => return Ok(None),
            Some(Shape::Frozen { replay, ports, .. }) => return Ok(Some((replay.clone(), *ports))),
            Some(Shape::Seen) => {}
        }
        let batch = device.batch();
        let ports = record(&batch);
        let bytes = batch.plan()?.peak_bytes();
        if bytes > MAX_BYTES {
            self.insert(key, Shape::Large);
            return Ok(None);
        }
        let replay = batch.freeze()?;
        self.insert(key, Shape::Frozen { replay: replay.clone(), ports, bytes });
        Ok(Some((replay, ports)))
    }

    fn insert(&mut self, key: K, shape: Shape<P>) {
        self.bytes += shape.bytes();
        self.bytes -= self.shapes.put(key, shape).map_or(0, |before| before.bytes());
        while self.shapes.len() > MAX_REPLAYS || self.bytes > MAX_BYTES {
            let Some((_, dropped)) = self.shapes.pop_lru() else { break };
            self.bytes -= dropped.bytes();
        }
    }
}

impl<K: Hash + Eq, P> fmt::Debug for ReplayCache<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplayCache {{ shapes: {}, bytes: {} }}", self.shapes.len(), self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_frozen_the_second_time_and_bounded() {
        let device = Device::cpu().expect("a device");
        let mut cache = ReplayCache::new();
        let record = |rows: usize| move |batch: &Batch| (batch.input::<f32>([rows]).1 * 2.0).output();
        for (time, is_frozen) in [(0, false), (1, true), (2, true)] {
            assert_eq!(cache.get(&device, 7, record(7)).expect("recorded").is_some(), is_frozen, "time {time}");
        }
        let plans = device.metrics().plans_made;
        assert!(cache.get(&device, 7, |_| unreachable!("it is cached")).expect("cached").is_some());
        assert_eq!(device.metrics().plans_made, plans);
        (0..2 * MAX_REPLAYS).for_each(|rows| drop(cache.get(&device, 100 + rows, record(100 + rows))));
        assert_eq!(cache.shapes.len(), MAX_REPLAYS);
        // 7 was the least recently used.
        assert!(cache.get(&device, 7, record(7)).expect("recorded").is_none());
        assert_eq!(cache.bytes, 0, "none of the shapes that came once keeps memory");
    }

    #[test]
    fn the_memory_of_replays_is_bounded() {
        let device = Device::cpu().expect("a device");
        let mut cache = ReplayCache::new();
        // 64 MiB each, as intermediate results that do not fuse.
        let record = |width: usize| {
            move |batch: &Batch| {
                let (_, x) = batch.input::<f32>([1, 64]);
                let wide = x.reshape([64, 1]).matmul(batch.tensor_from(&vec![1.0; width], [1, width]));
                wide.softmax().sum(&[0]).output()
            }
        };
        for width in 0..6 {
            for _ in 0..2 {
                cache.get(&device, width, record((1 << 18) + width)).expect("recorded");
            }
            assert!(cache.bytes <= MAX_BYTES, "{cache:?}");
        }
        assert!(cache.bytes > MAX_BYTES / 4 && cache.shapes.len() < 6, "{cache:?}");
    }
}
