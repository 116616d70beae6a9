//! Where the hidden parameter blocks lie: all in one arena, so that one upload brings them to the device.
//!
//! Invariant: blocks are aligned and do not overlap. They lie in recorded order, so that filling
//! the arena is one walk over what was recorded.

use crate::Recording;

/// Byte offsets of all blocks, and the size of the arena.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) offsets: Vec<[u32; 2]>,
    pub(crate) bytes: u32,
}

/// Lays out the blocks of every op; 0 stands for the offset of a block that is not there.
pub(crate) fn lay_out(recording: &Recording, align: u32) -> Layout {
    let mut end = 0;
    let mut place = |len: u32| {
        if len == 0 {
            return 0;
        }
        let (offset, past) = next_block(end, len, align.max(1)).expect("the parameters of one batch stay below 4 GiB");
        end = past;
        offset
    };
    let offsets = recording.ops.iter().map(|op| op.params.map(&mut place));
    Layout { offsets: offsets.collect(), bytes: end }
}

/// Start and end of a block of `len` bytes that follows `end`.
fn next_block(end: u32, len: u32, align: u32) -> Option<(u32, u32)> {
    let start = end.checked_next_multiple_of(align)?;
    Some((start, start.checked_add(len)?))
}

#[cfg(test)]
mod tests {
    use super::lay_out;
    use crate::draft::Draft;

    #[test]
    fn blocks_are_aligned_and_lie_in_recorded_order() {
        let mut draft = Draft::new();
        for params in [[4, 0], [0, 0], [260, 8], [0, 16]] {
            draft.dispatch_with(params);
        }
        let table = [
            (256, [[0, 0], [0, 0], [256, 768], [0, 1024]], 1040),
            (16, [[0, 0], [0, 0], [16, 288], [0, 304]], 320),
            (1, [[0, 0], [0, 0], [4, 264], [0, 272]], 288),
            (0, [[0, 0], [0, 0], [4, 264], [0, 272]], 288),
        ];
        for (align, offsets, bytes) in table {
            let layout = lay_out(&draft.recording, align);
            assert_eq!(layout.offsets, offsets, "aligned to {align}");
            assert_eq!(layout.bytes, bytes, "aligned to {align}");
        }
    }

    #[test]
    fn without_blocks_the_arena_is_empty() {
        let mut draft = Draft::new();
        draft.dispatch_with([0, 0]);
        let layout = lay_out(&draft.recording, 256);
        assert_eq!(layout.offsets, [[0, 0]]);
        assert_eq!(layout.bytes, 0);
    }
}
