//! Reductions over axes, and normalizations of rows.

use sortie_plan::{Function, Norm, Reduction, TensorKind};

use super::{Argument, Dims, Element, ElementType, Float, Result, Shape, Tensor, shape_of};
use crate::{
    batch::Batch,
    error::{Error, ErrorKind},
};

impl<'b, T: Element> Tensor<'b, T> {
    /// Sums over axes, which are removed from the shape. An empty sum is 0.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = x.sum(&[0]).read(); // down the columns
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [4.0, 6.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sum(self, axes: &[usize]) -> Self {
        self.reduce("sum", Reduction::Sum, axes)
    }

    /// Maxima over axes; NaN if an element is NaN. An empty maximum is the smallest value of the type: −∞ for floats.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = x.max(&[1]).read(); // along the rows
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [2.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn max(self, axes: &[usize]) -> Self {
        self.reduce("max", Reduction::Max, axes)
    }

    /// Minima over axes; NaN if an element is NaN. An empty minimum is the largest value of the type: ∞ for floats.
    #[must_use]
    #[track_caller]
    pub fn min(self, axes: &[usize]) -> Self {
        self.reduce("min", Reduction::Min, axes)
    }

    /// The index of the maximum along an axis; the first of several. An axis of length 0 is a mistake.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[0.1_f32, 0.7, 0.2, 0.5, 0.3, 0.2], [2, 3]);
    /// let y = x.argmax(1).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1, 0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn argmax(self, axis: usize) -> Tensor<'b, u32> {
        let own = self.value.shape;
        let shape = without("argmax", own, &[axis]).and_then(|shape| {
            let (each, limit) = (each_of(own, &[axis]), u64::from(sortie_plan::fuse::MAX_FOLDED));
            match each {
                0 => {
                    let message = format!("argmax: axis {axis} of a tensor of shape {own} has no elements");
                    Err(Error::new(ErrorKind::Shape, message))
                }
                _ if each > limit => {
                    Err(Error::too_large(format!("argmax: elements of {own} that make one"), each, limit))
                }
                _ => Ok(shape),
            }
        });
        let kind = TensorKind::Reduce(Reduction::ArgMax, mask(&[axis]), 1);
        let x = if T::KIND == ElementType::F16 { self.cast::<f32>().into() } else { self.into() };
        self.batch.operate("argmax", kind, &[x], &[], shape)
    }

    #[track_caller]
    fn reduce(self, what: &str, f: Reduction, axes: &[usize]) -> Self {
        match T::KIND {
            // Computed in f32; rounded once at the end.
            ElementType::F16 => self.cast::<f32>().stages(what, f, axes).cast(),
            _ => self.stages(what, f, axes),
        }
    }

    /// A reduction, in two stages if one would leave most of the device idle.
    #[track_caller]
    fn stages(self, what: &str, f: Reduction, axes: &[usize]) -> Self {
        let shape = without(what, self.value.shape, axes);
        let each = each_of(self.value.shape, axes);
        if each == 0 && shape.is_ok() {
            return self.identity(what, f, shape);
        }
        let parts = shape.as_ref().map_or(1, |shape| parts_of(each, u64::from(shape.len())));
        if parts == 1 {
            return self.stage(what, TensorKind::Reduce(f, mask(axes), 1), shape);
        }
        let first = if f == Reduction::Mean { Reduction::Sum } else { f };
        let in_parts = shape.and_then(|shape| {
            let dims: Dims = shape.dims().iter().map(|dim| *dim as usize).chain([parts as usize]).collect();
            shape_of(&dims, what)
        });
        let some = self.stage(what, TensorKind::Reduce(first, mask(axes), parts), in_parts);
        let last = some.value.shape.rank().saturating_sub(1);
        let kind = TensorKind::Reduce(first, mask(&[last]), 1);
        let all = some.stage(what, kind, without(what, some.value.shape, &[last]));
        if f != Reduction::Mean {
            return all;
        }
        let arguments = [all.into(), Argument::Number((1.0 / each as f32).to_bits())];
        self.batch.operate(what, TensorKind::Map(Function::Mul), &arguments, &[], Ok(all.value.shape))
    }

    /// One stage. Not a closure, which would have a caller location of its own.
    #[track_caller]
    fn stage(self, what: &str, kind: TensorKind, shape: Result<Shape>) -> Self {
        self.batch.operate(what, kind, &[self.into()], &[], shape)
    }

    /// An empty reduction. A kernel would divide by the length of the axis.
    #[track_caller]
    fn identity(self, what: &str, f: Reduction, shape: Result<Shape>) -> Self {
        if let Some(unusable) = self.batch.unusable(what, &[self.into()]) {
            return unusable;
        }
        let tensor = self.batch.make::<T>(what, shape, Batch::tensor_slot);
        if !tensor.refused {
            self.batch.fill(tensor, bytemuck::pod_read_unaligned(&identity_of(f, T::KIND).to_ne_bytes()));
        }
        tensor
    }
}

impl<T: Float> Tensor<'_, T> {
    /// Means over axes. An empty mean is NaN.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = x.mean(&[0, 1]).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [2.5]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn mean(self, axes: &[usize]) -> Self {
        self.reduce("mean", Reduction::Mean, axes)
    }

    /// exp(x) ∕ Σ exp(x) along the last axis.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[3.0_f32, 3.0, -1.0, -1.0], [2, 2]);
    /// let y = x.softmax().read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [0.5; 4]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn softmax(self) -> Self {
        self.rows("softmax", Norm::Softmax, &[])
    }

    /// (x − mean) ∕ √(variance + `epsilon`) along the last axis. Scale and shift it with `*` and `+`, which
    /// are fused into its kernel.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 3.0], [1, 2]);
    /// let y = x.layer_norm(0.0).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [-1.0, 1.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn layer_norm(self, epsilon: f32) -> Self {
        self.rows("layer_norm", Norm::Layer, &[epsilon.to_bits()])
    }

    /// x ∕ √(mean of squares + `epsilon`) along the last axis.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[2.0_f32, -2.0], [1, 2]);
    /// let y = x.rms_norm(0.0).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, -1.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn rms_norm(self, epsilon: f32) -> Self {
        self.rows("rms_norm", Norm::RootMeanSquare, &[epsilon.to_bits()])
    }

    #[track_caller]
    fn rows(self, what: &str, f: Norm, scalars: &[u32]) -> Self {
        let shape = self.value.shape;
        let shape = if shape.rank() > 0 { Ok(shape) } else { Err(no_axis(what, shape, 0)) };
        let x = self.cast::<f32>();
        self.batch.operate::<f32>(what, TensorKind::Rows(f), &[x.into()], scalars, shape).cast()
    }
}

/// The bits of an empty reduction's result.
fn identity_of(f: Reduction, of: ElementType) -> u32 {
    match (f, of) {
        (Reduction::Sum, _) | (Reduction::Max, ElementType::U32) => 0,
        (Reduction::Max, ElementType::I32) => i32::MIN.cast_unsigned(),
        (Reduction::Min, ElementType::I32) => i32::MAX.cast_unsigned(),
        (Reduction::Min, ElementType::U32) => u32::MAX,
        (Reduction::Max, ElementType::F32) => f32::NEG_INFINITY.to_bits(),
        (Reduction::Min, ElementType::F32) => f32::INFINITY.to_bits(),
        (Reduction::Mean, _) => f32::NAN.to_bits(),
        (Reduction::Max | Reduction::Min, ElementType::F16) => unreachable!("halves are reduced as f32"),
        (Reduction::ArgMax, _) => unreachable!("refused where it is recorded"),
    }
}

/// Number of parts that `times` reductions of `each` elements are split into: enough workgroups to occupy a device,
/// each with enough work, and none above the limit.
fn parts_of(each: u64, times: u64) -> u32 {
    const GROUPS: u64 = 64;
    const WORTHWHILE: u64 = 1 << 13;
    const MAX_ELEMENTS: u64 = 1 << 19;
    let useful = GROUPS.div_ceil(times.max(1)).min(each / WORTHWHILE);
    u32::try_from(useful.max(each.div_ceil(MAX_ELEMENTS)).max(1)).unwrap_or(u32::MAX)
}

fn each_of(shape: Shape, axes: &[usize]) -> u64 {
    let reduced = shape.dims().iter().enumerate().filter(|(axis, _)| axes.contains(axis));
    reduced.map(|(_, length)| u64::from(*length)).product()
}

fn mask(axes: &[usize]) -> u8 {
    axes.iter().filter(|axis| **axis < 8).fold(0, |mask, axis| mask | 1 << axis)
}

/// A shape without these axes.
fn without(what: &str, shape: Shape, axes: &[usize]) -> Result<Shape> {
    if let Some(axis) = axes.iter().find(|axis| **axis >= shape.rank()) {
        return Err(no_axis(what, shape, *axis));
    }
    let kept = shape.dims().iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    let dims: Dims = kept.map(|(_, dim)| *dim as usize).collect();
    shape_of(&dims, what)
}

fn no_axis(what: &str, shape: Shape, axis: usize) -> Error {
    Error::new(ErrorKind::Shape, format!("{what}: a tensor of shape {shape} has no axis {axis}"))
}
