//! Plans on this side of the planner: found again, completed with kernels, cut by what they cost, and given memory.

mod backend_state;
mod cache;
mod cached_plan;
mod cuts;
mod describe;
mod frozen_plan;
mod op_names;
mod placed_plan;
mod recorded_batches;
mod resources;
mod run_args;

pub(crate) use self::{
    backend_state::BackendState,
    cache::PlanCache,
    cached_plan::{CachedPlan, GeneratedKernel},
    cuts::Cuts,
    describe::PlanDescription,
    frozen_plan::{CutsFit, FrozenPlan, GRID_BYTES, MAX_RUNS_WITH_DATA, RunTransfer, StagedMemory},
    op_names::OpNames,
    placed_plan::PlacedPlan,
    recorded_batches::{BatchRun, KnownBatch, Lookup, Miss, RecordedBatch},
    resources::Resources,
    run_args::RunArgs,
};
