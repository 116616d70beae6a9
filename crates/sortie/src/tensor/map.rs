//! Elementwise operations.

use sortie_plan::{Function, TensorKind};

use super::{Element, Float, Operand, Result, Shape, Signed, Tensor, shape_of, wrong_shapes};

macro_rules! unary {
    ($bound:ident: $($(#[$doc:meta])* $name:ident = $f:ident),* $(,)?) => {
        impl<'b, T: $bound> Tensor<'b, T> {
            $(
                $(#[$doc])*
                #[must_use]
                #[track_caller]
                pub fn $name(self) -> Self {
                    self.unary(stringify!($name), Function::$f)
                }
            )*
        }
    };
}

unary! {
    Float:
    /// `e` to the power of each element.
    exp = Exp,
    /// Natural logarithms.
    log = Log,
    /// Square roots.
    sqrt = Sqrt,
    /// One over the square root.
    rsqrt = Rsqrt,
    /// Sines.
    sin = Sin,
    /// Cosines.
    cos = Cos,
    /// Hyperbolic tangents.
    tanh = Tanh,
    /// 1 ∕ (1 + e⁻ˣ).
    sigmoid = Sigmoid,
    /// x · sigmoid(x), also called `SiLU`.
    swish = Swish,
    /// x · Φ(x), with Φ the normal distribution.
    gelu = Gelu,
    /// The approximation of [`gelu`](Tensor::gelu) by `tanh`.
    gelu_tanh = GeluTanh,
}

unary! {
    Element:
    /// The maximum of each element and 0. NaN stays NaN.
    relu = Relu,
}

unary! {
    Signed:
    /// Absolute values.
    abs = Abs,
}

macro_rules! binary {
    ($bound:ident -> $Result:ty: $($(#[$doc:meta])* $name:ident = $f:ident),* $(,)?) => {
        impl<'b, T: $bound> Tensor<'b, T> {
            $(
                $(#[$doc])*
                #[must_use]
                #[track_caller]
                pub fn $name(self, right: impl Into<Operand<'b, T>>) -> $Result {
                    self.binary(stringify!($name), Function::$f, right)
                }
            )*
        }
    };
}

binary! {
    Element -> Self:
    /// The minimum of each pair; NaN if either is NaN.
    minimum = Minimum,
    /// The maximum of each pair; NaN if either is NaN.
    maximum = Maximum,
}

binary! {
    Float -> Self:
    /// Its elements to the power of the right ones. Negative bases need whole exponents.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0], [3]);
    /// let squares = x.pow(2.0).read();
    /// batch.submit()?;
    /// assert_eq!(squares.wait()?, [1.0, 4.0, 9.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pow = Pow,
}

binary! {
    Element -> Tensor<'b, u32>:
    /// 1 where both are equal, else 0.
    equal = Equal,
    /// 1 where they differ, else 0.
    not_equal = NotEqual,
    /// 1 where the left is less, else 0.
    less = Less,
    /// 1 where the left is less or equal, else 0.
    less_equal = LessEqual,
    /// 1 where the left is greater, else 0.
    greater = Greater,
    /// 1 where the left is greater or equal, else 0.
    greater_equal = GreaterEqual,
}

impl<'b, T: Element> Tensor<'b, T> {
    /// Each element limited to at least `low` and at most `high`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = x.clamp(2.0, 3.0).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [2.0, 2.0, 3.0, 3.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn clamp(self, low: impl Into<Operand<'b, T>>, high: impl Into<Operand<'b, T>>) -> Self {
        let (low, high) = (low.into(), high.into());
        let shape = broadcast("clamp", self.value.shape, low.shape());
        let shape = shape.and_then(|shape| broadcast("clamp", shape, high.shape()));
        let arguments = [self.into(), low.into(), high.into()];
        self.batch.operate("clamp", TensorKind::Map(Function::Clamp), &arguments, &[], shape)
    }

    /// Converts each element to another type. Floats to integers: towards zero, and saturating.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let y = batch.tensor_from(&[1.9_f32, -1.9], [2]).cast::<i32>().read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1, -1]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn cast<U: Element>(self) -> Tensor<'b, U> {
        if T::KIND == U::KIND {
            return self.retyped();
        }
        let shape = Ok(self.value.shape);
        self.batch.operate("cast", TensorKind::Map(Function::Cast), &[self.into()], &[], shape)
    }

    #[track_caller]
    pub(super) fn unary(self, what: &str, f: Function) -> Self {
        self.batch.operate(what, TensorKind::Map(f), &[self.into()], &[], Ok(self.value.shape))
    }

    #[track_caller]
    pub(super) fn binary<U: Element>(self, what: &str, f: Function, right: impl Into<Operand<'b, T>>) -> Tensor<'b, U> {
        let right = right.into();
        let shape = broadcast(what, self.value.shape, right.shape());
        self.batch.operate(what, TensorKind::Map(f), &[self.into(), right.into()], &[], shape)
    }

    /// A function of a number on the left and this tensor.
    #[track_caller]
    pub(super) fn with_left(self, what: &str, f: Function, left: impl Into<Operand<'b, T>>) -> Self {
        let shape = Ok(self.value.shape);
        self.batch.operate(what, TensorKind::Map(f), &[left.into().into(), self.into()], &[], shape)
    }
}

impl<'b> Tensor<'b, u32> {
    /// `yes` where it is not 0, else `no`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = x.greater(2.0).select(x, 0.0).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [0.0, 0.0, 3.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn select<T: Element>(self, yes: impl Into<Operand<'b, T>>, no: impl Into<Operand<'b, T>>) -> Tensor<'b, T> {
        let (yes, no) = (yes.into(), no.into());
        let both = broadcast("select", yes.shape(), no.shape());
        let shape = both.and_then(|both| broadcast("select: the condition", self.value.shape, both));
        let arguments = [self.into(), yes.into(), no.into()];
        self.batch.operate("select", TensorKind::Map(Function::Select), &arguments, &[], shape)
    }
}

/// The broadcast shape of both.
fn broadcast(what: &str, left: Shape, right: Shape) -> Result<Shape> {
    if left == right || right.rank() == 0 {
        return Ok(left);
    }
    left.broadcast(&right).map_or_else(|| unequal(what, left, right), Ok)
}

/// Why shapes are not broadcast.
#[cold]
fn unequal(what: &str, left: Shape, right: Shape) -> Result<Shape> {
    let rule = "counted from the last, dimensions must be equal, or one of them 1";
    let dims = left.broadcast_dims(&right).ok_or_else(|| wrong_shapes(what, left, right, rule))?;
    shape_of(&dims, what)
}
