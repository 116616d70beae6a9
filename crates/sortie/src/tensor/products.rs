//! Products of matrices and vectors.

use sortie_plan::TensorKind;

use super::{Batch, Element, Float, Result, Shape, Tensor, shape_of, wrong_shapes};

impl Batch {
    /// Products of matrices: of the last two axes, for each index of those before. Either side may be one matrix for all of the other's, and
    /// a [transposed](Batch::transpose) side is read where it lies.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    /// let t = batch.transpose(x);
    /// let y = batch.matmul(x, t);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [14.0, 32.0, 32.0, 77.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul<T: Float>(&mut self, left: Tensor<T>, right: Tensor<T>) -> Tensor<T> {
        let shape = product(left.value.shape, right.value.shape);
        // Sums are kept in f32.
        let (one, other) = (self.cast::<T, f32>(left), self.cast::<T, f32>(right));
        let kind = TensorKind::Matmul { transposed: [false; 2] };
        let sums = self.operate::<f32>("matmul", kind, &[one.into(), other.into()], &[], shape);
        self.cast(sums)
    }

    /// The sum of the products of two vectors' elements: a tensor of no dimensions.
    #[track_caller]
    pub fn dot<T: Element>(&mut self, left: Tensor<T>, right: Tensor<T>) -> Tensor<T> {
        if left.value.shape.rank() != 1 || left.value.shape != right.value.shape {
            let error = wrong_shapes("dot", left.value.shape, right.value.shape);
            return self.make("dot", Err(error), |_, _| Ok(()));
        }
        let products = self.mul(left, right);
        self.sum(products, &[0])
    }
}

fn product(left: Shape, right: Shape) -> Result<Shape> {
    let wrong = || wrong_shapes("matmul", left, right);
    let ([batch @ .., m, k], [other @ .., inner, n]) = (left.dims(), right.dims()) else { return Err(wrong()) };
    if k != inner || !(batch == other || batch.is_empty() || other.is_empty()) {
        return Err(wrong());
    }
    let batch = if batch.is_empty() { other } else { batch };
    let dims: Vec<usize> = batch.iter().chain([m, n]).map(|dim| *dim as usize).collect();
    shape_of(&dims, "matmul")
}
