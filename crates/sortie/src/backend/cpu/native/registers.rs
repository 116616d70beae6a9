//! Assigns a register or output to the result of each step of a body or tail.

use smallvec::SmallVec;
use sortie_plan::{
    ElementType,
    fuse::{Body, Expr, Program},
};

use super::{
    loads::Input,
    steps::{ChainOp, Number, Operand, Steps},
};

/// The assignment, while it is computed.
pub(super) struct RegisterAssignment<'p> {
    program: &'p Program,
    body: &'p Body,
    /// The steps that are stored in an output, one for each.
    stores: &'p [usize],
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
    /// The tail of a program, which stores the outputs.
    pub(super) fn of_tail(program: &'p Program) -> Steps {
        Self::new(program, &program.tail, &program.tail.stores).steps(None)
    }

    /// The body of a program's head, which has one result.
    pub(super) fn of_body(program: &'p Program, body: &'p Body) -> Steps {
        let mut assignment = Self::new(program, body, &[]);
        let result = body.stores[0];
        assignment.last[result] = usize::MAX;
        assignment.steps(Some(result))
    }

    fn new(program: &'p Program, body: &'p Body, stores: &'p [usize]) -> Self {
        let steps = &body.steps;
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
            body,
            stores,
            tasks: Vec::new(),
            numbers: Vec::new(),
            known: Vec::new(),
            last,
            free: Vec::new(),
            registers: 0,
            loads: 0,
        }
    }

    fn steps(mut self, result: Option<usize>) -> Steps {
        let mut head = None;
        for (number, step) in self.body.steps.iter().enumerate() {
            self.step(number, step);
            if matches!(step, Expr::Head(_)) {
                head = Some(self.known[number].place);
            }
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
        head.iter_mut().for_each(settle);
        let result = result.map(|result| self.known[result]);
        Steps { tasks, registers, numbers: self.numbers, loads: self.loads, head, result }
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
        let stores = self.stores;
        let stored = || (0..stores.len()).filter(|output| stores[*output] == number);
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
                let of = args.first().map_or(*element, |arg| program.element(self.body, *arg));
                let mut operands = [known; 3];
                operands.iter_mut().zip(args).for_each(|(operand, arg)| *operand = self.known[*arg]);
                self.tasks.push(ChainOp::Apply { f: *f, of, result: *element, args: operands, to });
            }
            // Where it is before the steps run.
            Expr::Head(_) => {}
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
