//! A number that equal recordings share, kept up to date while recording.
//!
//! A batch that was planned before is found by its fingerprint, so each operation pays for hashing whether or not that
//! ever helps: a few multiplications, most of them independent of one another. Invariant: a fingerprint depends on
//! the recorded lists only, not on when each entry was appended. Equal fingerprints are a hint: whoever uses one
//! confirms it with [`Recording::same_as`](crate::Recording::same_as).

use std::hash::{Hash as _, Hasher};

use crate::{Access, Op, SlotInfo, Span, TensorOp};

/// Hash of a whole recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64);

/// The running hashes of a recording's five lists.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hashes {
    ops: Mix,
    accesses: Mix,
    slots: Mix,
    tensors: Mix,
    kernels: Mix,
}

impl Hashes {
    #[inline]
    pub(crate) fn op(&mut self, op: &Op) {
        let head =
            u64::from(op.kernel) | (op.kind as u64) << 32 | (op.lane as u64) << 40 | u64::from(op.indirect) << 48;
        let grid = fold(pack(op.grid[0], op.grid[1]) ^ KEYS[1], pack(op.grid[2], op.params[0]) ^ KEYS[2]);
        let data = fold(word(op.data) ^ KEYS[3], u64::from(op.params[1]) ^ KEYS[4]);
        // Only this last step waits for the previous op.
        self.ops.add(head ^ grid, word(op.accesses) ^ data);
    }

    #[inline]
    pub(crate) fn access(&mut self, access: &Access) {
        // Slots and modes share words with byte offsets, high up where offsets below 1 TiB have no bits.
        self.accesses
            .add(access.start ^ u64::from(access.slot.0).rotate_left(40), access.end ^ (access.mode as u64) << 62);
    }

    #[inline]
    pub(crate) fn slot(&mut self, slot: &SlotInfo) {
        self.slots.add(slot.kind as u64, slot.bytes);
    }

    pub(crate) fn tensor(&mut self, tensor: &TensorOp) {
        let mut words = Words(self.tensors);
        tensor.hash(&mut words);
        self.tensors = words.0;
    }

    #[inline]
    pub(crate) fn kernel(&mut self, id: u64) {
        self.kernels.add(id, 0);
    }

    #[inline]
    pub(crate) fn finish(self) -> Fingerprint {
        let work = fold(self.ops.0 ^ KEYS[1], self.accesses.0 ^ KEYS[2]);
        let names = fold(self.slots.0 ^ KEYS[3], self.kernels.0 ^ KEYS[4]);
        Fingerprint(work ^ names ^ self.tensors.0)
    }
}

/// An order-sensitive hash of a list of word pairs.
#[derive(Debug, Clone, Copy)]
struct Mix(u64);

impl Default for Mix {
    /// Not zero: a product with zero would swallow the first pair.
    fn default() -> Self {
        Self(KEYS[5])
    }
}

impl Mix {
    #[inline]
    fn add(&mut self, left: u64, right: u64) {
        self.0 = fold(self.0 ^ left, right ^ KEYS[0]);
    }
}

/// What a derived `Hash` hands over, mixed.
struct Words(Mix);

impl Hasher for Words {
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.0.add(u64::from_le_bytes(word), bytes.len() as u64);
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.0.add(u64::from(value), 4);
    }

    fn write_u64(&mut self, value: u64) {
        self.0.add(value, 8);
    }

    fn finish(&self) -> u64 {
        self.0.0
    }
}

/// Odd numbers with about half their bits set, so that zeros and small values multiply to something well spread:
/// the fractions of the square roots of 3, 5, 7, 11, 13 and 17.
const KEYS: [u64; 6] = [
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
];

/// Both halves of the 128-bit product, folded: one multiplication mixes 16 bytes.
#[inline]
fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn pack(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn word(span: Span) -> u64 {
    pack(span.start, span.len)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{Fingerprint, Hashes};
    use crate::{Access, Lane, Mode, Op, OpKind, SlotId, SlotInfo, SlotKind};

    const OP: Op = Op::NOTHING;

    const ACCESS: Access = Access { slot: SlotId(0), mode: Mode::Read, start: 0, end: 0 };

    fn of_ops(ops: &[Op]) -> Fingerprint {
        let mut hashes = Hashes::default();
        ops.iter().for_each(|op| hashes.op(op));
        hashes.finish()
    }

    fn of_accesses(accesses: &[Access]) -> Fingerprint {
        let mut hashes = Hashes::default();
        accesses.iter().for_each(|access| hashes.access(access));
        hashes.finish()
    }

    /// `base` with each bit of one word set in turn.
    fn with_each_bit<T: Copy>(base: T, mut word: impl FnMut(&mut T) -> &mut u32) -> Vec<T> {
        let flipped = |bit| {
            let mut changed = base;
            *word(&mut changed) |= 1_u32 << bit;
            changed
        };
        (0..32).map(flipped).collect()
    }

    #[test]
    fn every_bit_of_an_op_counts() {
        use OpKind::{Barrier, Copy, Fill, Read, Split, Write};
        let mut ops = vec![OP];
        ops.extend([Copy, Fill, Write, Read, Barrier, Split].map(|kind| Op { kind, ..OP }));
        ops.push(Op { lane: Lane::Transfer, ..OP });
        ops.push(Op { indirect: true, ..OP });
        ops.extend(with_each_bit(OP, |op| &mut op.kernel));
        ops.extend(with_each_bit(OP, |op| &mut op.accesses.start));
        ops.extend(with_each_bit(OP, |op| &mut op.accesses.len));
        ops.extend(with_each_bit(OP, |op| &mut op.data.start));
        ops.extend(with_each_bit(OP, |op| &mut op.data.len));
        for axis in 0..3 {
            ops.extend(with_each_bit(OP, |op| &mut op.grid[axis]));
        }
        for block in 0..2 {
            ops.extend(with_each_bit(OP, |op| &mut op.params[block]));
        }
        let distinct: HashSet<_> = ops.iter().map(|op| of_ops(&[*op])).collect();
        assert_eq!(distinct.len(), ops.len());
    }

    #[test]
    fn every_mode_slot_and_bound_of_an_access_counts() {
        let mut accesses = vec![ACCESS];
        accesses.extend([Mode::Write, Mode::ReadWrite].map(|mode| Access { mode, ..ACCESS }));
        // Past 16 million slots or 1 TiB the words overlap; the full compare still tells such recordings apart.
        accesses.extend((0..24).map(|bit| Access { slot: SlotId(1 << bit), ..ACCESS }));
        accesses.extend((0..40).map(|bit| Access { start: 1 << bit, ..ACCESS }));
        accesses.extend((0..40).map(|bit| Access { end: 1 << bit, ..ACCESS }));
        let distinct: HashSet<_> = accesses.iter().map(|a| of_accesses(&[*a])).collect();
        assert_eq!(distinct.len(), accesses.len());
    }

    #[test]
    fn slots_and_kernels_count() {
        let slots = [(SlotKind::External, 0), (SlotKind::External, 4), (SlotKind::Scratch, 0), (SlotKind::Scratch, 4)];
        let mut distinct = HashSet::new();
        for (kind, bytes) in slots {
            let mut hashes = Hashes::default();
            hashes.slot(&SlotInfo { kind, bytes });
            distinct.insert(hashes.finish());
        }
        for id in 0..4 {
            let mut hashes = Hashes::default();
            hashes.kernel(id);
            distinct.insert(hashes.finish());
        }
        assert_eq!(distinct.len(), 8);
    }

    #[test]
    fn order_and_number_count() {
        let other = Op { kernel: 1, ..OP };
        let lists: [&[Op]; 6] = [&[], &[OP], &[OP, OP], &[OP, other], &[other, OP], &[other, other]];
        let distinct: HashSet<_> = lists.iter().map(|ops| of_ops(ops)).collect();
        assert_eq!(distinct.len(), lists.len());
    }
}
