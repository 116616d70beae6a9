//! Matrix products, and the elementwise steps that follow: block by block, while the sums are in the cache.

use smallvec::SmallVec;
use sortie_cpu::{
    BoundMemory, Halted, Stop, Threads,
    native::{Block, Matrix, MatrixElement, Products, RowsOf, Side, divide},
};
use sortie_plan::{
    ElementType,
    fuse::{Product, Program, SideLayout},
};

use super::{
    registers::RegisterAssignment,
    steps::{self, BLOCK, Steps, with_registers, words},
};

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
    fn of(of: &Product, element: MatrixElement, scalars: &[u32]) -> Option<Self> {
        let layout = &of.layouts[1];
        let SideLayout { batch, strides, .. } = layout;
        let one = batch.iter().all(|(length, stride)| *length == 1 || *stride == 0);
        (one && of.n > 1).then(|| Self {
            element,
            k: of.k as usize,
            n: of.n as usize,
            offset: layout.first(scalars),
            strides: strides.map(|stride| stride as usize),
        })
    }

    /// The matrix in the words of its input.
    pub(crate) fn matrix(self, words: &[u32]) -> Matrix<'_> {
        Matrix { words, element: self.element, offset: self.offset, strides: self.strides }
    }
}

/// Products, and the steps that follow.
#[derive(Debug)]
pub(super) struct ProductCode {
    of: Product,
    tail: Steps,
    inputs: usize,
    outputs: usize,
    /// Of the two sides.
    elements: [MatrixElement; 2],
}

impl ProductCode {
    pub(super) fn new(program: &Program, of: Product) -> Self {
        let tail = RegisterAssignment::of_tail(program);
        let elements = of.sides.map(|side| match program.inputs[side].element {
            ElementType::F16 => MatrixElement::F16,
            _ => MatrixElement::F32,
        });
        Self { of, tail, inputs: program.inputs.len(), outputs: program.outputs.len(), elements }
    }

    /// Multiplications.
    pub(super) fn work(&self) -> u64 {
        [self.of.m, self.of.k, self.of.n, self.of.batch].into_iter().map(u64::from).product()
    }

    /// The right side, if it could be read from panels.
    #[inline]
    pub(super) fn panels(&self, scalars: &[u32]) -> Option<(usize, PanelKey)> {
        PanelKey::of(&self.of, self.elements[1], scalars).map(|key| (self.of.sides[1], key))
    }

    /// `bound`: the inputs, then the outputs. `packed`: the right side in panels, if it is kept so.
    pub(super) fn run(
        &self,
        bound: &mut [BoundMemory<'_>],
        packed: Option<&[u32]>,
        scalars: &[u32],
        threads: &Threads,
        stop: Stop<'_>,
    ) -> Result<(), Halted> {
        let (read, written) = bound.split_at_mut(self.inputs);
        let inputs: SmallVec<[&[u32]; 8]> = read.iter().map(|input| words(input)).collect();
        let Product { sides, layouts, .. } = &self.of;
        let [m, k, n, batch] = [self.of.m, self.of.k, self.of.n, self.of.batch].map(|length| length as usize);
        let [left, right] = [0, 1].map(|at| side(inputs[sides[at]], self.elements[at], &layouts[at], scalars));
        let products = Products { m, k, n, batch, left, right, packed, packed_stride: 0 }.joined();
        let blocks = products.blocks(threads.count());
        let mut tasks: Vec<BlockTask<'_>> =
            blocks.iter().map(|block| BlockTask { block, outputs: SmallVec::new() }).collect();
        for output in written {
            let BoundMemory::Write(words) = output else { unreachable!("outputs are written") };
            for (task, (_, rows)) in tasks.iter_mut().zip(divide(words, &blocks, n)) {
                task.outputs.push(rows);
            }
        }
        // The product itself is the only output.
        let plain = self.tail.tasks.is_empty() && self.outputs == 1;
        products.packed(blocks.len(), threads, |products| {
            threads.try_each(products.are_shared(), tasks, |mut task| {
                stop.check()?;
                match task.outputs.as_mut_slice() {
                    [RowsOf::Whole(to)] if plain => products.compute(task.block, bytemuck::cast_slice_mut(to)),
                    _ => products.compute_here(task.block, |sums| {
                        task.finish(self, products, bytemuck::cast_slice(sums), &inputs, scalars);
                    }),
                }
                Ok(())
            })
        })
    }
}

/// A block of products, and its memory in each output.
struct BlockTask<'m> {
    block: &'m Block,
    outputs: SmallVec<[RowsOf<'m, u32>; 2]>,
}

impl BlockTask<'_> {
    /// Runs the steps that follow, while the sums are in the cache.
    fn finish(self, code: &ProductCode, products: &Products<'_>, sums: &[u32], inputs: &[&[u32]], scalars: &[u32]) {
        let Self { block, mut outputs } = self;
        let whole = matches!(outputs.first(), Some(RowsOf::Whole(_)));
        let each = if whole { sums.len() } else { block.columns.len() };
        with_registers(code.tail.words(), |memory| {
            code.tail.prepare(memory, each, scalars);
            for (row, sums) in sums.chunks(each).enumerate() {
                let first = (block.number * products.m + block.rows.start + row) * products.n + block.columns.start;
                for (at, sums) in (0..).step_by(BLOCK).zip(sums.chunks(BLOCK)) {
                    let mut places = code.tail.places(memory, sums.len());
                    places.extend(outputs.iter_mut().map(|output| match output {
                        RowsOf::Whole(words) => &mut words[at..at + sums.len()],
                        RowsOf::Parts(rows) => &mut rows[row][at..at + sums.len()],
                    }));
                    let head = code.tail.head.unwrap_or_else(|| unreachable!("the tail of a product reads it"));
                    places[head].copy_from_slice(sums);
                    code.tail.run(steps::Block { start: first + at, len: sums.len(), inputs, scalars }, &mut places);
                }
            }
        });
    }
}

fn side<'m>(words: &'m [u32], element: MatrixElement, layout: &SideLayout, scalars: &[u32]) -> Side<'m> {
    let batch: SmallVec<[(usize, usize); 4]> =
        layout.batch.iter().map(|(length, stride)| (*length as usize, *stride as usize)).collect();
    let strides = layout.strides.map(|stride| stride as usize);
    Side { matrix: Matrix { words, element, offset: layout.first(scalars), strides }, batch }
}
