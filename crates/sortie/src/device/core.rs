//! The state shared by the handles of one device, and the backend that runs its plans.

use std::sync::Arc;

use sortie_plan::{Caps, OpGrid, Recording, Span, fuse::Program};

use super::{
    open::{default_cost, next_id, policy},
    recordings::Recordings,
    replay_thread::ReplayThread,
};
use crate::{
    backend::{Abilities, Backend, Generated, OpenArgs, OpenBackend},
    error::Result,
    exit::{EnterOnDrop, LeaveOnDrop},
    info::{DeviceInfo, DeviceKind, Limits},
    kernel::KernelCache,
    lost::Lost,
    memory::{BufferId, Pool, RawBuffer, Reclaim},
    metrics::Counters,
    options::DeviceOptions,
    plan::{GeneratedKernel, KnownBatch, PlanCache},
    policy::{Costs, SubmitPolicy},
    profile::Watchers,
    tuning::Tuning,
};

/// The state shared by the handles of one device.
pub(crate) struct DeviceCore {
    _entering: EnterOnDrop,
    pub(crate) id: u64,
    pub(crate) info: DeviceInfo,
    pub(crate) options: DeviceOptions,
    pub(crate) abilities: Abilities,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) kernels: Arc<KernelCache>,
    plans: PlanCache,
    pub(crate) recordings: Arc<Recordings>,
    pub(crate) lost: Arc<Lost>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) tuning: Tuning,
    pub(crate) policy: SubmitPolicy,
    pub(crate) costs: Arc<Costs>,
    /// Its watchers.
    pub(crate) notes: Arc<Watchers>,
    /// Records native replays again.
    pub(crate) replay_thread: ReplayThread,
    _leaving: LeaveOnDrop,
}

/// Minimum independent units that are joined, with generated kernels and with native programs: a native product of few
/// rows costs more per row than one of a single row (`cargo bench -p sortie --bench join`).
const JOIN: [u32; 2] = [2, 8];

impl DeviceCore {
    /// Creates a device around the backend that `open` returns.
    pub(super) fn open(
        info: DeviceInfo,
        options: DeviceOptions,
        tuning: Tuning,
        lost: Arc<Lost>,
        open: impl FnOnce(&OpenArgs<'_>) -> Result<OpenBackend>,
    ) -> Result<Self> {
        let (id, policy) = (next_id(), policy(&options, &tuning, info.kind));
        let counters = Arc::new(Counters::default());
        let costs = Arc::new(Costs::new(default_cost(info.kind)));
        let OpenBackend { backend, pool, kernels } = open(&OpenArgs {
            id,
            info: &info,
            options: &options,
            policy,
            costs: &costs,
            lost: &lost,
            counters: &counters,
        })?;
        let recordings = Arc::new(Recordings::default());
        let reclaim: Arc<dyn Reclaim> = recordings.clone();
        pool.set_reclaim(Arc::downgrade(&reclaim));
        let has_driver = info.kind != DeviceKind::Cpu;
        Ok(Self {
            _entering: EnterOnDrop(has_driver),
            id,
            info,
            options,
            abilities: backend.abilities(),
            backend,
            pool,
            kernels,
            plans: PlanCache::new(counters.clone()),
            recordings,
            lost,
            counters,
            tuning,
            policy,
            costs,
            notes: Arc::default(),
            replay_thread: ReplayThread::default(),
            _leaving: LeaveOnDrop(has_driver),
        })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.info.limits
    }

    /// Takes memory from the pool.
    pub(crate) fn take_memory(&self, bytes: u64, preferred: Option<BufferId>) -> Result<RawBuffer> {
        self.pool.take_flushing(bytes, preferred, || self.backend.flush())
    }

    /// The planner's capabilities and limits on this device.
    pub(crate) fn caps(&self) -> Caps {
        let (planning, limits, abilities) = (self.options.planning, self.limits(), &self.abilities);
        Caps {
            reorder: planning.reorder,
            reuse: planning.reuse,
            fuse: planning.fuse,
            join: if planning.join { JOIN[usize::from(abilities.native_programs)] } else { 0 },
            native_programs: abilities.native_programs,
            software: self.info.kind == DeviceKind::Software,
            product: self.tuning.product_way(),
            // One is reserved for immediates, for devices without native ones.
            storage_buffers: limits.storage_buffers - 1,
            params_align: limits.slice_alignment,
            max_groups: abilities.max_groups,
            fill_binding_bytes: abilities.fill_binding_bytes,
        }
    }

    /// Whether equal tensor operations are joined.
    pub(crate) fn joins(&self) -> bool {
        self.options.planning.join
    }

    /// The plan of this recording; made if it is not cached. With the device's own recordings of it.
    pub(crate) fn plan(&self, recording: &Recording) -> Result<Arc<KnownBatch>> {
        let caps = self.caps();
        self.plans.get(recording, &caps, &|program| self.generate(program, &caps))
    }

    /// The kernel of a tensor program.
    fn generate(&self, program: &Program, caps: &Caps) -> Result<GeneratedKernel> {
        Ok(match self.backend.generate(program, caps) {
            Generated::Source(source) => {
                let kernel = self.kernels.generated(&source.text)?;
                let groups = source.grid;
                let grid = match groups.iter().any(|side| *side > self.limits().groups) {
                    true => OpGrid::Wrapped { groups, share: Span::EMPTY },
                    false => OpGrid::Direct(groups),
                };
                GeneratedKernel { kernel, words: source.words, grid }
            }
            Generated::Native { compiled, interface, grid } => {
                let kernel = self.kernels.native(interface, compiled);
                GeneratedKernel { kernel, words: Vec::new(), grid: OpGrid::Direct(grid) }
            }
        })
    }
}

impl Drop for DeviceCore {
    fn drop(&mut self) {
        self.backend.close();
    }
}
