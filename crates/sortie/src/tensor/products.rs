//! Products of matrices and vectors.

use sortie_plan::TensorKind;

use super::{Dims, Element, Float, Result, Shape, Tensor, shape_of, wrong_shapes};

/// Products summed in one loop, four per iteration: lavapipe silently ends an invocation's loops after 65,535
/// iterations.
const MAX_SUMMED: usize = 1 << 17;

impl<T: Float> Tensor<'_, T> {
    /// Matrix products of the last two axes, for each index of the axes before, which are broadcast as in `NumPy`. One
    /// matrix shared by all of the other side, or a [transposed](Tensor::transpose) one, is read in place; other
    /// broadcasts are copied.
    ///
    /// [`Device::tune`](crate::Device::tune) or the tuning file determines how large products are computed, else a
    /// default for the kind of device. Submitting never measures it.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]);
    /// let y = x.matmul(x.transpose()).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [14.0, 32.0, 32.0, 77.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn matmul(self, right: Self) -> Self {
        let shape = product(self.value.shape, right.value.shape);
        // Sums are accumulated in f32.
        let (one, other) = (self.cast::<f32>(), right.cast::<f32>());
        let (one, other) = match &shape {
            Ok(shape) => (one.for_each(shape), other.for_each(shape)),
            Err(_) => (one, other),
        };
        one.sums(other, shape).cast()
    }
}

impl Tensor<'_, f32> {
    /// Sums of products, in parts if they exceed the loop limit of a software driver.
    #[track_caller]
    fn sums(self, right: Self, shape: Result<Shape>) -> Self {
        let kind = TensorKind::Matmul { transposed: [false; 2] };
        let length = self.value.shape.dims().last().map_or(0, |length| *length as usize);
        if shape.is_err() || length <= MAX_SUMMED {
            return self.batch.operate("matmul", kind, &[self.into(), right.into()], &[], shape);
        }
        let whole = |tensor: Self| tensor.shape().into_iter().map(|length| 0..length).collect::<Vec<_>>();
        let (mut of_left, mut of_right) = (whole(self), whole(right));
        let (columns, rows) = (of_left.len() - 1, of_right.len() - 2);
        let mut sums: Option<Self> = None;
        for start in (0..length).step_by(MAX_SUMMED) {
            of_left[columns] = start..length.min(start + MAX_SUMMED);
            of_right[rows] = of_left[columns].clone();
            let sides = [self.slice(&of_left).into(), right.slice(&of_right).into()];
            let part = self.batch.operate("matmul", kind, &sides, &[], shape.clone());
            sums = Some(sums.map_or(part, |sums| sums + part));
        }
        sums.unwrap_or_else(|| unreachable!("there is a part"))
    }

    /// One side of products of this shape: one matrix for all, or one for each.
    #[track_caller]
    fn for_each(self, shape: &Shape) -> Self {
        let own = self.value.shape;
        let ([batch @ .., _, _], [all @ .., _, _]) = (own.dims(), shape.dims()) else { return self };
        let matrix = &own.dims()[batch.len()..];
        let dims = |lengths: &[u32]| lengths.iter().chain(matrix).map(|length| *length as usize).collect::<Dims>();
        match batch {
            batch if batch == all => self,
            batch if batch.iter().all(|length| *length == 1) => self.reshape(dims(&[])),
            _ => self.broadcast(dims(all)),
        }
    }
}

impl<T: Element> Tensor<'_, T> {
    /// The dot product of two vectors: a tensor of no dimensions.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1_u32, 2, 3], [3]);
    /// let y = x.dot(x).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [14]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn dot(self, right: Self) -> Self {
        let (one, other) = (self.value.shape, right.value.shape);
        if (one.rank() != 1 || one != other) && !self.refused && !right.refused {
            return self.batch.refused(wrong_shapes("dot", one, other, "both must be vectors of one length"));
        }
        (self * right).sum(&[0])
    }
}

fn product(left: Shape, right: Shape) -> Result<Shape> {
    let rule = || match right.dims() {
        [.., inner, _] => format!(
            "left needs two dimensions or more, the last of which equals right's second to last, {inner}, and those \
             before the last two are broadcast"
        ),
        _ => "right needs two dimensions or more".into(),
    };
    let wrong = || wrong_shapes("matmul", left, right, &rule());
    let ([batch @ .., m, k], [other @ .., inner, n]) = (left.dims(), right.dims()) else { return Err(wrong()) };
    if k != inner {
        return Err(wrong());
    }
    let usizes = |lengths: &[u32]| lengths.iter().map(|length| *length as usize).collect::<Dims>();
    let mut dims = match (batch, other) {
        (batch, []) => usizes(batch),
        ([], other) => usizes(other),
        (batch, other) if batch == other => usizes(batch),
        (batch, other) => {
            let (batch, other) = (shape_of(&usizes(batch), "matmul")?, shape_of(&usizes(other), "matmul")?);
            batch.broadcast_dims(&other).ok_or_else(wrong)?.into()
        }
    };
    dims.extend([*m as usize, *n as usize]);
    shape_of(&dims, "matmul")
}
