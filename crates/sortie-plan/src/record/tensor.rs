//! Tensor operations as plain data: kinds, inputs, outputs and shapes.
//!
//! A [`TensorRef`] is a tensor in memory, its elements in row-major order without gaps. An operation makes a new value
//! out of up to three others, so a recording of tensor operations is a graph in recorded order. Invariant: every output
//! has a slot of its own, which no other operation of the recording writes.

use std::fmt::{self, Write};

use crate::SlotId;

/// Maximum dimensions of a shape.
pub const RANK: usize = 6;

/// The element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats: stored in two bytes, computed in four, rounded after every operation.
    F16,
    /// 32-bit unsigned integers; also booleans, as 0 and 1.
    U32,
    /// 32-bit signed integers.
    I32,
}

impl ElementType {
    /// Bytes of one element.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::F16 => 2,
            Self::F32 | Self::U32 | Self::I32 => 4,
        }
    }

    /// Whether it is a float.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::U32 => "u32",
            Self::I32 => "i32",
        })
    }
}

/// The lengths of a tensor's dimensions, the outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Shape {
    rank: u8,
    dims: [u32; RANK],
}

impl Shape {
    /// `None` if there are more than [`RANK`] dimensions, or if a length or their product exceeds 2³² − 1.
    #[must_use]
    pub fn new(dims: &[usize]) -> Option<Self> {
        if dims.len() > RANK {
            return None;
        }
        let mut shape = Self { rank: dims.len() as u8, dims: [0; RANK] };
        for (to, from) in shape.dims.iter_mut().zip(dims) {
            *to = u32::try_from(*from).ok()?;
        }
        let len = shape.dims().iter().try_fold(1_u32, |len, dim| len.checked_mul(*dim));
        // A dimension of 0 makes the tensor empty, however large the others are.
        (len.is_some() || dims.contains(&0)).then_some(shape)
    }

    /// As [`Shape::new`], for lengths that are known to fit.
    pub(crate) fn of(dims: &[u32]) -> Self {
        let mut shape = Self { rank: dims.len() as u8, dims: [0; RANK] };
        shape.dims[..dims.len()].copy_from_slice(dims);
        shape
    }

    /// The lengths.
    #[must_use]
    pub fn dims(&self) -> &[u32] {
        &self.dims[..usize::from(self.rank)]
    }

    /// Number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.dims().iter().fold(1, |len: u32, dim| len.saturating_mul(*dim))
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dims().contains(&0)
    }

    /// The broadcast shape of both, as in `NumPy`: dimensions are aligned at the inner end, and a length of 1 matches
    /// any.
    #[must_use]
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        let (dims, rank) = self.both_dims(other)?;
        Self::new(&dims[..rank])
    }

    /// The broadcast dimensions, which may have more elements than a shape allows.
    #[must_use]
    pub fn broadcast_dims(&self, other: &Self) -> Option<Vec<usize>> {
        self.both_dims(other).map(|(dims, rank)| dims[..rank].to_vec())
    }

    fn both_dims(&self, other: &Self) -> Option<([usize; RANK], usize)> {
        let rank = self.rank().max(other.rank());
        let mut dims = [0; RANK];
        for (back, dim) in (1..=rank).zip(dims[..rank].iter_mut().rev()) {
            let length = |shape: &Self| shape.rank().checked_sub(back).map_or(1, |at| shape.dims[at] as usize);
            *dim = match (length(self), length(other)) {
                (1, length) | (length, 1) => length,
                (one, two) if one == two => one,
                _ => return None,
            };
        }
        Some((dims, rank))
    }

    /// The strides of each dimension, in elements.
    #[must_use]
    pub fn strides(&self) -> [u32; RANK] {
        let mut strides = [0; RANK];
        let mut next = 1_u32;
        for at in (0..self.rank()).rev() {
            strides[at] = next;
            next = next.saturating_mul(self.dims[at].max(1));
        }
        strides
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.dims()).finish()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A tensor in memory, in row-major order without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorRef {
    /// The memory.
    pub slot: SlotId,
    /// The start of the tensor in it, in bytes.
    pub start: u64,
    /// Its shape.
    pub shape: Shape,
    /// Its element type.
    pub element: ElementType,
}

impl TensorRef {
    /// The end of the tensor in bytes, rounded up to a whole word; an empty tensor also takes a word.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + (u64::from(self.shape.len()) * self.element.bytes()).next_multiple_of(4).max(4)
    }
}

/// A function of one element of each input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they say it themselves")]
pub enum Function {
    Neg,
    Abs,
    Exp,
    Log,
    Sqrt,
    /// 1 ∕ √x.
    Rsqrt,
    Sin,
    Cos,
    Tanh,
    Sigmoid,
    Relu,
    /// x · sigmoid(x).
    Swish,
    /// x · Φ(x).
    Gelu,
    /// Its approximation by tanh.
    GeluTanh,
    /// The first, limited to at least the second and at most the third.
    Clamp,
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Minimum,
    Maximum,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// The second if the first is not 0, else the third.
    Select,
    /// Conversion to the element type of the output.
    Cast,
}

/// A reduction of all elements along some axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they say it themselves")]
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    /// The index of the maximum along one axis; the first of several.
    ArgMax,
}

/// A normalization of each row: all elements along the last axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Norm {
    /// exp(x − max) ∕ Σ exp(x − max).
    Softmax,
    /// (x − mean) ∕ √(variance + ε); ε is a scalar.
    Layer,
    /// x ∕ √(mean of squares + ε); ε is a scalar.
    RootMeanSquare,
}

/// One tensor operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorKind {
    /// Elementwise; inputs are broadcast to the output's shape.
    Map(Function),
    /// Axis `axes[i]` of the input becomes axis `i`.
    Permute([u8; RANK]),
    /// A box of the input, starting at these indices.
    Slice([u32; RANK]),
    /// The input broadcast to the output's shape.
    Broadcast,
    /// The first input, then the second, along an axis.
    Concat(u8),
    /// Rows of the first input, by the indices in the second.
    Gather,
    /// Products of the last two axes, for each index of the others. Either input may be transposed.
    Matmul {
        /// Which inputs are transposed.
        transposed: [bool; 2],
    },
    /// Over the axes whose bits are set, in this number of parts: with more than one, the parts are the last axis of
    /// the output.
    Reduce(Reduction, u8, u32),
    /// Along the last axis.
    Rows(Norm),
}

impl fmt::Display for TensorKind {
    /// The name of the method that records the operation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map(function) => snake(f, &format!("{function:?}")),
            Self::Permute(_) => f.write_str("permute"),
            Self::Slice(_) => f.write_str("slice"),
            Self::Broadcast => f.write_str("broadcast"),
            Self::Concat(_) => f.write_str("concat"),
            Self::Gather => f.write_str("gather"),
            Self::Matmul { .. } => f.write_str("matmul"),
            Self::Reduce(reduction, ..) => f.write_str(&format!("{reduction:?}").to_lowercase()),
            Self::Rows(Norm::Softmax) => f.write_str("softmax"),
            Self::Rows(Norm::Layer) => f.write_str("layer_norm"),
            Self::Rows(Norm::RootMeanSquare) => f.write_str("rms_norm"),
        }
    }
}

/// `GeluTanh` as `gelu_tanh`.
fn snake(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_ascii_uppercase() {
            f.write_char('_')?;
        }
        f.write_char(letter.to_ascii_lowercase())?;
    }
    Ok(())
}

/// One tensor operation with its inputs and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorOp {
    /// Its kind.
    pub kind: TensorKind,
    /// Its inputs; only the first `count` are valid.
    pub inputs: [TensorRef; 3],
    /// Number of inputs.
    pub count: u8,
    /// The arguments of an elementwise function that are numbers, one bit each. Their values are the scalars of the op,
    /// in order; the other arguments are the inputs, in order.
    pub numbers: u8,
    /// Its output.
    pub output: TensorRef,
}

impl TensorOp {
    /// Its inputs.
    #[must_use]
    pub fn inputs(&self) -> &[TensorRef] {
        &self.inputs[..usize::from(self.count)]
    }

    /// The element type of its arguments. The condition of a select is always `u32`.
    #[must_use]
    pub fn argument_element(&self) -> ElementType {
        match self.kind {
            TensorKind::Map(Function::Select) => self.output.element,
            _ => self.inputs[0].element,
        }
    }

    /// Its arguments in order: inputs, and numbers as `None`.
    pub fn arguments(&self) -> impl Iterator<Item = Option<&TensorRef>> {
        let mut inputs = self.inputs().iter();
        let count = u32::from(self.count) + self.numbers.count_ones();
        (0..count).map(move |at| if self.numbers >> at & 1 == 1 { None } else { inputs.next() })
    }
}

#[cfg(test)]
mod tests {
    use super::{Function, Norm, Reduction, Shape, TensorKind};

    #[test]
    fn operations_are_called_as_they_are_recorded() {
        let kinds = [
            TensorKind::Map(Function::GeluTanh),
            TensorKind::Map(Function::Add),
            TensorKind::Matmul { transposed: [false; 2] },
            TensorKind::Reduce(Reduction::ArgMax, 1, 1),
            TensorKind::Rows(Norm::RootMeanSquare),
        ];
        assert_eq!(kinds.map(|kind| kind.to_string()), ["gelu_tanh", "add", "matmul", "argmax", "rms_norm"]);
    }

    fn shape(dims: &[usize]) -> Shape {
        Shape::new(dims).unwrap_or_else(|| panic!("{dims:?} fits"))
    }

    #[test]
    fn shapes_broadcast_as_numpy_has_it() {
        type Dims = &'static [usize];
        let table: [(Dims, Dims, Option<Dims>); 9] = [
            (&[], &[], Some(&[])),
            (&[], &[3], Some(&[3])),
            (&[2, 3], &[3], Some(&[2, 3])),
            (&[2, 1], &[1, 3], Some(&[2, 3])),
            (&[4, 1, 3], &[2, 1], Some(&[4, 2, 3])),
            (&[0, 3], &[1], Some(&[0, 3])),
            (&[1], &[0], Some(&[0])),
            (&[2], &[3], None),
            (&[2, 3], &[2], None),
        ];
        for (one, other, expected) in table {
            let both = [shape(one).broadcast(&shape(other)), shape(other).broadcast(&shape(one))];
            assert_eq!(both, [expected.map(shape); 2], "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_shape_has_a_rank_and_a_number_of_elements_that_fit() {
        assert_eq!(Shape::new(&[1; 7]), None);
        assert_eq!(Shape::new(&[1 << 16, 1 << 16]), None);
        assert_eq!(shape(&[1 << 16, 1 << 16, 0]).len(), 0);
        assert_eq!((shape(&[]).len(), shape(&[2, 3, 4]).len()), (1, 24));
        assert_eq!(shape(&[2, 3, 4]).strides()[..3], [12, 4, 1]);
    }
}
