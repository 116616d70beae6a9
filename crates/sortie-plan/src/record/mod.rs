//! A recording: operations and their operands, as flat lists of plain data.

mod access;
mod constants;
mod fingerprint;
mod op;
mod recording;
mod slot;
mod span;
mod tensor;

pub use self::{
    access::{Access, Mode},
    constants::Constant,
    fingerprint::Fingerprint,
    op::{KernelIndex, Lane, Op, OpGrid, OpKind, TensorIndex},
    recording::{Port, Ports, Recording},
    slot::{SlotId, SlotInfo, SlotKind},
    span::Span,
    tensor::{ElementType, Function, Norm, RANK, Reduction, Shape, TensorKind, TensorOp, TensorRef},
};
