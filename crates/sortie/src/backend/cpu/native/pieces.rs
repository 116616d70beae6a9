//! Outputs cut into pieces, and the threads that compute them.
//!
//! Invariant: a piece is a range of elements of every output, so threads write disjoint memory. How outputs are cut
//! changes no result.

use std::sync::OnceLock;

use parking_lot::Mutex;
use smallvec::SmallVec;
use sortie_cpu::{BoundMemory, Halted, Stop, Threads};
use sortie_plan::ElementType;

use super::steps::BLOCK;

/// Elements that a thread computes at a time, about.
pub(super) const PIECE: usize = 16 * BLOCK;

/// Elements times steps from which on threads share the work: about 20 µs on one thread.
const WORTH_SHARING: u64 = 1 << 17;

/// Outputs from element `start` on.
pub(super) struct Piece<'m> {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) outputs: SmallVec<[&'m mut [u32]; 4]>,
}

impl<'m> Piece<'m> {
    /// Cuts outputs of `len` elements into pieces of these lengths, the last one shorter.
    pub(super) fn cut(
        outputs: &'m mut [BoundMemory<'_>],
        elements: &[ElementType],
        len: usize,
        each: usize,
    ) -> SmallVec<[Self; 2]> {
        let starts = (0..len).step_by(each);
        let piece = |start| Piece { start, len: each.min(len - start), outputs: SmallVec::new() };
        let mut pieces: SmallVec<[Self; 2]> = starts.map(piece).collect();
        for (output, element) in outputs.iter_mut().zip(elements) {
            let BoundMemory::Write(words) = output else { unreachable!("outputs are written") };
            let size = if *element == ElementType::F16 { each / 2 } else { each };
            for (piece, words) in pieces.iter_mut().zip(words.chunks_mut(size)) {
                piece.outputs.push(words);
            }
        }
        pieces
    }

    /// The memory of a block's outputs.
    pub(super) fn block<'s>(
        &'s mut self,
        start: usize,
        len: usize,
        elements: &'s [ElementType],
    ) -> impl Iterator<Item = &'s mut [u32]> {
        let offset = start - self.start;
        self.outputs.iter_mut().zip(elements).map(move |(words, element)| match element {
            ElementType::F16 => &mut words[offset / 2..(offset + len).div_ceil(2)],
            _ => &mut words[offset..offset + len],
        })
    }
}

/// Elements of a piece: as many as stay in the second-level cache, but enough pieces that no thread waits long for
/// the last. A multiple of `unit`.
pub(super) fn piece_len(len: usize, most: usize, unit: usize, threads: &Threads) -> usize {
    let fair = len / (4 * threads.count());
    fair.clamp(unit.min(most), most).next_multiple_of(unit)
}

/// Computes pieces, on all threads if `work` elements times steps are worth it.
pub(super) fn share<P: Send>(
    pieces: impl ExactSizeIterator<Item = P> + Send,
    work: u64,
    threads: &Threads,
    stop: Stop<'_>,
    compute: impl Fn(P) + Sync,
) -> Result<(), Halted> {
    let Some(pool) = threads.pool().filter(|_| work >= WORTH_SHARING && pieces.len() > 1) else {
        for piece in pieces {
            stop.check()?;
            compute(piece);
        }
        return Ok(());
    };
    let pieces = Mutex::new(pieces);
    let next = || pieces.lock().next();
    let halted = OnceLock::new();
    // Each thread takes the next piece when it is ready: a thread that wakes up late delays no other.
    let work = || {
        while let Some(piece) = next() {
            if let Err(halt) = stop.check() {
                halted.get_or_init(|| halt);
                return;
            }
            compute(piece);
        }
    };
    Threads::share(pool, threads.count(), work);
    halted.into_inner().map_or(Ok(()), Err)
}
