//! Which lanes are active where, and how every register varies over them.
//!
//! A *region* is a stretch of code with one set of active lanes. All code starts in [`ALL_LANES`]; an `if` whose
//! condition varies opens a region for each side; where lanes leave (`break`, `continue`, `return`), the rest goes on
//! in a region without them. A condition that is the same for all lanes opens none.
//!
//! A variable's *home* is the innermost region that holds all uses of it. Set there, it takes the value for every lane:
//! those that are not active never look. Set further inside, it is blended, and varies as the mask does. So a loop
//! counter behind an early return stays uniform.
//!
//! Shapes and regions depend on each other: both grow from nothing until they no longer change.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Origin, build::register};
use crate::{
    code::{ALL_LANES, Body, Branch, DivergentLoop, Join, Loop, LoopExit, LoopId, Node, Op, Reg, Region, Root},
    geometry::Geometry,
    shape::Shape,
};

/// Rounds after which shapes are no longer looked for one by one. Kernels take a handful; variables that each depend on
/// the next, set in an order that hides it, would take a round each.
const MAX_ROUNDS: u32 = 64;

/// A region under construction.
#[derive(Clone, Debug)]
pub(super) struct RegionDraft {
    parent: Option<Region>,
    /// How its mask varies.
    pub(super) total: Shape,
    in_loop: bool,
    /// May reuse the mask register of this region, whose mask is no longer needed.
    pub(super) instead_of: Option<Region>,
    depth: u32,
}

/// Something that is set more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variable {
    Register(Reg),
    Array(u32),
}

/// The uses of a variable.
#[derive(Clone, Copy, Debug)]
struct Uses {
    home: Region,
    /// As `home`, of those uses that look at it.
    read: Option<Region>,
    /// The first use sets it, in this region.
    first_set: Option<Region>,
    several_trees: bool,
}

#[derive(Debug)]
pub(super) struct Regions<'a> {
    geometry: &'a Geometry,
    origins: &'a mut Vec<Origin>,
    locals: &'a mut Vec<Shape>,
    /// Parameters of shared functions: set outside for the inside, just before the call.
    parameters: &'a FxHashSet<Reg>,
    /// Their results: set inside, and looked at just after the call.
    results: &'a FxHashSet<Reg>,
    pub(super) shapes: Vec<Shape>,
    pub(super) areas: Vec<RegionDraft>,
    uses: FxHashMap<Variable, Uses>,
    /// Where lanes of a loop are collected.
    collected: FxHashMap<(LoopId, bool), Reg>,
    leaving: FxHashMap<LoopId, Shape>,
    divergent: FxHashMap<LoopId, bool>,
    /// Loops with no other around, by their region: the one in which all lanes that go round again end.
    rounds: FxHashMap<Region, Region>,
    /// How many conditions deep the place at hand is inside its region.
    nested: u32,
    /// Loops around the place at hand, and the borders of functions.
    around: Vec<Option<(LoopId, bool)>>,
    /// Regions from here on belong to the innermost function or loop.
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
            areas: Vec::new(),
            uses: FxHashMap::default(),
            collected: FxHashMap::default(),
            leaving: FxHashMap::default(),
            divergent: FxHashMap::default(),
            rounds: FxHashMap::default(),
            nested: 0,
            around: Vec::new(),
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
            self.areas =
                vec![RegionDraft { parent: None, total: Shape::UNIFORM, in_loop: false, instead_of: None, depth: 0 }];
            self.uses.clear();
            self.divergent.clear();
            self.rounds.clear();
            self.roots.clear();
            self.own_from = 1;
            self.walk(body, ALL_LANES);
            for (index, body) in shared.iter_mut().enumerate() {
                let total = self.shared_shapes[index];
                let root = self.area(None, total);
                self.roots.push(root);
                self.own_from = root.0 + 1;
                self.walk(body, root);
            }
            self.spread(body);
            shared.iter_mut().for_each(|body| self.spread(body));
            if !self.changed {
                return;
            }
        }
    }

    /// Lets everything that is set more than once differ from lane to lane. That is always right, and what is left is
    /// then found in a few rounds.
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

    /// A new region, whose mask varies as said beyond its parent's.
    fn area(&mut self, parent: Option<Region>, own: Shape) -> Region {
        let region = Region(self.next_area());
        let (total, depth) = parent.map_or((own, 0), |parent| {
            let parent = &self.areas[parent.0 as usize];
            (parent.total | own, parent.depth + 1)
        });
        let in_loop = self.around.iter().any(Option::is_some);
        self.areas.push(RegionDraft { parent, total, in_loop, instead_of: None, depth });
        region
    }

    fn next_area(&self) -> u32 {
        u32::try_from(self.areas.len()).unwrap_or_else(|_| unreachable!("bounded by the source"))
    }

    pub(super) fn total(&self, region: Region) -> Shape {
        self.areas[region.0 as usize].total
    }

    fn parent(&self, region: Region) -> Option<Region> {
        self.areas[region.0 as usize].parent
    }

    fn common(&self, mut a: Region, mut b: Region) -> Option<Region> {
        while a != b {
            let (deep_a, deep_b) = (self.areas[a.0 as usize].depth, self.areas[b.0 as usize].depth);
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

    /// Whether a set in this region has to respect the mask, and how the variable then varies.
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
            // Lanes that are not active here have left the loop, and nothing reads it outside.
            return None;
        } else if self.areas[uses.home.0 as usize].in_loop && uses.first_set != Some(uses.home) {
            // Its lanes may change from one time round to the next, and the value outlives that.
            while let Some(inner) = home.filter(|home| self.areas[home.0 as usize].in_loop) {
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
        // As the whole mask does, not only what home does not know of it: that is what it is blended by.
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

    /// Gives every node of a body its regions. Returns the region in which it ends, if it does.
    fn walk(&mut self, body: &mut Body, region: Region) -> Option<Region> {
        let mut current = region;
        for node in body {
            match node {
                Node::Ops(ops) => ops.iter_mut().for_each(|op| self.place(op, current)),
                Node::If(branch) => {
                    let ends = self.branch(branch, current);
                    let Branch { cond, accept, reject, how } = branch;
                    let escapes = self.escapes(accept, &mut vec![]) || self.escapes(reject, &mut vec![]);
                    how.join = None;
                    how.gone = ends == [None, None];
                    match ends {
                        [None, None] => return None,
                        _ if !escapes => {}
                        _ if how.split.is_none() && ends.iter().flatten().all(|end| *end == current) => {}
                        [Some(end), None] | [None, Some(end)] => {
                            let side = how.split.map(|[t, f]| if ends[0].is_some() { t } else { f });
                            if let Some(side) = side.filter(|_| current.0 >= self.own_from) {
                                self.areas[side.0 as usize].instead_of = Some(current);
                            }
                            how.join = Some(Join { ends, into: end });
                            current = end;
                        }
                        _ => {
                            let mut own = if how.split.is_some() { self.shape(*cond) } else { Shape::UNIFORM };
                            own |= ends.iter().flatten().fold(Shape::UNIFORM, |sum, end| sum | self.total(*end));
                            let into = self.area(Some(current), own);
                            if current.0 >= self.own_from {
                                self.areas[into.0 as usize].instead_of = Some(current);
                            }
                            how.join = Some(Join { ends, into });
                            current = into;
                        }
                    }
                }
                Node::Loop(Loop { id, body, continuing, break_if, how }) => {
                    let varies = break_if.is_some_and(|cond| !self.shape(cond).is_uniform());
                    let own_from = self.own_from;
                    let nested = self.nested;
                    if varies || self.diverges(body, *id) {
                        self.around.push(Some((*id, true)));
                        let outer = current;
                        let inner = self.area(Some(outer), how.shape);
                        self.nested = 0;
                        self.own_from = inner.0;
                        let end = self.walk(body, inner);
                        self.own_from = self.next_area();
                        self.walk(continuing, inner);
                        let mut shape = self.leaving.get(id).copied().unwrap_or_default();
                        if let Some(cond) = break_if {
                            self.used(*cond, inner, false);
                            shape |= self.shape(*cond);
                        }
                        if how.shape | shape != how.shape {
                            how.shape |= shape;
                            self.changed = true;
                        }
                        self.around.pop();
                        let total = self.total(inner);
                        let next = |node: &Node| matches!(node, Node::Continue(leave) if leave.target == *id);
                        let continues = body.iter().any(|node| node.any(&next));
                        let continued = continues.then(|| self.collector(*id, false, total));
                        let broke = self.escapes(body, &mut vec![*id]).then(|| {
                            let reg = self.collector(*id, true, total);
                            (reg, self.area(Some(outer), how.shape))
                        });
                        how.split = Some(DivergentLoop { outer, region: inner, end, continued, broke });
                        // A function that is shared may be called in a loop.
                        let alone = self.around.iter().all(Option::is_none) && self.holds(ALL_LANES, inner);
                        if let Some(end) = end.filter(|_| alone && continued.is_none()) {
                            self.rounds.insert(inner, end);
                        }
                        if let Some((_, after)) = broke {
                            current = after;
                        }
                    } else {
                        self.around.push(Some((*id, false)));
                        how.split = None;
                        self.own_from = self.next_area();
                        self.nested += 1;
                        self.walk(body, current);
                        self.walk(continuing, current);
                        if let Some(cond) = break_if {
                            self.used(*cond, current, false);
                        }
                        self.around.pop();
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
                    let border = self.around.iter().rposition(Option::is_none).map_or(0, |border| border + 1);
                    for (id, _) in self.around[border..].iter().flatten() {
                        *self.leaving.entry(*id).or_default() |= total;
                    }
                    return None;
                }
                Node::Scope(body) => {
                    let own_from = self.own_from;
                    self.own_from = self.next_area();
                    self.around.push(None);
                    self.walk(body, current);
                    self.around.pop();
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

    /// Both sides of an `if`; the regions in which they end.
    fn branch(&mut self, branch: &mut Branch, current: Region) -> [Option<Region>; 2] {
        let Branch { cond, accept, reject, how } = branch;
        self.used(*cond, current, false);
        how.outer = Some(current);
        let shape = self.shape(*cond);
        if shape.is_uniform() {
            how.split = None;
            how.runs = [true; 2];
            self.nested += 1;
            let ends = [self.walk(accept, current), self.walk(reject, current)];
            self.nested -= 1;
            return ends;
        }
        let nested = std::mem::take(&mut self.nested);
        let sides = [self.area(Some(current), shape), self.area(Some(current), shape)];
        how.split = Some(sides);
        let ends = [self.walk(accept, sides[0]), self.walk(reject, sides[1])];
        how.runs = [runs(accept), runs(reject)];
        self.nested = nested;
        ends
    }

    fn leave(&mut self, leave: &mut LoopExit, current: Region, breaks: bool) {
        let total = self.total(current);
        let found = self.around.iter().rposition(|around| around.is_some_and(|(id, _)| id == leave.target));
        let Some(found) = found else { unreachable!("leaves a loop around it") };
        // Lanes leave every loop up to the one that is meant.
        for (id, _) in self.around[found..].iter().flatten() {
            *self.leaving.entry(*id).or_default() |= total;
        }
        leave.split = match self.around[found] {
            Some((id, true)) => Some((current, self.collected.get(&(id, breaks)).copied())),
            _ => None,
        };
    }

    /// Whether lanes may leave this loop, or go on in it, one by one.
    fn diverges(&mut self, body: &Body, id: LoopId) -> bool {
        if let Some(known) = self.divergent.get(&id) {
            return *known;
        }
        let diverges = self.parts(body, false, &mut vec![]);
        self.divergent.insert(id, diverges);
        diverges
    }

    /// Whether lanes leave the body when others may stay. `inside` are loops within it, which may be left.
    fn parts(&mut self, body: &Body, apart: bool, inside: &mut Vec<LoopId>) -> bool {
        for node in body {
            let found = match node {
                Node::If(Branch { cond, accept, reject, .. }) => {
                    let apart = apart || !self.shape(*cond).is_uniform();
                    self.parts(accept, apart, inside) || self.parts(reject, apart, inside)
                }
                Node::Loop(Loop { id, body, break_if, .. }) => {
                    let varies = break_if.is_some_and(|cond| !self.shape(cond).is_uniform());
                    let apart = apart || varies || self.diverges(body, *id);
                    inside.push(*id);
                    let found = self.parts(body, apart, inside);
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

    /// Whether lanes may leave the body, and more than the loops `inside`, other than by its end.
    fn escapes(&mut self, body: &Body, inside: &mut Vec<LoopId>) -> bool {
        self.parts(body, true, inside)
    }

    fn place(&mut self, op: &mut Op, current: Region) {
        match op {
            Op::Set { init: true, region, .. } | Op::FillLocal { region, .. } => {
                *region = ALL_LANES;
                return;
            }
            Op::Set { region, .. } => *region = current,
            Op::Load(access) | Op::Store(access) => {
                access.region = current;
                if let Root::Local(local) = access.address.root {
                    // Never all of it at once, so never a fresh start.
                    self.used_variable(Variable::Array(local), current, false);
                }
            }
            Op::Atomic(atomic) => atomic.access.region = current,
            _ => {}
        }
        op.operands().into_iter().for_each(|reg| self.used(reg, current, false));
        op.results().into_iter().for_each(|reg| self.used(reg, current, true));
    }

    /// From operands to results.
    fn spread(&mut self, body: &mut Body) {
        super::for_each_op(body, &mut |op| self.spread_op(op));
    }

    fn spread_op(&mut self, op: &mut Op) {
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
                    let parts = access.parts.iter().fold(access.shape, |sum, part| sum | self.shape(part.reg));
                    let shape = parts | self.blended(Variable::Array(local), access.region).unwrap_or_default();
                    self.grow_local(local, shape);
                }
            }
            Op::FillLocal { local, value, .. } => self.grow_local(*local, self.shape(*value)),
            Op::Atomic(atomic) => atomic.old.into_iter().for_each(|old| self.grow(old, Shape::LANE)),
            Op::Broadcast { d, .. } => self.grow(*d, self.geometry.workgroup_shape()),
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

/// Whether a side needs to know its lanes: not if it only leaves and its lanes are not collected.
fn runs(body: &Body) -> bool {
    match body.as_slice() {
        [] | [Node::Return] => false,
        [Node::Break(leave) | Node::Continue(leave)] => !matches!(leave.split, Some((_, None))),
        _ => true,
    }
}
