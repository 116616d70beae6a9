//! Fused elementwise operations, computed by the host without a kernel.
//!
//! Steps run one after the other over a block of elements that stays in the first-level cache, then over the next
//! block. An input that is already contiguous in memory is read in place. A result is computed in its output.

use std::{cell::RefCell, sync::OnceLock};

use parking_lot::Mutex;
use smallvec::SmallVec;
use sortie_cpu::{BoundMemory, Halted, Stop, Threads, native};
use sortie_plan::{
    ElementType, Function,
    fuse::{Indexing, Program},
};

use super::{
    loads::{Input, gather, join, lies, load},
    registers::RegisterAssignment,
};

/// Elements of a block: a few blocks and the inputs fit into 32 KiB.
const BLOCK: usize = 1024;
/// Elements that a thread takes at a time.
const PIECE: usize = 16 * BLOCK;
/// Elements times steps from which on threads share the work: about 20 µs on one thread.
const WORTH_SHARING: usize = 1 << 17;

/// The steps of a program, and where each stores its result.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(super) tasks: Vec<ChainOp>,
    /// Registers: blocks for intermediate results and for numbers.
    pub(super) registers: usize,
    /// Registers that hold a number.
    pub(super) numbers: Vec<Number>,
    /// The number of loads that can read an input in place.
    pub(super) loads: usize,
    pub(super) inputs: usize,
    pub(super) outputs: Vec<ElementType>,
    pub(super) len: usize,
}

/// A register whose elements all are one scalar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    pub(super) scalar: usize,
    pub(super) register: usize,
}

/// A block of values: a register, an output, or a loaded input.
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
        /// The scalars with the elements of the pieces.
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

impl Chain {
    /// The tail of a program without a head.
    pub(super) fn new(program: &Program) -> Self {
        RegisterAssignment::new(program).chain()
    }

    /// Elements times steps.
    pub(super) fn work(&self) -> u64 {
        self.len as u64 * self.tasks.len() as u64
    }

    /// Computes all outputs. `bound`: the inputs, then the outputs.
    pub(super) fn run(
        &self,
        bound: &mut [BoundMemory<'_>],
        scalars: &[u32],
        threads: &Threads,
        stop: Stop<'_>,
    ) -> Result<(), Halted> {
        let (read, written) = bound.split_at_mut(self.inputs);
        let inputs: SmallVec<[&[u32]; 8]> = read.iter().map(|input| words(input)).collect();
        let pieces = self.pieces(written);
        let weight = self.tasks.len() * self.len;
        let Some(pool) = threads.pool().filter(|_| weight >= WORTH_SHARING && pieces.len() > 1) else {
            for piece in pieces {
                stop.check()?;
                self.piece(&inputs, scalars, piece);
            }
            return Ok(());
        };
        let pieces = Mutex::new(pieces.into_iter());
        let halted = OnceLock::new();
        // Each thread takes the next piece when it is ready: a thread that wakes up late delays no other.
        let work = || {
            while let Some(piece) = next(&pieces) {
                if let Err(halt) = stop.check() {
                    halted.get_or_init(|| halt);
                    return;
                }
                self.piece(&inputs, scalars, piece);
            }
        };
        Threads::share(pool, threads.count(), work);
        halted.into_inner().map_or(Ok(()), Err)
    }

    /// The outputs, cut into pieces that a thread computes at a time.
    fn pieces<'m>(&self, outputs: &'m mut [BoundMemory<'_>]) -> SmallVec<[Piece<'m>; 2]> {
        let starts = (0..self.len).step_by(PIECE);
        let mut pieces: SmallVec<[Piece<'m>; 2]> =
            starts.map(|start| Piece { start, outputs: SmallVec::new() }).collect();
        for (output, element) in outputs.iter_mut().zip(&self.outputs) {
            let BoundMemory::Write(words) = output else { unreachable!("outputs are written") };
            let size = if *element == ElementType::F16 { PIECE / 2 } else { PIECE };
            for (piece, words) in pieces.iter_mut().zip(words.chunks_mut(size)) {
                piece.outputs.push(words);
            }
        }
        pieces
    }

    fn piece(&self, inputs: &[&[u32]], scalars: &[u32], mut piece: Piece<'_>) {
        REGISTERS.with_borrow_mut(|registers| {
            let wanted = self.registers * BLOCK;
            if registers.len() < wanted {
                registers.resize(wanted, 0);
            }
            let end = self.len.min(piece.start + PIECE);
            for number in &self.numbers {
                let len = BLOCK.min(end - piece.start);
                registers[number.register * BLOCK..][..len].fill(scalars[number.scalar]);
            }
            for start in (piece.start..end).step_by(BLOCK) {
                let len = BLOCK.min(end - start);
                let mut places: SmallVec<[&mut [u32]; 16]> = SmallVec::new();
                places.extend(registers[..wanted].chunks_mut(BLOCK).map(|register| &mut register[..len]));
                for (words, element) in piece.outputs.iter_mut().zip(&self.outputs) {
                    let size = if *element == ElementType::F16 { len.div_ceil(2) } else { len };
                    let (block, rest) = std::mem::take(words).split_at_mut(size);
                    places.push(block);
                    *words = rest;
                }
                let mut lent: SmallVec<[Option<&[u32]>; 16]> = SmallVec::new();
                lent.resize(self.loads, None);
                self.tasks
                    .iter()
                    .for_each(|task| Block { start, len, inputs, scalars }.run(task, &mut places, &mut lent));
            }
        });
    }
}

thread_local! {
    /// Kept from run to run.
    static REGISTERS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Outputs from element `start` on.
struct Piece<'m> {
    start: usize,
    outputs: SmallVec<[&'m mut [u32]; 4]>,
}

fn next<'m>(pieces: &Mutex<impl Iterator<Item = Piece<'m>>>) -> Option<Piece<'m>> {
    pieces.lock().next()
}

fn words<'m>(bound: &'m BoundMemory<'_>) -> &'m [u32] {
    match bound {
        BoundMemory::Read(words) => words,
        BoundMemory::Write(_) | BoundMemory::Shared(_) => unreachable!("inputs are only read"),
    }
}

/// Elements `start..start + len`.
#[derive(Clone, Copy)]
struct Block<'a> {
    start: usize,
    len: usize,
    inputs: &'a [&'a [u32]],
    scalars: &'a [u32],
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
