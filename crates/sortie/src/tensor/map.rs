//! Elementwise operations.

use sortie_plan::{Function, TensorKind};

use super::{Batch, Element, Float, Operand, Result, Shape, Tensor, shape_of, wrong_shapes};

macro_rules! unary {
    ($bound:ident: $($(#[$doc:meta])* $name:ident = $f:ident),* $(,)?) => {
        impl Batch {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<T: $bound>(&mut self, x: Tensor<T>) -> Tensor<T> {
                    self.unary(stringify!($name), Function::$f, x, &[])
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
    /// The approximation of [`Batch::gelu`] by `tanh`.
    gelu_tanh = GeluTanh,
}

unary! {
    Element:
    /// The maximum of each element and 0. NaN stays NaN.
    relu = Relu,
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $f:ident),* $(,)?) => {
        impl Batch {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<T: Element>(&mut self, left: Tensor<T>, right: Tensor<T>) -> Tensor<T> {
                    self.binary(stringify!($name), Function::$f, left, right)
                }
            )*
        }
    };
}

binary! {
    /// Sums. Shapes are broadcast, as in `NumPy`.
    add = Add,
    /// Differences.
    sub = Sub,
    /// Products.
    mul = Mul,
    /// Quotients; for integers as in WGSL.
    div = Div,
    /// The minimum of each pair; NaN if either is NaN.
    minimum = Minimum,
    /// The maximum of each pair; NaN if either is NaN.
    maximum = Maximum,
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident = $f:ident),* $(,)?) => {
        impl Batch {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<T: Element>(&mut self, left: Tensor<T>, right: Tensor<T>) -> Tensor<u32> {
                    self.binary(stringify!($name), Function::$f, left, right)
                }
            )*
        }
    };
}

compare! {
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

impl Batch {
    /// Each element negated.
    #[track_caller]
    pub fn neg<T: Signed>(&mut self, x: Tensor<T>) -> Tensor<T> {
        self.unary("neg", Function::Neg, x, &[])
    }

    /// Absolute values.
    #[track_caller]
    pub fn abs<T: Signed>(&mut self, x: Tensor<T>) -> Tensor<T> {
        self.unary("abs", Function::Abs, x, &[])
    }

    /// Each element times `by`.
    #[track_caller]
    pub fn scale<T: Element>(&mut self, x: Tensor<T>, by: T) -> Tensor<T> {
        self.unary("scale", Function::Scale, x, &[by.word()])
    }

    /// Each element limited to at least `low` and at most `high`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = batch.clamp(x, 2.0, 3.0);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [2.0, 2.0, 3.0, 3.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn clamp<T: Element>(&mut self, x: Tensor<T>, low: T, high: T) -> Tensor<T> {
        self.unary("clamp", Function::Clamp, x, &[low.word(), high.word()])
    }

    /// The left to the power of the right. Negative bases need whole exponents.
    #[track_caller]
    pub fn pow<T: Float>(&mut self, left: Tensor<T>, right: Tensor<T>) -> Tensor<T> {
        self.binary("pow", Function::Pow, left, right)
    }

    /// `yes` where `condition` is not 0, else `no`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let two = batch.upload(&[2.0_f32], [1]);
    /// let large = batch.greater(x, two);
    /// let y = batch.select(large, x, two);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [2.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn select<T: Element>(&mut self, condition: Tensor<u32>, yes: Tensor<T>, no: Tensor<T>) -> Tensor<T> {
        let both = stretched("select", &yes.into(), &no.into());
        let all = both.and_then(|both| broadcast("select: the condition", condition.value.shape, both));
        let kind = TensorKind::Map(Function::Select);
        self.operate("select", kind, &[condition.into(), yes.into(), no.into()], &[], all)
    }

    /// Converts each element to another type. Floats to integers: towards zero, and saturating.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.9_f32, -1.9], [2]);
    /// let y = batch.cast::<f32, i32>(x);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1, -1]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn cast<T: Element, U: Element>(&mut self, x: Tensor<T>) -> Tensor<U> {
        if T::KIND == U::KIND {
            return x.retyped();
        }
        self.operate("cast", TensorKind::Map(Function::Cast), &[x.into()], &[], Ok(x.value.shape))
    }

    #[track_caller]
    fn binary<T: Element, U: Element>(
        &mut self,
        what: &str,
        f: Function,
        left: Tensor<T>,
        right: Tensor<T>,
    ) -> Tensor<U> {
        let (left, right) = (left.into(), right.into());
        let shape = stretched(what, &left, &right);
        self.operate(what, TensorKind::Map(f), &[left, right], &[], shape)
    }
}

/// Signed elements: `f32`, [`half::f16`] and `i32`.
///
/// ```
/// use sortie::{Batch, Tensor, tensor::Signed};
///
/// fn distance<T: Signed>(batch: &mut Batch, x: Tensor<T>, y: Tensor<T>) -> Tensor<T> {
///     let apart = batch.sub(x, y);
///     batch.abs(apart)
/// }
/// # let device = sortie::Device::cpu()?;
/// let mut batch = device.batch();
/// let (x, y) = (batch.upload(&[1_i32, 5], [2]), batch.upload(&[3_i32], [1]));
/// let apart = distance(&mut batch, x, y);
/// let apart = batch.read(apart);
/// batch.submit()?;
/// assert_eq!(apart.wait()?, [2, 2]);
/// # Ok::<(), sortie::Error>(())
/// ```
pub trait Signed: Element {}

impl Signed for f32 {}
impl Signed for half::f16 {}
impl Signed for i32 {}

fn stretched(what: &str, left: &Operand, right: &Operand) -> Result<Shape> {
    broadcast(what, left.value.shape, right.value.shape)
}

/// The broadcast shape of both.
fn broadcast(what: &str, left: Shape, right: Shape) -> Result<Shape> {
    let dims = left.broadcast_dims(&right).ok_or_else(|| wrong_shapes(what, left, right))?;
    shape_of(&dims, what)
}
