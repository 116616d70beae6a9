//! The elementwise steps of a program's body or tail, over one block of elements at a time.
//!
//! Registers and outputs are *places*, numbered in this order: a step reads and writes places, or reads an input where
//! it is.

use std::cell::RefCell;

use smallvec::SmallVec;
use sortie_cpu::{BoundMemory, native};
use sortie_plan::{ElementType, Function, fuse::Indexing};

use super::loads::{Input, gather, join, lies, load};

/// Elements of a block: a few blocks and the inputs fit into 32 KiB.
pub(super) const BLOCK: usize = 1024;

/// Steps, and where each stores its result.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) tasks: Vec<ChainOp>,
    /// Registers: blocks for intermediate results and for numbers.
    pub(super) registers: usize,
    /// Registers that hold a number.
    pub(super) numbers: Vec<Number>,
    /// The number of loads that can read an input in place.
    pub(super) loads: usize,
    /// The place of the head's result, which is there before the steps run.
    pub(super) head: Option<usize>,
    /// The result of a body, which is no output.
    pub(super) result: Option<Operand>,
}

/// A register whose elements all are one scalar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) scalar: usize,
    pub(super) register: usize,
}

/// A block of values: a place, or a loaded input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub(super) place: usize,
    pub(super) load: Option<usize>,
}

#[derive(Debug)]
pub(super) enum ChainOp {
    /// `lent`: the index of the load, if the block may be read in place.
    Load {
        input: Input,
        at: Indexing,
        lent: Option<usize>,
        to: usize,
    },
    /// Rows of a table.
    Gather {
        table: Input,
        index: Operand,
        /// The scalar with the rows of the table.
        rows: usize,
        row: usize,
        to: usize,
    },
    Join {
        inputs: [Input; 2],
        /// The scalars with the elements of the pieces; `None` if it has none.
        pieces: [Option<usize>; 2],
        to: usize,
    },
    Apply {
        f: Function,
        of: ElementType,
        result: ElementType,
        args: [Operand; 3],
        to: usize,
    },
    /// Stores a result a second time.
    Copy {
        from: Operand,
        to: usize,
    },
    /// Stores a result as `f16`.
    Narrow {
        from: Operand,
        to: usize,
    },
}

/// The places of a block.
pub(super) type Places<'m> = SmallVec<[&'m mut [u32]; 16]>;

/// Elements `start..start + len`.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) inputs: &'a [&'a [u32]],
    pub(super) scalars: &'a [u32],
}

impl Steps {
    /// Words of memory for its registers.
    pub(super) fn words(&self) -> usize {
        self.registers * BLOCK
    }

    /// Fills the registers of numbers, for blocks of at most `len` elements. No step writes them.
    pub(super) fn prepare(&self, memory: &mut [u32], len: usize, scalars: &[u32]) {
        for number in &self.numbers {
            memory[number.register * BLOCK..][..len.min(BLOCK)].fill(scalars[number.scalar]);
        }
    }

    /// The registers, for a block of `len` elements.
    pub(super) fn places<'m>(&self, memory: &'m mut [u32], len: usize) -> Places<'m> {
        memory[..self.words()].chunks_mut(BLOCK).map(|register| &mut register[..len]).collect()
    }

    /// Runs all steps. `places`: the registers, then the outputs.
    pub(super) fn run(&self, block: Block<'_>, places: &mut [&mut [u32]]) {
        let mut lent = self.lent();
        self.tasks.iter().for_each(|task| block.run(task, places, &mut lent));
    }

    /// Runs all steps of a body. Returns its result.
    pub(super) fn run_body<'r>(&self, block: Block<'r>, places: &'r mut [&mut [u32]]) -> &'r [u32] {
        let Some(result) = self.result else { unreachable!("a body has a result") };
        let mut lent = self.lent();
        self.tasks.iter().for_each(|task| block.run(task, places, &mut lent));
        match result.load.and_then(|load| lent[load]) {
            Some(lent) => lent,
            None => &*places[result.place],
        }
    }

    /// The block in an input, if that is the result of this body, contiguous there. It may be longer than [`BLOCK`].
    pub(super) fn lends<'a>(&self, block: Block<'a>) -> Option<&'a [u32]> {
        match self.tasks.as_slice() {
            [ChainOp::Load { input, at, lent: Some(_), .. }] => lies(at, block.scalars, block.start, block.len)
                .map(|first| &block.inputs[input.number][first..first + block.len]),
            _ => None,
        }
    }

    fn lent<'a>(&self) -> SmallVec<[Option<&'a [u32]>; 16]> {
        SmallVec::from_elem(None, self.loads)
    }
}

thread_local! {
    /// Kept from run to run.
    static REGISTERS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Lends this thread's memory for registers.
pub(super) fn with_registers(words: usize, f: impl FnOnce(&mut [u32])) {
    REGISTERS.with_borrow_mut(|registers| {
        if registers.len() < words {
            registers.resize(words, 0);
        }
        f(&mut registers[..words]);
    });
}

pub(super) fn words<'m>(bound: &'m BoundMemory<'_>) -> &'m [u32] {
    match bound {
        BoundMemory::Read(words) => words,
        BoundMemory::Write(_) | BoundMemory::Shared(_) => unreachable!("inputs are only read"),
    }
}

impl<'a> Block<'a> {
    fn run(self, task: &ChainOp, places: &mut [&mut [u32]], lent: &mut [Option<&'a [u32]>]) {
        let Self { start, len, inputs, scalars } = self;
        if let ChainOp::Load { input, at, lent: Some(load), .. } = task {
            lent[*load] = lies(at, scalars, start, len).map(|first| &inputs[input.number][first..first + len]);
            if lent[*load].is_some() {
                return;
            }
        }
        let place = task.place();
        let to = std::mem::take(&mut places[place]);
        let get = |operand: &Operand| operand.load.and_then(|load| lent[load]).unwrap_or(&*places[operand.place]);
        match task {
            ChainOp::Load { input, at, .. } => load(inputs, *input, at, scalars, start, to),
            ChainOp::Gather { table, index, rows, row, .. } => {
                let rows = scalars[*rows] as usize;
                gather(inputs, *table, get(index), [rows, *row], start, to);
            }
            ChainOp::Join { inputs: of, pieces, .. } => {
                let pieces = pieces.map(|piece| piece.map_or(0, |scalar| scalars[scalar] as usize));
                join(inputs, *of, pieces, start, to);
            }
            ChainOp::Apply { f, of, result, args, .. } => {
                native::apply(*f, *of, *result, args.each_ref().map(get), to);
            }
            ChainOp::Copy { from, .. } => to.copy_from_slice(get(from)),
            ChainOp::Narrow { from, .. } => native::narrow(get(from), to),
        }
        places[place] = to;
    }
}

impl ChainOp {
    fn place(&self) -> usize {
        match self {
            Self::Load { to, .. }
            | Self::Gather { to, .. }
            | Self::Join { to, .. }
            | Self::Apply { to, .. }
            | Self::Copy { to, .. }
            | Self::Narrow { to, .. } => *to,
        }
    }
}
