//! One way for batches and runs of replays to the device: check, execute, hand over, wait.

mod hand_over;
mod launch;

pub(crate) use self::launch::{Executor, Last, Launch, Leave, Profiled, RunSource, attribute, refuse, run};
