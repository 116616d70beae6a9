//! A plan with all that is derived from it once: generated kernels, touches, cuts.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use sortie_plan::{
    Caps, Grid, KernelIndex, Op, OpKind, Plan, Recording, Span, Touch,
    fuse::{self, Lowered, Program},
};

use super::{BackendState, Resources, cuts::CutsCache};
use crate::{
    error::{Error, Result},
    kernel::Kernel,
};

/// A plan with all that is derived from it once.
#[derive(Debug)]
pub(crate) struct CachedPlan {
    /// What runs: without tensor operations.
    pub(crate) recording: Recording,
    pub(crate) plan: Plan,
    /// What stands for tensor operations, if there are any.
    pub(crate) tensors: Option<Arc<GeneratedKernels>>,
    /// For each op that runs, the one that was recorded; empty where they are the same.
    origin: Vec<u32>,
    pub(crate) touches: Arc<[Touch]>,
    /// Where it is cut, as it was last found out.
    pub(super) cuts_cache: CutsCache,
    /// What it was planned for.
    pub(crate) caps: Caps,
    /// What the backend keeps from run to run.
    pub(crate) state: BackendState,
}

/// Tensor operations as kernels.
#[derive(Debug)]
pub(crate) struct GeneratedKernels {
    /// The recording as it was recorded.
    key: Recording,
    /// What shares a kernel, by the op that it is called by.
    fused: FxHashMap<u32, FusedOps>,
    /// Follow those of the payload.
    kernels: Vec<Kernel>,
    /// How many the payload has before them.
    first_kernel: usize,
    /// Where the parameters of the kernels start in the arena of immediates, and their words.
    start: usize,
    words: Vec<ParamWord>,
    /// Operations without a kernel of their own.
    pub(super) fused_ops: u64,
}

/// The kernel of a tensor program, and how it is dispatched.
#[derive(Clone)]
pub(crate) struct GeneratedKernel {
    pub(crate) kernel: Kernel,
    /// Sizes among its parameters. The program's scalars follow them.
    pub(crate) words: Vec<u32>,
    pub(crate) grid: Grid,
}

/// Has the device generate the kernel of a tensor program.
pub(crate) type Generate<'a> = &'a dyn Fn(&Program) -> Result<GeneratedKernel>;

/// What one kernel stands for.
#[derive(Debug)]
pub(crate) struct FusedOps {
    /// The ops that were recorded for it.
    pub(crate) ops: Vec<u32>,
    pub(crate) flops: u64,
}

/// A word of the parameters of a generated kernel.
#[derive(Clone, Copy, Debug)]
enum ParamWord {
    Size(u32),
    /// A scalar, by where it was recorded.
    Scalar(u32),
}

impl CachedPlan {
    pub(super) fn new(
        recording: Recording,
        tensors: Option<Arc<GeneratedKernels>>,
        origin: Vec<u32>,
        caps: &Caps,
    ) -> Self {
        let plan = sortie_plan::plan(&recording, caps);
        let touches = sortie_plan::touches(&recording, &plan).into();
        let (cuts_cache, state) = (CutsCache::default(), BackendState::default());
        Self { recording, plan, tensors, origin, touches, cuts_cache, caps: *caps, state }
    }

    /// Bytes that the recording and the plan take.
    pub(super) fn bytes(&self) -> usize {
        let key = self.tensors.as_ref().map_or(0, |tensors| tensors.key.bytes());
        key + self.recording.bytes() + self.plan.bytes()
    }

    /// The same with dispatches divided: their numbers, ascending, and how many pieces each becomes.
    pub(super) fn divided(&self, pieces: &[(u32, u32)]) -> Self {
        let (recording, mut origin) = sortie_plan::divide(&self.recording, pieces);
        origin.iter_mut().for_each(|op| *op = self.origin(*op as usize) as u32);
        Self::new(recording, self.tensors.clone(), origin, &self.caps)
    }

    /// The plan of a recording with tensor operations: their kernels are generated and parsed.
    pub(super) fn lowered(recording: &Recording, caps: &Caps, generate: Generate<'_>) -> Result<Self> {
        let Lowered { recording: mut lowered, origin, programs, members, scalars } = fuse::lower(recording, caps);
        let start = recording.ops.iter().map(|op| op.immediates().range().end).max().unwrap_or(0);
        let mut tensors = GeneratedKernels {
            key: recording.clone(),
            fused: FxHashMap::default(),
            kernels: Vec::new(),
            first_kernel: recording.kernels.len(),
            start: start.next_multiple_of(4),
            words: Vec::new(),
            fused_ops: fused_ops(recording, &origin),
        };
        let mut numbers: FxHashMap<u64, KernelIndex> =
            lowered.kernels.iter().copied().zip((0..).map(KernelIndex)).collect();
        // Equal programs share a native kernel, as they share one that has a source.
        let mut natives: FxHashMap<&Program, GeneratedKernel> = FxHashMap::default();
        let mut members = members.into_iter();
        for (number, origin) in origin.iter().enumerate() {
            let op = lowered.ops[number];
            if let OpKind::Tensor { tensor, scalars: span } = op.kind {
                let program = &programs[tensor.0 as usize];
                let fused = FusedOps { ops: members.next().unwrap_or_default(), flops: program.flops() };
                tensors.fused.insert(*origin, fused);
                let generated = match natives.get(program) {
                    Some(known) => GeneratedKernel::clone(known),
                    None => generate(program)?,
                };
                if generated.kernel.num_bindings() != op.accesses.len as usize {
                    // A binding that a kernel does not use is none of its bindings.
                    return Err(Error::internal("a generated kernel does not use all of its memory; please report it"));
                }
                let scalars = &scalars[span.range()];
                let kind = tensors.dispatch(&mut lowered, &mut numbers, &generated, scalars);
                lowered.ops[number] = Op { kind, ..op };
                if generated.kernel.is_native() {
                    natives.entry(program).or_insert(generated);
                }
            }
        }
        Ok(Self::new(lowered, Some(Arc::new(tensors)), origin, caps))
    }

    /// What was recorded.
    pub(super) fn key(&self) -> &Recording {
        self.tensors.as_ref().map_or(&self.recording, |tensors| &tensors.key)
    }

    /// What was recorded, op by op.
    pub(super) fn recorded(&self) -> Vec<Op> {
        if let Some(tensors) = &self.tensors {
            return tensors.key.ops.clone();
        }
        // Of a divided dispatch every piece will do.
        let count = (0..self.recording.ops.len()).map(|op| self.origin(op) + 1).max().unwrap_or(0);
        let mut recorded = vec![Op::bare(OpKind::Copy); count];
        self.recording.ops.iter().enumerate().for_each(|(number, op)| recorded[self.origin(number)] = *op);
        recorded
    }

    /// The op that was recorded for one that runs.
    pub(crate) fn origin(&self, op: usize) -> usize {
        self.origin.get(op).map_or(op, |origin| *origin as usize)
    }

    /// What shares the kernel that is called by a recorded op.
    pub(super) fn fused(&self, origin: usize) -> Option<&FusedOps> {
        self.tensors.as_ref()?.fused.get(&u32::try_from(origin).ok()?)
    }

    /// Adds generated kernels and their parameters to what was recorded.
    pub(crate) fn complete(&self, resources: &mut Resources) {
        let Some(tensors) = &self.tensors else { return };
        resources.kernels.extend(tensors.kernels.iter().cloned());
        resources.immediates.resize(tensors.start + 4 * tensors.words.len(), 0);
        let (recorded, words) = resources.immediates.split_at_mut(tensors.start);
        for (word, to) in tensors.words.iter().zip(words.chunks_exact_mut(4)) {
            to.copy_from_slice(&match word {
                ParamWord::Size(size) => size.to_le_bytes(),
                ParamWord::Scalar(at) => bytes_at(recorded, *at),
            });
        }
    }
}

/// Tensor operations that no op of the lowered recording is called by.
fn fused_ops(recording: &Recording, origin: &[u32]) -> u64 {
    let tensor = |op: &Op| matches!(op.kind, OpKind::Tensor { .. });
    let is_tensor = |op: &u32| tensor(&recording.ops[*op as usize]);
    let mut called: Vec<_> = origin.iter().copied().filter(is_tensor).collect();
    called.sort_unstable();
    called.dedup();
    let all = recording.ops.iter().filter(|op| tensor(op)).count();
    (all - called.len()) as u64
}

/// Four of the bytes given while recording.
fn bytes_at(immediates: &[u8], at: u32) -> [u8; 4] {
    std::array::from_fn(|byte| immediates[at as usize + byte])
}

impl GeneratedKernels {
    /// The generated kernel of this number, if it is one.
    pub(super) fn kernel(&self, number: KernelIndex) -> Option<&Kernel> {
        self.kernels.get((number.0 as usize).checked_sub(self.first_kernel)?)
    }

    /// Whether a kernel has no pipeline.
    pub(crate) fn is_native(&self, number: KernelIndex) -> bool {
        self.kernel(number).is_some_and(Kernel::is_native)
    }

    /// The dispatch that runs a generated kernel. `numbers`: of kernels in the lowered recording, by their id.
    fn dispatch(
        &mut self,
        lowered: &mut Recording,
        numbers: &mut FxHashMap<u64, KernelIndex>,
        generated: &GeneratedKernel,
        scalars: &[u32],
    ) -> OpKind {
        let GeneratedKernel { kernel, words, grid } = generated;
        let index = *numbers.entry(kernel.id()).or_insert_with(|| {
            self.kernels.push(kernel.clone());
            lowered.push_kernel(kernel.id())
        });
        let first = self.start + self.words.len() * 4;
        self.words.extend(words.iter().map(|word| ParamWord::Size(*word)));
        self.words.extend(scalars.iter().map(|at| ParamWord::Scalar(*at)));
        OpKind::Dispatch {
            kernel: index,
            grid: *grid,
            immediates: Span::new(first..self.start + self.words.len() * 4),
            hidden_immediates: kernel.hidden_immediates(),
        }
    }
}
