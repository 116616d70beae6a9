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
