//! A plan with everything that is derived from it once: generated kernels, touches, cuts.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use sortie_plan::{
    Access, Caps, Groups, KernelIndex, Op, OpGrid, OpKind, Plan, Recording, Span, Touch,
    fuse::{self, Lowered, Program, Scalar},
    join::{Joined, join},
};

use super::{BackendState, Resources, cuts::CutsCache};
use crate::{
    error::{Error, Result},
    kernel::Kernel,
};

/// A plan with everything that is derived from it once.
#[derive(Debug)]
pub(crate) struct CachedPlan {
    /// The lowered recording: tensor operations are replaced by dispatches.
    pub(crate) recording: Recording,
    pub(crate) plan: Plan,
    /// The kernels generated for tensor operations, if there are any.
    pub(crate) tensors: Option<Arc<GeneratedKernels>>,
    /// For each lowered op, the recorded op; empty if they are the same.
    origin: Vec<u32>,
    pub(crate) touches: Arc<[Touch]>,
    /// The last computed cuts.
    pub(super) cuts_cache: CutsCache,
    /// The capabilities it was planned for.
    pub(crate) caps: Caps,
    /// Backend state kept from run to run.
    pub(crate) state: BackendState,
}

/// The kernels generated for the tensor operations of a plan.
#[derive(Debug)]
pub(crate) struct GeneratedKernels {
    /// The recording as it was recorded.
    key: Recording,
    /// The ops fused into one kernel, by the recorded op that dispatches it.
    fused: FxHashMap<u32, FusedOps>,
    /// They follow the kernels of the [`Resources`].
    kernels: Vec<Kernel>,
    /// The number of kernels in the [`Resources`].
    first_kernel: usize,
    /// Where the kernels' parameters start in the arena of immediates, and their words.
    start: usize,
    words: Vec<ParamWord>,
    /// Operations without a kernel of their own.
    pub(super) fused_ops: u64,
    /// Groups of joined operations.
    groups: usize,
}

/// The kernel of a tensor program, and how it is dispatched.
#[derive(Clone)]
pub(crate) struct GeneratedKernel {
    pub(crate) kernel: Kernel,
    /// Sizes among its parameters. The program's scalars follow them.
    pub(crate) words: Vec<u32>,
    pub(crate) grid: OpGrid,
}

/// Makes the device generate the kernel of a tensor program.
pub(crate) type Generate<'a> = &'a dyn Fn(&Program) -> Result<GeneratedKernel>;

/// The ops that one kernel replaces.
#[derive(Debug)]
pub(crate) struct FusedOps {
    /// Recorded ops.
    pub(crate) ops: Vec<u32>,
    pub(crate) flops: u64,
}

/// A word of the parameters of a generated kernel.
#[derive(Clone, Copy, Debug)]
enum ParamWord {
    Size(u32),
    /// A scalar, at this offset of the recorded immediates.
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

    /// The accesses to the counts of indirect grids, one per dispatch.
    pub(crate) fn indirect_counts(&self) -> impl Iterator<Item = &Access> {
        self.plan.dispatches.iter().filter_map(|dispatch| match dispatch.groups {
            Groups::Indirect(id) => Some(&self.recording.accesses[id.0 as usize]),
            Groups::Direct(_) | Groups::Wrapped(_) => None,
        })
    }

    /// The same plan with dispatches divided. `pieces`: op numbers, ascending, and the number of pieces of each.
    pub(super) fn divided(&self, pieces: &[(u32, u32)]) -> Self {
        let (recording, mut origin) = sortie_plan::divide(&self.recording, pieces);
        origin.iter_mut().for_each(|op| *op = self.origin(*op as usize) as u32);
        Self::new(recording, self.tensors.clone(), origin, &self.caps)
    }

    /// The same plan with all immediates in the parameter arena. `fill_bytes`: those of the fill kernel.
    pub(crate) fn with_immediates_in_memory(&self, fill_bytes: u32) -> Self {
        let recording = self.recording.with_hidden_immediates(fill_bytes);
        Self::new(recording, self.tensors.clone(), self.origin.clone(), &self.caps)
    }

    /// The plan of a recording with tensor operations. Generates and parses their kernels.
    pub(super) fn lowered(recording: &Recording, caps: &Caps, generate: Generate<'_>) -> Result<Self> {
        let joined = join(recording, caps);
        let joined_recording = joined.as_ref().map_or(recording, |joined| &joined.recording);
        let Lowered { recording: mut lowered, mut origin, programs, members, scalars } =
            fuse::lower(joined_recording, caps);
        let mut members = members.into_iter();
        if let Some(joined) = &joined {
            origin.iter_mut().for_each(|op| *op = joined.origin[*op as usize]);
        }
        let start = recording.ops.iter().map(|op| op.immediates().range().end).max().unwrap_or(0);
        let mut tensors = GeneratedKernels {
            key: recording.clone(),
            fused: FxHashMap::default(),
            kernels: Vec::new(),
            first_kernel: recording.kernels.len(),
            start: start.next_multiple_of(4),
            words: Vec::new(),
            fused_ops: fused_ops(recording, &lowered, &origin),
            groups: joined.as_ref().map_or(0, |joined| joined.groups),
        };
        let mut numbers: FxHashMap<u64, KernelIndex> =
            lowered.kernels.iter().copied().zip((0..).map(KernelIndex)).collect();
        // Equal programs share a kernel: printing one takes longer than planning its operation.
        let mut known: FxHashMap<&Program, GeneratedKernel> = FxHashMap::default();
        for (number, origin) in origin.iter().enumerate() {
            let op = lowered.ops[number];
            if let OpKind::Tensor { tensor, scalars: span } = op.kind {
                let program = &programs[tensor.0 as usize];
                let ops = members.next().unwrap_or_default();
                let ops = joined.as_ref().map_or(ops.clone(), |joined| recorded_ops(joined, &ops));
                tensors.fused.insert(*origin, FusedOps { ops, flops: program.flops() });
                let generated = match known.get(program) {
                    Some(known) => known,
                    None => known.entry(program).or_insert(generate(program)?),
                };
                if generated.kernel.num_bindings() != op.accesses.len as usize {
                    // A binding that the kernel does not use is not counted.
                    return Err(Error::internal("a generated kernel does not use all of its memory; please report it"));
                }
                let scalars = &scalars[span.range()];
                let kind = tensors.dispatch(&mut lowered, &mut numbers, generated, scalars);
                lowered.ops[number] = Op { kind, ..op };
            }
        }
        Ok(Self::new(lowered, Some(Arc::new(tensors)), origin, caps))
    }

    /// The recording as it was recorded: the cache key.
    pub(super) fn key(&self) -> &Recording {
        self.tensors.as_ref().map_or(&self.recording, |tensors| &tensors.key)
    }

    /// The ops as they were recorded.
    pub(super) fn recorded(&self) -> Vec<Op> {
        if let Some(tensors) = &self.tensors {
            return tensors.key.ops.clone();
        }
        // Any piece of a divided dispatch will do.
        let count = (0..self.recording.ops.len()).map(|op| self.origin(op) + 1).max().unwrap_or(0);
        let mut recorded = vec![Op::bare(OpKind::Copy); count];
        self.recording.ops.iter().enumerate().for_each(|(number, op)| recorded[self.origin(number)] = *op);
        recorded
    }

    /// The recorded op of a lowered op.
    pub(crate) fn origin(&self, op: usize) -> usize {
        self.origin.get(op).map_or(op, |origin| *origin as usize)
    }

    /// Groups of joined operations.
    pub(crate) fn joined_groups(&self) -> usize {
        self.tensors.as_ref().map_or(0, |tensors| tensors.groups)
    }

    /// The ops fused into the kernel that a recorded op dispatches.
    pub(super) fn fused(&self, origin: usize) -> Option<&FusedOps> {
        self.tensors.as_ref()?.fused.get(&u32::try_from(origin).ok()?)
    }

    /// Adds the generated kernels and their parameters to the resources.
    pub(crate) fn complete(&self, resources: &mut Resources) {
        let Some(tensors) = &self.tensors else { return };
        // Groups have slots that were not recorded.
        resources.blocks.resize(resources.blocks.len().max(self.plan.memory.len()), None);
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

/// The recorded ops that ops of a joined recording stand for.
fn recorded_ops(joined: &Joined, ops: &[u32]) -> Vec<u32> {
    let mut recorded: Vec<u32> = Vec::with_capacity(ops.len());
    for op in ops {
        match &joined.ops[joined.members[*op as usize].range()] {
            [] => recorded.push(joined.origin[*op as usize]),
            members => recorded.extend(members),
        }
    }
    recorded.sort_unstable();
    recorded
}

/// The number of tensor operations without a dispatch of their own in the lowered recording.
fn fused_ops(recording: &Recording, lowered: &Recording, origin: &[u32]) -> u64 {
    let tensor = |op: &Op| matches!(op.kind, OpKind::Tensor { .. });
    let programs = origin.iter().zip(&lowered.ops).filter(|(_, op)| tensor(op));
    let mut called: Vec<u32> = programs.map(|(origin, _)| *origin).collect();
    called.sort_unstable();
    called.dedup();
    let all = recording.ops.iter().filter(|op| tensor(op)).count();
    (all - called.len()) as u64
}

/// Four bytes of the recorded immediates.
fn bytes_at(immediates: &[u8], at: u32) -> [u8; 4] {
    std::array::from_fn(|byte| immediates[at as usize + byte])
}

impl GeneratedKernels {
    /// The generated kernel with this number, if it is one.
    pub(super) fn kernel(&self, number: KernelIndex) -> Option<&Kernel> {
        self.kernels.get((number.0 as usize).checked_sub(self.first_kernel)?)
    }

    /// Whether a kernel is native: it has no pipeline.
    pub(crate) fn is_native(&self, number: KernelIndex) -> bool {
        self.kernel(number).is_some_and(Kernel::is_native)
    }

    /// The dispatch of a generated kernel. `numbers`: index in the lowered recording by kernel id.
    fn dispatch(
        &mut self,
        lowered: &mut Recording,
        numbers: &mut FxHashMap<u64, KernelIndex>,
        generated: &GeneratedKernel,
        scalars: &[Scalar],
    ) -> OpKind {
        let GeneratedKernel { kernel, words, grid } = generated;
        let index = *numbers.entry(kernel.id()).or_insert_with(|| {
            self.kernels.push(kernel.clone());
            lowered.push_kernel(kernel.id())
        });
        let first = self.start + self.words.len() * 4;
        self.words.extend(words.iter().map(|word| ParamWord::Size(*word)));
        self.words.extend(scalars.iter().map(|scalar| match *scalar {
            Scalar::Recorded(at) => ParamWord::Scalar(at),
            Scalar::Value(word) => ParamWord::Size(word),
        }));
        OpKind::Dispatch {
            kernel: index,
            grid: *grid,
            immediates: Span::new(first..self.start + self.words.len() * 4),
            hidden_immediates: kernel.hidden_immediates(),
        }
    }
}
