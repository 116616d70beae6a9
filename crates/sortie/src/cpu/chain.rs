//! Fused elementwise operations, which the host computes without a kernel.
//!
//! Steps run one after the other over a block of elements that stays in the first-level cache, then over the next block. An input that lies in
//! memory as the block needs it is read where it lies; a result is made in its output.

use std::{cell::RefCell, sync::OnceLock};

use parking_lot::Mutex;
use smallvec::SmallVec;
use sortie_cpu::{
    Bound, Halt, Stop, Threads,
    native::{self, Number},
};
use sortie_plan::{
    Element, Function,
    fuse::{At, Program, Step},
};

/// Elements of a block: a few of them, and the inputs, fit into 32 KiB.
const BLOCK: usize = 1024;
/// Elements that a thread takes at a time.
const PIECE: usize = 16 * BLOCK;
/// Elements times steps from which on threads share them: about 20 µs on one.
const WORTH_SHARING: usize = 1 << 17;

/// The steps of a program, and where each keeps what it computes.
#[derive(Debug)]
pub(crate) struct Chain {
    tasks: Vec<Task>,
    /// Blocks between inputs and outputs.
    registers: usize,
    /// Inputs read where they lie.
    loads: usize,
    inputs: usize,
    outputs: Vec<Element>,
    len: usize,
}

/// A block of values: a register, an output, or what a load has found.
#[derive(Clone, Copy, Debug)]
struct Operand {
    place: usize,
    load: Option<usize>,
}

#[derive(Debug)]
enum Task {
    /// `lent`: where it is noted if the block can be read where it lies.
    Load {
        input: Input,
        at: At,
        lent: Option<usize>,
        to: usize,
    },
    /// Rows of a table.
    Gather {
        table: Input,
        index: Operand,
        rows: usize,
        row: usize,
        to: usize,
    },
    Join {
        inputs: [Input; 2],
        pieces: [usize; 2],
        to: usize,
    },
    Apply {
        f: native::Function,
        of: Number,
        args: [Operand; 3],
        scalars: usize,
        to: usize,
    },
    /// What is stored twice.
    Copy {
        from: Operand,
        to: usize,
    },
    /// What is stored as halves.
    Narrow {
        from: Operand,
        to: usize,
    },
}

#[derive(Clone, Copy, Debug)]
struct Input {
    number: usize,
    halves: bool,
}

impl Chain {
    /// The tail of a program without a head.
    pub(super) fn new(program: &Program) -> Self {
        Layout::new(program).chain()
    }

    pub(super) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Computes all outputs. `bound`: the inputs, then the outputs.
    pub(super) fn run(
        &self,
        bound: &mut [Bound<'_>],
        scalars: &[u32],
        threads: &Threads,
        stop: Stop<'_>,
    ) -> Result<(), Halt> {
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
        // Whoever is ready takes the next: a thread that is slow to wake holds nobody up.
        let work = || {
            while let Some(piece) = next(&pieces) {
                if let Err(halt) = stop.check() {
                    halted.get_or_init(|| halt);
                    return;
                }
                self.piece(&inputs, scalars, piece);
            }
        };
        pool.in_place_scope(|scope| {
            for _ in 1..threads.count() {
                scope.spawn(|_| work());
            }
            work();
        });
        halted.into_inner().map_or(Ok(()), Err)
    }

    /// The outputs, cut into what a thread computes at a time.
    fn pieces<'m>(&self, outputs: &'m mut [Bound<'_>]) -> SmallVec<[Piece<'m>; 2]> {
        let starts = (0..self.len).step_by(PIECE);
        let mut pieces: SmallVec<[Piece<'m>; 2]> =
            starts.map(|start| Piece { start, outputs: SmallVec::new() }).collect();
        for (output, element) in outputs.iter_mut().zip(&self.outputs) {
            let Bound::Write(words) = output else { unreachable!("outputs are written") };
            let size = if *element == Element::F16 { PIECE / 2 } else { PIECE };
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
            for start in (piece.start..end).step_by(BLOCK) {
                let len = BLOCK.min(end - start);
                let mut places: SmallVec<[&mut [u32]; 16]> = SmallVec::new();
                places.extend(registers[..wanted].chunks_mut(BLOCK).map(|register| &mut register[..len]));
                for (words, element) in piece.outputs.iter_mut().zip(&self.outputs) {
                    let size = if *element == Element::F16 { len.div_ceil(2) } else { len };
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

fn words<'m>(bound: &'m Bound<'_>) -> &'m [u32] {
    match bound {
        Bound::Read(words) => words,
        Bound::Write(_) | Bound::Shared(_) => unreachable!("inputs are only read"),
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
    fn run(self, task: &Task, places: &mut [&mut [u32]], lent: &mut [Option<&'a [u32]>]) {
        let Self { start, len, inputs, scalars } = self;
        if let Task::Load { input, at, lent: Some(load), .. } = task {
            lent[*load] = lies(at, start, len).map(|first| &inputs[input.number][first..first + len]);
            if lent[*load].is_some() {
                return;
            }
        }
        let place = task.place();
        let to = std::mem::take(&mut places[place]);
        let get = |operand: &Operand| operand.load.and_then(|load| lent[load]).unwrap_or(&*places[operand.place]);
        match task {
            Task::Load { input, at, .. } => load(inputs, *input, at, start, to),
            Task::Gather { table, index, rows, row, .. } => {
                gather(inputs, *table, get(index), [*rows, *row], start, to);
            }
            Task::Join { inputs: of, pieces, .. } => join(inputs, *of, *pieces, start, to),
            Task::Apply { f, of, args, scalars: first, .. } => {
                let scalar = |at: usize| scalars.get(at).copied().unwrap_or_default();
                native::apply(*f, *of, args.each_ref().map(get), [scalar(*first), scalar(first + 1)], to);
            }
            Task::Copy { from, .. } => to.copy_from_slice(get(from)),
            Task::Narrow { from, .. } => native::narrow(get(from), to),
        }
        places[place] = to;
    }
}

impl Task {
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

/// Where a block lies in an input, if it lies there in one piece.
fn lies(at: &At, start: usize, len: usize) -> Option<usize> {
    let At::Strided { dims, .. } = at else { return Some(start) };
    match dims.last() {
        Some((length, 1)) if start % *length as usize + len <= *length as usize => {
            Walk::new(at, start).map(|walk| walk.at)
        }
        _ => None,
    }
}

/// Goes through a strided input, one run of its innermost dimension after the other.
struct Walk<'a> {
    dims: &'a [(u32, u32)],
    /// The index in each dimension.
    index: SmallVec<[usize; 6]>,
    /// The element there.
    at: usize,
}

impl<'a> Walk<'a> {
    /// From element `start` of the output on; `None` where there is no dimension.
    fn new(at: &'a At, start: usize) -> Option<Self> {
        let At::Strided { offset, dims } = at else { return None };
        let mut walk = Self { dims, index: SmallVec::from_elem(0, dims.len()), at: *offset as usize };
        let mut rest = start;
        for (index, (length, stride)) in walk.index.iter_mut().zip(dims).rev() {
            *index = rest % *length as usize;
            rest /= *length as usize;
            walk.at += *index * *stride as usize;
        }
        (!dims.is_empty()).then_some(walk)
    }

    /// So many elements of the current run, at most: where they start, how far apart they lie, and how many they are.
    fn run(&mut self, most: usize) -> (usize, usize, usize) {
        let (length, stride) = self.dims.last().map_or((1, 0), |(length, stride)| (*length as usize, *stride as usize));
        let mut level = self.dims.len() - 1;
        let (start, len) = (self.at, most.min(length - self.index[level]));
        self.index[level] += len;
        self.at += len * stride;
        while self.index[level] == self.dims[level].0 as usize && level > 0 {
            self.at -= self.index[level] * self.dims[level].1 as usize;
            self.index[level] = 0;
            level -= 1;
            self.index[level] += 1;
            self.at += self.dims[level].1 as usize;
        }
        (start, stride, len)
    }
}

fn load(inputs: &[&[u32]], input: Input, at: &At, start: usize, to: &mut [u32]) {
    let Some(mut walk) = Walk::new(at, start) else {
        return match at {
            At::Same => copy(inputs, input, start, 1, to),
            At::Strided { offset, .. } => copy(inputs, input, *offset as usize, 0, to),
        };
    };
    let mut rest = to;
    while !rest.is_empty() {
        let (first, stride, len) = walk.run(rest.len());
        let (run, behind) = std::mem::take(&mut rest).split_at_mut(len);
        copy(inputs, input, first, stride, run);
        rest = behind;
    }
}

/// Elements of an input, so far apart.
fn copy(inputs: &[&[u32]], input: Input, first: usize, stride: usize, to: &mut [u32]) {
    let words = inputs[input.number];
    match (input.halves, stride) {
        (false, 0) => to.fill(words[first]),
        (false, 1) => to.copy_from_slice(&words[first..first + to.len()]),
        (false, _) => to.iter_mut().zip(words[first..].iter().step_by(stride)).for_each(|(to, word)| *to = *word),
        (true, 1) => native::widen(words, first, to),
        (true, _) => {
            for (at, to) in to.chunks_mut(1).enumerate() {
                native::widen(words, first + at * stride, to);
            }
        }
    }
}

/// Rows of a table, by one index for each element; zeros where there is no such row.
fn gather(inputs: &[&[u32]], table: Input, index: &[u32], [rows, row]: [usize; 2], start: usize, to: &mut [u32]) {
    let mut done = 0;
    while done < to.len() {
        let column = (start + done) % row;
        let len = (row - column).min(to.len() - done);
        let (chosen, run) = (index[done] as usize, &mut to[done..done + len]);
        if chosen < rows {
            copy(inputs, table, chosen * row + column, 1, run);
        } else {
            run.fill(0);
        }
        done += len;
    }
}

/// Pieces of two inputs by turns.
fn join(inputs: &[&[u32]], of: [Input; 2], pieces: [usize; 2], start: usize, to: &mut [u32]) {
    let both = pieces[0] + pieces[1];
    let mut done = 0;
    while done < to.len() {
        let (turn, within) = ((start + done) / both, (start + done) % both);
        let side = usize::from(within >= pieces[0]);
        let within = within - side * pieces[0];
        let len = (pieces[side] - within).min(to.len() - done);
        copy(inputs, of[side], turn * pieces[side] + within, 1, &mut to[done..done + len]);
        done += len;
    }
}

/// Finds a place for every step.
struct Layout<'p> {
    program: &'p Program,
    tasks: Vec<Task>,
    /// By step, once it is known.
    known: Vec<Operand>,
    /// By step: the last that uses it.
    last: Vec<usize>,
    /// Registers that hold nothing any more.
    free: Vec<usize>,
    registers: usize,
    loads: usize,
}

/// Outputs are numbered behind any number of registers until that is known.
const OUTPUTS: usize = usize::MAX / 2;

impl<'p> Layout<'p> {
    fn new(program: &'p Program) -> Self {
        let steps = &program.tail.steps;
        let mut last: Vec<usize> = (0..steps.len()).collect();
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Apply { args, .. } => args.iter().for_each(|arg| last[*arg] = number),
                Step::Gather { index, .. } => last[*index] = number,
                Step::Load { .. } | Step::Join { .. } | Step::Head(_) => {}
            }
        }
        Self { program, tasks: Vec::new(), known: Vec::new(), last, free: Vec::new(), registers: 0, loads: 0 }
    }

    fn chain(mut self) -> Chain {
        let program = self.program;
        for (number, step) in program.tail.steps.iter().enumerate() {
            self.step(number, step);
            let over = |of: &usize| self.last[*of] == number && self.known[*of].place < OUTPUTS;
            let mut freed: SmallVec<[usize; 4]> = (0..=number).filter(over).map(|of| self.known[of].place).collect();
            freed.sort_unstable();
            self.free.extend(freed);
        }
        let registers = self.registers;
        let mut tasks = self.tasks;
        let settle = |place: &mut usize| {
            if *place >= OUTPUTS {
                *place = *place - OUTPUTS + registers;
            }
        };
        for task in &mut tasks {
            match task {
                Task::Load { to, .. } | Task::Join { to, .. } => settle(to),
                Task::Gather { index, to, .. } => [&mut index.place, to].into_iter().for_each(settle),
                Task::Apply { args, to, .. } => {
                    args.iter_mut().for_each(|arg| settle(&mut arg.place));
                    settle(to);
                }
                Task::Copy { from, to } | Task::Narrow { from, to } => {
                    [&mut from.place, to].into_iter().for_each(settle);
                }
            }
        }
        Chain {
            tasks,
            registers,
            loads: self.loads,
            inputs: program.inputs.len(),
            outputs: program.outputs.iter().map(|output| output.element).collect(),
            len: program.len() as usize,
        }
    }

    fn register(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.registers += 1;
            self.registers - 1
        })
    }

    fn input(&self, number: usize) -> Input {
        Input { number, halves: self.program.inputs[number].element == Element::F16 }
    }

    fn step(&mut self, number: usize, step: &Step) {
        let program = self.program;
        let stored = || (0..program.outputs.len()).filter(|output| program.tail.stores[*output] == number);
        let whole = |output: &usize| program.outputs[*output].element != Element::F16;
        let direct = stored().find(whole);
        let to = direct.map_or_else(|| self.register(), |output| OUTPUTS + output);
        let mut known = Operand { place: to, load: None };
        match step {
            Step::Load { input, at } => {
                let input = self.input(*input);
                let lent = (direct.is_none() && !input.halves).then_some(self.loads);
                self.loads += usize::from(lent.is_some());
                known.load = lent;
                self.tasks.push(Task::Load { input, at: at.clone(), lent, to });
            }
            Step::Gather { input, index, rows, row } => {
                let (table, index) = (self.input(*input), self.known[*index]);
                self.tasks.push(Task::Gather { table, index, rows: *rows as usize, row: *row as usize, to });
            }
            Step::Join { inputs, pieces } => {
                let inputs = inputs.map(|input| self.input(input));
                self.tasks.push(Task::Join { inputs, pieces: pieces.map(|piece| piece as usize), to });
            }
            Step::Apply { f, args, scalars, element } => {
                let of = args.first().map_or(*element, |arg| program.element(&program.tail, *arg));
                let mut operands = [known; 3];
                operands.iter_mut().zip(args).for_each(|(operand, arg)| *operand = self.known[*arg]);
                let apply = |f, args, to| Task::Apply { f, of: number_of(of), args, scalars: *scalars, to };
                if *element == Element::F16 {
                    let exact = self.register();
                    self.tasks.push(apply(function(*f, *element), operands, exact));
                    let exact_value = Operand { place: exact, load: None };
                    let half = Task::Apply {
                        f: native::Function::Half,
                        of: Number::F32,
                        args: [exact_value; 3],
                        scalars: *scalars,
                        to,
                    };
                    self.tasks.push(half);
                    self.free.push(exact);
                } else {
                    self.tasks.push(apply(function(*f, *element), operands, to));
                }
            }
            Step::Head(_) => unreachable!("a chain has no head"),
        }
        self.known.push(known);
        for output in stored().filter(|output| Some(*output) != direct) {
            let to = OUTPUTS + output;
            self.tasks.push(if whole(&output) {
                Task::Copy { from: known, to }
            } else {
                Task::Narrow { from: known, to }
            });
        }
    }
}

fn number_of(element: Element) -> Number {
    match element {
        Element::F32 | Element::F16 => Number::F32,
        Element::U32 => Number::U32,
        Element::I32 => Number::I32,
    }
}

fn function(f: Function, to: Element) -> native::Function {
    use native::Function as Native;
    match f {
        Function::Neg => Native::Neg,
        Function::Abs => Native::Abs,
        Function::Exp => Native::Exp,
        Function::Log => Native::Log,
        Function::Sqrt => Native::Sqrt,
        Function::Rsqrt => Native::Rsqrt,
        Function::Sin => Native::Sin,
        Function::Cos => Native::Cos,
        Function::Tanh => Native::Tanh,
        Function::Sigmoid => Native::Sigmoid,
        Function::Relu => Native::Relu,
        Function::Swish => Native::Swish,
        Function::Gelu => Native::Gelu,
        Function::GeluTanh => Native::GeluTanh,
        Function::Scale => Native::Scale,
        Function::Clamp => Native::Clamp,
        Function::Add => Native::Add,
        Function::Sub => Native::Sub,
        Function::Mul => Native::Mul,
        Function::Div => Native::Div,
        Function::Pow => Native::Pow,
        Function::Minimum => Native::Minimum,
        Function::Maximum => Native::Maximum,
        Function::Equal => Native::Equal,
        Function::NotEqual => Native::NotEqual,
        Function::Less => Native::Less,
        Function::LessEqual => Native::LessEqual,
        Function::Greater => Native::Greater,
        Function::GreaterEqual => Native::GreaterEqual,
        Function::Select => Native::Select,
        Function::Cast => Native::Cast(number_of(to)),
    }
}
