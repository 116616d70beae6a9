//! From instructions to code that runs: lanes and shapes found, masks given registers, addresses folded, registers
//! assigned.

use super::{
    Lower, Origin, allocate, count_reads, for_each_op, linear, optimise,
    pack::Packer,
    pairs, peephole,
    regions::{Regions, Variable},
};
use crate::{
    code::{ALL_LANES, Blend, Body, Builtin, Node, Op, Reg, Region, Root, Unary},
    compiled::{Compiled, RegionInfo, next_id},
    geometry::Geometry,
    shape::Shape,
};

/// Turns the body of an entry point, and the functions that it shares, into code that runs.
pub(super) fn finish(mut lower: Lower<'_>, mut body: Body, workgroup: [u32; 3], pack_always: bool) -> Compiled {
    let (entry, ones) = (lower.build.builtin(Builtin::Entry), lower.build.constant(u32::MAX));
    let groups_in_rows = lower.barriers || lower.workgroup_words > 0;
    let Lower { build, mut shared, shared_by, locals, counts, slots, workgroup_words, .. } = lower;
    let parameters = shared_by.values().flat_map(|shared| shared.parameters.iter().copied()).collect();
    let results = shared_by.values().flat_map(|shared| shared.result.iter().copied()).collect();
    let mut origins = build.origins;
    let steady = |root| super::build::is_steady(root, |slot| slots[slot as usize].writes);
    let mut bodies: Vec<&mut Body> = std::iter::once(&mut body).chain(&mut shared).collect();
    optimise::optimise(&mut bodies, &mut origins, &steady);
    let read = count_reads(&mut bodies, origins.len());
    let asked: Vec<Builtin> = origins
        .iter()
        .zip(read)
        .filter_map(|(origin, read)| match origin {
            Origin::Builtin(builtin) if read > 0 => Some(*builtin),
            _ => None,
        })
        .collect();
    let waits = super::waits::waits(&body, &shared);
    let geometry = Geometry::new(workgroup, groups_in_rows, waits, &asked);

    let mut local_shapes = vec![Shape::UNIFORM; locals.len()];
    let mut regions = Regions::new(&geometry, &mut origins, &mut local_shapes, [&parameters, &results], shared.len());
    regions.solve(&mut body, &mut shared);
    let masks = masks(&mut regions);
    let mut bodies: Vec<&mut Body> = std::iter::once(&mut body).chain(&mut shared).collect();
    for body in &mut bodies {
        for_each_op(body, &mut |op| mask(op, &regions, &masks));
    }
    let roots = std::mem::take(&mut regions.roots);
    let zones: Vec<RegionInfo> = (0..)
        .zip(&masks)
        .map(|(index, mask)| RegionInfo { mask: *mask, shape: regions.total(Region(index)) })
        .collect();
    let mut shapes = std::mem::take(&mut regions.shapes);

    let (owned, by_one) = linear::addresses(&mut bodies, &mut origins, &mut shapes, &geometry, slots.len());
    bodies.iter_mut().for_each(|body| optimise::hoist(body, &origins, &steady));
    peephole::run(&mut bodies, &origins, &shapes);
    pairs::run(&mut bodies, &origins, &shapes);
    let masks = zones.iter().filter_map(|zone| zone.mask).collect();
    let mut packs = false;
    for body in &mut bodies {
        let (origins, shapes) = (&mut origins, &mut shapes);
        let mut packer =
            Packer { origins, shapes, locals: &local_shapes, geometry: &geometry, masks: &masks, zones: &zones };
        packs |= packer.plan(body);
        for_each_op(body, &mut |op| spread_over_rows(op, shapes));
    }
    peephole::guards(&mut bodies, &shapes, &by_one);
    // The caller of a shared function writes its mask, even if nothing reads it.
    let mut always = vec![entry, ones];
    always.extend(roots.iter().filter_map(|root| zones[root.0 as usize].mask));
    let allocation = allocate::allocate(&mut bodies, &origins, &shapes, &locals, &local_shapes, &zones, &always);
    let zones = zones
        .into_iter()
        .map(|zone| RegionInfo { mask: zone.mask.map(|mask| allocation.renamed(mask)), ..zone })
        .collect();
    Compiled {
        id: next_id(),
        weight: weigh(&body),
        packs,
        pack_always,
        body,
        shared,
        roots,
        zones,
        entry: allocation.renamed(entry),
        ones: allocation.renamed(ones),
        registers: allocation.registers,
        sizes: allocation.sizes,
        constants: allocation.constants,
        builtins: allocation.builtins,
        locals: allocation.locals,
        counts,
        slots,
        owned,
        geometry,
        workgroup_words,
    }
}

/// A register for the mask of each region but [`ALL_LANES`].
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
                Some(mask) => Op::Blend { f: Blend::Assign, d, a, mask, grid: false },
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
                access.region = ALL_LANES;
            }
        }
        Op::Atomic(atomic) => atomic.access.mask = of(atomic.access.region),
        _ => {}
    }
}

/// Marks what has to go row by row: where a value per row or column meets one per lane.
fn spread_over_rows(op: &mut Op, shapes: &[Shape]) {
    let partial = op.operands().iter().any(|reg| shapes[reg.0 as usize].is_partial());
    let wide = op.results().last().is_some_and(|reg| shapes[reg.0 as usize] == Shape::LANE);
    if let Op::Unary { grid, .. }
    | Op::Binary { grid, .. }
    | Op::Ternary { grid, .. }
    | Op::Blend { grid, .. }
    | Op::Address { grid, .. } = op
    {
        *grid = wide && partial;
    }
}

/// About how many instructions an invocation runs, if loops go round sixteen times.
fn weigh(body: &Body) -> u32 {
    let weigh_node = |node: &Node| {
        let inside = node.bodies().map(weigh).fold(0, u32::saturating_add);
        match node {
            Node::Ops(ops) => u32::try_from(ops.len()).unwrap_or(u32::MAX),
            Node::If(_) => inside.saturating_add(2),
            Node::Loop(_) => inside.saturating_mul(16),
            Node::Scope(_) => inside,
            Node::Call { .. } => 1 << 10,
            Node::Break(_) | Node::Continue(_) | Node::Return | Node::Barrier { .. } => 1,
        }
    };
    body.iter().map(weigh_node).fold(1, u32::saturating_add)
}
