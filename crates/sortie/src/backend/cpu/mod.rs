//! The built-in CPU.

mod queue;

pub(crate) use self::queue::CpuQueue;
