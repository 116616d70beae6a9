//! Over axes, and along rows.

use sortie_plan::{Norm, Reduction, TensorKind};

use super::{Batch, Element, Float, Result, Shape, Tensor, shape_of};
use crate::error::{Error, ErrorKind};

impl Batch {
    /// Sums over axes, which are gone from the result.
    #[track_caller]
    pub fn sum<T: Element>(&mut self, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        self.reduce("sum", Reduction::Sum, x, axes)
    }

    /// Means over axes. The mean of nothing is not a number.
    #[track_caller]
    pub fn mean<T: Float>(&mut self, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        self.reduce("mean", Reduction::Mean, x, axes)
    }

    /// The greatest elements over axes; not a number where one of them is not.
    #[track_caller]
    pub fn max<T: Element>(&mut self, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        self.reduce("max", Reduction::Max, x, axes)
    }

    /// The least elements over axes; not a number where one of them is not.
    #[track_caller]
    pub fn min<T: Element>(&mut self, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        self.reduce("min", Reduction::Min, x, axes)
    }

    /// The index of the greatest element along an axis, the first of several.
    #[track_caller]
    pub fn argmax<T: Element>(&mut self, x: Tensor<T>, axis: usize) -> Tensor<u32> {
        let shape = without("argmax", x.value.shape, &[axis]);
        let kind = TensorKind::Reduce(Reduction::ArgMax, mask(&[axis]));
        match T::KIND {
            super::ElementKind::F16 => {
                let x = self.cast::<T, f32>(x);
                self.operate("argmax", kind, &[x.into()], &[], shape)
            }
            _ => self.operate("argmax", kind, &[x.into()], &[], shape),
        }
    }

    /// exp(x) ∕ Σ exp(x) along the last axis.
    #[track_caller]
    pub fn softmax<T: Float>(&mut self, x: Tensor<T>) -> Tensor<T> {
        self.rows("softmax", Norm::Softmax, x, &[])
    }

    /// (x − mean) ∕ √(variance + `epsilon`) along the last axis. Scale and shift it by [`mul`](Batch::mul) and [`add`](Batch::add): they
    /// join its kernel.
    #[track_caller]
    pub fn layer_norm<T: Float>(&mut self, x: Tensor<T>, epsilon: f32) -> Tensor<T> {
        self.rows("layer_norm", Norm::Layer, x, &[epsilon.to_bits()])
    }

    /// x ∕ √(mean of squares + `epsilon`) along the last axis.
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
        let shape = without(what, x.value.shape, axes);
        let kind = TensorKind::Reduce(f, mask(axes));
        match T::KIND {
            // Computed and kept in f32 until the end.
            super::ElementKind::F16 => {
                let x = self.cast::<T, f32>(x);
                let y = self.operate::<f32>(what, kind, &[x.into()], &[], shape);
                self.cast(y)
            }
            _ => self.operate(what, kind, &[x.into()], &[], shape),
        }
    }
}

fn mask(axes: &[usize]) -> u8 {
    axes.iter().filter(|axis| **axis < 8).fold(0, |mask, axis| mask | 1 << axis)
}

/// What is left of a shape.
fn without(what: &str, shape: Shape, axes: &[usize]) -> Result<Shape> {
    if let Some(axis) = axes.iter().find(|axis| **axis >= shape.rank()) {
        return Err(no_axis(what, shape, *axis));
    }
    let each: u64 = axes.iter().map(|axis| u64::from(shape.dims()[*axis])).product();
    let limit = u64::from(sortie_plan::fuse::MOST_FOLDED);
    if each > limit {
        return Err(Error::too_large(format!("{what}: elements of {shape} that make one"), each, limit));
    }
    let kept = shape.dims().iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
    let dims: Vec<usize> = kept.map(|(_, dim)| *dim as usize).collect();
    shape_of(&dims, what)
}

fn no_axis(what: &str, shape: Shape, axis: usize) -> Error {
    Error::new(ErrorKind::Shape, format!("{what}: a tensor of shape {shape} has no axis {axis}"))
}
