//! Reductions over axes, and normalizations of rows.

use sortie_plan::{Function, Norm, Reduction, TensorKind};

use super::{Batch, Element, ElementType, Float, Result, Shape, Tensor, shape_of};
use crate::error::{Error, ErrorKind};

impl Batch {
    /// Sums over axes, which are removed from the shape. An empty sum is 0.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = batch.sum(x, &[0]); // down the columns
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [4.0, 6.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn sum<T: Element>(&mut self, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        self.reduce("sum", Reduction::Sum, x, axes)
    }

    /// Means over axes. An empty mean is NaN.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = batch.mean(x, &[0, 1]);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [2.5]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn mean<T: Float>(&mut self, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        self.reduce("mean", Reduction::Mean, x, axes)
    }

    /// Maxima over axes; NaN if an element is NaN. An empty maximum is the smallest value of the type: −∞ for floats.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = batch.max(x, &[1]); // along the rows
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [2.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn max<T: Element>(&mut self, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        self.reduce("max", Reduction::Max, x, axes)
    }

    /// Minima over axes; NaN if an element is NaN. An empty minimum is the largest value of the type: ∞ for floats.
    #[track_caller]
    pub fn min<T: Element>(&mut self, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        self.reduce("min", Reduction::Min, x, axes)
    }

    /// The index of the maximum along an axis; the first of several. An axis of length 0 is a mistake.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[0.1_f32, 0.7, 0.2, 0.5, 0.3, 0.2], [2, 3]);
    /// let y = batch.argmax(x, 1);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1, 0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn argmax<T: Element>(&mut self, x: Tensor<T>, axis: usize) -> Tensor<u32> {
        let shape = without("argmax", x.value.shape, &[axis]).and_then(|shape| {
            let (each, limit) = (each_of(x.value.shape, &[axis]), u64::from(sortie_plan::fuse::MAX_FOLDED));
            match each {
                0 => {
                    let message = format!("argmax: axis {axis} of a tensor of shape {} has no elements", x.value.shape);
                    Err(Error::new(ErrorKind::Shape, message))
                }
                _ if each > limit => {
                    Err(Error::too_large(format!("argmax: elements of {} that make one", x.value.shape), each, limit))
                }
                _ => Ok(shape),
            }
        });
        let kind = TensorKind::Reduce(Reduction::ArgMax, mask(&[axis]), 1);
        match T::KIND {
            ElementType::F16 => {
                let x = self.cast::<T, f32>(x);
                self.operate("argmax", kind, &[x.into()], &[], shape)
            }
            _ => self.operate("argmax", kind, &[x.into()], &[], shape),
        }
    }

    /// exp(x) ∕ Σ exp(x) along the last axis.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[3.0_f32, 3.0, -1.0, -1.0], [2, 2]);
    /// let y = batch.softmax(x);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [0.5; 4]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn softmax<T: Float>(&mut self, x: Tensor<T>) -> Tensor<T> {
        self.rows("softmax", Norm::Softmax, x, &[])
    }

    /// (x − mean) ∕ √(variance + `epsilon`) along the last axis. Scale and shift it by [`mul`](Batch::mul) and
    /// [`add`](Batch::add), which are fused into its kernel.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 3.0], [1, 2]);
    /// let y = batch.layer_norm(x, 0.0);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [-1.0, 1.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn layer_norm<T: Float>(&mut self, x: Tensor<T>, epsilon: f32) -> Tensor<T> {
        self.rows("layer_norm", Norm::Layer, x, &[epsilon.to_bits()])
    }

    /// x ∕ √(mean of squares + `epsilon`) along the last axis.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[2.0_f32, -2.0], [1, 2]);
    /// let y = batch.rms_norm(x, 0.0);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, -1.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn rms_norm<T: Float>(&mut self, x: Tensor<T>, epsilon: f32) -> Tensor<T> {
        self.rows("rms_norm", Norm::RootMeanSquare, x, &[epsilon.to_bits()])
    }

    #[track_caller]
    fn rows<T: Float>(&mut self, what: &str, f: Norm, x: Tensor<T>, scalars: &[u32]) -> Tensor<T> {
        let shape = x.value.shape;
        let shape = if shape.rank() > 0 { Ok(shape) } else { Err(no_axis(what, shape, 0)) };
        let x = self.cast::<T, f32>(x);
        let y = self.operate::<f32>(what, TensorKind::Rows(f), &[x.into()], scalars, shape);
        self.cast(y)
    }

    #[track_caller]
    fn reduce<T: Element>(&mut self, what: &str, f: Reduction, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        match T::KIND {
            // Computed in f32; rounded once at the end.
            ElementType::F16 => {
                let x = self.cast::<T, f32>(x);
                let y = self.stages(what, f, x, axes);
                self.cast(y)
            }
            _ => self.stages(what, f, x, axes),
        }
    }

    /// A reduction, in two stages if one would leave most of the device idle.
    #[track_caller]
    fn stages<T: Element>(&mut self, what: &str, f: Reduction, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        let shape = without(what, x.value.shape, axes);
        let each = each_of(x.value.shape, axes);
        if each == 0 && shape.is_ok() {
            return self.identity(what, f, x, shape);
        }
        let parts = shape.as_ref().map_or(1, |shape| parts_of(each, u64::from(shape.len())));
        if parts == 1 {
            return self.operate(what, TensorKind::Reduce(f, mask(axes), 1), &[x.into()], &[], shape);
        }
        let first = if f == Reduction::Mean { Reduction::Sum } else { f };
        let in_parts = shape.and_then(|shape| {
            let dims = shape.dims().iter().map(|dim| *dim as usize).chain([parts as usize]);
            shape_of(&dims.collect::<Vec<_>>(), what)
        });
        let some = self.operate::<T>(what, TensorKind::Reduce(first, mask(axes), parts), &[x.into()], &[], in_parts);
        let last = some.value.shape.rank().saturating_sub(1);
        let kind = TensorKind::Reduce(first, mask(&[last]), 1);
        let all = self.operate(what, kind, &[some.into()], &[], without(what, some.value.shape, &[last]));
        match f {
            Reduction::Mean => self.unary(what, Function::Scale, all, &[(1.0 / each as f32).to_bits()]),
            _ => all,
        }
    }

    /// An empty reduction. A kernel would divide by the length of the axis.
    #[track_caller]
    fn identity<T: Element>(&mut self, what: &str, f: Reduction, x: Tensor<T>, shape: Result<Shape>) -> Tensor<T> {
        if let Some(unusable) = self.unusable(what, &[x.into()]) {
            return unusable;
        }
        let tensor = self.make::<T>(what, shape, |_, _| Ok(()));
        if !tensor.refused {
            self.fill(tensor, bytemuck::pod_read_unaligned(&identity_of(f, T::KIND).to_ne_bytes()));
        }
        tensor
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
    let dims: Vec<usize> = kept.map(|(_, dim)| *dim as usize).collect();
    shape_of(&dims, what)
}

fn no_axis(what: &str, shape: Shape, axis: usize) -> Error {
    Error::new(ErrorKind::Shape, format!("{what}: a tensor of shape {shape} has no axis {axis}"))
}
