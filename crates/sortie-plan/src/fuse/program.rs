//! The computation of a generated kernel per item: loads, functions of loaded values, and stores.

use crate::{ElementType, Function, Norm, RANK, Reduction, Shape, TensorRef};

/// A number of elements that a kernel takes as a parameter, so that slices at different places share a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Offset {
    /// Its index among the scalars of the kernel.
    pub scalar: usize,
    /// What it is a multiple of: 1, 2 or 4. Vectors are loaded at aligned places only.
    pub align: u32,
}

impl Offset {
    /// `None` for 0. The scalar is yet to be numbered.
    fn of(value: u32) -> Option<Self> {
        let align = 1 << value.trailing_zeros().min(2);
        (value != 0).then_some(Self { scalar: 0, align })
    }
}

/// A parameter of a kernel that is not a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A word of the caller's arena of immediates, at this byte.
    Recorded(u32),
    /// A word that follows from the recording.
    Value(u32),
}

/// The position of an input's element for output element `e`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Indexing {
    /// At `e`.
    Same,
    /// At `offset` + Σ index · stride, over (length, stride) of each dimension, the outermost first.
    Strided {
        /// The first element; 0 if absent.
        offset: Option<Offset>,
        /// Lengths and strides; dimensions that are contiguous in memory are merged.
        dims: Vec<(u32, u32)>,
    },
}

impl Indexing {
    /// The indexing of a tensor of `shape` with these strides, broadcast to `from`. The scalar of an offset that is
    /// not 0 is yet to be numbered.
    #[must_use]
    pub fn new(from: &Shape, shape: &Shape, strides: &[u32; RANK], offset: u32) -> Self {
        if from.is_empty() {
            return Self::Same;
        }
        let mut dims: Vec<(u32, u32)> = Vec::new();
        let missing = from.rank() - shape.rank();
        for (at, length) in from.dims().iter().enumerate() {
            let own = at.checked_sub(missing);
            let stride = own.filter(|own| shape.dims()[*own] != 1).map_or(0, |own| strides[own]);
            if *length == 1 {
                continue;
            }
            match dims.last_mut() {
                Some((outer, step)) if *step == stride.wrapping_mul(*length) => {
                    *outer *= length;
                    *step = stride;
                }
                _ => dims.push((*length, stride)),
            }
        }
        match dims.as_slice() {
            [] if offset == 0 => Self::Same,
            [(_, 1)] if offset == 0 => Self::Same,
            _ => Self::Strided { offset: Offset::of(offset), dims },
        }
    }

    /// The first element, given the scalars of the kernel.
    #[must_use]
    #[inline]
    pub fn first(&self, scalars: &[u32]) -> usize {
        match self {
            Self::Strided { offset: Some(offset), .. } => scalars[offset.scalar] as usize,
            Self::Same | Self::Strided { offset: None, .. } => 0,
        }
    }

    /// Whether each aligned group of `width` neighbours is contiguous and aligned, or all at one position.
    #[must_use]
    pub(crate) fn is_wide(&self, width: u32) -> bool {
        match self {
            Self::Same => true,
            Self::Strided { offset, dims } => match dims.split_last() {
                None => true,
                Some(((length, 0), _)) => length.is_multiple_of(width),
                Some(((length, 1), outer)) => {
                    let aligned = |value: &u32| value.is_multiple_of(width);
                    let start = offset.is_none_or(|offset| aligned(&offset.align));
                    aligned(length) && start && outer.iter().all(|(_, stride)| aligned(stride))
                }
                Some(_) => false,
            },
        }
    }

    /// Number of elements after which it repeats, if it does.
    pub(crate) fn period(&self) -> Option<u32> {
        match self {
            Self::Strided { dims, .. } => match dims.as_slice() {
                [(_, 0), inner @ ..] => Some(inner.iter().map(|(length, _)| length).product()),
                _ => None,
            },
            Self::Same => None,
        }
    }

    /// The same, restricted to the first `row` elements.
    pub(crate) fn within(&self, row: u32) -> Self {
        match self {
            Self::Strided { offset, dims } if self.period() == Some(row) => match &dims[1..] {
                [(_, 1)] if offset.is_none() => Self::Same,
                inner => Self::Strided { offset: *offset, dims: inner.to_vec() },
            },
            at => at.clone(),
        }
    }

    /// Whether neighbours are all at one position.
    pub(crate) fn is_splat(&self) -> bool {
        matches!(self, Self::Strided { dims, .. } if dims.last().is_none_or(|(_, stride)| *stride == 0))
    }
}

/// One step of a body; steps refer to earlier ones by index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Expr {
    /// An element of an input.
    Load {
        /// Which input.
        input: usize,
        /// The position.
        at: Indexing,
    },
    /// The result of the kernel's head: a sum of products, a reduction, an element of a row.
    Head(ElementType),
    /// A number.
    Number {
        /// Its index among the scalars of the kernel.
        scalar: usize,
        /// Its element type.
        element: ElementType,
    },
    /// A function of earlier steps.
    Apply {
        /// The function.
        f: Function,
        /// Its arguments.
        args: Vec<usize>,
        /// The element type of the result.
        element: ElementType,
    },
    /// A row of a table, by an index.
    Gather {
        /// The table.
        input: usize,
        /// The step with the index.
        index: usize,
        /// The scalar with the rows of the table.
        rows: usize,
        /// Elements of each.
        row: u32,
    },
    /// Alternating pieces of two inputs.
    Join {
        /// The inputs.
        inputs: [usize; 2],
        /// The scalars with the elements of each piece; `None` if it has none.
        pieces: [Option<usize>; 2],
    },
}

/// Steps, and the ones that are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Body {
    /// In order.
    pub steps: Vec<Expr>,
    /// The steps that are stored, one for each output.
    pub stores: Vec<usize>,
}

/// Where the matrices of a product's side are in its input, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SideLayout {
    /// The scalar with the first element, which is 0 if absent: so that slices at different places share a program.
    pub offset: Option<usize>,
    /// Length and stride of each axis before the last two, the outermost first. Axes that it does not have are of
    /// length 1.
    pub batch: [(u32, u32); RANK - 2],
    /// From one row to the next, and from one column to the next.
    pub strides: [u32; 2],
}

impl SideLayout {
    /// The layout of a tensor with these strides, without an offset.
    #[must_use]
    pub fn new(shape: &Shape, strides: &[u32; RANK]) -> Self {
        let mut layout = Self { offset: None, batch: [(1, 0); RANK - 2], strides: [0; 2] };
        let Some(outer) = shape.rank().checked_sub(2) else { return layout };
        for (to, axis) in layout.batch.iter_mut().zip(0..outer) {
            *to = (shape.dims()[axis], strides[axis]);
        }
        layout.strides = [strides[outer], strides[outer + 1]];
        layout
    }

    /// The first element, given the scalars of the program.
    #[must_use]
    #[inline]
    pub fn first(&self, scalars: &[u32]) -> usize {
        self.offset.map_or(0, |offset| scalars[offset] as usize)
    }

    /// With rows as columns.
    #[must_use]
    pub fn transposed(self) -> Self {
        let [row, column] = self.strides;
        Self { strides: [column, row], ..self }
    }
}

/// A matrix product for each of `batch` indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Product {
    /// Rows of the left side and of the product.
    pub m: u32,
    /// Columns of the left side.
    pub k: u32,
    /// Columns of the product.
    pub n: u32,
    /// Number of products.
    pub batch: u32,
    /// The inputs of the kernel that are its sides.
    pub sides: [usize; 2],
    /// Which sides are transposed.
    pub transposed: [bool; 2],
    /// Which sides are the same for all of the batch.
    pub shared: [bool; 2],
    /// Where the matrices of each side are, as rows and columns of the product. Native code reads any layout; kernels
    /// read sides that are contiguous, or contiguous and [`transposed`](Self::transposed).
    pub layouts: [SideLayout; 2],
}

impl Product {
    /// One product of matrices that are contiguous in the first two inputs.
    #[must_use]
    pub fn new(m: u32, k: u32, n: u32) -> Self {
        let layout = |columns| SideLayout { offset: None, batch: [(1, 0); RANK - 2], strides: [columns, 1] };
        let layouts = [layout(k), layout(n)];
        Self { m, k, n, batch: 1, sides: [0, 1], transposed: [false; 2], shared: [true; 2], layouts }
    }
}

/// A reduction of some dimensions of a shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// The reduction.
    pub f: Reduction,
    /// The element type.
    pub element: ElementType,
    /// Lengths of all dimensions, and whether each is reduced; neighbours of one kind are merged.
    pub dims: Vec<(u32, bool)>,
    /// Number of results per reduced set, each of a part of it.
    pub parts: u32,
}

impl Reduce {
    /// Elements of a reduced set, with all its parts.
    #[must_use]
    pub fn each(&self) -> u32 {
        self.dims.iter().filter(|(_, reduced)| *reduced).map(|(length, _)| length).product()
    }

    /// Elements of a part; the last may have fewer, or none.
    #[must_use]
    pub fn part(&self) -> u32 {
        self.each().div_ceil(self.parts.max(1))
    }
}

/// The computation before the tail, for each item of the tail.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Head {
    /// Nothing.
    None,
    /// An element of a product of matrices.
    Product(Product),
    /// A reduction of the results of its own body.
    Reduce(Reduce, Body),
    /// An element of a normalized row of its own body's results.
    Rows {
        /// The normalization.
        f: Norm,
        /// Elements of a row.
        row: u32,
        /// The index of its scalar among those of the kernel, if it takes one.
        scalar: usize,
        /// Computes the row; stores one step.
        body: Body,
    },
}

/// An input or output of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramBuffer {
    /// Its element type.
    pub element: ElementType,
    /// Number of elements.
    pub len: u32,
}

impl ProgramBuffer {
    pub(crate) fn of(value: &TensorRef) -> Self {
        Self { element: value.element, len: value.shape.len() }
    }
}

/// A kernel to be generated.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    /// The computation before the tail.
    pub head: Head,
    /// The computation per output element.
    pub tail: Body,
    /// The inputs, in the order of their bindings.
    pub inputs: Vec<ProgramBuffer>,
    /// The outputs, bound after the inputs.
    pub outputs: Vec<ProgramBuffer>,
    /// Number of scalars.
    pub scalars: usize,
}

impl Program {
    /// Elements of its outputs.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.outputs.first().map_or(0, |output| output.len)
    }

    /// Whether there is nothing to compute.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Floating-point operations: one per function and element, and two per product of a sum of products.
    #[must_use]
    pub fn flops(&self) -> u64 {
        let len = u64::from(self.len());
        let functions = |body: &Body| {
            let floats = |step: &&Expr| matches!(step, Expr::Apply { element, .. } if element.is_float());
            body.steps.iter().filter(floats).count() as u64
        };
        let head = match &self.head {
            Head::None => 0,
            Head::Product(Product { m, k, n, batch, .. }) => {
                [m, k, n, batch].into_iter().fold(2_u64, |all, length| all.saturating_mul(u64::from(*length)))
            }
            Head::Reduce(fold, body) => {
                let all = fold.dims.iter().fold(1_u64, |all, (length, _)| all.saturating_mul(u64::from(*length)));
                all.saturating_mul(functions(body) + u64::from(fold.element.is_float()))
            }
            // Passes over the row, and operations per element.
            Head::Rows { f, body, .. } => {
                let each = match f {
                    Norm::Softmax => 4,
                    Norm::Layer => 5,
                    Norm::RootMeanSquare => 3,
                };
                len.saturating_mul(each + functions(body))
            }
        };
        head.saturating_add(len.saturating_mul(functions(&self.tail)))
    }

    /// The element type of a step's result.
    #[must_use]
    pub fn element(&self, body: &Body, step: usize) -> ElementType {
        match &body.steps[step] {
            Expr::Load { input, .. } | Expr::Gather { input, .. } => self.inputs[*input].element,
            Expr::Join { inputs, .. } => self.inputs[inputs[0]].element,
            Expr::Head(element) | Expr::Number { element, .. } | Expr::Apply { element, .. } => *element,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Indexing, Offset};
    use crate::Shape;

    fn at(from: &[u32], shape: &[u32], strides: Option<&[u32]>, offset: u32) -> Indexing {
        let (from, shape) = (Shape::of(from), Shape::of(shape));
        let mut own = shape.strides();
        if let Some(strides) = strides {
            own[..strides.len()].copy_from_slice(strides);
        }
        Indexing::new(&from, &shape, &own, offset)
    }

    fn strided(offset: u32, dims: &[(u32, u32)]) -> Indexing {
        Indexing::Strided { offset: Offset::of(offset), dims: dims.to_vec() }
    }

    #[test]
    fn dimensions_that_go_on_in_memory_are_one() {
        assert_eq!(at(&[2, 3, 4], &[2, 3, 4], None, 0), Indexing::Same);
        assert_eq!(at(&[1, 1], &[1, 1], None, 0), Indexing::Same);
        assert_eq!(at(&[2, 3, 4], &[4], None, 0), strided(0, &[(6, 0), (4, 1)]));
        assert_eq!(at(&[2, 3, 4], &[3, 4], None, 0), strided(0, &[(2, 0), (12, 1)]));
        assert_eq!(at(&[2, 3, 4], &[2, 1, 1], None, 0), strided(0, &[(2, 1), (12, 0)]));
        assert_eq!(at(&[5], &[], None, 0), strided(0, &[(5, 0)]));
        assert_eq!(at(&[3, 2], &[3, 2], Some(&[1, 3]), 0), strided(0, &[(3, 1), (2, 3)]));
        assert_eq!(at(&[4], &[4], None, 8), strided(8, &[(4, 1)]));
    }

    #[test]
    fn four_neighbours_are_side_by_side_or_at_one_place_or_apart() {
        assert!(at(&[6, 4], &[4], None, 0).is_wide(4));
        assert!(at(&[6, 4], &[6, 1], None, 0).is_wide(4));
        assert!(at(&[6, 4], &[6, 1], None, 0).is_splat());
        assert!(!at(&[4, 6], &[6], None, 0).is_wide(4));
        assert!(!at(&[4, 8], &[4, 8], None, 2).is_wide(4));
        assert!(!at(&[4, 4], &[4, 4], Some(&[1, 4]), 0).is_wide(4));
    }

    #[test]
    fn what_is_stretched_outwards_comes_again() {
        assert_eq!(at(&[2, 3, 4], &[4], None, 0).period(), Some(4));
        assert_eq!(at(&[2, 3, 4], &[3, 1], None, 0).period(), Some(12));
        assert_eq!(at(&[2, 3, 4], &[], None, 0).period(), Some(1));
        assert_eq!(at(&[2, 3, 4], &[2, 1, 4], None, 0).period(), None);
        assert_eq!(at(&[2, 3, 4], &[4], None, 0).within(4), Indexing::Same);
        assert_eq!(at(&[2, 3, 4], &[3, 1], None, 0).within(12), strided(0, &[(3, 1), (4, 0)]));
        assert_eq!(at(&[2, 3, 4], &[2, 3, 4], None, 0).period(), None);
    }
}
