//! What is dispatched: y\[i\] = x\[i\] + 1, over and over.

/// Elements that a dispatch works on.
pub(crate) const ITEMS: usize = 1024;
/// Invocations of a workgroup.
pub(crate) const GROUP: usize = 64;
/// Pairs of buffers in [`Case::Independent`]: op 64 has the pair of op 0.
const PAIRS: usize = 64;

/// The kernel of everyone that takes WGSL.
pub(crate) const STEP: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = x[id.x] + 1u; }
    }
";

/// How the dispatches depend on each other.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Case {
    /// Each reads what the one before wrote: to and fro between two buffers.
    Chain,
    /// Each has a pair of buffers of its own, until the pairs are used up.
    Independent,
}

impl Case {
    /// Both of them.
    pub(crate) const ALL: [Self; 2] = [Self::Chain, Self::Independent];

    /// What the table calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Independent => "independent",
        }
    }

    /// How many buffers there are.
    pub(crate) fn buffers(self) -> usize {
        match self {
            Self::Chain => 2,
            Self::Independent => 2 * PAIRS,
        }
    }

    /// Which buffer is read and which is written; op `i` takes route `i % routes`.
    pub(crate) fn routes(self) -> Vec<(usize, usize)> {
        match self {
            Self::Chain => vec![(0, 1), (1, 0)],
            Self::Independent => (0..PAIRS).map(|pair| (2 * pair, 2 * pair + 1)).collect(),
        }
    }

    /// After how many ops those before must be done.
    pub(crate) fn apart(self) -> usize {
        match self {
            Self::Chain => 1,
            Self::Independent => PAIRS,
        }
    }

    /// The buffer whose first element is the answer.
    pub(crate) fn answer(self) -> usize {
        match self {
            Self::Chain => 0,
            Self::Independent => 1,
        }
    }

    /// The answer after `runs` runs of `n` ops each that began with zeros.
    pub(crate) fn expected(self, n: usize, runs: usize) -> u32 {
        let routes = self.routes();
        let mut values = vec![0; self.buffers()];
        for _ in 0..runs {
            for op in 0..n {
                let (from, to) = routes[op % routes.len()];
                values[to] = values[from] + 1;
            }
        }
        values[self.answer()]
    }

    /// The answer of one that begins with zeros in every run, and gives what its last op wrote.
    pub(crate) fn last(self, n: usize) -> u32 {
        match self {
            Self::Chain => u32::try_from(n).unwrap_or(u32::MAX),
            Self::Independent => 1,
        }
    }
}
