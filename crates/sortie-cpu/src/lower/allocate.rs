//! Registers get their place: values whose lives do not overlap share one.

use std::{cmp::Reverse, collections::BinaryHeap};

use rustc_hash::{FxHashMap, FxHashSet};

use super::Origin;
use crate::{
    code::{Body, Branch, Builtin, Loop, Node, Op, Reg, Region},
    compiled::{Local, RegionInfo, Register},
    shape::Shape,
};

pub(super) struct Allocation {
    pub(super) registers: Vec<Register>,
    /// Places of each shape.
    pub(super) sizes: [u32; 4],
    pub(super) constants: Vec<(Reg, u32)>,
    pub(super) builtins: Vec<(Reg, Builtin)>,
    pub(super) locals: Vec<Local>,
    names: FxHashMap<Reg, Reg>,
}

impl Allocation {
    pub(super) fn renamed(&self, reg: Reg) -> Reg {
        self.names.get(&reg).copied().unwrap_or(Reg(0))
    }
}

/// From the first place where a register is needed to the last, in program order.
#[derive(Clone, Copy, Debug)]
struct LiveRange {
    from: u32,
    to: u32,
}

struct Liveness<'a> {
    origins: &'a [Origin],
    zones: &'a [RegionInfo],
    lives: FxHashMap<Reg, LiveRange>,
    /// Loops around the place at hand: where they start, and what was used in them, but for loops in them that have not
    /// ended.
    loops: Vec<(u32, Vec<Reg>)>,
    place: u32,
}

pub(super) fn allocate(
    bodies: &mut [&mut Body],
    origins: &[Origin],
    shapes: &[Shape],
    locals: &[u32],
    local_shapes: &[Shape],
    zones: &[RegionInfo],
    always: &[Reg],
) -> Allocation {
    let mut result = Allocation {
        registers: Vec::new(),
        sizes: [0; 4],
        constants: Vec::new(),
        builtins: Vec::new(),
        locals: Vec::new(),
        names: FxHashMap::default(),
    };
    for (words, shape) in locals.iter().zip(local_shapes) {
        let size = &mut result.sizes[shape.class()];
        result.locals.push(Local { shape: *shape, first: *size, words: *words });
        *size += words;
    }

    let mut per_body = Vec::new();
    let mut owner: FxHashMap<Reg, usize> = FxHashMap::default();
    // Needed in more than one body: never shared.
    let mut forever: FxHashSet<Reg> = always.iter().copied().collect();
    for (index, body) in bodies.iter_mut().enumerate() {
        let mut lives = Liveness { origins, zones, lives: FxHashMap::default(), loops: Vec::new(), place: 1 };
        lives.body(body);
        for reg in lives.lives.keys() {
            let fixed = matches!(origins[reg.0 as usize], Origin::Constant(_));
            if fixed || *owner.entry(*reg).or_insert(index) != index {
                forever.insert(*reg);
            }
        }
        per_body.push(lives.lives);
    }

    let place = |result: &mut Allocation, reg: Reg, slot: u32| {
        let name = Reg(u32::try_from(result.registers.len()).unwrap_or_else(|_| unreachable!("bounded by the source")));
        let shape = shapes[reg.0 as usize];
        result.registers.push(Register { shape, slot });
        result.names.insert(reg, name);
        match origins[reg.0 as usize] {
            Origin::Constant(value) => result.constants.push((name, value)),
            Origin::Builtin(builtin) => result.builtins.push((name, builtin)),
            Origin::Temporary | Origin::Variable => {}
        }
    };
    let mut fixed: Vec<Reg> = forever.iter().copied().collect();
    fixed.sort();
    for reg in &fixed {
        let size = &mut result.sizes[shapes[reg.0 as usize].class()];
        *size += 1;
        let slot = *size - 1;
        place(&mut result, *reg, slot);
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
                result.sizes[class] += 1;
                result.sizes[class] - 1
            });
            busy[class].push(Reverse((life.to, slot)));
            place(&mut result, reg, slot);
        }
    }

    bodies.iter_mut().for_each(|body| rename(body, &result.names));
    result
}

impl Liveness<'_> {
    fn touch(&mut self, reg: Reg) {
        let place = self.place;
        // What is filled before the code starts lives from its start on.
        let from = if matches!(self.origins[reg.0 as usize], Origin::Builtin(_)) { 0 } else { place };
        let life = self.lives.entry(reg).or_insert(LiveRange { from, to: place });
        life.to = life.to.max(place);
        if let Some((_, used)) = self.loops.last_mut() {
            used.push(reg);
        }
    }

    fn masks<'r>(&mut self, regions: impl IntoIterator<Item = &'r Region>) {
        for mask in regions.into_iter().filter_map(|region| self.zones[region.0 as usize].mask) {
            self.touch(mask);
        }
    }

    /// Places are numbered in program order; returns the one after the last.
    fn body(&mut self, body: &mut Body) {
        let mut opened = Vec::new();
        for node in body.iter_mut() {
            self.place += 1;
            match node {
                Node::Ops(ops) => {
                    for op in ops {
                        self.place += 1;
                        // What is written may overlap with what is read for the last time: blocks are read before they
                        // are written. Accesses to memory write several registers one after the other, so theirs must
                        // not.
                        let apart = !op.is_pure() && !matches!(op, Op::Blend { .. });
                        op.operands().into_iter().for_each(|reg| self.touch(reg));
                        self.place += u32::from(!apart);
                        op.results().into_iter().for_each(|reg| self.touch(reg));
                        self.place += u32::from(apart);
                    }
                }
                Node::If(Branch { cond, accept, reject, how }) => {
                    if let Some(guard) = &mut how.guard {
                        guard.compare.registers_once(&mut |reg| self.touch(*reg));
                        self.place += 1;
                    }
                    self.touch(*cond);
                    let mut inside: Vec<Region> = how.split.into_iter().flatten().collect();
                    inside.extend(
                        how.join.iter().flat_map(|join| join.ends.iter().flatten().copied().chain([join.into])),
                    );
                    inside.extend(how.outer);
                    self.masks(&inside);
                    self.body(accept);
                    // Conditions and masks are looked at again between the sides and after them.
                    self.place += 1;
                    self.touch(*cond);
                    self.masks(&inside);
                    self.body(reject);
                    self.place += 1;
                    self.masks(&inside);
                    opened.extend(inside);
                }
                Node::Loop(Loop { body, continuing, break_if, how, .. }) => {
                    let start = self.place;
                    let (mut regions, mut collectors) = (Vec::new(), Vec::new());
                    if let Some(spin) = how.split {
                        regions.extend([spin.outer, spin.region].into_iter().chain(spin.end));
                        collectors.extend(spin.continued);
                        regions.extend(spin.broke.map(|(_, region)| region));
                        collectors.extend(spin.broke.map(|(reg, _)| reg));
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
        // Masks are needed for as long as the body that they were made in goes on.
        self.masks(&opened);
    }
}

/// Gives registers other names.
pub(super) fn rename(body: &mut Body, names: &FxHashMap<Reg, Reg>) {
    let new = |reg: &mut Reg| {
        if let Some(name) = names.get(reg) {
            *reg = *name;
        }
    };
    for node in body {
        match node {
            Node::Ops(ops) => ops.iter_mut().for_each(|op| op.registers_once(&mut |reg| new(reg))),
            Node::If(Branch { cond, how, .. }) => {
                new(cond);
                if let Some(guard) = &mut how.guard {
                    guard.compare.registers_once(&mut |reg| new(reg));
                    new(&mut guard.index);
                    new(&mut guard.limit);
                }
            }
            Node::Loop(Loop { break_if, how, .. }) => {
                break_if.iter_mut().for_each(new);
                if let Some(spin) = &mut how.split {
                    spin.continued.iter_mut().for_each(new);
                    spin.broke.iter_mut().for_each(|(reg, _)| new(reg));
                }
                if let Some(pack) = &mut how.pack {
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
