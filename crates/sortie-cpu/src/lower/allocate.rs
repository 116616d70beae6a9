//! Register allocation: values with disjoint live ranges share a slot.

use std::{cmp::Reverse, collections::BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};

use super::Origin;
use crate::{
    code::{Body, Branch, Loop, Node, Op, Reg, Region},
    compiled::{Local, RegionInfo, Register, RegisterFile},
    shape::Shape,
};

pub(super) struct Allocation {
    pub(super) file: RegisterFile,
    names: FxHashMap<Reg, Reg>,
}

impl Allocation {
    pub(super) fn renamed(&self, reg: Reg) -> Reg {
        self.names.get(&reg).copied().unwrap_or(Reg(0))
    }
}

/// The first and last position at which a register is needed, in program order.
#[derive(Clone, Copy, Debug)]
struct LiveRange {
    from: u32,
    to: u32,
}

struct Liveness<'a> {
    origins: &'a [Origin],
    regions: &'a [RegionInfo],
    lives: FxHashMap<Reg, LiveRange>,
    /// Loops around the current position: their start, and the registers used in them, except in inner loops that are
    /// still open.
    loops: Vec<(u32, Vec<Reg>)>,
    place: u32,
}

pub(super) fn allocate(
    bodies: &mut [&mut Body],
    origins: &[Origin],
    shapes: &[Shape],
    locals: &[u32],
    local_shapes: &[Shape],
    regions: &[RegionInfo],
    always: &[Reg],
) -> Allocation {
    let (mut file, mut names) = (RegisterFile::default(), FxHashMap::default());
    for (words, shape) in locals.iter().zip(local_shapes) {
        let size = &mut file.sizes[shape.class()];
        file.locals.push(Local { shape: *shape, first: *size, words: *words });
        *size += words;
    }

    let mut per_body = Vec::new();
    let mut owner: FxHashMap<Reg, usize> = FxHashMap::default();
    // Registers used in more than one body get a slot of their own.
    let mut forever: FxHashSet<Reg> = always.iter().copied().collect();
    for (index, body) in bodies.iter_mut().enumerate() {
        let mut lives = Liveness { origins, regions, lives: FxHashMap::default(), loops: Vec::new(), place: 1 };
        lives.body(body);
        for reg in lives.lives.keys() {
            let fixed = matches!(origins[reg.0 as usize], Origin::Constant(_));
            if fixed || *owner.entry(*reg).or_insert(index) != index {
                forever.insert(*reg);
            }
        }
        per_body.push(lives.lives);
    }

    let mut place = |file: &mut RegisterFile, reg: Reg, slot: u32| {
        let name = Reg(u32::try_from(file.registers.len()).unwrap_or_else(|_| unreachable!("bounded by the source")));
        let shape = shapes[reg.0 as usize];
        file.registers.push(Register { shape, slot });
        names.insert(reg, name);
        match origins[reg.0 as usize] {
            Origin::Constant(value) => file.constants.push((name, value)),
            Origin::Builtin(builtin) => file.builtins.push((name, builtin)),
            Origin::Temporary | Origin::Variable => {}
        }
    };
    let mut fixed: Vec<Reg> = forever.iter().copied().collect();
    fixed.sort();
    for reg in &fixed {
        let size = &mut file.sizes[shapes[reg.0 as usize].class()];
        *size += 1;
        let slot = *size - 1;
        place(&mut file, *reg, slot);
    }
    for lives in per_body {
        let mut order: Vec<(Reg, LiveRange)> = lives.into_iter().filter(|(reg, _)| !forever.contains(reg)).collect();
        order.sort_by_key(|(reg, life)| (life.from, *reg));
        let mut free: [Vec<u32>; 4] = Default::default();
        let mut busy: [BinaryHeap<Reverse<(u32, u32)>>; 4] = Default::default();
        for (reg, life) in order {
            let class = shapes[reg.0 as usize].class();
            while let Some(Reverse((_, slot))) = busy[class].peek().copied().filter(|top| top.0.0 < life.from) {
                busy[class].pop();
                free[class].push(slot);
            }
            let slot = free[class].pop().unwrap_or_else(|| {
                file.sizes[class] += 1;
                file.sizes[class] - 1
            });
            busy[class].push(Reverse((life.to, slot)));
            place(&mut file, reg, slot);
        }
    }

    bodies.iter_mut().for_each(|body| rename(body, &names));
    Allocation { file, names }
}

impl Liveness<'_> {
    fn touch(&mut self, reg: Reg) {
        let place = self.place;
        // Builtins are filled before the code starts.
        let from = if matches!(self.origins[reg.0 as usize], Origin::Builtin(_)) { 0 } else { place };
        let life = self.lives.entry(reg).or_insert(LiveRange { from, to: place });
        life.to = life.to.max(place);
        if let Some((_, used)) = self.loops.last_mut() {
            used.push(reg);
        }
    }

    fn masks<'r>(&mut self, regions: impl IntoIterator<Item = &'r Region>) {
        for mask in regions.into_iter().filter_map(|region| self.regions[region.0 as usize].mask) {
            self.touch(mask);
        }
    }

    /// Computes the live ranges of a body. Positions are numbered in program order.
    fn body(&mut self, body: &mut Body) {
        let mut opened = Vec::new();
        for node in body.iter_mut() {
            self.place += 1;
            match node {
                Node::Ops(ops) => {
                    for op in ops {
                        self.place += 1;
                        // A result may share the slot of an operand read for the last time, because blocks are read
                        // before they are written. Not so for memory accesses, which write several registers in turn.
                        let apart = !op.is_pure() && !matches!(op, Op::Blend { .. });
                        op.operands().into_iter().for_each(|reg| self.touch(reg));
                        self.place += u32::from(!apart);
                        op.results().into_iter().for_each(|reg| self.touch(reg));
                        self.place += u32::from(apart);
                    }
                }
                Node::If(Branch { cond, accept, reject, plan }) => {
                    if let Some(guard) = &mut plan.guard {
                        guard.compare.registers_once(&mut |reg| self.touch(*reg));
                        self.place += 1;
                    }
                    self.touch(*cond);
                    let mut inside: Vec<Region> = plan.split.into_iter().flatten().collect();
                    inside.extend(
                        plan.join.iter().flat_map(|join| join.ends.iter().flatten().copied().chain([join.into])),
                    );
                    inside.extend(plan.outer);
                    self.masks(&inside);
                    self.body(accept);
                    // Conditions and masks are read again between the sides and after them.
                    self.place += 1;
                    self.touch(*cond);
                    self.masks(&inside);
                    self.body(reject);
                    self.place += 1;
                    self.masks(&inside);
                    opened.extend(inside);
                }
                Node::Loop(Loop { body, continuing, break_if, plan, .. }) => {
                    let start = self.place;
                    let (mut regions, mut collectors) = (Vec::new(), Vec::new());
                    if let Some(divergent) = plan.split {
                        regions.extend([divergent.outer, divergent.region].into_iter().chain(divergent.end));
                        collectors.extend(divergent.continued);
                        regions.extend(divergent.broke.map(|(_, region)| region));
                        collectors.extend(divergent.broke.map(|(reg, _)| reg));
                    }
                    self.masks(&regions);
                    collectors.iter().for_each(|reg| self.touch(*reg));
                    self.loops.push((start, Vec::new()));
                    self.place += 1;
                    self.body(body);
                    self.body(continuing);
                    if let Some(cond) = break_if {
                        self.place += 1;
                        self.touch(*cond);
                    }
                    self.place += 1;
                    collectors.iter().for_each(|reg| self.touch(*reg));
                    self.masks(&regions);
                    opened.extend(regions);
                    let end = self.place;
                    let Some((_, mut used)) = self.loops.pop() else { unreachable!("pushed above") };
                    used.sort();
                    used.dedup();
                    for reg in &used {
                        let varies = self.origins[reg.0 as usize] == Origin::Variable;
                        if let Some(life) = self.lives.get_mut(reg)
                            && (varies || life.from < start)
                        {
                            life.from = life.from.min(start);
                            life.to = life.to.max(end);
                        }
                    }
                    if let Some((_, around)) = self.loops.last_mut() {
                        around.append(&mut used);
                    }
                }
                Node::Break(leave) | Node::Continue(leave) => {
                    if let Some((region, collector)) = leave.split {
                        self.masks(&[region]);
                        collector.iter().for_each(|reg| self.touch(*reg));
                    }
                }
                Node::Scope(body) => self.body(body),
                Node::Call { region, .. } => self.masks(&[*region]),
                Node::Return | Node::Barrier { .. } => {}
            }
        }
        self.place += 1;
        // Masks are live until the end of the body that created them.
        self.masks(&opened);
    }
}

/// Renames registers.
pub(super) fn rename(body: &mut Body, names: &FxHashMap<Reg, Reg>) {
    let new = |reg: &mut Reg| {
        if let Some(name) = names.get(reg) {
            *reg = *name;
        }
    };
    for node in body {
        match node {
            Node::Ops(ops) => ops.iter_mut().for_each(|op| op.registers_once(&mut |reg| new(reg))),
            Node::If(Branch { cond, plan, .. }) => {
                new(cond);
                if let Some(guard) = &mut plan.guard {
                    guard.compare.registers_once(&mut |reg| new(reg));
                    new(&mut guard.index);
                    new(&mut guard.limit);
                }
            }
            Node::Loop(Loop { break_if, plan, .. }) => {
                break_if.iter_mut().for_each(new);
                if let Some(divergent) = &mut plan.split {
                    divergent.continued.iter_mut().for_each(new);
                    divergent.broke.iter_mut().for_each(|(reg, _)| new(reg));
                }
                if let Some(pack) = &mut plan.pack {
                    pack.carried.iter_mut().for_each(|carried| new(&mut carried.reg));
                }
            }
            Node::Break(leave) | Node::Continue(leave) => {
                if let Some((_, Some(collector))) = &mut leave.split {
                    new(collector);
                }
            }
            Node::Scope(_) | Node::Return | Node::Call { .. } | Node::Barrier { .. } => {}
        }
        node.bodies_mut().for_each(|body| rename(body, names));
    }
}
