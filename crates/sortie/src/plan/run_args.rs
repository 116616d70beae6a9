//! The arguments of one run of a replay.

use std::sync::Arc;

use crate::profile::Log;

/// The input data and requested outputs of one run.
#[derive(Debug, Default)]
pub(crate) struct RunArgs {
    /// The data of all inputs.
    pub(crate) data: Vec<u8>,
    /// Outputs that are read, by the start of their data in the readback.
    pub(crate) reads: Vec<u64>,
    /// An output was requested more than once.
    pub(crate) shared_readback: bool,
    /// Encode the run; do not use the device's own recording.
    pub(crate) encoded: bool,
    /// Profile log, if this run is profiled.
    pub(crate) log: Option<Arc<Log>>,
}
