//! The parts of the campaign, one file each.

pub mod exits;
pub mod growth;
pub mod loss;
pub mod loss_baseline;
pub mod waiting;
mod work;
