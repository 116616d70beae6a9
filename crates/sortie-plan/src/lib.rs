//! The planner of `sortie`: a [`Recording`] of operations in, a [`Plan`] out.
//!
//! A recording names memory by slot and kernels by number and knows nothing of a device. Planning decides in which
//! order the operations run, which of them run side by side, which scratch memory they share and where their
//! parameters lie. The result is plain data too, so one plan serves every recording of the same shape.
//!
//! | file | noun |
//! |---|---|
//! | `span` | a run of consecutive entries in some list |
//! | `slot` | memory as a recording names it |
//! | `access` | what an operation does to a byte range of a slot |
//! | `op` | one recorded operation |
//! | `tensor` | one tensor operation, its shapes and elements |
//! | `recording` | the lists above, appended to while recording |
//! | `fingerprint` | a number that equal recordings share, kept up to date while recording |
//! | `caps` | what the planner may do |
//! | `label` | a place in the order: phase, then wave |
//! | `hazard` | who touched which bytes last |
//! | `order` | labels for all operations, and the waves and submissions they make |
//! | `memory` | scratch slots on shared buffers |
//! | `params` | hidden parameter blocks in one arena |
//! | `fuse` | kernels that stand for tensor operations |
//! | `plan` | the three results together |
//! | `split` | where a plan is cut into submissions, and dispatches into pieces |
//! | `touch` | how each submission uses each external slot |
//!
//! Architecture invariant: everything here is a pure function of its arguments. There are no threads, clocks, files
//! or devices, and a plan never changes a bit of what the recording computes.
//!
//! ```
//! use sortie_plan::{Access, Caps, Lane, Op, OpKind, Recording, SlotInfo, SlotKind, Span, plan};
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
//!         kind: OpKind::Dispatch,
//!         lane: Lane::Compute,
//!         kernel,
//!         accesses: Span::new(start..recording.accesses.len()),
//!         grid: [1, 1, 1],
//!         share: Span::EMPTY,
//!         indirect: false,
//!         data: Span::EMPTY,
//!         params: [0, 0],
//!     });
//! }
//!
//! // The second dispatch reads what the first one writes: two waves, still one compute pass.
//! let plan = plan(&recording, &Caps::default());
//! assert_eq!(plan.waves.len(), 2);
//! assert_eq!(plan.passes(), 1);
//! ```

mod access;
mod caps;
#[cfg(test)]
mod draft;
mod fingerprint;
pub mod fuse;
mod hazard;
mod label;
mod memory;
mod op;
mod order;
mod params;
mod plan;
mod recording;
mod slot;
mod span;
mod split;
mod tensor;
mod touch;

pub use access::{Access, Mode};
pub use caps::{Caps, ProductWay};
pub use fingerprint::Fingerprint;
pub use memory::{Clear, PhysicalId};
pub use op::{Lane, Op, OpKind};
pub use order::Wave;
pub use plan::{Plan, plan};
pub use recording::Recording;
pub use slot::{SlotId, SlotInfo, SlotKind};
pub use span::Span;
pub use split::{Part, Rule, divide, split};
pub use tensor::{Element, Function, Norm, RANK, Reduction, Shape, TensorKind, TensorOp, Value};
pub use touch::{Touch, touches};
