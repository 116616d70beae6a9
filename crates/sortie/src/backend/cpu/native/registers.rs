//! Assigns a register or output to the result of each step of a chain.

use smallvec::SmallVec;
use sortie_plan::{
    ElementType,
    fuse::{Expr, Program},
};

use super::{
    chain::{Chain, ChainOp, Number, Operand},
    loads::Input,
};

/// The assignment, while it is computed.
pub(super) struct RegisterAssignment<'p> {
    program: &'p Program,
    tasks: Vec<ChainOp>,
    numbers: Vec<Number>,
    /// The operand of each step so far.
    known: Vec<Operand>,
    /// The last user of each step.
    last: Vec<usize>,
    /// Registers whose values are no longer needed.
    free: Vec<usize>,
    registers: usize,
    loads: usize,
}

/// Outputs are numbered from here until the number of registers is known.
const OUTPUTS: usize = usize::MAX / 2;

impl<'p> RegisterAssignment<'p> {
    pub(super) fn new(program: &'p Program) -> Self {
        let steps = &program.tail.steps;
        let mut last: Vec<usize> = (0..steps.len()).collect();
        for (number, step) in steps.iter().enumerate() {
            match step {
                Expr::Apply { args, .. } => args.iter().for_each(|arg| last[*arg] = last[*arg].max(number)),
                Expr::Gather { index, .. } => last[*index] = number,
                // Filled once per piece, so it keeps its register.
                Expr::Number { .. } => last[number] = usize::MAX,
                Expr::Load { .. } | Expr::Join { .. } | Expr::Head(_) => {}
            }
        }
        Self {
            program,
            tasks: Vec::new(),
            numbers: Vec::new(),
            known: Vec::new(),
            last,
            free: Vec::new(),
            registers: 0,
            loads: 0,
        }
    }

    pub(super) fn chain(mut self) -> Chain {
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
                ChainOp::Load { to, .. } | ChainOp::Join { to, .. } => settle(to),
                ChainOp::Gather { index, to, .. } => [&mut index.place, to].into_iter().for_each(settle),
                ChainOp::Apply { args, to, .. } => {
                    args.iter_mut().for_each(|arg| settle(&mut arg.place));
                    settle(to);
                }
                ChainOp::Copy { from, to } | ChainOp::Narrow { from, to } => {
                    [&mut from.place, to].into_iter().for_each(settle);
                }
            }
        }
        Chain {
            tasks,
            registers,
            numbers: self.numbers,
            loads: self.loads,
            inputs: program.inputs.len(),
            outputs: program.outputs.iter().map(|output| output.element).collect(),
            len: program.len() as usize,
        }
    }

    fn register(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| self.fresh())
    }

    /// A register that no earlier step has used.
    fn fresh(&mut self) -> usize {
        self.registers += 1;
        self.registers - 1
    }

    fn input(&self, number: usize) -> Input {
        Input { number, halves: self.program.inputs[number].element == ElementType::F16 }
    }

    fn step(&mut self, number: usize, step: &Expr) {
        let program = self.program;
        let stored = || (0..program.outputs.len()).filter(|output| program.tail.stores[*output] == number);
        let whole = |output: &usize| program.outputs[*output].element != ElementType::F16;
        let direct = stored().find(whole);
        let to = match (step, direct) {
            // Filled before all steps, so it may not share the register of an earlier one.
            (Expr::Number { .. }, _) => self.fresh(),
            (_, Some(output)) => OUTPUTS + output,
            (_, None) => self.register(),
        };
        let mut known = Operand { place: to, load: None };
        match step {
            Expr::Load { input, at } => {
                let input = self.input(*input);
                let lent = (direct.is_none() && !input.halves).then_some(self.loads);
                self.loads += usize::from(lent.is_some());
                known.load = lent;
                self.tasks.push(ChainOp::Load { input, at: at.clone(), lent, to });
            }
            Expr::Gather { input, index, rows, row } => {
                let (table, index) = (self.input(*input), self.known[*index]);
                self.tasks.push(ChainOp::Gather { table, index, rows: *rows, row: *row as usize, to });
            }
            Expr::Join { inputs, pieces } => {
                let inputs = inputs.map(|input| self.input(input));
                self.tasks.push(ChainOp::Join { inputs, pieces: *pieces, to });
            }
            Expr::Number { scalar, .. } => self.numbers.push(Number { scalar: *scalar, register: to }),
            Expr::Apply { f, args, element } => {
                let of = args.first().map_or(*element, |arg| program.element(&program.tail, *arg));
                let mut operands = [known; 3];
                operands.iter_mut().zip(args).for_each(|(operand, arg)| *operand = self.known[*arg]);
                self.tasks.push(ChainOp::Apply { f: *f, of, result: *element, args: operands, to });
            }
            Expr::Head(_) => unreachable!("a chain has no head"),
        }
        self.known.push(known);
        for output in stored().filter(|output| Some(*output) != direct) {
            let to = OUTPUTS + output;
            self.tasks.push(if whole(&output) {
                ChainOp::Copy { from: known, to }
            } else {
                ChainOp::Narrow { from: known, to }
            });
        }
    }
}
