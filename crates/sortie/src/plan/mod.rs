//! Plans on this side of the planner: found again, completed with kernels, cut by what they cost, and given memory.

mod cache;
mod cached_plan;
mod cuts;
mod describe;
mod frozen_plan;
mod op_names;
mod placed_plan;
mod resources;
mod run_args;
mod state;

pub(crate) use self::{
    cache::PlanCache,
    cached_plan::{GeneratedKernel, Planned},
    cuts::Route,
    describe::Described,
    frozen_plan::{Fit, Frozen},
    op_names::Names,
    placed_plan::PlacedPlan,
    resources::Payload,
    run_args::Errand,
    state::BackendState,
};
