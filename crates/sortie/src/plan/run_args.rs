//! What one run of a replay brings and asks for.

use std::sync::Arc;

use crate::profile::Log;

/// The data and the requests of one run.
#[derive(Debug, Default)]
pub(crate) struct RunArgs {
    /// The data of all inputs.
    pub(crate) data: Vec<u8>,
    /// Which outputs are read, by where their data will be.
    pub(crate) reads: Vec<u64>,
    /// One of them was asked for more than once.
    pub(crate) shared_readback: bool,
    /// Not to be done by the device's own recording.
    pub(crate) encoded: bool,
    /// Profile log, if this run is profiled.
    pub(crate) log: Option<Arc<Log>>,
}
