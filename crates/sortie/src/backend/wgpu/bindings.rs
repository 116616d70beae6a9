//! Finds the bind groups of a plan before it is encoded, in the order of its steps.

use smallvec::SmallVec;
use sortie_plan::{Access, Dispatch, GRID_BLOCK, Step};

use super::{
    GroupLayout, Pipeline,
    bind_groups::{BindGroupKey, BindGroups, BoundGroups, BoundRange},
    encoder::{PlanEncoder, is_wrapped},
    pass::pipeline,
};
use crate::{
    error::Result,
    memory::{Block, BufferId},
};

impl<'a> PlanEncoder<'a> {
    /// Whether the buffers are the same as in the last run.
    pub(super) fn matches(&self, bound_groups: &BoundGroups) -> bool {
        let blocks = self.placed.blocks;
        bound_groups.buffers.len() == blocks.len()
            && blocks
                .iter()
                .zip(&bound_groups.buffers)
                .all(|(block, id)| block.as_ref().is_none_or(|block| block.id() == *id))
    }

    /// Finds all bind groups.
    pub(super) fn resolve(&self, groups: &mut BindGroups, bound_groups: &mut BoundGroups, now: u64) -> Result<()> {
        let plan = self.placed.plan();
        bound_groups.groups.clear();
        bound_groups.buffers.clear();
        // A slot that no op uses has no buffer; any id will do.
        let unused = BufferId(0);
        let ids = self.placed.blocks.iter().map(|block| block.as_ref().map_or(unused, |block| block.id()));
        bound_groups.buffers.extend(ids);
        let mut push = |layout: &GroupLayout, bound: &[(BoundRange, &Block)]| {
            let key = BindGroupKey { layout: layout.id, bound: bound.iter().map(|(bound, _)| *bound).collect() };
            let blocks: SmallVec<[&Block; 8]> = bound.iter().map(|(_, block)| *block).collect();
            bound_groups.groups.push(self.groups.find(groups, self.gpu, key, layout, &blocks, now)?);
            Ok(())
        };
        for step in &plan.steps {
            match *step {
                Step::Dispatch(id) => self.resolve_dispatch(&plan[id], &mut push)?,
                Step::Fill(id) => {
                    if let Some(fill) = self.fills_in_pass(&plan[id]) {
                        let bound = self.bound(&Access { start: self.aligned(plan[id].to.start), ..plan[id].to });
                        push(&fill.groups()[0].layout, &[bound])?;
                        self.resolve_hidden(pipeline(fill, false), &mut push)?;
                    }
                }
                Step::Zero(id) => {
                    if let Some(fill) = self.zeroes_in_pass(&plan[id]) {
                        let block = self.placed.block(plan[id].memory);
                        let bound = BoundRange { buffer: block.id(), offset: 0, bytes: plan[id].bytes };
                        push(&fill.groups()[0].layout, &[(bound, block)])?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn resolve_dispatch(&self, dispatch: &Dispatch, push: &mut impl Push) -> Result<()> {
        let kernel = self.kernels[dispatch.kernel.0 as usize];
        let accesses = &self.placed.planned.recording.accesses[dispatch.bindings.range()];
        for group in kernel.groups() {
            let bound: SmallVec<[_; 8]> =
                accesses[group.bindings.clone()].iter().map(|access| self.bound(access)).collect();
            push(&group.layout, &bound)?;
        }
        self.resolve_hidden(pipeline(kernel, is_wrapped(dispatch)), push)
    }

    fn resolve_hidden(&self, pipeline: &Pipeline, push: &mut impl Push) -> Result<()> {
        if let (Some(hidden), Some(params)) = (&pipeline.hidden, self.placed.params()) {
            let sizes = hidden.immediates.into_iter().chain(hidden.grid.then_some(GRID_BLOCK));
            let bound: SmallVec<[(_, &Block); 2]> = sizes
                .map(|bytes| {
                    (BoundRange { buffer: params.id(), offset: 0, bytes: bytes.next_multiple_of(4) }, &**params)
                })
                .collect();
            push(&hidden.layout, &bound)?;
        }
        Ok(())
    }

    fn bound(&self, access: &Access) -> (BoundRange, &'a Block) {
        let block = self.placed.block_of(access.slot);
        (BoundRange { buffer: block.id(), offset: access.start, bytes: access.end - access.start }, block)
    }
}

/// Receives the bind groups of steps, in order.
trait Push: FnMut(&GroupLayout, &[(BoundRange, &Block)]) -> Result<()> {}
impl<F: FnMut(&GroupLayout, &[(BoundRange, &Block)]) -> Result<()>> Push for F {}
