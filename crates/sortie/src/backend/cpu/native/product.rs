//! Matrix products: what a program says about them, as the host computes them.

use smallvec::SmallVec;
use sortie_cpu::{
    BoundMemory, Halted, Stop, Threads,
    native::{Matrix, MatrixElement, Products, RowsOf, Side, divide},
};
use sortie_plan::fuse::{Product, SideLayout};

/// A matrix that can be kept in panels: where it is in its input, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PanelKey {
    pub(crate) element: MatrixElement,
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) offset: usize,
    pub(crate) strides: [usize; 2],
}

impl PanelKey {
    /// The right side of products, if it is one matrix. A single column has no panels.
    pub(super) fn of(of: &Product) -> Option<Self> {
        let SideLayout { offset, batch, strides } = of.layouts[1];
        let one = batch.iter().all(|(length, stride)| *length == 1 || *stride == 0);
        (one && of.n > 1).then(|| Self {
            element: MatrixElement::F32,
            k: of.k as usize,
            n: of.n as usize,
            offset: offset as usize,
            strides: strides.map(|stride| stride as usize),
        })
    }

    /// The matrix in the words of its input.
    pub(crate) fn matrix(self, words: &[u32]) -> Matrix<'_> {
        Matrix { words, element: self.element, offset: self.offset, strides: self.strides }
    }
}

/// Multiplies. `bound`: the two factors, then the product. `packed`: the right factor in panels, if it is kept so.
pub(super) fn multiply(
    of: &Product,
    bound: &mut [BoundMemory<'_>],
    packed: Option<&[u32]>,
    threads: &Threads,
    stop: Stop<'_>,
) -> Result<(), Halted> {
    let [BoundMemory::Read(left), BoundMemory::Read(right), BoundMemory::Write(product)] = bound else {
        unreachable!("two sides are read, the product is written")
    };
    let [m, k, n, batch] = [of.m, of.k, of.n, of.batch].map(|length| length as usize);
    let [left, right] = [side(left, &of.layouts[0]), side(right, &of.layouts[1])];
    let products = Products { m, k, n, batch, left, right, packed }.joined();
    let to: &mut [f32] = bytemuck::cast_slice_mut(product);
    let blocks = products.blocks(threads.count());
    products.packed(blocks.len(), threads, |products| {
        let tasks = divide(to, &blocks, n);
        threads.try_each(products.are_shared(), tasks, |(block, rows)| {
            stop.check()?;
            match rows {
                RowsOf::Whole(to) => products.compute(block, to),
                RowsOf::Parts(rows) => products.compute_parts(block, rows),
            }
            Ok(())
        })
    })
}

fn side<'m>(words: &'m [u32], layout: &SideLayout) -> Side<'m> {
    let batch: SmallVec<[(usize, usize); 4]> =
        layout.batch.iter().map(|(length, stride)| (*length as usize, *stride as usize)).collect();
    let strides = layout.strides.map(|stride| stride as usize);
    Side { matrix: Matrix { words, element: MatrixElement::F32, offset: layout.offset as usize, strides }, batch }
}
