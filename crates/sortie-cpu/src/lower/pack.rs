//! Finds loops whose lanes may move: once many have left, those that are still in the loop are packed into fewer
//! blocks.
//!
//! That asks for a loop in which all that differs between lanes is in registers of their own. What is kept by row or by
//! column is spread over the lanes before the loop.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Origin, allocate::rename, build::register};
use crate::{
    code::{Body, CarriedRegister, Loop, Node, Op, PackPlan, Reg, Root, Unary},
    compiled::RegionInfo,
    geometry::{Geometry, Mode},
    shape::Shape,
};

/// What is known about registers, and the new ones.
pub(super) struct Packer<'a> {
    pub(super) origins: &'a mut Vec<Origin>,
    pub(super) shapes: &'a mut Vec<Shape>,
    pub(super) locals: &'a [Shape],
    pub(super) geometry: &'a Geometry,
    /// Masks of regions: made anew whenever they are needed.
    pub(super) masks: &'a FxHashSet<Reg>,
    pub(super) zones: &'a [RegionInfo],
}

/// What a loop does with registers.
#[derive(Default)]
struct Contents {
    read: FxHashSet<Reg>,
    written: FxHashSet<Reg>,
    /// Something in it depends on where lanes are.
    fixed: bool,
}

impl Packer<'_> {
    /// Plans every loop of a body. Returns whether there is one whose lanes may move.
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
            any |= matches!(&node, Node::Loop(Loop { how, .. }) if how.pack.is_some());
            node.bodies_mut().for_each(|body| any |= self.plan(body));
            planned.push(node);
        }
        *body = planned;
        any
    }

    /// What has to be copied before the loop.
    fn plan_loop(&mut self, node: &mut Node) -> Vec<Op> {
        let Node::Loop(Loop { body, continuing, break_if, how, .. }) = node else { return Vec::new() };
        let Some(spin) = how.split else { return Vec::new() };
        // Lanes that leave for further outside are collected where they started from.
        if spin.broke.is_some() || self.zones[spin.region.0 as usize].shape != Shape::LANE {
            return Vec::new();
        }
        let mut contents = Contents::default();
        contents.read.extend(*break_if);
        self.look(body, &mut contents);
        self.look(continuing, &mut contents);
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
            copies.push(Op::Unary { f: Unary::Copy, d, a, grid: false });
            names.insert(a, d);
            carried.push(CarriedRegister { reg: d, written: false });
        }
        rename(body, &names);
        rename(continuing, &names);
        break_if.iter_mut().for_each(|reg| *reg = names.get(reg).copied().unwrap_or(*reg));
        carried.sort_by_key(|carried| carried.reg);
        how.pack = Some(Box::new(PackPlan { carried }));
        copies
    }

    fn look(&self, body: &mut Body, contents: &mut Contents) {
        for node in body {
            contents.read.extend(node.condition());
            contents.fixed |= matches!(node, Node::Call { .. } | Node::Barrier { .. });
            match node {
                Node::Ops(ops) => ops.iter_mut().for_each(|op| self.look_at(op, contents)),
                node => node.bodies_mut().for_each(|body| self.look(body, contents)),
            }
        }
    }

    fn look_at(&self, op: &mut Op, contents: &mut Contents) {
        let moves = |root: Root| match root {
            Root::Buffer(_) | Root::Immediate => true,
            // Each row has its own.
            Root::Workgroup => !matches!(self.geometry.mode, Mode::Groups { .. }),
            Root::Local(local) => self.locals[local as usize].is_uniform(),
        };
        contents.fixed |= match op {
            Op::FillLocal { local, .. } => !moves(Root::Local(*local)),
            Op::Broadcast { .. } => true,
            _ => op.access().is_some_and(|access| !moves(access.address.root)),
        };
        contents.read.extend(op.operands());
        contents.written.extend(op.results());
    }
}
