//! Measuring a device: [`Device::tune`](crate::Device::tune) for how it multiplies large matrices, [`TuneReport::measure`] for how it is best given its work.
//!
//! What they find is advice. It is kept in the tuning file, which the layer `tuning` reads and writes.
//!
//! Invariant: nothing is measured and nothing is written but by [`Device::tune`](crate::Device::tune), [`TuneReport::measure`] and what they return.

mod matmul;
mod report;
mod rounds;

pub use self::{
    matmul::{MatmulReport, MatmulTiming},
    report::{ItemTiming, Strategy, Timing, TuneReport, Workload},
};
