//! Subgroup and quad operations.

use naga::{CollectiveOperation, Expression, GatherMode, Handle, Span, SubgroupOperation};
use smallvec::smallvec;

use super::{Lower, Result, Value, function::FunctionFrame, pointer::Lowered, types::Kind};
use crate::{
    Unsupported,
    code::{ALL_LANES, Op, Reg, Subgroup, SubgroupOp},
    opcode::Opcode,
};

impl<'a> Lower<'a> {
    pub(super) fn ballot(
        &mut self,
        frame: &mut FunctionFrame<'a>,
        predicate: Option<Handle<Expression>>,
        result: Handle<Expression>,
    ) -> Result<()> {
        let predicate = match predicate {
            Some(predicate) => self.value_of(frame, predicate)?[0],
            None => self.build.constant(u32::MAX),
        };
        let zero = self.build.constant(0);
        let bits = self.subgroup_op(SubgroupOp::Ballot, predicate, None);
        frame.values[result.index()] = Some(Lowered::Value(smallvec![bits, zero, zero, zero]));
        Ok(())
    }

    pub(super) fn collective(
        &mut self,
        frame: &mut FunctionFrame<'a>,
        (op, collective): (SubgroupOperation, CollectiveOperation),
        argument: Handle<Expression>,
        result: Handle<Expression>,
        span: Span,
    ) -> Result<()> {
        let Some(kind) = self.type_of(frame, argument)?.kind() else { unreachable!("checked by naga") };
        if kind.is_wide() {
            return Err(Unsupported { what: "a subgroup operation on 64-bit integers".into(), span });
        }
        let combine = match op {
            SubgroupOperation::All | SubgroupOperation::And => Opcode::And,
            SubgroupOperation::Any | SubgroupOperation::Or => Opcode::Or,
            SubgroupOperation::Xor => Opcode::Xor,
            SubgroupOperation::Add => kind.pick(Opcode::AddF, Opcode::AddI, Opcode::AddI),
            SubgroupOperation::Mul => kind.pick(Opcode::MulF, Opcode::MulI, Opcode::MulI),
            SubgroupOperation::Min => kind.pick(Opcode::MinF, Opcode::MinI, Opcode::MinU),
            SubgroupOperation::Max => kind.pick(Opcode::MaxF, Opcode::MaxI, Opcode::MaxU),
        };
        let op = match collective {
            CollectiveOperation::Reduce => SubgroupOp::Reduce(combine),
            CollectiveOperation::InclusiveScan => SubgroupOp::InclusiveScan(combine),
            CollectiveOperation::ExclusiveScan => SubgroupOp::ExclusiveScan(combine),
        };
        let value = self.value_of(frame, argument)?;
        let value: Value = value.iter().map(|reg| self.subgroup_op(op, *reg, None)).collect();
        let value = if kind == Kind::Half { self.rounded(kind, value) } else { value };
        frame.values[result.index()] = Some(Lowered::Value(value));
        Ok(())
    }

    pub(super) fn gather(
        &mut self,
        frame: &mut FunctionFrame<'a>,
        mode: GatherMode,
        argument: Handle<Expression>,
        result: Handle<Expression>,
    ) -> Result<()> {
        let (op, index) = match mode {
            GatherMode::BroadcastFirst => (SubgroupOp::BroadcastFirst, None),
            // A broadcast names a lane for all, so it is a shuffle from the same one.
            GatherMode::Broadcast(index) | GatherMode::Shuffle(index) => (SubgroupOp::Shuffle, Some(index)),
            GatherMode::ShuffleDown(index) => (SubgroupOp::ShuffleDown, Some(index)),
            GatherMode::ShuffleUp(index) => (SubgroupOp::ShuffleUp, Some(index)),
            GatherMode::ShuffleXor(index) => (SubgroupOp::ShuffleXor, Some(index)),
            GatherMode::QuadBroadcast(index) => (SubgroupOp::QuadBroadcast, Some(index)),
            GatherMode::QuadSwap(direction) => (SubgroupOp::QuadSwap(direction as u32 + 1), None),
        };
        let index = match index {
            Some(index) => Some(self.value_of(frame, index)?[0]),
            None => None,
        };
        let value = self.value_of(frame, argument)?;
        let value = value.iter().map(|reg| self.subgroup_op(op, *reg, index)).collect();
        frame.values[result.index()] = Some(Lowered::Value(value));
        Ok(())
    }

    fn subgroup_op(&mut self, op: SubgroupOp, a: Reg, index: Option<Reg>) -> Reg {
        self.subgroups = true;
        let d = self.build.temporary();
        self.build.op(Op::Subgroup(Subgroup { op, d, a, index, region: ALL_LANES, mask: None }));
        d
    }
}
