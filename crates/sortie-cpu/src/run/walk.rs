//! Control flow: which lanes execute which body.

use super::straight::{ActiveBlocks, Lanes, RectangleState};
use crate::{
    Halted, Stop,
    code::{ALL_LANES, Body, Branch, DivergentLoop, Guard, Loop, LoopExit, LoopId, Node, Op, Reg, Region},
    lanes::First,
    opcode::Opcode,
    simd::Simd,
};

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// At its end: lanes continue in this region.
    On(Region),
    /// All lanes left for the end of this loop, or for its next iteration.
    Break(LoopId),
    Continue(LoopId),
    /// No lane continues: all have left, at different times or by returning.
    Gone,
}

/// Executes the control flow of one rectangle on one thread.
pub(crate) struct Walker<'b> {
    pub(crate) rectangle: &'b RectangleState<'b, 'b>,
    /// By region.
    pub(crate) summaries: &'b mut [ActiveBlocks],
    pub(crate) simd: Simd,
    pub(crate) stop: Stop<'b>,
    /// Loop iterations until the next check of `stop`.
    pub(crate) until_check: u32,
    /// A loop may wait for another thread, so yield now and then.
    pub(crate) yields: bool,
    /// Lanes are packed.
    pub(crate) packed: bool,
}

impl Walker<'_> {
    pub(crate) fn run(mut self) -> Result<(), Halted> {
        let code = self.rectangle.code;
        self.body(&code.body, ALL_LANES).map(drop)
    }

    fn lanes<'s>(&'s self, summary: &'s ActiveBlocks) -> Lanes<'s, 's> {
        Lanes { rectangle: self.rectangle, summary, packed: self.packed }
    }

    pub(super) fn summary(&self, region: Region) -> &ActiveBlocks {
        &self.summaries[region.0 as usize]
    }

    fn copy_summary(&mut self, from: Region, to: Region) {
        self.update_summary(to, |walker, summary| summary.copy_from(walker.summary(from)));
    }

    /// Changes the active blocks of a region. During the call the walker has none for it.
    fn update_summary(&mut self, region: Region, change: impl FnOnce(&Self, &mut ActiveBlocks)) {
        let mut summary = std::mem::take(&mut self.summaries[region.0 as usize]);
        change(self, &mut summary);
        self.summaries[region.0 as usize] = summary;
    }

    /// A register that is the same for all lanes.
    fn uniform(&self, reg: Reg) -> u32 {
        self.rectangle.cell(reg, 0, 0).first()
    }

    /// The mask register of a region. Undefined where all lanes are active.
    pub(super) fn mask(&self, region: Region) -> Option<Reg> {
        self.rectangle.code.regions[region.0 as usize].mask
    }

    /// The mask register of a region other than [`ALL_LANES`].
    pub(super) fn own_mask(&self, region: Region) -> Reg {
        self.mask(region).unwrap_or_else(|| unreachable!("only ALL_LANES has none"))
    }

    /// The mask of a region; `None` where all lanes that exist are active.
    fn active(&self, region: Region) -> Option<Reg> {
        self.mask(region).filter(|_| !self.summary(region).all)
    }

    fn straight(&self, ops: &[Op], region: Region) {
        let lanes = self.lanes(self.summary(region));
        self.simd.run(RunOps { lanes: &lanes, ops });
    }

    fn body(&mut self, body: &Body, region: Region) -> Result<Flow, Halted> {
        let mut region = region;
        for node in body {
            let flow = match node {
                Node::Ops(ops) => {
                    self.straight(ops, region);
                    continue;
                }
                Node::If(branch) => match branch.plan.split {
                    None => self.uniform_if(branch, region)?,
                    Some(sides) => self.divergent_if(branch, sides, region)?,
                },
                Node::Loop(node) => match node.plan.split {
                    None => self.uniform_loop(node, region)?,
                    Some(divergent) => self.divergent_loop(node, divergent)?,
                },
                Node::Break(leave) => return Ok(self.leave(*leave, Flow::Break(leave.target))),
                Node::Continue(leave) => return Ok(self.leave(*leave, Flow::Continue(leave.target))),
                Node::Return => return Ok(Flow::Gone),
                Node::Scope(body) => {
                    self.body(body, region)?;
                    Flow::On(region)
                }
                Node::Call { function, .. } => {
                    self.call(*function, region)?;
                    Flow::On(region)
                }
                Node::Barrier { flags, span } => {
                    if let Some(check) = self.rectangle.check {
                        // A subgroup may reach its barrier without the others.
                        let all = self.summary(region).all || *flags == naga::Barrier::SUB_GROUP;
                        check.barrier(all, *flags, *span);
                    }
                    Flow::On(region)
                }
            };
            match flow {
                Flow::On(next) => region = next,
                other => return Ok(other),
            }
        }
        Ok(Flow::On(region))
    }

    /// An `if` whose side is the same for all lanes.
    fn uniform_if(&mut self, branch: &Branch, region: Region) -> Result<Flow, Halted> {
        let side = if self.uniform(branch.cond) != 0 { &branch.accept } else { &branch.reject };
        let flow = self.body(side, region)?;
        let (Some(join), Flow::On(end)) = (branch.plan.join, flow) else { return Ok(flow) };
        if end != join.into {
            self.move_to(end, join.into, region);
        }
        Ok(Flow::On(join.into))
    }

    /// Moves the lanes of one region into another.
    fn move_to(&mut self, from: Region, to: Region, outer: Region) {
        if let (from_mask, Some(to_mask)) = (self.mask(from), self.mask(to))
            && from_mask != Some(to_mask)
        {
            self.lanes(self.summary(outer)).none(to_mask);
            self.lanes(self.summary(from)).join(to_mask, self.active(from), self.rectangle.code.entry);
        }
        self.copy_summary(from, to);
    }

    /// Computes which lanes of `outer` are active in a region.
    fn narrow(&mut self, outer: Region, to: Region, cond: Reg, wanted: bool) {
        let before = self.active(outer);
        // Lanes that do not exist must not keep a loop running. Masks that vary along the row already exclude them.
        let knows = before.is_some() && self.rectangle.code.regions[outer.0 as usize].shape.has_x();
        let entry =
            (!knows && self.rectangle.code.regions[to.0 as usize].shape.has_x()).then_some(self.rectangle.code.entry);
        let mask = self.own_mask(to);
        self.update_summary(to, |walker, into| {
            let lanes = &walker.lanes(walker.summary(outer));
            walker.simd.run(Narrow { lanes, to: mask, outer: before, entry, cond, wanted, into });
        });
    }

    /// An `if` whose side differs between lanes.
    fn divergent_if(&mut self, branch: &Branch, sides: [Region; 2], outer: Region) -> Result<Flow, Halted> {
        let Branch { cond, accept, reject, plan } = branch;
        let goes_on = |side: usize| plan.join.is_some_and(|join| join.ends[side].is_some());
        let needed = [plan.runs[0] || goes_on(0), plan.runs[1] || goes_on(1)];
        // A side that reuses the mask register of the outer region runs last: the other side still reads it.
        let takes = |side: usize| self.mask(sides[side]).is_some() && self.mask(sides[side]) == self.mask(outer);
        let order = if takes(0) { [1, 0] } else { [0, 1] };
        if let Some(side) = plan.guard.as_ref().and_then(|guard| self.decide(guard)) {
            // All lanes take one side, none the other.
            let other = sides[1 - side];
            self.summaries[other.0 as usize].clear();
            self.summaries[other.0 as usize].all = false;
            self.copy_summary(outer, sides[side]);
        } else {
            if let Some(guard) = &plan.guard {
                self.straight(std::slice::from_ref(&guard.compare), outer);
            }
            for side in order {
                if needed[side] {
                    self.narrow(outer, sides[side], *cond, side == 0);
                }
            }
        }
        let mut ends = [None, None];
        for (side, body) in [accept, reject].into_iter().enumerate() {
            if needed[side] && !self.summary(sides[side]).is_empty() {
                match self.body(body, sides[side])? {
                    Flow::On(end) => ends[side] = Some(end),
                    Flow::Gone => {}
                    Flow::Break(_) | Flow::Continue(_) => unreachable!("lanes that part leave one by one"),
                }
            }
        }
        let Some(join) = plan.join else { return Ok(if plan.all_leave { Flow::Gone } else { Flow::On(outer) }) };
        match ends {
            [None, None] => return Ok(Flow::Gone),
            [Some(end), None] | [None, Some(end)] if end == join.into => {}
            _ => {
                let into = self.own_mask(join.into);
                self.lanes(self.summary(outer)).none(into);
                for end in ends.into_iter().flatten() {
                    self.lanes(self.summary(end)).join(into, self.active(end), self.rectangle.code.entry);
                }
                self.resummarise(join.into, outer);
            }
        }
        Ok(if self.summary(join.into).is_empty() { Flow::Gone } else { Flow::On(join.into) })
    }

    /// The side that all lanes take, if the ends of all rows agree.
    fn decide(&self, guard: &Guard) -> Option<usize> {
        let rectangle = self.rectangle;
        let place = rectangle.place(guard.index);
        let limit = self.uniform(guard.limit);
        let holds = |index: u32| match (guard.opcode, guard.index_first) {
            (Opcode::LtU, true) => index < limit,
            (Opcode::LtU, false) => limit < index,
            (_, true) => index <= limit,
            (_, false) => limit <= index,
        };
        let mut decided = None;
        let rows = if place.down == 0 { 1 } else { self.summary(ALL_LANES).grid.last()?.y + 1 };
        for y in 0..rows {
            let first = rectangle.file[place.at(y, 0)].first();
            let last = first.checked_add(rectangle.width - 1)?;
            let (start, end) = (holds(first), holds(last));
            if start != end || decided.is_some_and(|decided| decided != start) {
                return None;
            }
            decided = Some(start);
        }
        decided.map(|holds| usize::from(!holds))
    }

    /// Recomputes the active blocks of a region from its mask. They are among those of `outer`, another region.
    fn resummarise(&mut self, region: Region, outer: Region) {
        debug_assert_ne!(region, outer, "its active blocks are being replaced");
        let mask = self.own_mask(region);
        self.update_summary(region, |walker, summary| {
            walker.lanes(walker.summary(outer)).summarise(mask, walker.rectangle.code.entry, summary);
        });
    }

    fn leave(&mut self, leave: LoopExit, together: Flow) -> Flow {
        let Some((region, collector)) = leave.split else { return together };
        if let Some(collector) = collector {
            self.lanes(self.summary(region)).join(collector, self.active(region), self.rectangle.code.entry);
        }
        Flow::Gone
    }

    fn tick(&mut self) -> Result<(), Halted> {
        self.until_check -= 1;
        if self.until_check == 0 {
            self.until_check = super::CHECK_INTERVAL;
            self.stop.check()?;
            if self.yields {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// A loop that all lanes leave in the same iteration.
    fn uniform_loop(&mut self, node: &Loop, region: Region) -> Result<Flow, Halted> {
        loop {
            self.tick()?;
            match self.body(&node.body, region)? {
                Flow::On(_) => {}
                Flow::Continue(target) if target == node.id => {}
                Flow::Break(target) if target == node.id => return Ok(Flow::On(region)),
                other => return Ok(other),
            }
            self.body(&node.continuing, region)?;
            if node.break_if.is_some_and(|cond| self.uniform(cond) != 0) {
                return Ok(Flow::On(region));
            }
        }
    }

    /// A loop that lanes leave in different iterations.
    fn divergent_loop(&mut self, node: &Loop, divergent: DivergentLoop) -> Result<Flow, Halted> {
        let DivergentLoop { outer, region, end, continued, broke } = divergent;
        let mask = self.own_mask(region);
        let entry = self.rectangle.code.entry;
        self.lanes(self.summary(outer)).none(mask);
        self.lanes(self.summary(outer)).join(mask, self.active(outer), entry);
        self.copy_summary(outer, region);
        if let Some((collector, _)) = broke {
            self.lanes(self.summary(outer)).none(collector);
        }
        // The blocks that may have a lane that is still in the loop.
        let mut candidates = self.summary(outer).clone();
        let mut packing = None;
        let mut rounds = 0_u32;
        while !self.summary(region).is_empty() {
            self.tick()?;
            rounds = rounds.wrapping_add(1);
            let look = rounds.is_multiple_of(super::PACK_INTERVAL) || self.rectangle.code.pack_always;
            // Race reports name lanes by position.
            if let Some(plan) = node.plan.pack.as_deref().filter(|_| look && self.rectangle.check.is_none()) {
                self.pack(plan, region, &mut packing);
            }
            if let Some(collector) = continued {
                candidates.copy_from(self.summary(region));
                self.lanes(&candidates).none(collector);
            }
            let flow = self.body(&node.body, region)?;
            debug_assert!(!matches!(flow, Flow::Break(_) | Flow::Continue(_)), "lanes leave one by one");
            let ended = if let Flow::On(end) = flow { Some(end) } else { None };
            debug_assert!(ended.is_none() || ended == end, "known before");
            match (ended, continued) {
                (Some(end), None) => {
                    if end != region {
                        self.move_to(end, region, region);
                    }
                }
                (None, None) => break,
                (ended, Some(collector)) => {
                    let keeps = ended.is_some_and(|end| self.mask(end) == Some(mask));
                    if !keeps {
                        self.lanes(&candidates).none(mask);
                        if let Some(end) = ended {
                            self.lanes(self.summary(end)).join(mask, self.active(end), entry);
                        }
                    }
                    self.lanes(&candidates).join(mask, Some(collector), entry);
                    self.update_summary(region, |walker, summary| {
                        walker.lanes(&candidates).summarise(mask, entry, summary);
                    });
                }
            }
            if self.summary(region).is_empty() {
                break;
            }
            self.body(&node.continuing, region)?;
            if let Some(cond) = node.break_if {
                if let Some((collector, _)) = broke {
                    self.leave_if(region, cond, collector);
                }
                candidates.copy_from(self.summary(region));
                self.update_summary(region, |walker, into| {
                    let (lanes, outer) = (&walker.lanes(&candidates), Some(mask));
                    walker.simd.run(Narrow { lanes, to: mask, outer, entry: None, cond, wanted: false, into });
                });
            }
        }
        if let Some(packing) = packing {
            self.unpack(packing);
        }
        let Some((collector, after)) = broke else { return Ok(Flow::On(outer)) };
        let into = self.own_mask(after);
        self.lanes(self.summary(outer)).none(into);
        self.lanes(self.summary(outer)).join(into, Some(collector), entry);
        self.resummarise(after, outer);
        Ok(if self.summary(after).is_empty() { Flow::Gone } else { Flow::On(after) })
    }

    /// Collects the lanes of a region for which a condition holds.
    fn leave_if(&mut self, region: Region, cond: Reg, collector: Reg) {
        let lanes = self.lanes(self.summary(region));
        let (to, cond) = (lanes.place(collector), lanes.place(cond));
        let mask = self.active(region).map(|mask| lanes.place(mask));
        for range in &lanes.summary.grid {
            for x in range.columns() {
                let cell = &self.rectangle.file[to.at(range.y, x)];
                let cond = self.rectangle.file[cond.at(range.y, x)].get();
                let mut block = cell.get();
                for (lane, value) in block.0.iter_mut().enumerate() {
                    *value |= cond.0[lane]
                        & mask.map_or(u32::MAX, |mask| self.rectangle.file[mask.at(range.y, x)].get().0[lane]);
                }
                cell.set(block);
            }
        }
    }

    fn call(&mut self, function: usize, region: Region) -> Result<(), Halted> {
        // Functions that each call another twice can run practically forever without a loop.
        self.tick()?;
        let code = self.rectangle.code;
        let root = code.roots[function];
        if let Some(to) = self.mask(root) {
            self.lanes(self.summary(region)).none(to);
            self.lanes(self.summary(region)).join(to, self.active(region), code.entry);
        }
        self.copy_summary(region, root);
        self.body(&code.shared[function], root).map(drop)
    }
}

/// Runs instructions with the widest instruction set.
struct RunOps<'l> {
    lanes: &'l Lanes<'l, 'l>,
    ops: &'l [Op],
}

impl crate::simd::Vectorize for RunOps<'_> {
    #[inline(always)]
    fn work(self) {
        self.lanes.execute(self.ops);
    }
}

/// Selects the lanes of `outer` for which a condition is `wanted`: writes their mask to a register and their blocks to
/// `into`.
pub(super) struct Narrow<'l> {
    lanes: &'l Lanes<'l, 'l>,
    pub(super) to: Reg,
    pub(super) outer: Option<Reg>,
    /// The mask of lanes that exist, if `outer` does not exclude the others.
    pub(super) entry: Option<Reg>,
    pub(super) cond: Reg,
    pub(super) wanted: bool,
    pub(super) into: &'l mut ActiveBlocks,
}

impl crate::simd::Vectorize for Narrow<'_> {
    #[inline(always)]
    fn work(self) {
        self.lanes.narrow(self);
    }
}
