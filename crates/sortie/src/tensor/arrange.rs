//! Views: the same elements in another arrangement. Most cost nothing: later operations read the elements in place.

use std::ops::Range;

use sortie_plan::{RANK, TensorKind};

use super::{Dims, Element, Result, Shape, Tensor, checked, shape_of, wrong_shapes};
use crate::error::{Error, ErrorKind};

impl<'b, T: Element> Tensor<'b, T> {
    /// The same elements in another shape. Costs nothing.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = x.reshape([4]).sum(&[0]).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [10.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn reshape(self, shape: impl AsRef<[usize]>) -> Self {
        if self.refused {
            return self;
        }
        match checked(shape.as_ref(), self.len(), "reshape") {
            Ok(shape) => self.with_shape(shape),
            Err(error) => self.batch.refused(error),
        }
    }

    /// The last two axes swapped.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = x.transpose().read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn transpose(self) -> Self {
        let rank = self.value.shape.rank();
        let mut axes: Dims = (0..rank).collect();
        if rank >= 2 {
            axes.swap(rank - 2, rank - 1);
        }
        self.permute(&axes)
    }

    /// Axis `axes[i]` becomes axis `i`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [1, 2, 2]);
    /// let y = x.permute(&[2, 0, 1]);
    /// assert_eq!(y.shape(), [2, 1, 2]);
    /// let y = y.read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn permute(self, axes: &[usize]) -> Self {
        let mut order = [0; RANK];
        order.iter_mut().zip(axes).for_each(|(to, axis)| *to = u8::try_from(*axis).unwrap_or(u8::MAX));
        let shape = permuted(self.value.shape, axes);
        self.batch.operate("permute", TensorKind::Permute(order), &[self.into()], &[], shape)
    }

    /// A range of each axis; omitted trailing axes are taken whole.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = x.slice(&[1..2]).read(); // the second row
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [3.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn slice(self, ranges: &[Range<usize>]) -> Self {
        let mut start = [0; RANK];
        start.iter_mut().zip(ranges).for_each(|(to, range)| *to = u32::try_from(range.start).unwrap_or(u32::MAX));
        let shape = sliced(self.value.shape, ranges);
        self.batch.operate("slice", TensorKind::Slice(start), &[self.into()], &[], shape)
    }

    /// Broadcasts a tensor to a shape, as in `NumPy`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let y = batch.tensor_from(&[1.0_f32, 2.0], [2]).broadcast([3, 2]).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn broadcast(self, shape: impl AsRef<[usize]>) -> Self {
        let own = self.value.shape;
        let shape = shape_of(shape.as_ref(), "broadcast").and_then(|shape| match own.broadcast(&shape) {
            Some(both) if both == shape => Ok(shape),
            _ => Err(Error::new(ErrorKind::Shape, format!("broadcast: {own} does not stretch to {shape}; counted from the last, its dimensions must be equal or 1"))),
        });
        self.batch.operate("broadcast", TensorKind::Broadcast, &[self.into()], &[], shape)
    }

    /// Concatenates it with further tensors along an axis.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let tail = batch.tensor_from(&[5.0_f32, 6.0], [2, 1]);
    /// let y = x.concat(&[tail], 1).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn concat(self, rest: &[Self], axis: usize) -> Self {
        let kind = TensorKind::Concat(u8::try_from(axis).unwrap_or(u8::MAX));
        let mut all = self;
        for next in rest {
            let shape = joined(all.value.shape, next.value.shape, axis);
            all = self.batch.operate("concat", kind, &[all.into(), (*next).into()], &[], shape);
        }
        all
    }

    /// Its rows (all but the first axis) by `indices`, as in an embedding lookup. An index out of bounds gives zeros.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let table = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let tokens = batch.tensor_from(&[1_u32, 1, 0], [3]);
    /// let y = table.gather(tokens).read();
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [3.0, 4.0, 3.0, 4.0, 1.0, 2.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn gather(self, indices: Tensor<'b, u32>) -> Self {
        let shape = match self.value.shape.dims() {
            [] => Err(Error::new(ErrorKind::Shape, "gather: the table has no dimensions, so it has no rows")),
            [_, row @ ..] => {
                let dims: Dims = indices.value.shape.dims().iter().chain(row).map(|dim| *dim as usize).collect();
                shape_of(&dims, "gather")
            }
        };
        self.batch.operate("gather", TensorKind::Gather, &[self.into(), indices.into()], &[], shape)
    }
}

fn permuted(shape: Shape, axes: &[usize]) -> Result<Shape> {
    let mut seen = Dims::from(axes);
    seen.sort_unstable();
    if !seen.iter().copied().eq(0..shape.rank()) {
        let message = format!("permute: {axes:?} is no order of the axes of {shape}");
        return Err(Error::new(ErrorKind::Shape, message));
    }
    let dims: Dims = axes.iter().map(|axis| shape.dims()[*axis] as usize).collect();
    shape_of(&dims, "permute")
}

fn sliced(shape: Shape, ranges: &[Range<usize>]) -> Result<Shape> {
    let fits = |(range, dim): (&Range<usize>, &u32)| range.start <= range.end && range.end <= *dim as usize;
    if ranges.len() > shape.rank() || !ranges.iter().zip(shape.dims()).all(fits) {
        let message = format!("slice: {ranges:?} does not fit a tensor of shape {shape}");
        return Err(Error::new(ErrorKind::Shape, message));
    }
    let length = |(axis, dim): (usize, &u32)| ranges.get(axis).map_or(*dim as usize, ExactSizeIterator::len);
    let dims: Dims = shape.dims().iter().enumerate().map(length).collect();
    shape_of(&dims, "slice")
}

fn joined(left: Shape, right: Shape, axis: usize) -> Result<Shape> {
    let agree =
        || left.dims().iter().zip(right.dims()).enumerate().all(|(at, (one, other))| at == axis || one == other);
    if axis >= left.rank() || left.rank() != right.rank() || !agree() {
        let rule = "all dimensions but the axis must be equal";
        return Err(wrong_shapes(&format!("concat along axis {axis}"), left, right, rule));
    }
    let dims: Dims = (0..left.rank())
        .map(|at| left.dims()[at] as usize + if at == axis { right.dims()[at] as usize } else { 0 })
        .collect();
    shape_of(&dims, "concat")
}
