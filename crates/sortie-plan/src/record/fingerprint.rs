//! A hash that equal recordings share, updated while recording.
//!
//! A batch that was planned before is found by its fingerprint, so each operation pays for hashing whether or not the
//! plan is cached: a few multiplications, most of them independent of one another. Invariant: a fingerprint depends on
//! the recorded lists only, not on when each entry was appended. Equal fingerprints are a hint: the caller confirms it
//! with [`Recording::same_as`](crate::Recording::same_as).

use std::hash::{Hash as _, Hasher};

use crate::{Access, Op, OpGrid, OpKind, Port, SlotInfo, Span, TensorOp};

/// Hash of a whole recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64);

/// The running hashes of a recording's lists.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hashes {
    ops: Mix,
    accesses: Mix,
    slots: Mix,
    tensors: Mix,
    kernels: Mix,
    ports: Mix,
}

impl Hashes {
    #[inline]
    pub(crate) fn op(&mut self, op: &Op) {
        let OpKind::Dispatch { kernel, grid: OpGrid::Direct(groups), immediates, hidden_immediates } = op.kind else {
            return self.other_op(op);
        };
        self.mix(op, 0, kernel.0, groups, immediates, Span::EMPTY, hidden_immediates);
    }

    /// Separate, so that the most frequent kind is hashed without checking the others.
    fn other_op(&mut self, op: &Op) {
        // Unused words are 0: a tag distinguishes the kinds.
        let nothing = Span::EMPTY;
        match op.kind {
            OpKind::Dispatch { kernel, grid, immediates, hidden_immediates } => {
                let (tag, groups, share) = match grid {
                    OpGrid::Direct(groups) => (0, groups, nothing),
                    OpGrid::Wrapped { groups, share } => (1, groups, share),
                    OpGrid::Indirect => (2, [0; 3], nothing),
                };
                self.mix(op, tag, kernel.0, groups, immediates, share, hidden_immediates);
            }
            OpKind::Tensor { tensor, scalars } => self.mix(op, 3, tensor.0, [0; 3], scalars, nothing, 0),
            OpKind::Copy => self.mix(op, 4, 0, [0; 3], nothing, nothing, 0),
            OpKind::Fill { pattern, hidden_immediates } => {
                self.mix(op, 5, 0, [0; 3], pattern, nothing, hidden_immediates);
            }
            OpKind::Write { data } => self.mix(op, 6, 0, [0; 3], data, nothing, 0),
            OpKind::Read { to } => self.mix(op, 7, 0, [0; 3], to, nothing, 0),
            OpKind::Barrier => self.mix(op, 8, 0, [0; 3], nothing, nothing, 0),
            OpKind::Split => self.mix(op, 9, 0, [0; 3], nothing, nothing, 0),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the words of an op")]
    #[inline]
    fn mix(&mut self, op: &Op, tag: u32, index: u32, [x, y, z]: [u32; 3], first: Span, second: Span, hidden: u32) {
        let head = pack(index, tag);
        let grid = fold(pack(x, y) ^ KEYS[1], pack(z, hidden) ^ KEYS[2]);
        let data = fold(word(first) ^ KEYS[3], word(second) ^ KEYS[4]);
        // Only this last step waits for the previous op.
        self.ops.add(head ^ grid, word(op.accesses) ^ data);
    }

    #[inline]
    pub(crate) fn access(&mut self, access: &Access) {
        // Slots and modes share words with byte offsets, in high bits that offsets below 1 TiB do not use.
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

    pub(crate) fn input(&mut self, port: &Port) {
        self.ports.add(u64::from(port.slot.0), port.bytes);
    }

    pub(crate) fn output(&mut self, port: &Port) {
        // Bytes are multiples of 4.
        self.ports.add(u64::from(port.slot.0), port.bytes | 1);
    }

    #[inline]
    pub(crate) fn finish(self) -> Fingerprint {
        let work = fold(self.ops.0 ^ KEYS[1], self.accesses.0 ^ KEYS[2]);
        let names = fold(self.slots.0 ^ KEYS[3], self.kernels.0 ^ KEYS[4]);
        Fingerprint(work ^ names ^ fold(self.tensors.0 ^ KEYS[1], self.ports.0 ^ KEYS[3]))
    }
}

/// An order-sensitive hash of a list of word pairs.
#[derive(Debug, Clone, Copy)]
struct Mix(u64);

impl Default for Mix {
    /// Not zero: a product with zero would discard the first pair.
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

/// The words of a derived `Hash`, mixed.
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

/// Odd numbers with about half their bits set, so that products of zeros and small values are well spread: the
/// fractions of the square roots of 3, 5, 7, 11, 13 and 17.
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
    use crate::{Access, KernelIndex, Mode, Op, OpGrid, OpKind, SlotId, SlotInfo, SlotKind, Span, TensorIndex};

    const ACCESS: Access = Access { slot: SlotId(0), mode: Mode::Read, start: 0, end: 0 };

    /// An op with these words as its 32-bit fields, as far as its kind has them: 2 of accesses, then those of the kind.
    fn op(kind: usize, words: [u32; 10]) -> Op {
        let [start, len, a, b, c, d, e, f, g, h] = words;
        let first = Span { start: a, len: b };
        let kind = match kind {
            0 => OpKind::Dispatch {
                kernel: KernelIndex(d),
                grid: OpGrid::Direct([e, f, g]),
                immediates: first,
                hidden_immediates: c,
            },
            1 => OpKind::Dispatch {
                kernel: KernelIndex(0),
                grid: OpGrid::Wrapped { groups: [e, f, g], share: Span { start: h, len: d } },
                immediates: first,
                hidden_immediates: c,
            },
            2 => OpKind::Dispatch {
                kernel: KernelIndex(d),
                grid: OpGrid::Indirect,
                immediates: first,
                hidden_immediates: c,
            },
            3 => OpKind::Tensor { tensor: TensorIndex(d), scalars: first },
            4 => OpKind::Copy,
            5 => OpKind::Fill { pattern: first, hidden_immediates: c },
            6 => OpKind::Write { data: first },
            7 => OpKind::Read { to: first },
            8 => OpKind::Barrier,
            _ => OpKind::Split,
        };
        Op { kind, accesses: Span { start, len } }
    }

    fn copy_from(start: u32) -> Op {
        op(4, [start, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

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

    #[test]
    fn every_bit_of_an_op_counts() {
        let mut ops = HashSet::new();
        for kind in 0..10 {
            ops.insert(op(kind, [0; 10]));
            for (word, bit) in (0..10).flat_map(|word| (0..32).map(move |bit| (word, bit))) {
                let mut words = [0; 10];
                words[word] = 1 << bit;
                ops.insert(op(kind, words));
            }
        }
        let distinct: HashSet<_> = ops.iter().map(|op| of_ops(&[*op])).collect();
        assert_eq!(distinct.len(), ops.len());
        assert!(ops.len() > 1_500);
    }

    #[test]
    fn every_mode_slot_and_bound_of_an_access_counts() {
        let mut accesses = vec![ACCESS];
        accesses.extend([Mode::Write, Mode::ReadWrite].map(|mode| Access { mode, ..ACCESS }));
        // Beyond 16 million slots or 1 TiB the words overlap; the full compare still distinguishes those recordings.
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
        let (one, other) = (copy_from(0), copy_from(1));
        let lists: [&[Op]; 6] = [&[], &[one], &[one, one], &[one, other], &[other, one], &[other, other]];
        let distinct: HashSet<_> = lists.iter().map(|ops| of_ops(ops)).collect();
        assert_eq!(distinct.len(), lists.len());
    }
}
