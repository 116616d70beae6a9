//! Products of matrices: many small ones as one job, rows or columns of large ones in parallel.
//!
//! [`Products`] says what is multiplied, [`Products::blocks`] how it is divided, and [`Products::compute`] computes a
//! block. Blocks share nothing that they write, and no element's bits depend on them: each is one sum in order. Only a
//! single column is different, for any number of rows: it is computed by dot products of rows.

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]

use std::{cell::RefCell, ops::Range};

use pulp::bytemuck::cast_slice;
use smallvec::SmallVec;

use super::{
    Mismatch,
    panels::{self, Matrix, MatrixElement},
    register_blocks::{self, F16, F32, Rows, Sums},
    same,
    vector::dot,
    vectors::{Build, Task, Vectors},
};
use crate::{
    Threads,
    simd::{Simd, Vectorize},
};

/// Multiplications from which on threads share products: about 10 µs on one thread with AVX-512.
const MIN_SHARED_WORK: usize = 1 << 20;
/// Products with fewer rows are divided by columns: then each thread reads only its part of the right side.
const MIN_DIVIDED_ROWS: usize = 64;
/// Elements of a block: what follows a product finds it in the second-level cache.
const BLOCK: usize = 1 << 16;
/// Most rows of a block, and what the rows of a block are a multiple of.
const ROWS: Range<usize> = 8..256;
/// Words of a packed right side whose memory is kept for the next one: 16 MiB.
const MOST_KEPT: usize = 1 << 22;
/// Blocks for each thread, so that one that starts late delays no other.
const BLOCKS_PER_THREAD: usize = 4;

/// A side of products: a matrix for each index of the batch.
#[derive(Clone, Debug)]
pub struct Side<'a> {
    /// The first matrix.
    pub matrix: Matrix<'a>,
    /// Length and stride of each axis of the batch, the outermost first.
    pub batch: SmallVec<[(usize, usize); 4]>,
}

impl Side<'_> {
    /// The matrix of an index of the batch.
    fn at(&self, mut number: usize) -> Matrix<'_> {
        let mut matrix = self.matrix;
        for (length, stride) in self.batch.iter().rev() {
            matrix.offset += number % length * stride;
            number /= length;
        }
        matrix
    }
}

/// Products of the matrices of two sides.
#[derive(Clone, Debug)]
pub struct Products<'a> {
    /// Rows of the left side and of a product.
    pub m: usize,
    /// Columns of the left side, rows of the right side.
    pub k: usize,
    /// Columns of the right side and of a product.
    pub n: usize,
    /// Number of products.
    pub batch: usize,
    /// The left side.
    pub left: Side<'a>,
    /// The right side.
    pub right: Side<'a>,
    /// The right side in panels, if it was [packed](pack) before.
    pub packed: Option<&'a [u32]>,
    /// Words from the panels of one matrix to those of the next; 0 if all products have the same right side.
    pub packed_stride: usize,
}

/// A part of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The index of the product.
    pub number: usize,
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub columns: Range<usize>,
}

impl Block {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

thread_local! {
    /// A panel, or all of them, and rows of the left side. Kept from run to run.
    static SCRATCH: RefCell<[Vec<u32>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
    /// A block that something follows before it is stored.
    static SUMS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Products<'_> {
    /// Whether threads should share the work.
    #[must_use]
    pub fn are_shared(&self) -> bool {
        [self.m, self.k, self.n].into_iter().fold(self.batch, usize::saturating_mul) >= MIN_SHARED_WORK
    }

    /// One product of more rows, where each left matrix continues the one before and all have the same right side.
    #[must_use]
    pub fn joined(mut self) -> Self {
        let one = |(length, stride): &(usize, usize)| *length == 1 || *stride == 0;
        let mut step = self.m * self.left.matrix.strides[0];
        let follows = self.left.batch.iter().rev().all(|(length, stride)| {
            let follows = *length == 1 || *stride == step;
            step *= length;
            follows
        });
        if self.batch > 1 && self.right.batch.iter().all(one) && follows {
            self.m *= self.batch;
            self.batch = 1;
            self.left.batch.clear();
            self.right.batch.clear();
        }
        self
    }

    /// The blocks that `threads` compute, in the order of their elements. Rows are divided before columns.
    #[must_use]
    pub fn blocks(&self, threads: usize) -> Vec<Block> {
        let Self { m, n, batch, .. } = *self;
        let most = (BLOCK / n.max(1)).clamp(ROWS.start, ROWS.end);
        // Parts of rows are short: few of them.
        let each = if m < MIN_DIVIDED_ROWS { 2 } else { BLOCKS_PER_THREAD };
        let wanted = if threads > 1 && self.are_shared() { (threads * each).div_ceil(batch.max(1)) } else { 1 };
        let panels = n.div_ceil(panels::columns());
        let (rows, columns) = match wanted {
            1 => (most, n),
            _ if m < MIN_DIVIDED_ROWS => (most, panels.div_ceil(wanted) * panels::columns()),
            _ => (m.div_ceil(wanted).min(most), n),
        };
        let rows = rows.next_multiple_of(ROWS.start);
        let mut blocks = Vec::new();
        for number in 0..batch {
            for row in (0..m).step_by(rows) {
                for column in (0..n).step_by(columns.max(1)) {
                    let (rows, columns) = (row..m.min(row + rows), column..n.min(column + columns));
                    blocks.push(Block { number, rows, columns });
                }
            }
        }
        blocks
    }

    /// Runs with the right side in panels, if several blocks use each of its elements.
    pub fn packed<R>(&self, blocks: usize, threads: &Threads, run: impl FnOnce(&Products<'_>) -> R) -> R {
        let Self { m, k, n, batch, .. } = *self;
        let one = self.right.batch.iter().all(|(length, stride)| *length == 1 || *stride == 0);
        let matrices = if one { 1 } else { batch };
        // Columns are divided if there are few rows: then each block packs its own.
        let several = blocks > matrices && (m >= MIN_DIVIDED_ROWS || one && batch > 1);
        if self.packed.is_some() || !several || n == 1 {
            return run(self);
        }
        let each = panels::packed_words(k, n, self.right.matrix.element);
        let mut words = SCRATCH.with_borrow_mut(|scratch| std::mem::take(&mut scratch[0]));
        words.resize((matrices * each).max(words.len()), 0);
        for (number, words) in words.chunks_mut(each.max(1)).enumerate().take(matrices) {
            pack(&self.right.at(number), k, n, words, threads);
        }
        let (packed, packed_stride) = (Some(&words[..]), if one { 0 } else { each });
        let (left, right) = (self.left.clone(), self.right.clone());
        let outcome = run(&Products { packed, packed_stride, left, right, ..*self });
        if words.len() <= MOST_KEPT {
            SCRATCH.with_borrow_mut(|scratch| scratch[0] = words);
        }
        outcome
    }

    /// Computes a block. `to` has its elements, row after row.
    pub fn compute(&self, block: &Block, to: &mut [f32]) {
        SCRATCH.with_borrow_mut(|[panel, rows]| {
            let left = self.left.at(block.number);
            let rows = self.rows(&left, block.rows.clone(), rows);
            if self.n == 1 {
                return self.dots(block, rows, panel, to);
            }
            Build::new().run(BlockTask { products: self, block, rows, panel, to });
        });
    }

    /// Computes a block in this thread's memory, and lends it to `finish`.
    pub fn compute_here(&self, block: &Block, finish: impl FnOnce(&[f32])) {
        SUMS.with_borrow_mut(|sums| {
            sums.resize(block.len().max(sums.len()), 0.0);
            let sums = &mut sums[..block.len()];
            self.compute(block, sums);
            finish(sums);
        });
    }

    /// The rows of a left matrix: in place, or copied if they are not contiguous floats.
    fn rows<'r>(&self, left: &Matrix<'r>, range: Range<usize>, copied: &'r mut Vec<u32>) -> Rows<'r> {
        let (k, [row, column]) = (self.k, left.strides);
        let first = left.offset + range.start * row;
        if left.element == MatrixElement::F32 && (column == 1 || k <= 1) {
            let data: &[f32] = cast_slice(left.words);
            return Rows { data: data.get(first..).unwrap_or_default(), stride: row };
        }
        copied.resize((range.len() * k).max(copied.len()), 0);
        for row_in_block in 0..range.len() {
            let to = &mut copied[row_in_block * k..][..k];
            for (step, to) in to.iter_mut().enumerate() {
                *to = widened(left, first + row_in_block * row + step * column);
            }
        }
        Rows { data: cast_slice(copied), stride: k }
    }

    /// The single column of the product.
    fn dots(&self, block: &Block, rows: Rows<'_>, column: &mut Vec<u32>, to: &mut [f32]) {
        let right = self.right.at(block.number);
        column.clear();
        column.extend((0..self.k).map(|step| widened(&right, right.offset + step * right.strides[0])));
        Simd::new().run(Dots { rows, column: cast_slice(column), to });
    }
}

/// An element as the bits of a float.
fn widened(matrix: &Matrix<'_>, at: usize) -> u32 {
    match matrix.element {
        MatrixElement::F32 => matrix.words[at],
        MatrixElement::F16 => crate::math::f16_bits_to_f32(matrix.words[at / 2] >> (at % 2 * 16)).to_bits(),
    }
}

struct Dots<'a> {
    rows: Rows<'a>,
    column: &'a [f32],
    to: &'a mut [f32],
}

impl Vectorize for Dots<'_> {
    #[inline(always)]
    fn work(self) {
        for (at, to) in self.to.iter_mut().enumerate() {
            *to = dot(self.rows.row(at, self.column.len()), self.column);
        }
    }
}

struct BlockTask<'a> {
    products: &'a Products<'a>,
    block: &'a Block,
    rows: Rows<'a>,
    panel: &'a mut Vec<u32>,
    to: &'a mut [f32],
}

impl Task for BlockTask<'_> {
    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) {
        let Self { products: Products { k, n, right, packed, packed_stride, .. }, block, rows, panel, to } = self;
        let (k, n, count) = (*k, *n, block.rows.len());
        let element = right.matrix.element;
        let matrix = right.at(block.number);
        let stride = block.columns.len();
        for column in block.columns.clone().step_by(panels::columns()) {
            let width = panels::columns().min(block.columns.end - column);
            let range = panels::panel(k, n, column, element);
            let right = match packed {
                Some(packed) => &packed[block.number * packed_stride..][range],
                None => {
                    panel.resize(range.len().max(panel.len()), 0);
                    panels::pack(&matrix, k, column..column + width, panel);
                    &panel[..range.len()]
                }
            };
            let mut sums = Sums { data: &mut to[column - block.columns.start..], stride, width };
            let vectors_of_panel = width.div_ceil(V::LANES);
            match element {
                MatrixElement::F32 => {
                    register_blocks::multiply::<V, F32>(vectors, rows, count, right, vectors_of_panel, &mut sums);
                }
                MatrixElement::F16 => {
                    register_blocks::multiply::<V, F16>(vectors, rows, count, right, vectors_of_panel, &mut sums);
                }
            }
        }
    }
}

/// Stores a matrix of `k` rows and `n` columns as panels of `packed_words` words.
pub fn pack(matrix: &Matrix<'_>, k: usize, n: usize, to: &mut [u32], threads: &Threads) {
    const MIN_SHARED: usize = 1 << 16;
    let mut parts = Vec::new();
    let mut rest = to;
    for column in (0..n).step_by(panels::columns()) {
        let (panel, behind) = rest.split_at_mut(panels::panel(k, n, column, matrix.element).len());
        parts.push((column..n.min(column + panels::columns()), panel));
        rest = behind;
    }
    threads.each(k * n >= MIN_SHARED, parts, |(range, panel)| panels::pack(matrix, k, range, panel));
}

/// Multiplies row-major matrices `a`, of `m` rows, and `b`, of `n` columns.
///
/// ```
/// use sortie_cpu::{Threads, native::matmul};
/// let mut c = [0.0; 4];
/// matmul([2, 2, 2], &[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0], &mut c, &Threads::new(None)?)?;
/// assert_eq!(c, [19.0, 22.0, 43.0, 50.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A slice does not have the length that the shape, `[m, k, n]`, requires.
pub fn matmul([m, k, n]: [usize; 3], a: &[f32], b: &[f32], c: &mut [f32], threads: &Threads) -> Result<(), Mismatch> {
    same(m.saturating_mul(k), a.len())?;
    same(k.saturating_mul(n), b.len())?;
    let side = |data, strides| Side {
        matrix: Matrix { words: cast_slice(data), element: MatrixElement::F32, offset: 0, strides },
        batch: SmallVec::new(),
    };
    Products { m, k, n, batch: 1, left: side(a, [k, 1]), right: side(b, [n, 1]), packed: None, packed_stride: 0 }
        .multiply(c, threads)
}

impl Products<'_> {
    /// Computes all products, row after row.
    ///
    /// # Errors
    /// `to` does not have the length of all products.
    pub fn multiply(&self, to: &mut [f32], threads: &Threads) -> Result<(), Mismatch> {
        same(self.batch.saturating_mul(self.m).saturating_mul(self.n), to.len())?;
        let blocks = self.blocks(threads.count());
        self.packed(blocks.len(), threads, |products| {
            let tasks = divide(to, &blocks, self.n);
            threads.each(self.are_shared(), tasks, |(block, rows)| match rows {
                RowsOf::Whole(to) => products.compute(block, to),
                RowsOf::Parts(rows) => products.compute_here(block, |sums| {
                    rows.into_iter().zip(sums.chunks_exact(block.columns.len())).for_each(|(to, sums)| {
                        to.copy_from_slice(sums);
                    });
                }),
            });
        });
        Ok(())
    }
}

/// The memory of a block in a product of whole rows.
#[derive(Debug)]
pub enum RowsOf<'m, T> {
    /// Whole rows, one after the other.
    Whole(&'m mut [T]),
    /// A part of each row.
    Parts(SmallVec<[&'m mut [T]; 8]>),
}

/// Divides products of `n` columns into blocks.
pub fn divide<'m, 'b, T>(to: &'m mut [T], blocks: &'b [Block], n: usize) -> Vec<(&'b Block, RowsOf<'m, T>)> {
    let mut rest = to;
    let mut tasks = Vec::with_capacity(blocks.len());
    // Blocks of the same rows are neighbours.
    for same in blocks.chunk_by(|one, next| one.number == next.number && one.rows == next.rows) {
        let rows = same[0].rows.len();
        let (whole, behind) = std::mem::take(&mut rest).split_at_mut(rows * n);
        rest = behind;
        if let [block] = same {
            tasks.push((block, RowsOf::Whole(whole)));
            continue;
        }
        let first = tasks.len();
        tasks.extend(same.iter().map(|block| (block, RowsOf::Parts(SmallVec::with_capacity(rows)))));
        for mut row in whole.chunks_exact_mut(n) {
            for (block, parts) in &mut tasks[first..] {
                let (part, behind) = std::mem::take(&mut row).split_at_mut(block.columns.len());
                row = behind;
                if let RowsOf::Parts(parts) = parts {
                    parts.push(part);
                }
            }
        }
    }
    tasks
}
