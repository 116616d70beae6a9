//! Divides dispatches into pieces, so that a cut may fall between them.
//!
//! A piece runs through the same wrapped entry point that folds grids over the device's limit (`fold`).

use crate::{Op, OpGrid, OpKind, Recording, Span};

/// A copy of the recording with dispatches divided. `pieces` has their numbers, ascending, and how many pieces each
/// becomes. A piece runs a share of the workgroups. Also returns, for each op, its number in the original.
#[must_use]
pub fn divide(recording: &Recording, pieces: &[(u32, u32)]) -> (Recording, Vec<u32>) {
    let mut divided = recording.without_ops();
    for tensor in &recording.tensors {
        divided.push_tensor(*tensor);
    }
    for access in &recording.accesses {
        divided.push_access(*access);
    }
    let mut origin = Vec::with_capacity(recording.ops.len());
    let mut pieces = pieces.iter().peekable();
    for (number, op) in (0_u32..).zip(&recording.ops) {
        let count = pieces.next_if(|(at, _)| *at == number).map_or(1, |(_, count)| *count);
        for piece in 0..count {
            divided.push_op(if count > 1 { piece_of(op, piece, count) } else { *op });
            origin.push(number);
        }
    }
    (divided, origin)
}

/// One of `count` pieces of a dispatch. Other ops, and dispatches that read their grid from memory, cannot be divided.
fn piece_of(op: &Op, piece: u32, count: u32) -> Op {
    let OpKind::Dispatch { kernel, grid, immediates, hidden_immediates } = op.kind else { return *op };
    let (OpGrid::Direct(groups) | OpGrid::Wrapped { groups, .. }) = grid else { return *op };
    let all: u64 = groups.iter().map(|groups| u64::from(*groups)).product();
    let end = |piece: u32| usize::try_from(all * u64::from(piece) / u64::from(count)).unwrap_or(usize::MAX);
    let grid = OpGrid::Wrapped { groups, share: Span::new(end(piece)..end(piece + 1)) };
    Op { kind: OpKind::Dispatch { kernel, grid, immediates, hidden_immediates }, ..*op }
}

#[cfg(test)]
mod tests {
    use super::divide;
    use crate::draft::Draft;
    use crate::{Access, Caps, Op, OpGrid, OpKind, SlotId, plan};

    #[test]
    fn pieces_cover_the_grid_and_leave_other_ops_alone() {
        let mut draft = Draft::new();
        let x = draft.external(4);
        for grid in [[1, 1, 1], [5, 2, 1], [1, 1, 1]] {
            draft.dispatch_over(grid, &[Access::read_write(x, 0..4)]);
        }
        draft.recording.push_input(x, 4);
        let (divided, origin) = divide(&draft.recording, &[(1, 4)]);
        assert_eq!(origin, [0, 1, 1, 1, 1, 2]);
        let share = |op: &Op| match op.kind {
            OpKind::Dispatch { grid: OpGrid::Wrapped { groups: [5, 2, 1], share }, .. } => Some(share.range()),
            _ => None,
        };
        let shares: Vec<_> = divided.ops.iter().map(share).collect();
        assert_eq!(shares, [None, Some(0..2), Some(2..5), Some(5..7), Some(7..10), None]);
        assert_eq!((divided.ops[0], divided.ops[5]), (draft.recording.ops[0], draft.recording.ops[2]));
        assert_eq!(divided.accesses_of(&divided.ops[3])[0].slot, SlotId(0));
        assert_eq!(divided.inputs, draft.recording.inputs);
        let plan = plan(&divided, &Caps::default());
        assert_eq!((plan.dispatches.len(), plan.barriers(&plan.whole())), (6, 5));
    }
}
