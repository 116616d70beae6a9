//! Measuring a device: [`Device::tune`](crate::Device::tune) for how it multiplies large matrices, [`Findings::measure`] for how it is best given its work.
//!
//! What they find is advice. It is kept in the tuning file, which the layer `tuning` reads and writes.
//!
//! Invariant: nothing is measured and nothing is written but by [`Device::tune`](crate::Device::tune), [`Findings::measure`] and what they return.

mod contest;
mod findings;
mod products;

pub use self::{
    findings::{Churn, Findings, Timing, Way, Work},
    products::{ProductFindings, ProductTiming},
};
