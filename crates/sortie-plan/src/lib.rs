//! The planner of `sortie`: a [`Recording`] of operations in, a [`Plan`] out.
//!
//! A recording names memory by slot and kernels by number and knows nothing of a device. Planning decides the order of
//! the operations, which of them run concurrently, which scratch memory they share and where their parameters are
//! stored. The result is plain data too, so one plan serves every recording of the same shape.
//!
//! | module | noun |
//! |---|---|
//! | `record` | one recorded operation, its accesses, and the lists of a recording with their fingerprint |
//! | `caps` | switches and limits of the planner |
//! | `join` | operations of one kind as one operation |
//! | `fuse` | kernels generated from tensor operations |
//! | `order` | execution order, concurrent operations, shared scratch memory |
//! | `steps` | the plan: a list of steps with tables; its cuts, and divided dispatches |
//!
//! Architecture invariant: everything here is a pure function of its arguments. There are no threads, clocks, files or
//! devices, and a plan never changes a bit of the recording's result.
//!
//! ```
//! use sortie_plan::{Access, Caps, OpGrid, Op, OpKind, Recording, SlotInfo, SlotKind, Span, plan};
//!
//! let mut recording = Recording::new();
//! let kernel = recording.push_kernel(7);
//! let x = recording.push_slot(SlotInfo { kind: SlotKind::External, bytes: 64 });
//! let y = recording.push_slot(SlotInfo { kind: SlotKind::External, bytes: 64 });
//! for (from, to) in [(x, y), (y, x)] {
//!     let start = recording.accesses.len();
//!     recording.push_access(Access::read(from, 0..64));
//!     recording.push_access(Access::write(to, 0..64));
//!     recording.push_op(Op {
//!         kind: OpKind::Dispatch {
//!             kernel,
//!             grid: OpGrid::Direct([1, 1, 1]),
//!             immediates: Span::EMPTY,
//!             hidden_immediates: 0,
//!         },
//!         accesses: Span::new(start..recording.accesses.len()),
//!     });
//! }
//!
//! // The second dispatch reads what the first one writes: a barrier between them, still one compute pass.
//! let plan = plan(&recording, &Caps::default());
//! let whole = plan.whole();
//! assert_eq!((plan.barriers(&whole), plan.passes(&whole)), (1, 1));
//! ```

mod caps;
#[cfg(test)]
mod draft;
pub mod fuse;
pub mod join;
mod order;
mod record;
mod steps;

pub use caps::{Caps, MatmulKernel};
pub use record::{
    Access, Constant, ElementType, Fingerprint, Function, KernelIndex, Lane, Mode, Norm, Op, OpGrid, OpKind, Port,
    Ports, RANK, Recording, Reduction, Shape, SlotId, SlotInfo, SlotKind, Span, TensorIndex, TensorKind, TensorOp,
    TensorRef,
};
pub use steps::{
    AccessId, BarrierKind, Copy, CopyId, Cut, CutRule, Dispatch, DispatchId, Fill, FillId, FoldedGrid, GRID_BLOCK,
    Groups, HiddenAt, MemoryId, OpId, ParamBlock, Plan, PortId, Read, ReadId, Step, StepId, Touch, Write, WriteId,
    Zero, ZeroId, cut, divide, fold, grid_block, plan, touches,
};
