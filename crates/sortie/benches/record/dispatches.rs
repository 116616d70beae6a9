//! What the contenders dispatch. `peers/overhead` has the same, with other contenders.

use sortie_bench::Outcome;

/// Elements that a dispatch works on.
pub(crate) const ITEMS: usize = 1024;
/// Invocations of a workgroup.
pub(crate) const GROUP: usize = 64;

/// y\[i\] = x\[i\] + 1.
pub(crate) const STEP: &str = include_str!("step.wgsl");

/// Dispatches of one kernel that reads one buffer and writes another.
#[derive(Clone)]
pub(crate) struct Dispatches {
    pub(crate) source: &'static str,
    /// Number of buffers.
    pub(crate) buffers: usize,
    /// Which buffer is read and which is written; op `i` takes route `i % routes`.
    pub(crate) routes: Vec<(usize, usize)>,
    /// The buffer whose first element is the answer.
    pub(crate) answer: usize,
    /// The immediates of an op in a run, if the kernel takes any.
    pub(crate) immediates: Option<fn(run: usize, op: usize) -> [u32; 4]>,
    /// Each run writes the buffer with the answer first, and reads it back at the end.
    pub(crate) has_data: bool,
}

impl Dispatches {
    /// A chain between two buffers: each op reads what the one before wrote.
    pub(crate) fn chain() -> Self {
        Self { source: STEP, buffers: 2, routes: vec![(0, 1), (1, 0)], answer: 0, immediates: None, has_data: false }
    }

    /// The data that a run writes.
    pub(crate) fn data(run: usize) -> [u32; ITEMS] {
        std::array::from_fn(|at| (run * 7 + at) as u32)
    }
}

/// One way to run dispatches on one device.
pub(crate) trait Runner {
    /// Records and runs `n` ops, until they are done. `n` is the same in every run.
    fn run(&mut self, n: usize) -> Outcome<()>;
    /// The first element of the buffer that has the answer.
    fn answer(&mut self) -> Outcome<u32>;
    /// Whether every run begins with zeros, and the answer is what the last op wrote.
    fn begins_with_zeros(&self) -> bool {
        false
    }
}
