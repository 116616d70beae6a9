//! Tensor operations as plain data: what is computed from what, over which shapes.
//!
//! A [`TensorRef`] is a tensor in memory, its elements in row-major order without gaps. An operation makes a new value out of up to three others, so a
//! recording of tensor operations is a graph in the order it was written. Invariant: every output has a slot of its own, which no other
//! operation of the recording writes.

use std::fmt::{self, Write};

use crate::SlotId;

/// Most dimensions of a shape.
pub const RANK: usize = 6;

/// What a tensor is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats: kept in two bytes, computed with in four, rounded after every operation.
    F16,
    /// 32-bit unsigned integers; also truth, as 0 and 1.
    U32,
    /// 32-bit signed integers.
    I32,
}

impl ElementType {
    /// Bytes of one.
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
    /// `None` when there are more than [`RANK`] dimensions, or when a length or their product is over 2³² − 1.
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
        // A dimension of 0 makes the whole empty, however large the others are.
        (len.is_some() || dims.contains(&0)).then_some(shape)
    }

    /// As [`Shape::new`], of lengths that are known to fit.
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

    /// The shape that both stretch to, as `NumPy` has it: dimensions are lined up at the inner end, and a length of 1 goes with any.
    #[must_use]
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        Self::new(&self.broadcast_dims(other)?)
    }

    /// Its dimensions, though they may be more elements than a shape can have.
    #[must_use]
    pub fn broadcast_dims(&self, other: &Self) -> Option<Vec<usize>> {
        let rank = self.rank().max(other.rank());
        let mut dims = [0; RANK];
        for (back, dim) in (1..=rank).zip(dims[..rank].iter_mut().rev()) {
            let length = |shape: &Self| shape.rank().checked_sub(back).map_or(1, |at| shape.dims[at]);
            *dim = match (length(self), length(other)) {
                (1, length) | (length, 1) => length,
                (one, two) if one == two => one,
                _ => return None,
            };
        }
        Some(dims[..rank].iter().map(|dim| *dim as usize).collect())
    }

    /// How far apart neighbours of each dimension lie in memory.
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

/// A tensor in memory, row after row without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorRef {
    /// The memory.
    pub slot: SlotId,
    /// The byte of it that the tensor starts at.
    pub start: u64,
    /// Its shape.
    pub shape: Shape,
    /// What it is made of.
    pub element: ElementType,
}

impl TensorRef {
    /// Its last byte and one, rounded up to a whole word; one without elements has a word, too.
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
    /// Times a scalar.
    Scale,
    /// Between two scalars.
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
    /// The second where the first is not 0, else the third.
    Select,
    /// To the element type of the output.
    Cast,
}

impl Function {
    /// How many scalars it takes.
    #[must_use]
    pub fn scalars(self) -> usize {
        match self {
            Self::Scale => 1,
            Self::Clamp => 2,
            _ => 0,
        }
    }
}

/// What is made of all elements along some axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they say it themselves")]
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    /// The index of the greatest element, the first of several, along one axis.
    ArgMax,
}

/// What is done to each row: all elements along the last axis.
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
    /// Element by element; inputs stretch to the output's shape.
    Map(Function),
    /// Axis `axes[i]` of the input becomes axis `i`.
    Permute([u8; RANK]),
    /// A box of the input, from these indices on.
    Slice([u32; RANK]),
    /// The input stretched to the output's shape.
    Broadcast,
    /// The first input, then the second, along an axis.
    Concat(u8),
    /// Rows of the first input, by the indices in the second.
    Gather,
    /// Products of the last two axes, for each index of the others. Either input may be given transposed.
    Matmul {
        /// Which inputs are.
        transposed: [bool; 2],
    },
    /// Over the axes whose bits are set, in so many parts: with more than one, the output has them as its last axis.
    Reduce(Reduction, u8, u32),
    /// Along the last axis.
    Rows(Norm),
}

impl fmt::Display for TensorKind {
    /// As the operation is called where it is recorded.
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

/// One tensor operation with what it takes and makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorOp {
    /// What it does.
    pub kind: TensorKind,
    /// What it takes; only the first `count` mean something.
    pub inputs: [TensorRef; 3],
    /// How many that are.
    pub count: u8,
    /// What it makes.
    pub output: TensorRef,
}

impl TensorOp {
    /// What it takes.
    #[must_use]
    pub fn inputs(&self) -> &[TensorRef] {
        &self.inputs[..usize::from(self.count)]
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
