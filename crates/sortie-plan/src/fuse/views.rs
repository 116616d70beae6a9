//! Views: values that are read from the memory of others, permuted, sliced, broadcast, or at an unaligned start.

use super::{
    graph::Graph,
    program::{Indexing, SideLayout},
};
use crate::{MatmulKernel, RANK, Shape, TensorKind, TensorOp, TensorRef};

/// A value that is read through strides.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    pub(super) base: TensorRef,
    pub(super) offset: u32,
    pub(super) strides: [u32; RANK],
}

/// A product's side that is a view.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProductSide {
    /// The memory of the view.
    pub(super) memory: TensorRef,
    /// It is contiguous there, but transposed.
    pub(super) swapped: bool,
    /// Without the offset.
    pub(super) layout: SideLayout,
    /// The first element.
    pub(super) offset: u32,
}

/// How a value is read.
pub(super) struct Source {
    pub(super) memory: TensorRef,
    pub(super) at: Indexing,
    /// The first element.
    pub(super) offset: u32,
}

impl Graph<'_> {
    /// A node's output as a view of its input.
    pub(super) fn view(&self, op: &TensorOp) -> View {
        let input = &op.inputs[0];
        let from = self.seen(input).unwrap_or(View { base: *input, offset: 0, strides: input.shape.strides() });
        let mut strides = [0; RANK];
        let mut offset = from.offset;
        match op.kind {
            TensorKind::Permute(axes) => {
                for (to, axis) in strides.iter_mut().zip(axes).take(op.output.shape.rank()) {
                    *to = from.strides[usize::from(axis)];
                }
            }
            TensorKind::Slice(start) => {
                strides = from.strides;
                let skipped = (0..input.shape.rank()).map(|at| start[at] * from.strides[at]);
                offset += skipped.sum::<u32>();
            }
            _ => {
                let missing = op.output.shape.rank() - input.shape.rank();
                for (at, length) in input.shape.dims().iter().enumerate() {
                    strides[missing + at] = if *length == 1 { 0 } else { from.strides[at] };
                }
            }
        }
        View { base: from.base, offset, strides }
    }

    /// An input that is a view, in its own shape, or in any shape and from any element if its elements are contiguous.
    pub(super) fn seen(&self, input: &TensorRef) -> Option<View> {
        let made = self.maker(input.slot);
        let view = made.and_then(|node| self.views[node].filter(|_| self.caps.fuse || self.group_of[node].is_none()));
        let (Some(node), Some(view)) = (made, view) else { return self.unaligned(input) };
        let own = self.op(node).output.shape;
        if own == input.shape && input.start == 0 {
            return Some(view);
        }
        if !side_by_side(&view, &own) {
            return self.unaligned(input);
        }
        let skipped = u32::try_from(input.start / input.element.bytes()).unwrap_or(u32::MAX);
        Some(View { strides: input.shape.strides(), offset: view.offset.saturating_add(skipped), ..view })
    }

    /// A tensor whose start cannot be bound is read from the last bindable offset before it.
    fn unaligned(&self, input: &TensorRef) -> Option<View> {
        let skipped = input.start % u64::from(self.caps.params_align.max(1));
        if skipped == 0 {
            return None;
        }
        let offset = u32::try_from(skipped / input.element.bytes()).unwrap_or(u32::MAX);
        let shape = Shape::of(&[offset.saturating_add(input.shape.len())]);
        let base = TensorRef { start: input.start - skipped, shape, ..*input };
        Some(View { base, offset, strides: input.shape.strides() })
    }

    /// How an input is read.
    pub(super) fn source(&self, input: &TensorRef, from: &Shape) -> Source {
        let (memory, strides, offset) = match self.seen(input) {
            Some(view) => (view.base, view.strides, view.offset),
            None => (*input, input.shape.strides(), 0),
        };
        Source { memory, at: Indexing::new(from, &input.shape, &strides, offset), offset }
    }

    /// The memory that an input is read from, and whether at an offset.
    pub(super) fn place_of(&self, input: &TensorRef) -> (TensorRef, bool) {
        self.seen(input).map_or((*input, false), |view| (view.base, view.offset != 0))
    }

    /// The memory that a node reads: the base of a view, or the view's own memory if the node cannot read through
    /// strides.
    pub(super) fn memory(&self, op: &TensorOp, side: usize) -> TensorRef {
        let input = &op.inputs[side];
        match (op.kind, self.seen(input)) {
            (TensorKind::Concat(_), _) | (_, None) => *input,
            (TensorKind::Gather, _) if side == 0 => *input,
            (TensorKind::Matmul { .. }, Some(_)) => self.multiplied(op, side).map_or(*input, |side| side.memory),
            (_, Some(view)) => view.base,
        }
    }

    /// A product's side that is a view and can be read in place; `None` if it needs its own memory. Native code reads
    /// all views in place.
    pub(super) fn multiplied(&self, op: &TensorOp, side: usize) -> Option<ProductSide> {
        let TensorKind::Matmul { .. } = op.kind else { return None };
        let input = &op.inputs[side];
        let view = self.seen(input)?;
        let View { base: memory, offset, strides } = view;
        let layout = SideLayout::new(&input.shape, &strides);
        if self.caps.native_programs {
            return Some(ProductSide { memory, swapped: false, layout, offset });
        }
        let swapped = transposed(&view, &input.shape)?;
        // Wide blocks need sides that are not transposed: next to a large product a copy costs little.
        let copied = swapped && self.caps.product == MatmulKernel::Wide && is_large(op);
        (!copied).then_some(ProductSide { memory, swapped, layout, offset })
    }
}

/// Whether a product takes far longer than copying its sides.
fn is_large(op: &TensorOp) -> bool {
    let [.., m, n] = *op.output.shape.dims() else { return false };
    m >= 64
        && n >= 128
        && op.inputs.iter().take(2).all(|side| side.shape.dims().iter().rev().take(2).all(|length| *length >= 32))
}

/// Whether the elements of a view are contiguous in memory.
fn side_by_side(view: &View, shape: &Shape) -> bool {
    let lengths = shape.dims().iter().zip(view.strides.iter().zip(shape.strides()));
    lengths.into_iter().all(|(length, (stride, own))| *length == 1 || *stride == own)
}

/// Whether a view of at least two axes is contiguous except for its last two, and whether these are swapped.
fn transposed(view: &View, shape: &Shape) -> Option<bool> {
    let rank = shape.rank();
    if rank < 2 || view.offset != 0 || u64::from(view.base.shape.len()) != u64::from(shape.len()) {
        return None;
    }
    let mut dims: Vec<u32> = shape.dims().to_vec();
    let straight = Shape::of(&dims).strides();
    if view.strides[..rank] == straight[..rank] {
        return Some(false);
    }
    dims.swap(rank - 2, rank - 1);
    let mut swapped = Shape::of(&dims).strides();
    swapped.swap(rank - 2, rank - 1);
    (view.strides[..rank] == swapped[..rank]).then_some(true)
}
