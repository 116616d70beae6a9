//! Measuring a device: [`Device::tune`](crate::Device::tune) for products of large matrices, [`TuneReport::measure`] for
//! the submit policy.
//!
//! The results are advice. They are kept in the tuning file, which the module `tuning` reads and writes.
//!
//! Invariant: only [`Device::tune`](crate::Device::tune), [`TuneReport::measure`] and the reports they return measure
//! anything or write the file.

mod matmul;
mod report;
mod rounds;

pub use self::{
    matmul::{MatmulReport, MatmulTiming},
    report::{ItemTiming, Strategy, Timing, TuneReport, Workload},
};
