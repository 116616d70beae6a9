//! Finds loops whose lanes may be packed: once many lanes have left, the others are moved into fewer blocks.
//!
//! All values of such a loop that differ between lanes must be in registers per lane. Values per row or column are
//! copied to such registers before the loop.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Origin, allocate::rename, build::register};
use crate::{
    code::{Body, CarriedRegister, Loop, Node, Op, PackPlan, Reg, Root},
    compiled::RegionInfo,
    geometry::{Geometry, Mode},
    shape::Shape,
};

/// The analysis results so far; new registers are added.
pub(super) struct Packer<'a> {
    pub(super) origins: &'a mut Vec<Origin>,
    pub(super) shapes: &'a mut Vec<Shape>,
    pub(super) locals: &'a [Shape],
    pub(super) geometry: &'a Geometry,
    /// Mask registers: recomputed whenever they are needed.
    pub(super) masks: &'a FxHashSet<Reg>,
    pub(super) regions: &'a [RegionInfo],
}

/// The registers that a loop uses.
#[derive(Default)]
struct Contents {
    read: FxHashSet<Reg>,
    written: FxHashSet<Reg>,
    /// The loop depends on the positions of its lanes.
    fixed: bool,
}

impl Packer<'_> {
    /// Plans every loop of a body. Returns whether the lanes of any may be packed.
    pub(super) fn plan(&mut self, body: &mut Body) -> bool {
        let mut any = false;
        let mut planned = Vec::with_capacity(body.len());
        for mut node in std::mem::take(body) {
            if let Node::Loop(_) = node {
                let copies = self.plan_loop(&mut node);
                if !copies.is_empty() {
                    planned.push(Node::Ops(copies));
                }
            }
            any |= matches!(&node, Node::Loop(Loop { plan, .. }) if plan.pack.is_some());
            node.bodies_mut().for_each(|body| any |= self.plan(body));
            planned.push(node);
        }
        *body = planned;
        any
    }

    /// Plans one loop. Returns the copies to insert before it.
    fn plan_loop(&mut self, node: &mut Node) -> Vec<Op> {
        let Node::Loop(Loop { body, continuing, break_if, plan, .. }) = node else { return Vec::new() };
        let Some(divergent) = plan.split else { return Vec::new() };
        // Lanes that return are collected by their original position.
        if divergent.broke.is_some() || self.regions[divergent.region.0 as usize].shape != Shape::LANE {
            return Vec::new();
        }
        let mut contents = Contents::default();
        contents.read.extend(*break_if);
        self.scan(body, &mut contents);
        self.scan(continuing, &mut contents);
        let shape = |reg: &Reg| self.shapes[reg.0 as usize];
        if contents.fixed || contents.written.iter().any(|reg| shape(reg).is_partial()) {
            return Vec::new();
        }

        let mut partial: Vec<Reg> = contents.read.iter().copied().filter(|reg| shape(reg).is_partial()).collect();
        partial.sort();
        let mut carried: Vec<CarriedRegister> = contents
            .read
            .union(&contents.written)
            .filter(|reg| shape(reg) == Shape::LANE && !self.masks.contains(reg))
            .map(|reg| CarriedRegister { reg: *reg, written: contents.written.contains(reg) })
            .filter(|carried| !(carried.written && self.origins[carried.reg.0 as usize] == Origin::Temporary))
            .collect();
        let mut names = FxHashMap::default();
        let mut copies = Vec::new();
        for a in partial {
            let d = register(self.origins, Origin::Temporary);
            self.shapes.push(Shape::LANE);
            copies.push(Op::copy(d, a));
            names.insert(a, d);
            carried.push(CarriedRegister { reg: d, written: false });
        }
        rename(body, &names);
        rename(continuing, &names);
        break_if.iter_mut().for_each(|reg| *reg = names.get(reg).copied().unwrap_or(*reg));
        carried.sort_by_key(|carried| carried.reg);
        plan.pack = Some(Box::new(PackPlan { carried }));
        copies
    }

    fn scan(&self, body: &mut Body, contents: &mut Contents) {
        for node in body {
            contents.read.extend(node.condition());
            contents.fixed |= matches!(node, Node::Call { .. } | Node::Barrier { .. });
            match node {
                Node::Ops(ops) => ops.iter_mut().for_each(|op| self.scan_op(op, contents)),
                node => node.bodies_mut().for_each(|body| self.scan(body, contents)),
            }
        }
    }

    fn scan_op(&self, op: &mut Op, contents: &mut Contents) {
        let moves = |root: Root| match root {
            Root::Buffer(_) | Root::Immediate => true,
            // Each row has its own workgroup memory.
            Root::Workgroup => !matches!(self.geometry.mode, Mode::Groups { .. }),
            Root::Local(local) => self.locals[local as usize].is_uniform(),
        };
        contents.fixed |= match op {
            Op::FillLocal { local, .. } => !moves(Root::Local(*local)),
            Op::Broadcast { .. } | Op::Subgroup(_) => true,
            _ => op.access().is_some_and(|access| !moves(access.address.root)),
        };
        contents.read.extend(op.operands());
        contents.written.extend(op.results());
    }
}
