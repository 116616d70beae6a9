//! Products of matrices and vectors.

use sortie_plan::TensorKind;

use super::{Batch, Element, Float, Result, Shape, Tensor, shape_of, wrong_shapes};

/// Products summed in one loop, four per iteration: lavapipe silently ends an invocation's loops after 65,535
/// iterations.
const MAX_SUMMED: usize = 1 << 17;

impl Batch {
    /// Matrix products of the last two axes, for each index of the axes before, which are broadcast as in `NumPy`. One
    /// matrix shared by all of the other side, or a [transposed](Batch::transpose) one, is read in place; other
    /// broadcasts are copied.
    ///
    /// [`Device::tune`](crate::Device::tune) or the tuning file determines how large products are computed, else a
    /// default for the kind of device. Submitting never measures it.
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
        // Sums are accumulated in f32.
        let (one, other) = (self.cast::<T, f32>(left), self.cast::<T, f32>(right));
        let (one, other) = match &shape {
            Ok(shape) => (self.for_each(one, shape), self.for_each(other, shape)),
            Err(_) => (one, other),
        };
        let sums = self.sums(one, other, shape);
        self.cast(sums)
    }

    /// Sums of products, in parts if they exceed the loop limit of a software driver.
    #[track_caller]
    fn sums(&mut self, left: Tensor<f32>, right: Tensor<f32>, shape: Result<Shape>) -> Tensor<f32> {
        let kind = TensorKind::Matmul { transposed: [false; 2] };
        let length = left.value.shape.dims().last().map_or(0, |length| *length as usize);
        if shape.is_err() || length <= MAX_SUMMED {
            return self.operate::<f32>("matmul", kind, &[left.into(), right.into()], &[], shape);
        }
        let whole = |tensor: Tensor<f32>| tensor.shape().into_iter().map(|length| 0..length).collect::<Vec<_>>();
        let (mut of_left, mut of_right) = (whole(left), whole(right));
        let (columns, rows) = (of_left.len() - 1, of_right.len() - 2);
        let mut sums: Option<Tensor<f32>> = None;
        for start in (0..length).step_by(MAX_SUMMED) {
            of_left[columns] = start..length.min(start + MAX_SUMMED);
            of_right[rows] = of_left[columns].clone();
            let (left, right) = (self.slice(left, &of_left), self.slice(right, &of_right));
            let part = self.operate::<f32>("matmul", kind, &[left.into(), right.into()], &[], shape.clone());
            sums = Some(sums.map_or(part, |sums| self.add(sums, part)));
        }
        sums.unwrap_or_else(|| unreachable!("there is a part"))
    }

    /// One side of products of this shape: one matrix for all, or one for each.
    #[track_caller]
    fn for_each(&mut self, side: Tensor<f32>, shape: &Shape) -> Tensor<f32> {
        let own = side.value.shape;
        let ([batch @ .., _, _], [all @ .., _, _]) = (own.dims(), shape.dims()) else { return side };
        let matrix = &own.dims()[batch.len()..];
        let dims = |lengths: &[u32]| lengths.iter().chain(matrix).map(|length| *length as usize).collect::<Vec<_>>();
        match batch {
            batch if batch == all => side,
            batch if batch.iter().all(|length| *length == 1) => self.reshape(side, dims(&[])),
            _ => self.broadcast(side, dims(all)),
        }
    }

    /// The dot product of two vectors: a tensor of no dimensions.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1_u32, 2, 3], [3]);
    /// let y = batch.dot(x, x);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [14]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
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
    let usizes = |lengths: &[u32]| lengths.iter().map(|length| *length as usize).collect::<Vec<_>>();
    let (batch, other) = (shape_of(&usizes(batch), "matmul")?, shape_of(&usizes(other), "matmul")?);
    let both = batch.broadcast_dims(&other).filter(|_| k == inner).ok_or_else(wrong)?;
    shape_of(&[both, usizes(&[*m, *n])].concat(), "matmul")
}
