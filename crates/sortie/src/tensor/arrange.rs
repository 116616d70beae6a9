//! Views: the same elements in another arrangement. Most cost nothing: later operations read the elements in place.

use std::ops::Range;

use sortie_plan::{RANK, TensorKind};

use super::{Batch, Element, Result, Shape, Tensor, checked, shape_of, wrong_shapes};
use crate::error::{Error, ErrorKind};

impl Batch {
    /// The same elements in another shape. Costs nothing.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let row = batch.reshape(x, [4]);
    /// let y = batch.sum(row, &[0]);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [10.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape<T: Element>(&mut self, x: Tensor<T>, shape: impl AsRef<[usize]>) -> Tensor<T> {
        match checked(shape.as_ref(), x.len(), "reshape") {
            Ok(shape) if !x.refused => x.with_shape(shape),
            Ok(_) => x,
            Err(error) if !x.refused => self.make("reshape", Err(error), |_, _| Ok(())),
            Err(_) => x,
        }
    }

    /// The last two axes swapped.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = batch.transpose(x);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn transpose<T: Element>(&mut self, x: Tensor<T>) -> Tensor<T> {
        let rank = x.value.shape.rank();
        let mut axes: Vec<usize> = (0..rank).collect();
        if rank >= 2 {
            axes.swap(rank - 2, rank - 1);
        }
        self.permute(x, &axes)
    }

    /// Axis `axes[i]` becomes axis `i`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [1, 2, 2]);
    /// let y = batch.permute(x, &[2, 0, 1]);
    /// assert_eq!(y.shape(), [2, 1, 2]);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn permute<T: Element>(&mut self, x: Tensor<T>, axes: &[usize]) -> Tensor<T> {
        let mut order = [0; RANK];
        order.iter_mut().zip(axes).for_each(|(to, axis)| *to = u8::try_from(*axis).unwrap_or(u8::MAX));
        let shape = permuted(x.value.shape, axes);
        self.operate("permute", TensorKind::Permute(order), &[x.into()], &[], shape)
    }

    /// A range of each axis; omitted trailing axes are taken whole.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let y = batch.slice(x, &[1..2]); // the second row
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [3.0, 4.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn slice<T: Element>(&mut self, x: Tensor<T>, ranges: &[Range<usize>]) -> Tensor<T> {
        let mut start = [0; RANK];
        start.iter_mut().zip(ranges).for_each(|(to, range)| *to = u32::try_from(range.start).unwrap_or(u32::MAX));
        let shape = sliced(x.value.shape, ranges);
        self.operate("slice", TensorKind::Slice(start), &[x.into()], &[], shape)
    }

    /// Broadcasts a tensor to a shape, as in `NumPy`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0], [2]);
    /// let y = batch.broadcast(x, [3, 2]);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast<T: Element>(&mut self, x: Tensor<T>, shape: impl AsRef<[usize]>) -> Tensor<T> {
        let shape = shape_of(shape.as_ref(), "broadcast").and_then(|shape| match x.value.shape.broadcast(&shape) {
            Some(both) if both == shape => Ok(shape),
            _ => {
                let message = format!("broadcast: {} does not stretch to {shape}", x.value.shape);
                Err(Error::new(ErrorKind::Shape, message))
            }
        });
        self.operate("broadcast", TensorKind::Broadcast, &[x.into()], &[], shape)
    }

    /// Concatenates tensors along an axis.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let tail = batch.upload(&[5.0_f32, 6.0], [2, 1]);
    /// let y = batch.concat(&[x, tail], 1);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [1.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn concat<T: Element>(&mut self, tensors: &[Tensor<T>], axis: usize) -> Tensor<T> {
        let Some((first, rest)) = tensors.split_first() else {
            let error = Error::new(ErrorKind::Shape, "concat: of no tensors");
            return self.make("concat", Err(error), |_, _| Ok(()));
        };
        rest.iter().fold(*first, |sum, next| {
            let shape = joined(sum.value.shape, next.value.shape, axis);
            let kind = TensorKind::Concat(u8::try_from(axis).unwrap_or(u8::MAX));
            self.operate("concat", kind, &[sum.into(), (*next).into()], &[], shape)
        })
    }

    /// Rows of `table` (all but its first axis) by `indices`, as in an embedding lookup. An index out of bounds gives
    /// zeros.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let mut batch = device.batch();
    /// let x = batch.upload(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    /// let tokens = batch.upload(&[1_u32, 1, 0], [3]);
    /// let y = batch.gather(x, tokens);
    /// let y = batch.read(y);
    /// batch.submit()?;
    /// assert_eq!(y.wait()?, [3.0, 4.0, 3.0, 4.0, 1.0, 2.0]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn gather<T: Element>(&mut self, table: Tensor<T>, indices: Tensor<u32>) -> Tensor<T> {
        let shape = match table.value.shape.dims() {
            [] => Err(wrong_shapes("gather", table.value.shape, indices.value.shape)),
            [_, row @ ..] => {
                let dims: Vec<usize> = indices.value.shape.dims().iter().chain(row).map(|dim| *dim as usize).collect();
                shape_of(&dims, "gather")
            }
        };
        self.operate("gather", TensorKind::Gather, &[table.into(), indices.into()], &[], shape)
    }
}

fn permuted(shape: Shape, axes: &[usize]) -> Result<Shape> {
    let mut seen = axes.to_vec();
    seen.sort_unstable();
    if !seen.iter().copied().eq(0..shape.rank()) {
        let message = format!("permute: {axes:?} is no order of the axes of {shape}");
        return Err(Error::new(ErrorKind::Shape, message));
    }
    let dims: Vec<usize> = axes.iter().map(|axis| shape.dims()[*axis] as usize).collect();
    shape_of(&dims, "permute")
}

fn sliced(shape: Shape, ranges: &[Range<usize>]) -> Result<Shape> {
    let fits = |(range, dim): (&Range<usize>, &u32)| range.start <= range.end && range.end <= *dim as usize;
    if ranges.len() > shape.rank() || !ranges.iter().zip(shape.dims()).all(fits) {
        let message = format!("slice: {ranges:?} does not fit a tensor of shape {shape}");
        return Err(Error::new(ErrorKind::Shape, message));
    }
    let length = |(axis, dim): (usize, &u32)| ranges.get(axis).map_or(*dim as usize, ExactSizeIterator::len);
    let dims: Vec<usize> = shape.dims().iter().enumerate().map(length).collect();
    shape_of(&dims, "slice")
}

fn joined(left: Shape, right: Shape, axis: usize) -> Result<Shape> {
    let others = |shape: &Shape| -> Vec<u32> {
        shape.dims().iter().enumerate().filter(|(at, _)| *at != axis).map(|(_, dim)| *dim).collect()
    };
    if axis >= left.rank() || left.rank() != right.rank() || others(&left) != others(&right) {
        return Err(wrong_shapes(&format!("concat along axis {axis}"), left, right));
    }
    let dims: Vec<usize> = (0..left.rank())
        .map(|at| left.dims()[at] as usize + if at == axis { right.dims()[at] as usize } else { 0 })
        .collect();
    shape_of(&dims, "concat")
}
