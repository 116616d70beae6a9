//! Which lanes are active where, and how every register varies over them.
//!
//! A *region* is a section of code with one set of active lanes. Execution starts in [`ALL_LANES`]. An `if` with a
//! divergent condition creates a region for each side. After a `break`, `continue` or `return` of some lanes, the
//! others continue in a new region. A uniform condition creates no region.
//!
//! A variable's *home* is the innermost region that contains all its uses. An assignment there writes every lane,
//! because inactive lanes never read it. An assignment in an inner region is blended and varies as the mask does. So a
//! loop counter after an early return stays uniform.
//!
//! Shapes and regions depend on each other: both are computed by iteration to a fixed point, starting with uniform
//! shapes.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Origin, build::register};
use crate::{
    code::{ALL_LANES, Body, Branch, DivergentLoop, Join, Loop, LoopExit, LoopId, Node, Op, Reg, Region, Root},
    geometry::Geometry,
    shape::Shape,
};

/// Maximum rounds of the fixed-point iteration. Most kernels take fewer than ten; a chain of variables assigned in reverse order
/// takes one round per variable.
const MAX_ROUNDS: u32 = 64;

/// A region under construction.
#[derive(Clone, Debug)]
pub(super) struct RegionDraft {
    parent: Option<Region>,
    /// How its mask varies from lane to lane.
    pub(super) total: Shape,
    in_loop: bool,
    /// May reuse the mask register of this region, whose mask is no longer needed.
    pub(super) instead_of: Option<Region>,
    depth: u32,
}

/// A register or local array that is written more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variable {
    Register(Reg),
    Array(u32),
}

/// The uses of a variable.
#[derive(Clone, Copy, Debug)]
struct Uses {
    home: Region,
    /// As `home`, of the reads only.
    read: Option<Region>,
    /// The region of the first use, if that is an assignment.
    first_set: Option<Region>,
    several_trees: bool,
}

#[derive(Debug)]
pub(super) struct Regions<'a> {
    geometry: &'a Geometry,
    origins: &'a mut Vec<Origin>,
    locals: &'a mut Vec<Shape>,
    /// Parameters of shared functions: written by the caller, just before the call.
    parameters: &'a FxHashSet<Reg>,
    /// Their results: written by the callee, read just after the call.
    results: &'a FxHashSet<Reg>,
    pub(super) shapes: Vec<Shape>,
    pub(super) drafts: Vec<RegionDraft>,
    uses: FxHashMap<Variable, Uses>,
    /// Registers that collect the lanes that continue (`false`) or break (`true`).
    collected: FxHashMap<(LoopId, bool), Reg>,
    leaving: FxHashMap<LoopId, Shape>,
    divergent: FxHashMap<LoopId, bool>,
    /// For outermost loops, by region: the region in which the lanes of the next iteration end the body.
    rounds: FxHashMap<Region, Region>,
    /// Number of uniform conditions around the current position, within its region.
    nested: u32,
    /// Loops around the current position, with whether they diverge; `None` for the start of a function.
    enclosing: Vec<Option<(LoopId, bool)>>,
    /// Regions from this number on belong to the innermost function or loop.
    own_from: u32,
    shared_shapes: Vec<Shape>,
    pub(super) roots: Vec<Region>,
    changed: bool,
}

impl<'a> Regions<'a> {
    pub(super) fn new(
        geometry: &'a Geometry,
        origins: &'a mut Vec<Origin>,
        locals: &'a mut Vec<Shape>,
        [parameters, results]: [&'a FxHashSet<Reg>; 2],
        shared: usize,
    ) -> Self {
        let shapes = origins
            .iter()
            .map(|origin| match origin {
                Origin::Builtin(builtin) => geometry.shape(*builtin),
                _ => Shape::UNIFORM,
            })
            .collect();
        Self {
            geometry,
            origins,
            locals,
            parameters,
            results,
            shapes,
            drafts: Vec::new(),
            uses: FxHashMap::default(),
            collected: FxHashMap::default(),
            leaving: FxHashMap::default(),
            divergent: FxHashMap::default(),
            rounds: FxHashMap::default(),
            nested: 0,
            enclosing: Vec::new(),
            own_from: 0,
            shared_shapes: vec![Shape::UNIFORM; shared],
            roots: Vec::new(),
            changed: false,
        }
    }

    /// Finds regions and shapes.
    pub(super) fn solve(&mut self, body: &mut Body, shared: &mut [Body]) {
        for round in 0.. {
            self.changed = false;
            if round == MAX_ROUNDS {
                self.widen();
            }
            self.drafts =
                vec![RegionDraft { parent: None, total: Shape::UNIFORM, in_loop: false, instead_of: None, depth: 0 }];
            self.uses.clear();
            self.divergent.clear();
            self.rounds.clear();
            self.roots.clear();
            self.own_from = 1;
            self.walk(body, ALL_LANES);
            for (index, body) in shared.iter_mut().enumerate() {
                let total = self.shared_shapes[index];
                let root = self.new_region(None, total);
                self.roots.push(root);
                self.own_from = root.0 + 1;
                self.walk(body, root);
            }
            self.propagate(body);
            shared.iter_mut().for_each(|body| self.propagate(body));
            if !self.changed {
                return;
            }
        }
    }

    /// Makes all variables and arrays per lane. That is always correct, and the rest then converges in a few rounds.
    fn widen(&mut self) {
        for (shape, origin) in self.shapes.iter_mut().zip(&*self.origins) {
            if *origin == Origin::Variable {
                *shape |= Shape::LANE;
            }
        }
        self.locals.iter_mut().chain(&mut self.shared_shapes).for_each(|shape| *shape |= Shape::LANE);
        self.changed = true;
    }

    pub(super) fn shape(&self, reg: Reg) -> Shape {
        self.shapes[reg.0 as usize]
    }

    fn grow(&mut self, reg: Reg, shape: Shape) {
        let old = self.shapes[reg.0 as usize];
        if old | shape != old {
            self.shapes[reg.0 as usize] |= shape;
            self.changed = true;
        }
    }

    /// A register for a mask that is written more than once.
    pub(super) fn mask(&mut self, shape: Shape) -> Reg {
        self.shapes.push(shape);
        register(self.origins, Origin::Variable)
    }

    fn collector(&mut self, id: LoopId, broke: bool, shape: Shape) -> Reg {
        let reg = match self.collected.get(&(id, broke)) {
            Some(reg) => *reg,
            None => {
                let reg = self.mask(shape);
                self.collected.insert((id, broke), reg);
                self.changed = true;
                reg
            }
        };
        self.grow(reg, shape);
        reg
    }

    /// A new region. Its mask has the shape of its parent's mask combined with `own`.
    fn new_region(&mut self, parent: Option<Region>, own: Shape) -> Region {
        let region = Region(self.next_region());
        let (total, depth) = parent.map_or((own, 0), |parent| {
            let parent = &self.drafts[parent.0 as usize];
            (parent.total | own, parent.depth + 1)
        });
        let in_loop = self.enclosing.iter().any(Option::is_some);
        self.drafts.push(RegionDraft { parent, total, in_loop, instead_of: None, depth });
        region
    }

    fn next_region(&self) -> u32 {
        u32::try_from(self.drafts.len()).unwrap_or_else(|_| unreachable!("bounded by the source"))
    }

    pub(super) fn total(&self, region: Region) -> Shape {
        self.drafts[region.0 as usize].total
    }

    fn parent(&self, region: Region) -> Option<Region> {
        self.drafts[region.0 as usize].parent
    }

    fn common(&self, mut a: Region, mut b: Region) -> Option<Region> {
        while a != b {
            let (deep_a, deep_b) = (self.drafts[a.0 as usize].depth, self.drafts[b.0 as usize].depth);
            if deep_a >= deep_b {
                a = self.parent(a)?;
            } else {
                b = self.parent(b)?;
            }
        }
        Some(a)
    }

    fn used(&mut self, reg: Reg, region: Region, sets: bool) {
        if self.origins[reg.0 as usize] == Origin::Variable {
            self.used_variable(Variable::Register(reg), region, sets);
        }
    }

    fn used_variable(&mut self, variable: Variable, region: Region, sets: bool) {
        let Some(mut uses) = self.uses.get(&variable).copied() else {
            let first_set = (sets && self.nested == 0).then_some(region);
            let read = (!sets).then_some(region);
            self.uses.insert(variable, Uses { home: region, read, first_set, several_trees: false });
            return;
        };
        if !sets {
            uses.read = uses.read.map_or(Some(region), |read| self.common(read, region));
        }
        match self.common(uses.home, region) {
            Some(home) => uses.home = home,
            None => uses.several_trees = true,
        }
        self.uses.insert(variable, uses);
    }

    /// The shape that an assignment in this region adds because it must be blended; `None` if it need not be.
    pub(super) fn blended(&self, variable: Variable, region: Region) -> Option<Shape> {
        let uses = self.uses.get(&variable)?;
        let among = |set: &FxHashSet<Reg>| matches!(variable, Variable::Register(reg) if set.contains(&reg));
        if among(self.parameters) {
            return None;
        }
        let mut home = Some(uses.home);
        if among(self.results) {
            let mut root = region;
            while let Some(outer) = self.parent(root) {
                root = outer;
            }
            home = Some(root);
        } else if uses.several_trees {
            home = None;
        } else if uses.read.is_some_and(|read| self.rounds.get(&read).is_some_and(|end| self.holds(region, *end))) {
            // Inactive lanes have left the loop, and nothing reads the variable outside.
            return None;
        } else if self.drafts[uses.home.0 as usize].in_loop && uses.first_set != Some(uses.home) {
            // The active lanes may change between iterations, and the value is kept across them.
            while let Some(inner) = home.filter(|home| self.drafts[home.0 as usize].in_loop) {
                home = self.parent(inner);
            }
        }
        let mut at = Some(region);
        let mut any = false;
        while at != home {
            let Some(inner) = at else { break };
            any |= inner != ALL_LANES;
            at = self.parent(inner);
        }
        // The shape of the whole mask, because that is what the blend uses.
        any.then(|| self.total(region))
    }

    /// Whether all lanes of the inner region are active in the outer one.
    fn holds(&self, outer: Region, inner: Region) -> bool {
        let mut at = Some(inner);
        while at.is_some_and(|at| at != outer) {
            at = at.and_then(|at| self.parent(at));
        }
        at.is_some()
    }

    /// Assigns regions to every node of a body. Returns the region at its end; `None` if no lane reaches it.
    fn walk(&mut self, body: &mut Body, region: Region) -> Option<Region> {
        let mut current = region;
        for node in body {
            match node {
                Node::Ops(ops) => ops.iter_mut().for_each(|op| self.assign_region(op, current)),
                Node::If(branch) => {
                    let ends = self.branch(branch, current);
                    let Branch { cond, accept, reject, plan } = branch;
                    let escapes = self.escapes(accept, &mut vec![]) || self.escapes(reject, &mut vec![]);
                    plan.join = None;
                    plan.all_leave = ends == [None, None];
                    match ends {
                        [None, None] => return None,
                        _ if !escapes => {}
                        _ if plan.split.is_none() && ends.iter().flatten().all(|end| *end == current) => {}
                        [Some(end), None] | [None, Some(end)] => {
                            let side = plan.split.map(|[t, f]| if ends[0].is_some() { t } else { f });
                            if let Some(side) = side.filter(|_| current.0 >= self.own_from) {
                                self.drafts[side.0 as usize].instead_of = Some(current);
                            }
                            plan.join = Some(Join { ends, into: end });
                            current = end;
                        }
                        _ => {
                            let mut own = if plan.split.is_some() { self.shape(*cond) } else { Shape::UNIFORM };
                            own |= ends.iter().flatten().fold(Shape::UNIFORM, |sum, end| sum | self.total(*end));
                            let into = self.new_region(Some(current), own);
                            if current.0 >= self.own_from {
                                self.drafts[into.0 as usize].instead_of = Some(current);
                            }
                            plan.join = Some(Join { ends, into });
                            current = into;
                        }
                    }
                }
                Node::Loop(Loop { id, body, continuing, break_if, plan }) => {
                    let varies = break_if.is_some_and(|cond| !self.shape(cond).is_uniform());
                    let own_from = self.own_from;
                    let nested = self.nested;
                    if varies || self.diverges(body, *id) {
                        self.enclosing.push(Some((*id, true)));
                        let outer = current;
                        let inner = self.new_region(Some(outer), plan.shape);
                        self.nested = 0;
                        self.own_from = inner.0;
                        let end = self.walk(body, inner);
                        self.own_from = self.next_region();
                        self.walk(continuing, inner);
                        let mut shape = self.leaving.get(id).copied().unwrap_or_default();
                        if let Some(cond) = break_if {
                            self.used(*cond, inner, false);
                            shape |= self.shape(*cond);
                        }
                        if plan.shape | shape != plan.shape {
                            plan.shape |= shape;
                            self.changed = true;
                        }
                        self.enclosing.pop();
                        let total = self.total(inner);
                        let next = |node: &Node| matches!(node, Node::Continue(leave) if leave.target == *id);
                        let continues = body.iter().any(|node| node.any(&next));
                        let continued = continues.then(|| self.collector(*id, false, total));
                        let broke = self.escapes(body, &mut vec![*id]).then(|| {
                            let reg = self.collector(*id, true, total);
                            (reg, self.new_region(Some(outer), plan.shape))
                        });
                        plan.split = Some(DivergentLoop { outer, region: inner, end, continued, broke });
                        // A shared function may be called in a loop.
                        let alone = self.enclosing.iter().all(Option::is_none) && self.holds(ALL_LANES, inner);
                        if let Some(end) = end.filter(|_| alone && continued.is_none()) {
                            self.rounds.insert(inner, end);
                        }
                        if let Some((_, after)) = broke {
                            current = after;
                        }
                    } else {
                        self.enclosing.push(Some((*id, false)));
                        plan.split = None;
                        self.own_from = self.next_region();
                        self.nested += 1;
                        self.walk(body, current);
                        self.walk(continuing, current);
                        if let Some(cond) = break_if {
                            self.used(*cond, current, false);
                        }
                        self.enclosing.pop();
                    }
                    self.own_from = own_from;
                    self.nested = nested;
                }
                Node::Break(leave) => {
                    self.leave(leave, current, true);
                    return None;
                }
                Node::Continue(leave) => {
                    self.leave(leave, current, false);
                    return None;
                }
                Node::Return => {
                    let total = self.total(current);
                    let border = self.enclosing.iter().rposition(Option::is_none).map_or(0, |border| border + 1);
                    for (id, _) in self.enclosing[border..].iter().flatten() {
                        *self.leaving.entry(*id).or_default() |= total;
                    }
                    return None;
                }
                Node::Scope(body) => {
                    let own_from = self.own_from;
                    self.own_from = self.next_region();
                    self.enclosing.push(None);
                    self.walk(body, current);
                    self.enclosing.pop();
                    self.own_from = own_from;
                }
                Node::Call { function, region } => {
                    *region = current;
                    let shape = self.shared_shapes[*function] | self.total(current);
                    self.changed |= shape != self.shared_shapes[*function];
                    self.shared_shapes[*function] = shape;
                }
                Node::Barrier { .. } => {}
            }
        }
        Some(current)
    }

    /// Walks both sides of an `if`. Returns the regions at their ends.
    fn branch(&mut self, branch: &mut Branch, current: Region) -> [Option<Region>; 2] {
        let Branch { cond, accept, reject, plan } = branch;
        self.used(*cond, current, false);
        plan.outer = Some(current);
        let shape = self.shape(*cond);
        if shape.is_uniform() {
            plan.split = None;
            plan.runs = [true; 2];
            self.nested += 1;
            let ends = [self.walk(accept, current), self.walk(reject, current)];
            self.nested -= 1;
            return ends;
        }
        let nested = std::mem::take(&mut self.nested);
        let sides = [self.new_region(Some(current), shape), self.new_region(Some(current), shape)];
        plan.split = Some(sides);
        let ends = [self.walk(accept, sides[0]), self.walk(reject, sides[1])];
        plan.runs = [runs(accept), runs(reject)];
        self.nested = nested;
        ends
    }

    fn leave(&mut self, leave: &mut LoopExit, current: Region, breaks: bool) {
        let total = self.total(current);
        let found = self.enclosing.iter().rposition(|enclosing| enclosing.is_some_and(|(id, _)| id == leave.target));
        let Some(found) = found else { unreachable!("leaves a loop enclosing it") };
        // Lanes leave all loops up to the target.
        for (id, _) in self.enclosing[found..].iter().flatten() {
            *self.leaving.entry(*id).or_default() |= total;
        }
        leave.split = match self.enclosing[found] {
            Some((id, true)) => Some((current, self.collected.get(&(id, breaks)).copied())),
            _ => None,
        };
    }

    /// Whether lanes may break, continue or return divergently in this loop.
    fn diverges(&mut self, body: &Body, id: LoopId) -> bool {
        if let Some(known) = self.divergent.get(&id) {
            return *known;
        }
        let diverges = self.lanes_leave(body, false, &mut vec![]);
        self.divergent.insert(id, diverges);
        diverges
    }

    /// Whether lanes leave the body while others may stay. Leaving one of the loops `inside` does not count.
    fn lanes_leave(&mut self, body: &Body, apart: bool, inside: &mut Vec<LoopId>) -> bool {
        for node in body {
            let found = match node {
                Node::If(Branch { cond, accept, reject, .. }) => {
                    let apart = apart || !self.shape(*cond).is_uniform();
                    self.lanes_leave(accept, apart, inside) || self.lanes_leave(reject, apart, inside)
                }
                Node::Loop(Loop { id, body, break_if, .. }) => {
                    let varies = break_if.is_some_and(|cond| !self.shape(cond).is_uniform());
                    let apart = apart || varies || self.diverges(body, *id);
                    inside.push(*id);
                    let found = self.lanes_leave(body, apart, inside);
                    inside.pop();
                    found
                }
                Node::Break(leave) | Node::Continue(leave) => apart && !inside.contains(&leave.target),
                Node::Return => apart,
                Node::Ops(_) | Node::Scope(_) | Node::Call { .. } | Node::Barrier { .. } => false,
            };
            if found {
                return true;
            }
        }
        false
    }

    /// Whether lanes may leave the body, beyond the loops `inside`, other than at its end.
    fn escapes(&mut self, body: &Body, inside: &mut Vec<LoopId>) -> bool {
        self.lanes_leave(body, true, inside)
    }

    fn assign_region(&mut self, op: &mut Op, current: Region) {
        match op {
            Op::Set { init: true, region, .. } | Op::FillLocal { region, .. } => {
                *region = ALL_LANES;
                return;
            }
            Op::Set { region, .. } => *region = current,
            Op::Load(access) | Op::Store(access) => {
                access.region = current;
                if let Root::Local(local) = access.address.root {
                    // An access never overwrites the whole array, so it counts as a read.
                    self.used_variable(Variable::Array(local), current, false);
                }
            }
            Op::Atomic(atomic) => atomic.access.region = current,
            Op::Subgroup(subgroup) => subgroup.region = current,
            _ => {}
        }
        op.operands().into_iter().for_each(|reg| self.used(reg, current, false));
        op.results().into_iter().for_each(|reg| self.used(reg, current, true));
    }

    /// Propagates shapes from operands to results.
    fn propagate(&mut self, body: &mut Body) {
        super::for_each_op(body, &mut |op| self.propagate_op(op));
    }

    fn propagate_op(&mut self, op: &mut Op) {
        if let Some(access) = op.access() {
            access.shape = self.access_shape(access);
        }
        match op {
            Op::Set { d, a, region, init } => {
                let blended = if *init { None } else { self.blended(Variable::Register(*d), *region) };
                self.grow(*d, self.shape(*a) | blended.unwrap_or_default());
            }
            Op::Load(access) => access.parts.iter().for_each(|part| self.grow(part.reg, access.shape)),
            Op::Store(access) => {
                if let Root::Local(local) = access.address.root {
                    let lanes_leave = access.parts.iter().fold(access.shape, |sum, part| sum | self.shape(part.reg));
                    let shape = lanes_leave | self.blended(Variable::Array(local), access.region).unwrap_or_default();
                    self.grow_local(local, shape);
                }
            }
            Op::FillLocal { local, value, .. } => self.grow_local(*local, self.shape(*value)),
            Op::Atomic(atomic) => {
                let high = atomic.high.and_then(|high| high.old);
                atomic.old.into_iter().chain(high).for_each(|old| self.grow(old, Shape::LANE));
            }
            Op::Broadcast { d, .. } => self.grow(*d, self.geometry.workgroup_shape()),
            Op::Subgroup(subgroup) => self.grow(subgroup.d, Shape::LANE),
            Op::Count { .. } => {}
            _ => {
                let shape = op.operands().iter().fold(Shape::UNIFORM, |sum, reg| sum | self.shape(*reg));
                op.results().into_iter().for_each(|reg| self.grow(reg, shape));
            }
        }
    }

    fn grow_local(&mut self, local: u32, shape: Shape) {
        let old = &mut self.locals[local as usize];
        if *old | shape != *old {
            *old |= shape;
            self.changed = true;
        }
    }

    fn access_shape(&self, access: &crate::code::Access) -> Shape {
        let index = access.address.terms.iter().fold(Shape::UNIFORM, |sum, term| sum | self.shape(term.index));
        index
            | match access.address.root {
                Root::Workgroup => self.geometry.workgroup_shape(),
                Root::Local(local) => self.locals[local as usize],
                Root::Buffer(_) | Root::Immediate => Shape::UNIFORM,
            }
    }
}

/// Whether a side needs its mask. It does not if all its lanes only exit, and the exit does not collect them.
fn runs(body: &Body) -> bool {
    match body.as_slice() {
        [] | [Node::Return] => false,
        [Node::Break(leave) | Node::Continue(leave)] => !matches!(leave.split, Some((_, None))),
        _ => true,
    }
}
