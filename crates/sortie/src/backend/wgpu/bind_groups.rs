//! A cache of bind groups, looked up by their bindings.
//!
//! A bind group keeps its buffers alive, so groups leave the cache together with their buffers. A plan keeps the
//! [`BindGroupRef`]s of its last run without keeping a buffer alive; those of evicted groups find nothing.
//!
//! Bound: [`MAX_GROUPS`] groups, or as many as one batch needs. Past it, the least recently used half is evicted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use rustc_hash::{FxHashMap, FxHashSet};
use slotmap::{SlotMap, new_key_type};
use smallvec::SmallVec;

use super::{GroupLayout, buffer};
use crate::{
    error::Result,
    memory::{Block, BufferId},
    metrics::{AtomicCounter, Counters},
};

/// Enough for three batches of 10,000 ops, each op on its own buffers. A group costs about 1 KiB in wgpu.
const MAX_GROUPS: usize = 32_768;

/// One bound range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BoundRange {
    pub(crate) buffer: BufferId,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Everything that a bind group depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BindGroupKey {
    pub(crate) layout: u64,
    pub(crate) bound: SmallVec<[BoundRange; 8]>,
}

new_key_type! {
    /// Identifies a cached group without keeping it alive. The default is no group.
    pub(crate) struct BindGroupRef;
}

#[derive(Debug)]
pub(crate) struct BindGroupCache {
    groups: RwLock<BindGroups>,
    /// Buffers whose groups could not be evicted at once because a batch was being encoded.
    waiting: Mutex<Vec<BufferId>>,
    clock: AtomicU64,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
pub(crate) struct BindGroups {
    groups: SlotMap<BindGroupRef, Entry>,
    by_key: FxHashMap<BindGroupKey, BindGroupRef>,
    by_buffer: FxHashMap<BufferId, FxHashSet<BindGroupRef>>,
    /// The tick of the last shrink.
    shrunk: u64,
}

#[derive(Debug)]
struct Entry {
    key: BindGroupKey,
    group: wgpu::BindGroup,
    /// The tick of the last use.
    used: AtomicU64,
}

impl BindGroupCache {
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        Self { groups: RwLock::default(), waiting: Mutex::default(), clock: AtomicU64::new(0), counters }
    }

    /// The groups, to encode with. Nothing is evicted while the guard lives.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, BindGroups> {
        self.groups.read()
    }

    /// The groups, to look up and add to.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, BindGroups> {
        self.groups.write()
    }

    /// A new tick of the clock that ages groups; one per batch.
    pub(crate) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Evicts every group that binds one of these buffers: now, or when the current encoding is done.
    pub(crate) fn evict(&self, buffers: &[BufferId]) {
        self.waiting.lock().extend_from_slice(buffers);
        self.evict_pending();
    }

    /// Evicts groups that had to wait. Called after encoding, when no guard is held.
    pub(crate) fn evict_pending(&self) {
        let gone = {
            let mut waiting = self.waiting.lock();
            if waiting.is_empty() {
                return;
            }
            // The holder of the lock calls this when it is done.
            let Some(mut groups) = self.groups.try_write() else { return };
            waiting.drain(..).flat_map(|buffer| groups.evict(buffer)).collect::<Vec<_>>()
        };
        // Dropping groups may free buffers, so it happens outside the locks.
        drop(gone);
    }

    /// The group of this key, created if it is not cached.
    pub(crate) fn find(
        &self,
        groups: &mut BindGroups,
        device: &wgpu::Device,
        key: BindGroupKey,
        layout: &GroupLayout,
        blocks: &[&Block],
        now: u64,
    ) -> Result<BindGroupRef> {
        if let Some(named) = groups.by_key.get(&key) {
            self.counters.bind_group_hits.add(1);
            groups.groups[*named].used.store(now, Ordering::Relaxed);
            return Ok(*named);
        }
        self.counters.bind_groups_created.add(1);
        let bindings = layout.signature.iter().zip(&key.bound).zip(blocks);
        let entries = bindings.map(|((one, bound), block)| {
            let resource = wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: buffer(block)?,
                offset: bound.offset,
                size: wgpu::BufferSize::new(bound.bytes),
            });
            Ok(wgpu::BindGroupEntry { binding: one.binding, resource })
        });
        let entries = entries.collect::<Result<SmallVec<[_; 8]>>>()?;
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout.raw,
            entries: &entries,
        });
        Ok(groups.insert(key, group, now))
    }
}

impl BindGroups {
    /// The group of a ref, if it is still cached.
    #[inline]
    pub(crate) fn get(&self, named: BindGroupRef, now: u64) -> Option<&wgpu::BindGroup> {
        let entry = self.groups.get(named)?;
        entry.used.store(now, Ordering::Relaxed);
        Some(&entry.group)
    }

    /// Whether all these refs are still valid.
    pub(crate) fn contains_all(&self, refs: &[BindGroupRef]) -> bool {
        refs.iter().all(|named| self.groups.contains_key(*named))
    }

    fn insert(&mut self, key: BindGroupKey, group: wgpu::BindGroup, now: u64) -> BindGroupRef {
        // Once per batch: groups of the current batch stay, however many they are.
        if self.by_key.len() >= MAX_GROUPS && self.shrunk < now {
            self.shrunk = now;
            self.shrink(now);
        }
        let named = self.groups.insert(Entry { key: key.clone(), group, used: AtomicU64::new(now) });
        for bound in &key.bound {
            self.by_buffer.entry(bound.buffer).or_default().insert(named);
        }
        self.by_key.insert(key, named);
        named
    }

    fn evict(&mut self, buffer: BufferId) -> Vec<wgpu::BindGroup> {
        let users = self.by_buffer.remove(&buffer).unwrap_or_default();
        users.into_iter().filter_map(|named| self.remove(named)).collect()
    }

    fn remove(&mut self, named: BindGroupRef) -> Option<wgpu::BindGroup> {
        let Entry { key, group, .. } = self.groups.remove(named)?;
        self.by_key.remove(&key);
        for bound in &key.bound {
            if let Some(users) = self.by_buffer.get_mut(&bound.buffer) {
                users.remove(&named);
                if users.is_empty() {
                    self.by_buffer.remove(&bound.buffer);
                }
            }
        }
        Some(group)
    }

    /// Evicts the least recently used half, but no group of the current batch.
    fn shrink(&mut self, now: u64) {
        let age = |entry: &Entry| entry.used.load(Ordering::Relaxed);
        let mut ages: Vec<_> = self.groups.values().map(age).collect();
        let middle = ages.len() / 2;
        let (_, cut, _) = ages.select_nth_unstable(middle);
        let cut = (*cut).min(now.saturating_sub(1));
        let old = self.groups.iter().filter(|(_, entry)| age(entry) <= cut);
        for named in old.map(|(named, _)| named).collect::<Vec<_>>() {
            self.remove(named);
        }
    }
}

/// The buffers of a run and its bind groups, in encoding order. Kept with the plan: one comparison replaces a look-up
/// per op.
#[derive(Debug, Default)]
pub(super) struct BoundGroups {
    /// Of the slots, scratch memory and parameters. The next run prefers the same scratch buffers.
    pub(super) buffers: Vec<BufferId>,
    pub(super) groups: Vec<BindGroupRef>,
}
