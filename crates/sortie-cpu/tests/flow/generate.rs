//! Kernels out of random bytes. All bytes are valid kernels, and fewer bytes are smaller ones.

use crate::tree::{Block, Call, Cond, Expr, Function, IDS, Kernel, Operator, Pointee, Row, Statement, Target, Top};

/// Random bytes: one tape for each part of a kernel.
#[derive(Clone)]
pub(crate) struct Tapes {
    pub(crate) shape: Vec<u8>,
    pub(crate) functions: Vec<Vec<u8>>,
    pub(crate) main: Vec<Vec<u8>>,
}

/// Nothing: the kernel itself is in the message.
impl std::fmt::Debug for Tapes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("see above")
    }
}

/// Past its end a tape gives zeros, and zero is the simplest decision.
struct Tape<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl Tape<'_> {
    fn pick(&mut self, end: usize) -> usize {
        self.bytes.next().map_or(0, |byte| usize::from(*byte) % end)
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.pick(one_in) == one_in - 1
    }

    fn is_over(&self) -> bool {
        self.bytes.len() == 0
    }
}

pub(crate) fn kernel(tapes: &Tapes) -> Kernel {
    let mut shape = Tape { bytes: tapes.shape.iter() };
    let sizes = [
        [64, 1, 1],
        [16, 1, 1],
        [1, 1, 1],
        [8, 8, 1],
        [16, 16, 1],
        [3, 5, 2],
        [1, 64, 1],
        [5, 1, 1],
        [17, 3, 1],
        [32, 4, 1],
        [4, 4, 4],
        [100, 1, 1],
    ];
    let size = sizes[shape.pick(sizes.len())];
    let invocations: u32 = size.iter().product();
    let tile = shape.chance(2);
    let most = (1500 / invocations).clamp(1, 40) as usize;
    let mut groups = [1 + shape.pick(most) as u32, 1, 1];
    if shape.chance(3) {
        groups = [groups[0].div_ceil(3), 1 + shape.pick(3) as u32, 1 + shape.pick(2) as u32];
    }
    let params = std::array::from_fn(|_| shape.pick(8) as u32);
    let mut functions = Vec::new();
    for bytes in &tapes.functions {
        let mut tape = Tape { bytes: bytes.iter() };
        let (pointee, row) = (tape.chance(3), tape.chance(3));
        let mut scope = Scope::new(&mut tape, &functions, false);
        (scope.pointee, scope.row) = (pointee, row);
        let mut body = scope.block(0, 7);
        if !matches!(body.last(), Some(Statement::Return(_))) {
            let value = scope.expression(0);
            body.push(Statement::Return(Some(value)));
        }
        let variables = scope.variables;
        functions.push(Function { body, variables, pointee, row });
    }
    let mut main = Vec::new();
    let mut visible = Vec::new();
    let mut variables = 0;
    let count = tapes.main.len();
    for (number, bytes) in tapes.main.iter().enumerate() {
        let mut tape = Tape { bytes: bytes.iter() };
        let mut scope = Scope::new(&mut tape, &functions, true);
        scope.visible = visible;
        scope.variables = variables;
        // No invocation may have returned where others wait at a barrier.
        scope.returns = !tile || number + 1 == count;
        let what = if tile { scope.tape.pick(4) } else { 0 };
        main.push(match (what, scope.any()) {
            (1, Some(var)) => Top::Exchange(var, 1 + scope.tape.pick(5) as u32),
            (2, Some(var)) => Top::Share(var),
            (3, Some(var)) => {
                scope.returns = false;
                let body = scope.block(1, 5);
                let body = vec![Top::Code(body), Top::Exchange(var, 1), Top::Code(scope.block(1, 3))];
                Top::Repeat(scope.tape.pick(4), body)
            }
            _ => Top::Code(scope.top(5)),
        });
        variables = scope.variables;
        visible = scope.visible;
    }
    Kernel { size, groups, functions, main, variables, params, tile }
}

/// A place in a function.
struct Scope<'a, 'b> {
    tape: &'a mut Tape<'b>,
    functions: &'a [Function],
    /// Variables that can be read, and whether they can be set.
    visible: Vec<(usize, bool)>,
    variables: usize,
    is_main: bool,
    returns: bool,
    pointee: bool,
    row: bool,
    /// Loops around; whether a `switch` is nearer than the innermost of them.
    loops: usize,
    in_switch: bool,
    /// Inside `continuing`, which is not left.
    continuing: bool,
}

impl<'a, 'b> Scope<'a, 'b> {
    fn new(tape: &'a mut Tape<'b>, functions: &'a [Function], is_main: bool) -> Self {
        Self {
            tape,
            functions,
            visible: Vec::new(),
            variables: 0,
            is_main,
            returns: true,
            pointee: false,
            row: false,
            loops: 0,
            in_switch: false,
            continuing: false,
        }
    }

    fn fresh(&mut self, mutable: bool) -> usize {
        self.visible.push((self.variables, mutable));
        self.variables += 1;
        self.variables - 1
    }

    /// A variable that can be set.
    fn any(&mut self) -> Option<usize> {
        let all: Vec<usize> = self.visible.iter().filter(|(_, mutable)| *mutable).map(|(var, _)| *var).collect();
        (!all.is_empty()).then(|| all[self.tape.pick(all.len())])
    }

    /// Statements whose variables stay visible.
    fn top(&mut self, most: usize) -> Block {
        let mut block = Vec::new();
        let count = 1 + self.tape.pick(most);
        for _ in 0..count {
            self.statement(0, &mut block);
            if matches!(block.last(), Some(Statement::Return(_))) {
                block.pop();
            }
            if self.tape.is_over() {
                break;
            }
        }
        block
    }

    fn block(&mut self, depth: usize, most: usize) -> Block {
        let before = self.visible.len();
        let mut block = Vec::new();
        let count = self.tape.pick(most + 1);
        for _ in 0..count {
            if self.tape.is_over() {
                break;
            }
            self.statement(depth, &mut block);
            if matches!(block.last(), Some(Statement::Break | Statement::Continue | Statement::Return(_))) {
                break;
            }
        }
        self.visible.truncate(before);
        block
    }

    fn statement(&mut self, depth: usize, block: &mut Block) {
        let deep = depth >= 4;
        let pick = self.tape.pick(26);
        let statement = match pick {
            0..=3 => {
                let value = (!self.tape.chance(4)).then(|| self.expression(0));
                Statement::Declare(self.fresh(true), value)
            }
            4 => {
                let value = self.expression(0);
                Statement::Let(self.fresh(false), value)
            }
            5..=8 => {
                let target = self.target();
                Statement::Set(target, self.expression(0))
            }
            9 => match self.any() {
                Some(to) if self.is_main => Statement::Atomic(to, self.expression(1), self.expression(1)),
                _ => Statement::Set(self.target(), self.expression(0)),
            },
            10..=13 if !deep => {
                let cond = self.condition(0);
                let accept = self.block(depth + 1, 4);
                let reject = if self.tape.chance(2) { self.block(depth + 1, 4) } else { Vec::new() };
                Statement::If(cond, accept, reject)
            }
            14..=17 if !deep => return self.a_loop(depth, block),
            18 | 19 if !deep => {
                let selector = self.expression(1);
                let selector = Expr::Binary(Operator::Rem, selector.into(), Expr::Const(5).into());
                let outer = (self.in_switch, self.continuing);
                self.in_switch = true;
                let count = 1 + self.tape.pick(4) as u32;
                let default = self.tape.pick(count as usize) as u32;
                let cases = (0..count)
                    .map(|number| {
                        let selectors = if number == 1 { vec![1, 4] } else { vec![number] };
                        let alone = number == default && number != 1;
                        let body = self.block(depth + 1, 4);
                        (if alone { Vec::new() } else { selectors }, number == default, body)
                    })
                    .collect();
                (self.in_switch, self.continuing) = outer;
                Statement::Switch(selector, cases)
            }
            20 | 21 => match (self.any(), self.functions.len()) {
                (Some(to), 1..) => self.call(to),
                _ => Statement::Set(self.target(), self.expression(0)),
            },
            22 | 23 if self.in_switch || (self.loops > 0 && !self.continuing) => self.guarded(Statement::Break),
            24 if self.loops > 0 && !self.continuing => self.guarded(Statement::Continue),
            25 if self.returns && !self.continuing => {
                let value = (!self.is_main).then(|| self.expression(1));
                self.guarded(Statement::Return(value))
            }
            _ => Statement::Set(self.target(), self.expression(0)),
        };
        block.push(statement);
    }

    /// Mostly under a condition.
    fn guarded(&mut self, leave: Statement) -> Statement {
        match self.tape.pick(5) {
            0..=2 => Statement::If(self.condition(0), vec![leave], Vec::new()),
            3 => Statement::If(self.condition(0), Vec::new(), vec![leave]),
            _ => leave,
        }
    }

    fn a_loop(&mut self, depth: usize, block: &mut Block) {
        let outer = (self.loops, self.in_switch, self.continuing);
        let kind = self.tape.pick(3);
        let before = self.visible.len();
        let most = 1 + self.tape.pick(5) as u32;
        let statement = match kind {
            0 => {
                let counter = self.fresh(false);
                let limit = self.expression(1);
                (self.loops, self.in_switch, self.continuing) = (outer.0 + 1, false, false);
                Statement::For(counter, limit, self.block(depth + 1, 5))
            }
            1 => {
                let counter = self.fresh(false);
                let cond = self.condition(0);
                (self.loops, self.in_switch, self.continuing) = (outer.0 + 1, false, false);
                Statement::While(counter, most, cond, self.block(depth + 1, 5))
            }
            _ => {
                let counter = self.fresh(false);
                (self.loops, self.in_switch, self.continuing) = (outer.0 + 1, false, false);
                let body = self.block(depth + 1, 5);
                self.continuing = true;
                let returns = std::mem::take(&mut self.returns);
                let continuing = self.block(depth + 1, 3);
                self.returns = returns;
                let until = self.tape.chance(2).then(|| self.condition(0));
                Statement::Loop(counter, most, body, continuing, until)
            }
        };
        (self.loops, self.in_switch, self.continuing) = outer;
        self.visible.truncate(before);
        block.push(statement);
    }

    fn call(&mut self, to: usize) -> Statement {
        let function = self.tape.pick(self.functions.len());
        let arguments = [self.expression(1), self.expression(1)];
        let callee = &self.functions[function];
        let (wants_pointee, wants_row) = (callee.pointee, callee.row);
        let other: Vec<usize> = self.visible.iter().filter(|(_, mutable)| *mutable).map(|(var, _)| *var).collect();
        let pointee = wants_pointee.then(|| match self.tape.pick(3) {
            1 if self.pointee => Pointee::Same,
            // Not the array of which a row is passed too.
            2 if !wants_row => Pointee::Element(self.expression(1), self.expression(1)),
            _ => Pointee::Var(other[self.tape.pick(other.len())]),
        });
        let row = wants_row.then(|| match self.tape.pick(2) {
            1 if self.row => Row::Same,
            _ => Row::Of(self.expression(1)),
        });
        Statement::Call(Call { function, to, arguments, pointee, row })
    }

    fn target(&mut self) -> Target {
        let var = self.any();
        match (self.tape.pick(12), var) {
            (0..=4, Some(var)) => Target::Var(var),
            (5, _) => Target::GlobalArray(self.index()),
            (6, _) => Target::Array(self.index(), self.index()),
            (7, _) if self.pointee => Target::Pointee,
            (8, _) if self.row => Target::Row(self.index()),
            (9, _) if self.is_main => Target::Own(self.expression(1)),
            (10, _) => Target::Nowhere(self.expression(2)),
            (_, Some(var)) => Target::Var(var),
            _ => Target::Global(self.tape.pick(2)),
        }
    }

    /// Something that is in bounds more often than not.
    fn index(&mut self) -> Expr {
        match self.tape.pick(4) {
            0 => Expr::Const(self.tape.pick(3) as u32),
            3 => self.expression(1),
            _ => Expr::Binary(Operator::Rem, self.expression(1).into(), Expr::Const(5).into()),
        }
    }

    fn condition(&mut self, depth: usize) -> Cond {
        match self.tape.pick(if depth < 2 { 9 } else { 6 }) {
            0 => {
                let value = Expr::Binary(Operator::And, self.expression(1).into(), Expr::Const(1).into());
                Cond::Equal(value, Expr::Const(self.tape.pick(2) as u32))
            }
            1 | 2 => {
                let value = Expr::Binary(Operator::Rem, self.expression(1).into(), Expr::Const(7).into());
                Cond::Less(value, Expr::Const(self.tape.pick(7) as u32))
            }
            3 => Cond::Equal(self.uniform(), Expr::Const(self.tape.pick(3) as u32)),
            4 => Cond::Less(self.expression(1), self.expression(1)),
            5 => Cond::Less(self.uniform(), self.expression(1)),
            6 => Cond::Not(self.condition(depth + 1).into()),
            7 => Cond::Both(self.condition(depth + 1).into(), self.condition(depth + 1).into()),
            _ => Cond::Either(self.condition(depth + 1).into(), self.condition(depth + 1).into()),
        }
    }

    /// Likely the same for all.
    fn uniform(&mut self) -> Expr {
        match self.tape.pick(3) {
            2 if self.is_main => Expr::Id(2),
            1 => self.leaf(),
            _ => Expr::Param(self.tape.pick(4)),
        }
    }

    fn leaf(&mut self) -> Expr {
        match self.tape.pick(8) {
            0 => Expr::Const(self.tape.pick(9) as u32),
            1 if self.is_main => Expr::Id(self.tape.pick(IDS.len())),
            1 => Expr::Argument(self.tape.pick(2)),
            2 => Expr::Param(self.tape.pick(4)),
            3 => Expr::Global(self.tape.pick(2)),
            4 if self.pointee => Expr::Pointee,
            _ if !self.visible.is_empty() => Expr::Var(self.visible[self.tape.pick(self.visible.len())].0),
            _ if self.is_main => Expr::Id(self.tape.pick(IDS.len())),
            _ => Expr::Argument(self.tape.pick(2)),
        }
    }

    fn expression(&mut self, depth: usize) -> Expr {
        if depth >= 3 {
            return self.leaf();
        }
        match self.tape.pick(16) {
            0..=5 => self.leaf(),
            6 => Expr::Input(self.expression(depth + 1).into()),
            7 => Expr::GlobalArray(self.index_at(depth)),
            8 => Expr::Array(self.index_at(depth), self.index_at(depth)),
            9 if self.row => Expr::Row(self.index_at(depth)),
            9 if self.is_main => Expr::Own(self.expression(depth + 1).into()),
            10 => Expr::Select(
                self.condition(2).into(),
                self.expression(depth + 1).into(),
                self.expression(depth + 1).into(),
            ),
            pick => {
                let operators = [
                    Operator::Add,
                    Operator::Sub,
                    Operator::Xor,
                    Operator::Mul,
                    Operator::And,
                    Operator::Or,
                    Operator::Div,
                    Operator::Rem,
                    Operator::Shl,
                    Operator::Shr,
                    Operator::Min,
                ];
                let operator = if pick < 14 { Operator::Add } else { operators[self.tape.pick(operators.len())] };
                Expr::Binary(operator, self.expression(depth + 1).into(), self.expression(depth + 1).into())
            }
        }
    }

    fn index_at(&mut self, depth: usize) -> Box<Expr> {
        if depth >= 2 { self.leaf().into() } else { self.index().into() }
    }
}
