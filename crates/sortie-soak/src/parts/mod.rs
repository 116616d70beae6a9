//! The parts of the campaign, one file each.

pub mod exits;
pub mod files;
pub mod growth;
pub mod kernels;
pub mod loss;
pub mod loss_baseline;
pub mod memory_limit;
pub mod overload;
pub mod programs;
pub mod self_check;
pub mod waiting;
mod wgsl;
mod work;

use crate::part::Part;

/// All parts, in the order in which a campaign runs them.
pub const ALL: &[Part] = &[
    loss::PART,
    loss_baseline::PART,
    waiting::PART,
    growth::PART,
    overload::PART,
    exits::PART,
    memory_limit::PART,
    kernels::PART,
    programs::PART,
    files::PART,
    self_check::PART,
];

/// The part of this name.
pub fn find(name: &str) -> Option<&'static Part> {
    ALL.iter().find(|part| part.name == name)
}
