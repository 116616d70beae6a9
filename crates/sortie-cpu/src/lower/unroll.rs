//! Finds `for` loops to unroll: few iterations, counted by a variable that nothing else assigns. In the copies the
//! counter is a constant, so private arrays that only such counters index are kept in registers.
//!
//! Only the number of iterations is decided here. The loop is unrolled if, at its start, the counter is indeed known.

use naga::{
    BinaryOperator, Block, Expression, Function, Handle, Literal, LocalVariable, Module, Statement, UnaryOperator,
};
use rustc_hash::FxHashMap;

/// Iterations of a loop that is unrolled.
const MAX_TRIPS: u32 = 16;

/// Expressions and statements of an unrolled loop, all copies together: about what fits the first-level cache.
const MAX_COPIES: u32 = 1 << 10;

/// The same for all loops of a function, so that unrolling does not make a kernel too large to compile.
const MAX_COPIES_OF_FUNCTION: u32 = 1 << 14;

/// Operators in an index that is looked into for counters.
const MAX_INDEX_DEPTH: u32 = 8;

/// Loops of a function to unroll: the number of iterations by counter.
#[derive(Debug, Default)]
pub(super) struct CountedLoops {
    trips: FxHashMap<Handle<LocalVariable>, u32>,
}

/// The parts of `for (…; condition; counter += step) { rest }`.
pub(super) struct ForLoop {
    pub(super) counter: Handle<LocalVariable>,
    pub(super) condition: Handle<Expression>,
    /// The number of statements up to the condition, at the start of the body.
    pub(super) head: usize,
}

impl CountedLoops {
    pub(super) fn of(module: &Module, function: &Function) -> Self {
        let mut search = Search { module, function, assigned: FxHashMap::default(), found: Self::default(), left: 0 };
        search.left = MAX_COPIES_OF_FUNCTION;
        search.count_assignments(&function.body);
        search.size(&function.body);
        search.found
    }

    /// The iterations of the loop that counts with this variable, if it is to be unrolled.
    pub(super) fn trips(&self, counter: Handle<LocalVariable>) -> Option<u32> {
        self.trips.get(&counter).copied()
    }

    /// Whether an index is known once these loops are unrolled.
    pub(super) fn knows(&self, function: &Function, index: Handle<Expression>) -> bool {
        self.knows_at_depth(function, index, MAX_INDEX_DEPTH)
    }

    fn knows_at_depth(&self, function: &Function, index: Handle<Expression>, depth: u32) -> bool {
        let Some(deeper) = depth.checked_sub(1) else { return false };
        match function.expressions[index] {
            Expression::Literal(_) | Expression::Constant(_) | Expression::ZeroValue(_) => true,
            Expression::Load { pointer } => match function.expressions[pointer] {
                Expression::LocalVariable(variable) => self.trips.contains_key(&variable),
                _ => false,
            },
            Expression::Binary { left, right, .. } => {
                self.knows_at_depth(function, left, deeper) && self.knows_at_depth(function, right, deeper)
            }
            Expression::As { expr, .. } => self.knows_at_depth(function, expr, deeper),
            _ => false,
        }
    }
}

impl ForLoop {
    /// Recognises a loop as naga writes `for`.
    pub(super) fn of(function: &Function, body: &Block, continuing: &Block) -> Option<Self> {
        let head = body.iter().position(|statement| !matches!(statement, Statement::Emit(_)))?;
        let Statement::If { condition, accept, reject } = &body[head] else { return None };
        let breaks = matches!(&reject[..], [Statement::Break]) && accept.is_empty();
        let [Statement::Emit(_), Statement::Store { pointer, .. }] = &continuing[..] else { return None };
        let Expression::LocalVariable(counter) = function.expressions[*pointer] else { return None };
        breaks.then_some(Self { counter, condition: *condition, head: head + 1 })
    }
}

struct Search<'a> {
    module: &'a Module,
    function: &'a Function,
    /// How often each variable is assigned; as often as possible where its address is taken.
    assigned: FxHashMap<Handle<LocalVariable>, u32>,
    found: CountedLoops,
    /// Copies that may still be made.
    left: u32,
}

impl Search<'_> {
    fn count_assignments(&mut self, block: &Block) {
        for statement in block.iter() {
            match statement {
                Statement::Store { pointer, .. } => self.assign(*pointer, 1),
                // Pointers are never arguments of anything else.
                Statement::Call { arguments, .. } => arguments.iter().for_each(|argument| self.assign(*argument, 2)),
                _ => inner_blocks(statement).for_each(|block| self.count_assignments(block)),
            }
        }
    }

    fn assign(&mut self, pointer: Handle<Expression>, times: u32) {
        if let Expression::LocalVariable(variable) = self.function.expressions[pointer] {
            let count = self.assigned.entry(variable).or_default();
            *count = count.saturating_add(times);
        }
    }

    /// About how many instructions a block becomes. `None` if it has a loop that is not unrolled.
    fn size(&mut self, block: &Block) -> Option<u32> {
        let mut size = Some(0_u32);
        for (at, statement) in block.iter().enumerate() {
            let own = match statement {
                Statement::Emit(range) => u32::try_from(range.clone().count()).ok(),
                Statement::Loop { body, continuing, break_if } => {
                    let inside = self.size(body).zip(self.size(continuing)).map(|(a, b)| a.saturating_add(b));
                    let start = at.checked_sub(1).map(|before| &block[before]);
                    inside.filter(|_| break_if.is_none()).and_then(|inside| {
                        let (counter, trips) = self.count(start, body, continuing)?;
                        let copies = inside.saturating_mul(trips);
                        self.left = (copies <= MAX_COPIES).then(|| self.left.checked_sub(copies)).flatten()?;
                        self.found.trips.insert(counter, trips);
                        Some(copies)
                    })
                }
                Statement::Call { function, .. } => self.size_of_callee(&self.module.functions[*function].body, 1),
                _ => {
                    let mut sum = Some(1_u32);
                    for block in inner_blocks(statement) {
                        let inner = self.size(block);
                        sum = sum.zip(inner).map(|(a, b)| a.saturating_add(b));
                    }
                    sum
                }
            };
            size = size.zip(own).map(|(a, b)| a.saturating_add(b));
        }
        size
    }

    /// The same for a function that is called: `None` if it has a loop, or is large.
    fn size_of_callee(&self, block: &Block, depth: u32) -> Option<u32> {
        let mut size = depth;
        for statement in block.iter() {
            size = size.saturating_add(match statement {
                Statement::Emit(range) => u32::try_from(range.clone().count()).ok()?,
                Statement::Loop { .. } => return None,
                Statement::Call { function, .. } if depth < 8 => {
                    self.size_of_callee(&self.module.functions[*function].body, depth + 1)?
                }
                Statement::Call { .. } => return None,
                _ => {
                    let mut sum = 1_u32;
                    for block in inner_blocks(statement) {
                        sum = sum.saturating_add(self.size_of_callee(block, depth)?);
                    }
                    sum
                }
            });
            if size > MAX_COPIES {
                return None;
            }
        }
        Some(size)
    }

    /// The counter of a loop and its number of iterations. `start`: the statement before the loop.
    fn count(
        &self,
        start: Option<&Statement>,
        body: &Block,
        continuing: &Block,
    ) -> Option<(Handle<LocalVariable>, u32)> {
        let ForLoop { counter, condition, head } = ForLoop::of(self.function, body, continuing)?;
        if body[head..].iter().any(leaves) {
            return None;
        }
        let expressions = &self.function.expressions;
        let is_counter = |pointer: Handle<Expression>| matches!(expressions[pointer], Expression::LocalVariable(other) if other == counter);
        let assigned = self.assigned.get(&counter).copied().unwrap_or(0);
        let first = match (start, self.function.local_variables[counter].init) {
            (Some(Statement::Store { pointer, value }), None) if is_counter(*pointer) && assigned == 2 => *value,
            (_, Some(init)) if assigned == 1 => init,
            _ => return None,
        };
        let [_, Statement::Store { value, .. }] = &continuing[..] else { return None };
        let mut now = self.integer(first)?;
        for trips in 0..=MAX_TRIPS {
            if self.evaluate(condition, counter, now, MAX_INDEX_DEPTH)? == 0 {
                return Some((counter, trips));
            }
            now = self.evaluate(*value, counter, now, MAX_INDEX_DEPTH)?;
        }
        None
    }

    fn integer(&self, expression: Handle<Expression>) -> Option<i64> {
        match self.function.expressions[expression] {
            Expression::Literal(literal) => integer(literal),
            Expression::Constant(constant) => {
                match self.module.global_expressions[self.module.constants[constant].init] {
                    Expression::Literal(literal) => integer(literal),
                    _ => None,
                }
            }
            Expression::ZeroValue(_) => Some(0),
            _ => None,
        }
    }

    /// The value of an expression of integers and the counter, which must not wrap.
    fn evaluate(
        &self,
        expression: Handle<Expression>,
        counter: Handle<LocalVariable>,
        now: i64,
        depth: u32,
    ) -> Option<i64> {
        let deeper = depth.checked_sub(1)?;
        let of = |expression| self.evaluate(expression, counter, now, deeper);
        let expressions = &self.function.expressions;
        match expressions[expression] {
            Expression::Load { pointer } => {
                matches!(expressions[pointer], Expression::LocalVariable(other) if other == counter).then_some(now)
            }
            Expression::Unary { op: UnaryOperator::LogicalNot, expr } => Some(i64::from(of(expr)? == 0)),
            Expression::Binary { op, left, right } => {
                let (left, right) = (of(left)?, of(right)?);
                let value = match op {
                    BinaryOperator::Add => left + right,
                    BinaryOperator::Subtract => left - right,
                    BinaryOperator::Multiply => left.checked_mul(right)?,
                    BinaryOperator::Divide => left.checked_div(right)?,
                    BinaryOperator::ShiftLeft if (0..31).contains(&right) => left << right,
                    BinaryOperator::ShiftRight if (0..31).contains(&right) => left >> right,
                    BinaryOperator::Less => i64::from(left < right),
                    BinaryOperator::LessEqual => i64::from(left <= right),
                    BinaryOperator::Greater => i64::from(left > right),
                    BinaryOperator::GreaterEqual => i64::from(left >= right),
                    BinaryOperator::NotEqual => i64::from(left != right),
                    _ => return None,
                };
                (i64::from(i32::MIN)..=i64::from(i32::MAX)).contains(&value).then_some(value)
            }
            _ => self.integer(expression),
        }
    }
}

fn integer(literal: Literal) -> Option<i64> {
    match literal {
        Literal::U32(value) => i32::try_from(value).ok().map(i64::from),
        Literal::I32(value) => Some(i64::from(value)),
        _ => None,
    }
}

/// The blocks inside a statement.
pub(super) fn inner_blocks(statement: &Statement) -> impl Iterator<Item = &Block> {
    let (blocks, cases) = match statement {
        Statement::Block(block) => ([Some(block), None], &[][..]),
        Statement::If { accept, reject, .. } => ([Some(accept), Some(reject)], &[][..]),
        Statement::Loop { body, continuing, .. } => ([Some(body), Some(continuing)], &[][..]),
        Statement::Switch { cases, .. } => ([None, None], &cases[..]),
        _ => ([None, None], &[][..]),
    };
    blocks.into_iter().flatten().chain(cases.iter().map(|case| &case.body))
}

/// Whether a statement may leave the loop around it, other than by returning.
fn leaves(statement: &Statement) -> bool {
    fn found(statement: &Statement, in_switch: bool) -> bool {
        match statement {
            Statement::Break => !in_switch,
            Statement::Continue => true,
            Statement::Loop { .. } => false,
            Statement::Switch { .. } => {
                inner_blocks(statement).flat_map(|block| block.iter()).any(|inner| found(inner, true))
            }
            _ => inner_blocks(statement).flat_map(|block| block.iter()).any(|inner| found(inner, in_switch)),
        }
    }
    found(statement, false)
}
