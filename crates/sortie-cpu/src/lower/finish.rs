//! From instructions to code that runs: lanes and shapes found, masks given registers, addresses folded, registers assigned.

use rustc_hash::FxHashSet;

use super::{
    Origin, allocate, for_each_op, linear, optimise,
    pack::Packer,
    pairs, peephole,
    regions::{Regions, Variable},
};
use crate::{
    Slot,
    code::{Body, Builtin, EVERY, Node, Op, Reg, Region, Root, Unary},
    compiled::{Compiled, Count, Zone, next_id},
    geometry::Geometry,
    shape::Shape,
};

/// Compiled without shapes.
pub(super) struct Draft {
    pub(super) origins: Vec<Origin>,
    pub(super) body: Body,
    pub(super) shared: Vec<Body>,
    pub(super) parameters: FxHashSet<Reg>,
    pub(super) results: FxHashSet<Reg>,
    /// Words of each local array.
    pub(super) locals: Vec<u32>,
    pub(super) counts: Vec<Count>,
    pub(super) slots: Vec<Slot>,
    pub(super) workgroup: [u32; 3],
    pub(super) workgroup_words: u32,
    pub(super) groups_in_rows: bool,
    pub(super) pack_always: bool,
    pub(super) entry: Reg,
    pub(super) ones: Reg,
}

pub(super) fn finish(draft: Draft) -> Compiled {
    let Draft { mut origins, mut body, mut shared, parameters, results, locals, counts, slots, workgroup, .. } = draft;
    let steady = |root| super::build::is_steady(root, |slot| slots[slot as usize].writes);
    optimise::optimise(&mut body, &mut shared, &mut origins, &steady);

    let asked: Vec<Builtin> = optimise::used(&mut body, &mut shared, origins.len())
        .into_iter()
        .filter_map(|reg| match origins[reg.0 as usize] {
            Origin::Builtin(builtin) => Some(builtin),
            _ => None,
        })
        .collect();
    let waits = super::waits::waits(&body, &shared);
    let geometry = Geometry::new(workgroup, draft.groups_in_rows, waits, &asked);

    let mut local_shapes = vec![Shape::UNIFORM; locals.len()];
    let mut regions = Regions::new(&geometry, &mut origins, &mut local_shapes, [&parameters, &results], shared.len());
    regions.solve(&mut body, &mut shared);
    let masks = masks(&mut regions);
    for body in std::iter::once(&mut body).chain(&mut shared) {
        for_each_op(body, &mut |op| mask(op, &regions, &masks));
    }
    let roots = std::mem::take(&mut regions.roots);
    let zones: Vec<Zone> =
        (0..).zip(&masks).map(|(index, mask)| Zone { mask: *mask, shape: regions.total(Region(index)) }).collect();
    let mut shapes = std::mem::take(&mut regions.shapes);

    let (owned, by_one) = linear::addresses(&mut body, &mut shared, &mut origins, &mut shapes, &geometry, slots.len());
    let mut packs = false;
    {
        let mut bodies: Vec<&mut Body> = std::iter::once(&mut body).chain(&mut shared).collect();
        bodies.iter_mut().for_each(|body| optimise::hoist(body, &origins, &steady));
        peephole::run(&mut bodies, &origins, &shapes);
        pairs::run(&mut bodies, &origins, &shapes);
        let masks = zones.iter().filter_map(|zone| zone.mask).collect();
        for body in &mut bodies {
            let (origins, shapes) = (&mut origins, &mut shapes);
            let mut packer =
                Packer { origins, shapes, locals: &local_shapes, geometry: &geometry, masks: &masks, zones: &zones };
            packs |= packer.plan(body);
            for_each_op(body, &mut |op| spread_over_rows(op, shapes));
        }
        peephole::guards(&mut bodies, &shapes, &by_one);
    }
    // Whoever calls a shared function writes the mask of its lanes, which may be all that is ever done with it.
    let mut always = vec![draft.entry, draft.ones];
    always.extend(roots.iter().filter_map(|root| zones[root.0 as usize].mask));
    let allocation =
        allocate::allocate(&mut body, &mut shared, &origins, &shapes, &locals, &local_shapes, &zones, &always);
    let zones =
        zones.into_iter().map(|zone| Zone { mask: zone.mask.map(|mask| allocation.renamed(mask)), ..zone }).collect();
    let weight = weigh(&body);
    Compiled {
        id: next_id(),
        weight,
        packs,
        pack_always: draft.pack_always,
        body,
        shared,
        roots,
        zones,
        entry: allocation.renamed(draft.entry),
        ones: allocation.renamed(draft.ones),
        registers: allocation.registers,
        sizes: allocation.sizes,
        constants: allocation.constants,
        builtins: allocation.builtins,
        locals: allocation.locals,
        counts,
        slots,
        owned,
        geometry,
        workgroup_words: draft.workgroup_words,
    }
}

/// A register for the mask of each region but [`EVERY`].
fn masks(regions: &mut Regions<'_>) -> Vec<Option<Reg>> {
    let mut masks: Vec<Option<Reg>> = vec![None];
    for index in 1..regions.areas.len() {
        let area = regions.areas[index].clone();
        let taken = area.instead_of.filter(|other| regions.total(*other) == area.total);
        let mask = taken.and_then(|other| masks.get(other.0 as usize).copied().flatten());
        masks.push(Some(mask.unwrap_or_else(|| regions.mask(area.total))));
    }
    masks
}

/// Turns sets into copies and blends, and tells accesses which lanes take part.
fn mask(op: &mut Op, regions: &Regions<'_>, masks: &[Option<Reg>]) {
    let of = |region: Region| masks[region.0 as usize];
    match op {
        Op::Set { d, a, init, region } => {
            let blended = !*init && regions.blended(Variable::Register(*d), *region).is_some();
            let (d, a) = (*d, *a);
            *op = match of(*region).filter(|_| blended) {
                Some(mask) => Op::Blend { d, a, mask, grid: false },
                None => Op::Unary { f: Unary::Copy, d, a, grid: false },
            };
        }
        Op::Load(access) => access.mask = of(access.region),
        Op::Store(access) => {
            access.mask = match access.address.root {
                Root::Local(local) if regions.blended(Variable::Array(local), access.region).is_none() => None,
                _ => of(access.region),
            };
            // A store to an array of one's own reaches all lanes, or all that the mask says.
            if matches!(access.address.root, Root::Local(_)) && access.mask.is_none() {
                access.region = EVERY;
            }
        }
        Op::Atomic(atomic) => atomic.access.mask = of(atomic.access.region),
        _ => {}
    }
}

/// Marks what has to go row by row: where a value per row or column meets one per lane.
fn spread_over_rows(op: &mut Op, shapes: &[Shape]) {
    let mut partial = false;
    let mut look = |reg: &mut Reg| {
        let shape = shapes[reg.0 as usize];
        partial |= shape.is_partial();
    };
    op.registers(&mut look, &mut |_| {});
    let mut result = Shape::UNIFORM;
    op.registers(&mut |_| {}, &mut |reg| result = shapes[reg.0 as usize]);
    if let Op::Unary { grid, .. }
    | Op::Binary { grid, .. }
    | Op::Ternary { grid, .. }
    | Op::Blend { grid, .. }
    | Op::Add { grid, .. }
    | Op::Address { grid, .. } = op
    {
        *grid = result == Shape::LANE && partial;
    }
}

/// About how many instructions an invocation runs, if loops go round sixteen times.
fn weigh(body: &Body) -> u32 {
    let weigh_node = |node: &Node| match node {
        Node::Ops(ops) => u32::try_from(ops.len()).unwrap_or(u32::MAX),
        Node::If { accept, reject, .. } => weigh(accept).saturating_add(weigh(reject)).saturating_add(2),
        Node::Loop { body, continuing, .. } => weigh(body).saturating_add(weigh(continuing)).saturating_mul(16),
        Node::Scope(body) => weigh(body),
        Node::Call { .. } => 1 << 10,
        Node::Break(_) | Node::Continue(_) | Node::Return | Node::Barrier { .. } => 1,
    };
    body.iter().map(weigh_node).fold(1, u32::saturating_add)
}
