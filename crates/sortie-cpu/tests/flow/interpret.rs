//! Kernels run one invocation at a time, as their text says.

use crate::{
    print::visible,
    tree::{
        Block, Call, Cond, Expr, GLOBAL_ARRAY, GLOBALS, INPUT, Kernel, OWN, Operator, Pointee, ROW, ROWS, Row,
        Statement, Target, Top,
    },
};

/// Statements that an invocation may take: a kernel that takes more is not worth the time.
const STEPS: u32 = 6_000;

pub(crate) struct Memory {
    pub(crate) own: Vec<u32>,
    pub(crate) counts: Vec<u32>,
}

/// What is in the buffers afterwards; `None` for a kernel that takes too long.
pub(crate) fn interpret(kernel: &Kernel, input: &[u32]) -> Option<Memory> {
    let words = kernel.invocations() as usize * OWN;
    let mut memory = Memory { own: vec![0; words], counts: vec![0; words] };
    let [x, y, z] = kernel.size;
    let lanes = x * y * z;
    let [nx, ny, nz] = kernel.groups;
    for group in 0..nx * ny * nz {
        let wid = [group % nx, group / nx % ny, group / nx / ny];
        let mut invocations: Vec<Invocation<'_>> = (0..lanes)
            .map(|li| {
                let lid = [li % x, li / x % y, li / x / y];
                let gid = [0, 1, 2].map(|axis| wid[axis] * kernel.size[axis] + lid[axis]);
                Invocation {
                    kernel,
                    input,
                    ids: [gid[0], lid[0], wid[0], li, gid[1], lid[1], wid[1], gid[2]],
                    base: ((group * lanes + li) as usize) * OWN,
                    globals: [0, 7],
                    array: [0; GLOBAL_ARRAY],
                    steps: 0,
                    gone: false,
                    frame: Frame::new(kernel.variables, [0; 2]),
                }
            })
            .collect();
        tops(&kernel.main, &mut invocations, &mut memory);
        if invocations.iter().any(|one| one.steps > STEPS) {
            return None;
        }
        for one in invocations.iter().filter(|one| !one.gone) {
            memory.own[one.base] ^= one.globals[0].wrapping_add(one.globals[1]);
            for var in visible(&kernel.main) {
                let word = &mut memory.own[one.base + 1];
                *word = word.wrapping_mul(31).wrapping_add(one.frame.variables[var]);
            }
        }
    }
    Some(memory)
}

fn tops(main: &[Top], invocations: &mut [Invocation<'_>], memory: &mut Memory) {
    for top in main {
        match top {
            Top::Code(code) => {
                for one in invocations.iter_mut().filter(|one| !one.gone) {
                    let mut frame = std::mem::take(&mut one.frame);
                    one.gone = matches!(one.block(code, &mut frame, memory), Flow::Return(_));
                    one.frame = frame;
                }
            }
            Top::Exchange(var, by) => {
                let tile: Vec<u32> = invocations.iter().map(|one| one.frame.variables[*var]).collect();
                for (li, one) in invocations.iter_mut().enumerate() {
                    one.frame.variables[*var] = tile[(li * *by as usize + 1) % tile.len()];
                }
            }
            Top::Share(var) => {
                let first = invocations[0].frame.variables[*var];
                invocations.iter_mut().for_each(|one| one.frame.variables[*var] = first);
            }
            Top::Repeat(param, body) => {
                for _ in 0..invocations[0].kernel.params[*param] % 4 {
                    tops(body, invocations, memory);
                }
            }
        }
    }
}

#[derive(Default)]
struct Frame {
    variables: Vec<u32>,
    arguments: [u32; 2],
    array: [[u32; ROW]; ROWS],
    /// `None`: the pointer points out of bounds.
    pointee: Option<u32>,
    row: Option<[u32; ROW]>,
}

impl Frame {
    fn new(variables: usize, arguments: [u32; 2]) -> Self {
        Self { variables: vec![0; variables], arguments, ..Self::default() }
    }
}

enum Flow {
    On,
    Break,
    Continue,
    Return(u32),
}

struct Invocation<'a> {
    kernel: &'a Kernel,
    input: &'a [u32],
    ids: [u32; 8],
    base: usize,
    globals: [u32; GLOBALS],
    array: [u32; GLOBAL_ARRAY],
    steps: u32,
    gone: bool,
    frame: Frame,
}

impl Invocation<'_> {
    fn block(&mut self, block: &Block, frame: &mut Frame, memory: &mut Memory) -> Flow {
        for statement in block {
            match self.statement(statement, frame, memory) {
                Flow::On => {}
                other => return other,
            }
        }
        Flow::On
    }

    fn statement(&mut self, statement: &Statement, frame: &mut Frame, memory: &mut Memory) -> Flow {
        self.steps += 1;
        if self.steps > STEPS {
            return Flow::Return(0);
        }
        match statement {
            Statement::Declare(var, value) => {
                frame.variables[*var] = value.as_ref().map_or(0, |value| self.value(value, frame, memory));
            }
            Statement::Let(var, value) => frame.variables[*var] = self.value(value, frame, memory),
            Statement::Set(to, value) => self.set(to, value, frame, memory),
            Statement::Atomic(to, index, value) => {
                let at = self.base + self.value(index, frame, memory) as usize % OWN;
                let value = self.value(value, frame, memory);
                frame.variables[*to] = memory.counts[at];
                memory.counts[at] = memory.counts[at].wrapping_add(value);
            }
            Statement::If(cond, accept, reject) => {
                let side = if self.holds(cond, frame, memory) { accept } else { reject };
                return self.block(side, frame, memory);
            }
            Statement::For(var, limit, body) => {
                frame.variables[*var] = 0;
                while frame.variables[*var] < self.value(limit, frame, memory) % 7 {
                    match self.block(body, frame, memory) {
                        Flow::On | Flow::Continue => {}
                        Flow::Break => break,
                        other => return other,
                    }
                    frame.variables[*var] += 1;
                }
            }
            Statement::While(var, most, cond, body) => {
                frame.variables[*var] = 0;
                while frame.variables[*var] < *most && self.holds(cond, frame, memory) {
                    frame.variables[*var] += 1;
                    match self.block(body, frame, memory) {
                        Flow::On | Flow::Continue => {}
                        Flow::Break => break,
                        other => return other,
                    }
                }
            }
            Statement::Loop(var, most, body, continuing, until) => {
                frame.variables[*var] = 0;
                while frame.variables[*var] < *most {
                    frame.variables[*var] += 1;
                    match self.block(body, frame, memory) {
                        Flow::On | Flow::Continue => {}
                        Flow::Break => break,
                        other => return other,
                    }
                    if let other @ Flow::Return(_) = self.block(continuing, frame, memory) {
                        return other;
                    }
                    if until.as_ref().is_some_and(|until| self.holds(until, frame, memory)) {
                        break;
                    }
                }
            }
            Statement::Switch(selector, cases) => {
                let selector = self.value(selector, frame, memory);
                let hit = cases.iter().find(|(selectors, ..)| selectors.contains(&selector));
                let hit = hit.or_else(|| cases.iter().find(|(_, default, _)| *default));
                if let Some((.., body)) = hit {
                    match self.block(body, frame, memory) {
                        Flow::Break => {}
                        other => return other,
                    }
                }
            }
            Statement::Call(call) => self.call(call, frame, memory),
            Statement::Break => return Flow::Break,
            Statement::Continue => return Flow::Continue,
            Statement::Return(value) => {
                return Flow::Return(value.as_ref().map_or(0, |value| self.value(value, frame, memory)));
            }
        }
        Flow::On
    }

    fn call(&mut self, call: &Call, frame: &mut Frame, memory: &mut Memory) {
        let arguments = [&call.arguments[0], &call.arguments[1]].map(|value| self.value(value, frame, memory));
        let kernel = self.kernel;
        let callee = &kernel.functions[call.function];
        let mut inner = Frame::new(callee.variables, arguments);
        let mut element = None;
        inner.pointee = match &call.pointee {
            None => None,
            Some(Pointee::Var(var)) => Some(frame.variables[*var]),
            Some(Pointee::Same) => frame.pointee,
            Some(Pointee::Element(row, index)) => {
                let at = (self.value(row, frame, memory) as usize, self.value(index, frame, memory) as usize);
                element = (at.0 < ROWS && at.1 < ROW).then_some(at);
                element.map(|(row, index)| frame.array[row][index])
            }
        };
        let mut of = None;
        inner.row = match &call.row {
            None => None,
            Some(Row::Same) => frame.row,
            Some(Row::Of(row)) => {
                let row = self.value(row, frame, memory) as usize;
                of = (row < ROWS).then_some(row);
                of.map(|row| frame.array[row])
            }
        };
        let flow = self.block(&callee.body, &mut inner, memory);
        // Nothing else can reach what is pointed to meanwhile, so it is enough to copy it back.
        match (&call.pointee, inner.pointee, element) {
            (Some(Pointee::Var(var)), Some(value), _) => frame.variables[*var] = value,
            (Some(Pointee::Same), value, _) => frame.pointee = value,
            (_, Some(value), Some((row, index))) => frame.array[row][index] = value,
            _ => {}
        }
        match (&call.row, inner.row, of) {
            (Some(Row::Same), row, _) => frame.row = row,
            (_, Some(row), Some(of)) => frame.array[of] = row,
            _ => {}
        }
        frame.variables[call.to] = if let Flow::Return(value) = flow { value } else { 0 };
    }

    fn set(&mut self, to: &Target, value: &Expr, frame: &mut Frame, memory: &mut Memory) {
        let index = |expr: &Expr| self.value(expr, frame, memory) as usize;
        let at = match to {
            Target::GlobalArray(at) | Target::Row(at) | Target::Own(at) => [index(at), 0],
            Target::Array(row, at) => [index(row), index(at)],
            _ => [0; 2],
        };
        let value = self.value(value, frame, memory);
        let place = match to {
            Target::Var(var) => frame.variables.get_mut(*var),
            Target::Global(number) => self.globals.get_mut(*number),
            Target::GlobalArray(_) => self.array.get_mut(at[0]),
            Target::Array(..) => frame.array.get_mut(at[0]).and_then(|row| row.get_mut(at[1])),
            Target::Pointee => frame.pointee.as_mut(),
            Target::Row(_) => frame.row.as_mut().and_then(|row| row.get_mut(at[0])),
            Target::Own(_) => memory.own.get_mut(self.base + at[0] % OWN),
            Target::Nowhere(_) => None,
        };
        if let Some(place) = place {
            *place = value;
        }
    }

    fn value(&self, expr: &Expr, frame: &Frame, memory: &Memory) -> u32 {
        let of = |expr: &Expr| self.value(expr, frame, memory);
        match expr {
            Expr::Const(value) => *value,
            Expr::Var(var) => frame.variables[*var],
            Expr::Id(number) => self.ids[*number],
            Expr::Param(number) => self.kernel.params[*number],
            Expr::Input(index) => self.input[of(index) as usize % INPUT],
            Expr::Argument(number) => frame.arguments[*number],
            Expr::Global(number) => self.globals[*number],
            Expr::GlobalArray(index) => self.array.get(of(index) as usize).copied().unwrap_or(0),
            Expr::Array(row, index) => {
                let (row, index) = (of(row) as usize, of(index) as usize);
                frame.array.get(row).and_then(|row| row.get(index)).copied().unwrap_or(0)
            }
            Expr::Pointee => frame.pointee.unwrap_or(0),
            Expr::Row(index) => frame.row.and_then(|row| row.get(of(index) as usize).copied()).unwrap_or(0),
            Expr::Own(index) => memory.own[self.base + of(index) as usize % OWN],
            Expr::Select(cond, accept, reject) => of(if self.holds(cond, frame, memory) { accept } else { reject }),
            Expr::Binary(operator, left, right) => {
                let (left, right) = (of(left), of(right));
                match operator {
                    Operator::Add => left.wrapping_add(right),
                    Operator::Sub => left.wrapping_sub(right),
                    Operator::Mul => left.wrapping_mul(right),
                    Operator::Xor => left ^ right,
                    Operator::And => left & right,
                    Operator::Or => left | right,
                    Operator::Div => left.checked_div(right).unwrap_or(left),
                    Operator::Rem => left.checked_rem(right).unwrap_or(0),
                    Operator::Shl => left << (right & 31),
                    Operator::Shr => left >> (right & 31),
                    Operator::Min => left.min(right),
                }
            }
        }
    }

    fn holds(&self, cond: &Cond, frame: &Frame, memory: &Memory) -> bool {
        let of = |expr: &Expr| self.value(expr, frame, memory);
        match cond {
            Cond::Equal(left, right) => of(left) == of(right),
            Cond::Less(left, right) => of(left) < of(right),
            Cond::Not(cond) => !self.holds(cond, frame, memory),
            Cond::Both(left, right) => self.holds(left, frame, memory) && self.holds(right, frame, memory),
            Cond::Either(left, right) => self.holds(left, frame, memory) || self.holds(right, frame, memory),
        }
    }
}
