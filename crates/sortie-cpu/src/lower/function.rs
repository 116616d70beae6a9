//! Statements and calls.

use std::rc::Rc;

use naga::{
    AtomicFunction, Block, Expression, Function, Handle, Span, Statement, SwitchCase, SwitchValue, valid::FunctionInfo,
};

use super::{
    Located, Lower, Result, Value, build,
    pointer::{FunctionFacts, Lowered, Pointer, VariableStorage},
    types::{Kind, Ty},
    unroll::ForLoop,
};
use crate::{
    Unsupported,
    code::{
        ALL_LANES, Atomic, AtomicOp, AtomicWords, Body, Branch, BranchPlan, Loop, LoopExit, LoopId, LoopPlan, Node, Op,
        Parts, Reg,
    },
    opcode::Opcode,
};

/// Nesting depth of bodies, those of functions included, during lowering, which is recursive.
const MAX_OPEN_BODIES: usize = 2_000;

/// Calls nested deeper than this share their callee: passes over deep bodies are slow.
const MAX_INLINE_DEPTH: usize = 64;

/// Instructions of a kernel. Functions that take pointers are copied for each set of variables, so a short source can
/// have very many. At this many, lowering takes one or two seconds and 200 MB; some passes take longer where loops are
/// nested deeply.
const MAX_INSTRUCTIONS: usize = 400_000;

/// A function while it is lowered.
pub(super) struct FunctionFrame<'a> {
    pub(super) function: &'a Function,
    pub(super) info: &'a FunctionInfo,
    pub(super) arguments: Vec<Lowered>,
    /// By expression.
    pub(super) values: Vec<Option<Lowered>>,
    /// By local variable.
    pub(super) locals: Vec<VariableStorage>,
    /// Its variables that need memory, and its loops to unroll.
    facts: Rc<FunctionFacts>,
    /// Variables that hold what it returns.
    result: Vec<Reg>,
    /// The targets of `break` and `continue`.
    loops: Vec<BreakTarget>,
}

/// A loop or switch that `break` exits; `continue` ignores switches.
#[derive(Clone, Copy)]
struct BreakTarget {
    id: LoopId,
    is_switch: bool,
}

/// A function that several calls share.
#[derive(Clone, Debug)]
pub(super) struct SharedFunction {
    index: usize,
    /// Variables for what is passed at run time: values, and the indices of pointers.
    pub(super) parameters: Vec<Reg>,
    pub(super) result: Vec<Reg>,
}

impl<'a> Lower<'a> {
    /// Lowers a function at its call. Returns the variables of its result.
    pub(super) fn function(
        &mut self,
        function: &'a Function,
        info: &'a FunctionInfo,
        arguments: Vec<Lowered>,
    ) -> Result<Vec<Reg>> {
        let handle =
            self.module.functions.iter().find(|(_, other)| std::ptr::eq(*other, function)).map(|(handle, _)| handle);
        let facts = self.facts_of(handle, function, info);
        let mut frame = FunctionFrame {
            function,
            info,
            arguments,
            values: vec![None; function.expressions.len()],
            locals: Vec::new(),
            facts: facts.clone(),
            result: Vec::new(),
            loops: Vec::new(),
        };
        if let Some(result) = &function.result {
            let cells = Ty::of_handle(self.module, result.ty).and_then(|ty| ty.cells(self.module));
            let cells = cells.at(self.module.types.get_span(result.ty))?;
            frame.result = (0..cells).map(|_| self.build.variable()).collect();
        }
        for (handle, variable) in function.local_variables.iter() {
            let span = function.local_variables.get_span(handle);
            let init = variable.init.map(|init| self.value_of(&mut frame, init)).transpose()?;
            let place = self.variable(variable.ty, facts.indexing(handle), init, span)?;
            frame.locals.push(place);
        }
        self.block(&mut frame, &function.body)?;
        // The next call may reuse its arrays.
        for place in &frame.locals {
            if let VariableStorage::Local(local) = place {
                self.free_locals.entry(self.locals[*local as usize]).or_default().push(*local);
            }
        }
        Ok(frame.result)
    }

    fn block(&mut self, frame: &mut FunctionFrame<'a>, block: &'a Block) -> Result<()> {
        for (statement, span) in block.span_iter() {
            self.statement(frame, statement, *span)?;
        }
        Ok(())
    }

    fn statement(&mut self, frame: &mut FunctionFrame<'a>, statement: &'a Statement, span: Span) -> Result<()> {
        let refuse = |what: &str| Err(Unsupported { what: what.into(), span });
        if self.build.size > MAX_INSTRUCTIONS {
            return Err(Unsupported { what: format!("a kernel of more than {MAX_INSTRUCTIONS} instructions"), span });
        }
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    let lowered = self.expression(frame, handle)?;
                    frame.values[handle.index()] = Some(lowered);
                }
            }
            Statement::Block(block) => self.block(frame, block)?,
            Statement::If { condition, accept, reject } => {
                let cond = self.value_of(frame, *condition)?[0];
                match self.build.value(cond) {
                    Some(0) => self.block(frame, reject)?,
                    Some(_) => self.block(frame, accept)?,
                    None => {
                        let accept = self.body(frame, accept)?;
                        let reject = self.body(frame, reject)?;
                        self.build.node(Node::If(Branch { cond, accept, reject, plan: BranchPlan::default() }));
                    }
                }
            }
            Statement::Switch { selector, cases } => self.switch(frame, *selector, cases)?,
            Statement::Loop { body, continuing, .. } if self.unroll(frame, body, continuing)? => {}
            Statement::Loop { body, continuing, break_if } => {
                let id = self.build.next_loop();
                frame.loops.push(BreakTarget { id, is_switch: false });
                let mark = self.build.open_loop();
                self.block(frame, body)?;
                let body = self.build.close(mark);
                let mark = self.build.open_loop();
                self.block(frame, continuing)?;
                let break_if = break_if.map(|cond| self.value_of(frame, cond)).transpose()?.map(|value| value[0]);
                let continuing = self.build.close(mark);
                frame.loops.pop();
                // A shared function may assign any private variable.
                let is_call = |node: &Node| matches!(node, Node::Call { .. });
                match body.iter().chain(&continuing).any(|node| node.any(&is_call)) {
                    true => self.build.forget(),
                    false => self.build.forget_computed(),
                }
                self.build.node(Node::Loop(Loop { id, body, continuing, break_if, plan: LoopPlan::default() }));
            }
            Statement::Break => {
                let Some(target) = frame.loops.last() else { unreachable!("checked by naga") };
                self.build.node(Node::Break(LoopExit { target: target.id, split: None }));
            }
            Statement::Continue => {
                let target = frame.loops.iter().rfind(|target| !target.is_switch);
                let Some(target) = target else { unreachable!("checked by naga") };
                self.build.node(Node::Continue(LoopExit { target: target.id, split: None }));
            }
            Statement::Return { value } => {
                if let Some(value) = value {
                    let value = self.value_of(frame, *value)?;
                    for (variable, value) in frame.result.clone().into_iter().zip(value) {
                        self.build.set(variable, value);
                    }
                }
                self.build.node(Node::Return);
            }
            Statement::ControlBarrier(barrier) => {
                self.barriers = true;
                self.subgroups |= barrier.contains(naga::Barrier::SUB_GROUP);
                self.build.node(Node::Barrier { flags: *barrier, span });
            }
            Statement::MemoryBarrier(_) => {}
            Statement::Store { pointer, value } => {
                let atomic = self.points_to_atomic(frame, *pointer);
                let pointer = self.pointer_of(frame, *pointer)?;
                let value = self.value_of(frame, *value)?;
                self.build.atomic = atomic;
                let written = self.write(&pointer, &value, span);
                self.build.atomic = false;
                written?;
            }
            Statement::Atomic { pointer, fun, value, result } => {
                self.atomic(frame, *pointer, fun, *value, *result, span)?;
            }
            Statement::WorkGroupUniformLoad { pointer, result } => {
                self.barriers = true;
                self.build.node(Node::Barrier { flags: naga::Barrier::WORK_GROUP, span });
                let pointer = self.pointer_of(frame, *pointer)?;
                let value = self.read(&pointer, span)?;
                let value = value.iter().map(|reg| self.broadcast(*reg)).collect();
                self.build.node(Node::Barrier { flags: naga::Barrier::WORK_GROUP, span });
                frame.values[result.index()] = Some(Lowered::Value(value));
            }
            Statement::Call { function, arguments, result } => {
                let value = self.call(frame, *function, arguments)?;
                if let Some(result) = result {
                    frame.values[result.index()] = Some(Lowered::Value(value));
                }
            }
            Statement::Kill => return refuse("discard"),
            Statement::ImageStore { .. } | Statement::ImageAtomic { .. } => return refuse("a texture"),
            Statement::RayQuery { .. } | Statement::RayPipelineFunction(_) => return refuse("a ray query"),
            Statement::SubgroupBallot { result, predicate } => self.ballot(frame, *predicate, *result)?,
            Statement::SubgroupGather { mode, argument, result } => self.gather(frame, *mode, *argument, *result)?,
            Statement::SubgroupCollectiveOperation { op, collective_op, argument, result } => {
                self.collective(frame, (*op, *collective_op), *argument, *result, span)?;
            }
            Statement::CooperativeStore { .. } => return refuse("a cooperative matrix"),
        }
        Ok(())
    }

    /// Lowers a loop as copies of its body, one for each iteration. Returns whether it is one to unroll.
    fn unroll(&mut self, frame: &mut FunctionFrame<'a>, body: &'a Block, continuing: &'a Block) -> Result<bool> {
        let Some(ForLoop { counter, condition, head }) = ForLoop::of(frame.function, body, continuing) else {
            return Ok(false);
        };
        let Some(trips) = frame.facts.loops.trips(counter).filter(|_| self.unrolls) else { return Ok(false) };
        let VariableStorage::Registers(registers) = &frame.locals[counter.index()] else { return Ok(false) };
        let register = registers[0];
        if !self.build.holds_constant(register) {
            return Ok(false);
        }
        self.build.counters.push(register);
        for _ in 0..=trips {
            for (number, (statement, span)) in body.span_iter().enumerate() {
                match number + 1 == head {
                    true => {
                        let condition = self.value_of(frame, condition)?[0];
                        if self.build.value(condition) == Some(0) {
                            self.build.counters.pop();
                            return Ok(true);
                        }
                    }
                    false => self.statement(frame, statement, *span)?,
                }
            }
            self.block(frame, continuing)?;
        }
        // `lower` starts over without unrolling.
        self.unknown_index = true;
        Err(Unsupported { what: "a loop that has more iterations than counted".into(), span: Span::UNDEFINED })
    }

    fn broadcast(&mut self, a: Reg) -> Reg {
        let d = self.build.temporary();
        self.build.op(Op::Broadcast { d, a });
        d
    }

    fn body(&mut self, frame: &mut FunctionFrame<'a>, block: &'a Block) -> Result<Body> {
        let mark = self.build.open();
        self.block(frame, block)?;
        Ok(self.build.close(mark))
    }

    /// Lowers a `switch` to a sequence of `if`s: selectors are mutually exclusive.
    fn switch(
        &mut self,
        frame: &mut FunctionFrame<'a>,
        selector: Handle<Expression>,
        cases: &'a [SwitchCase],
    ) -> Result<()> {
        let selector = self.value_of(frame, selector)?[0];
        let mut conditions = Vec::new();
        let mut any = self.build.constant(0);
        let mut pending: Option<Reg> = None;
        let mut falls_into_default = false;
        for case in cases {
            let value = match case.value {
                SwitchValue::I32(value) => Some(value.cast_unsigned()),
                SwitchValue::U32(value) => Some(value),
                SwitchValue::Default => None,
            };
            falls_into_default |= value.is_none();
            if let Some(value) = value {
                let value = self.build.constant(value);
                let hit = self.build.binary(Opcode::EqI, selector, value);
                any = self.build.binary(Opcode::Or, any, hit);
                pending = Some(pending.map_or(hit, |before| self.build.binary(Opcode::Or, before, hit)));
            }
            if !(case.fall_through && case.body.is_empty()) {
                conditions.push((pending.take(), std::mem::take(&mut falls_into_default), case));
            }
        }
        let none = self.build.unary(Opcode::Not, any);
        let id = self.build.next_loop();
        frame.loops.push(BreakTarget { id, is_switch: true });
        let mark = self.build.open();
        for (hit, default, case) in conditions {
            if case.fall_through {
                return Err(Unsupported { what: "a case that falls through".into(), span: Span::UNDEFINED });
            }
            let cond = match (hit, default) {
                (Some(hit), true) => self.build.binary(Opcode::Or, hit, none),
                (None, true) => none,
                (Some(hit), false) => hit,
                (None, false) => unreachable!("a case has a selector"),
            };
            let mut accept = self.body(frame, &case.body)?;
            if matches!(accept.last(), Some(Node::Break(leave)) if leave.target == id) {
                accept.pop();
            }
            if self.build.value(cond) != Some(0) {
                self.build.node(Node::If(Branch { cond, accept, reject: Vec::new(), plan: BranchPlan::default() }));
            }
        }
        let mut body = self.build.close(mark);
        frame.loops.pop();
        let leaves = |node: &Node| matches!(node, Node::Break(leave) | Node::Continue(leave) if leave.target == id);
        if body.iter().any(|node| node.any(&leaves)) {
            // A loop of one iteration, as the target of `break`.
            body.push(Node::Break(LoopExit { target: id, split: None }));
            self.build.node(Node::Loop(Loop {
                id,
                body,
                continuing: Vec::new(),
                break_if: None,
                plan: LoopPlan::default(),
            }));
        } else {
            for node in body {
                self.build.node(node);
            }
        }
        Ok(())
    }

    fn call(
        &mut self,
        frame: &mut FunctionFrame<'a>,
        callee: Handle<Function>,
        arguments: &[Handle<Expression>],
    ) -> Result<Value> {
        let function = &self.module.functions[callee];
        let info = &self.info[callee];
        let mut passed = Vec::new();
        for argument in arguments {
            passed.push(self.lowered(frame, *argument)?);
        }
        let depth = self.build.depth();
        if depth > MAX_OPEN_BODIES {
            let span = function.body.span_iter().next().map_or(Span::UNDEFINED, |(_, span)| *span);
            return Err(Unsupported { what: super::too_deep(), span });
        }
        let result = if self.build.size < self.min_shared_callee_size && depth - self.floor < MAX_INLINE_DEPTH {
            let mark = self.build.open();
            let result = self.function(function, info, passed)?;
            // With at most one `return`, at the end, the body is inlined without a scope, and its facts stay valid.
            let current = self.build.current();
            let in_line = match returns_of(current) {
                0 => true,
                count => count == 1 && matches!(current.last(), Some(Node::Return)),
            };
            let mut body = if in_line { self.build.close_in_line() } else { self.build.close(mark) };
            straighten(&mut body, MAX_STRAIGHTEN_DEPTH);
            self.splice(body);
            result
        } else {
            self.call_shared(callee, function, info, passed)?
        };
        Ok(result.into_iter().map(|variable| self.build.get(variable)).collect())
    }

    /// Inlines the body of a callee. It needs a scope only if a `return` is left in it.
    fn splice(&mut self, body: Body) {
        if returns_of(&body) > 0 {
            self.build.node(Node::Scope(body));
            return;
        }
        for node in body {
            match node {
                Node::Ops(ops) => ops.into_iter().for_each(|op| self.build.op(op)),
                node => self.build.node(node),
            }
        }
    }

    fn call_shared(
        &mut self,
        callee: Handle<Function>,
        function: &'a Function,
        info: &'a FunctionInfo,
        mut passed: Vec<Lowered>,
    ) -> Result<Vec<Reg>> {
        let keys = passed.iter().filter_map(|lowered| match lowered {
            Lowered::Pointer(pointer) => Some(pointer.key()),
            Lowered::Value(_) => None,
        });
        let key = (callee, keys.collect());
        let dynamic: Vec<Reg> = passed.iter_mut().flat_map(Lowered::registers).map(|reg| *reg).collect();
        let shared = match self.shared_by.get(&key) {
            Some(shared) => shared.clone(),
            None => {
                let parameters: Vec<Reg> = dynamic.iter().map(|_| self.build.variable()).collect();
                let floor = std::mem::replace(&mut self.floor, self.build.depth());
                // Free arrays may be in use at other calls, so the shared function must not reuse them, nor its callers
                // its own.
                let free = std::mem::take(&mut self.free_locals);
                let outside = self.build.open_apart();
                for (reg, parameter) in passed.iter_mut().flat_map(Lowered::registers).zip(&parameters) {
                    *reg = self.build.get(*parameter);
                }
                let result = self.function(function, info, passed)?;
                let mut body = self.build.close_apart(outside);
                self.floor = floor;
                self.free_locals = free;
                straighten(&mut body, MAX_STRAIGHTEN_DEPTH);
                let index = self.shared.len();
                self.shared.push(body);
                let shared = SharedFunction { index, parameters, result };
                self.shared_by.insert(key, shared.clone());
                shared
            }
        };
        for (parameter, value) in shared.parameters.iter().zip(dynamic) {
            self.build.set(*parameter, value);
        }
        self.build.forget();
        self.build.node(Node::Call { function: shared.index, region: ALL_LANES });
        Ok(shared.result)
    }

    fn atomic(
        &mut self,
        frame: &mut FunctionFrame<'a>,
        pointer: Handle<Expression>,
        fun: &AtomicFunction,
        value: Handle<Expression>,
        result: Option<Handle<Expression>>,
        span: Span,
    ) -> Result<()> {
        let pointer = self.pointer_of(frame, pointer)?;
        let Some(kind) = pointer.ty.kind() else { unreachable!("atomics are scalars") };
        if !matches!(kind, Kind::Int | Kind::Uint | Kind::Long | Kind::Ulong) {
            return Err(Unsupported { what: "an atomic of this type".into(), span });
        }
        let words = self.value_of(frame, value)?;
        let signed = matches!(kind, Kind::Int | Kind::Long);
        let mut compare = None;
        let atomic_op = match fun {
            AtomicFunction::Add => AtomicOp::Add,
            AtomicFunction::Subtract => AtomicOp::Sub,
            AtomicFunction::And => AtomicOp::And,
            AtomicFunction::ExclusiveOr => AtomicOp::Xor,
            AtomicFunction::InclusiveOr => AtomicOp::Or,
            AtomicFunction::Min if signed => AtomicOp::MinI,
            AtomicFunction::Min => AtomicOp::MinU,
            AtomicFunction::Max if signed => AtomicOp::MaxI,
            AtomicFunction::Max => AtomicOp::MaxU,
            AtomicFunction::Exchange { compare: None } => AtomicOp::Exchange,
            AtomicFunction::Exchange { compare: Some(expected) } => {
                compare = Some(self.value_of(frame, *expected)?);
                AtomicOp::CompareExchange
            }
        };
        let (address, _) = self.address(&pointer, false, span)?;
        let mut old: Value = words.iter().map(|_| self.build.temporary()).collect();
        let access = build::access(address, Parts::new(), span);
        let mut operands = (0..words.len()).map(|word| AtomicWords {
            value: words[word],
            compare: compare.as_ref().map(|compare| compare[word]),
            old: result.map(|_| old[word]),
        });
        let Some(AtomicWords { value, compare: expected, old: before }) = operands.next() else {
            unreachable!("a scalar has a word")
        };
        let high = operands.next();
        self.wide_atomics |= high.is_some();
        let atomic = Atomic { access, atomic_op, value, compare: expected, old: before, high };
        self.build.op(Op::Atomic(Box::new(atomic)));
        if let Some(result) = result {
            if let Some(compare) = compare {
                let equal = self.wide_equal(&old, &compare);
                old.extend(equal);
            }
            frame.values[result.index()] = Some(Lowered::Value(old));
        }
        Ok(())
    }

    /// The lowered form of an expression. Literals, variables and the like are never emitted: they are lowered when
    /// first used.
    pub(super) fn lowered(&mut self, frame: &mut FunctionFrame<'a>, handle: Handle<Expression>) -> Result<Lowered> {
        if let Some(lowered) = &frame.values[handle.index()] {
            return Ok(lowered.clone());
        }
        let lowered = self.expression(frame, handle)?;
        frame.values[handle.index()] = Some(lowered.clone());
        Ok(lowered)
    }

    pub(super) fn value_of(&mut self, frame: &mut FunctionFrame<'a>, handle: Handle<Expression>) -> Result<Value> {
        match self.lowered(frame, handle)? {
            Lowered::Value(value) => Ok(value),
            Lowered::Pointer(_) => Err(Unsupported {
                what: "a pointer as a value".into(),
                span: frame.function.expressions.get_span(handle),
            }),
        }
    }

    pub(super) fn pointer_of(&mut self, frame: &mut FunctionFrame<'a>, handle: Handle<Expression>) -> Result<Pointer> {
        match self.lowered(frame, handle)? {
            Lowered::Pointer(pointer) => Ok(pointer),
            Lowered::Value(_) => unreachable!("checked by naga"),
        }
    }
}

/// The number of `return`s in a body.
pub(super) fn returns_of(body: &Body) -> usize {
    let one = |node: &Node| match node {
        Node::Return => 1,
        Node::Scope(_) => 0,
        node => node.bodies().map(returns_of).sum(),
    };
    body.iter().map(one).sum()
}

/// Maximum number of consecutive early returns that become nested bodies.
pub(super) const MAX_STRAIGHTEN_DEPTH: u32 = 8;

/// Removes returns at the end of a function, and turns `if … { return; } rest` into `if … {} else { rest }`, which
/// needs fewer masks. The depth is limited because passes over bodies are recursive.
pub(super) fn straighten(body: &mut Body, depth: u32) {
    if let Some(end) = body.iter().position(|node| matches!(node, Node::Return)) {
        body.truncate(end);
    }
    let Some(deeper) = depth.checked_sub(1) else { return };
    for index in 0..body.len() {
        let Node::If(Branch { accept, reject, .. }) = &body[index] else { continue };
        let ends = |side: &Body| matches!(side.last(), Some(Node::Return));
        let (first, second) = (ends(accept), ends(reject));
        if !first && !second {
            continue;
        }
        let rest = body.split_off(index + 1);
        if let Some(Node::If(Branch { accept, reject, .. })) = body.last_mut() {
            // If both sides return, the rest is unreachable.
            if first && !second {
                reject.extend(rest);
            } else if second && !first {
                accept.extend(rest);
            }
        }
        break;
    }
    if let Some(Node::If(Branch { accept, reject, .. })) = body.last_mut() {
        straighten(accept, deeper);
        straighten(reject, deeper);
    }
}
