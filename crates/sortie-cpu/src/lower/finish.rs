//! The later passes: regions and shapes, mask registers, address folding, register allocation.

use super::{
    Lower, Origin, allocate, count_reads, for_each_op, linear, optimise,
    pack::Packer,
    pairs, peephole,
    regions::{Regions, Variable},
};
use crate::{
    code::{ALL_LANES, Blend, Body, Builtin, Node, Op, Reg, Region, Root},
    compiled::{Compiled, RegionInfo, next_id},
    geometry::{Geometry, KernelTraits},
    shape::Shape,
};

/// Compiles the lowered body of an entry point and its shared functions.
pub(super) fn finish(mut lower: Lower<'_>, mut body: Body, workgroup: [u32; 3], pack_always: bool) -> Compiled {
    let (entry, ones) = (lower.build.builtin(Builtin::Entry), lower.build.constant(u32::MAX));
    let wide_atomics = lower.wide_atomics;
    let (workgroups, subgroups) = (lower.barriers || lower.workgroup_words > 0, lower.subgroups);
    let Lower { build, mut shared, shared_by, locals, counts, slots, written, workgroup_words, .. } = lower;
    let parameters = shared_by.values().flat_map(|shared| shared.parameters.iter().copied()).collect();
    let results = shared_by.values().flat_map(|shared| shared.result.iter().copied()).collect();
    let mut origins = build.origins;
    let read_only = |root| super::build::is_read_only(root, |slot: u32| written[slot as usize]);
    let mut bodies: Vec<&mut Body> = std::iter::once(&mut body).chain(&mut shared).collect();
    optimise::optimise(&mut bodies, &mut origins, &read_only);
    let read = count_reads(&mut bodies, origins.len());
    let builtins: Vec<Builtin> = origins
        .iter()
        .zip(read)
        .filter_map(|(origin, read)| match origin {
            Origin::Builtin(builtin) if read > 0 => Some(*builtin),
            _ => None,
        })
        .collect();
    let waits = super::waits::waits(&body, &shared);
    let geometry = Geometry::new(workgroup, KernelTraits { workgroups, subgroups, waits }, &builtins);

    let mut local_shapes = vec![Shape::UNIFORM; locals.len()];
    let mut regions = Regions::new(&geometry, &mut origins, &mut local_shapes, [&parameters, &results], shared.len());
    regions.solve(&mut body, &mut shared);
    let masks = masks(&mut regions);
    let mut bodies: Vec<&mut Body> = std::iter::once(&mut body).chain(&mut shared).collect();
    for body in &mut bodies {
        for_each_op(body, &mut |op| mask(op, &regions, &masks));
    }
    let roots = std::mem::take(&mut regions.roots);
    let infos: Vec<RegionInfo> = (0..)
        .zip(&masks)
        .map(|(index, mask)| RegionInfo { mask: *mask, shape: regions.total(Region(index)) })
        .collect();
    let mut shapes = std::mem::take(&mut regions.shapes);

    let (owned, by_one) = linear::addresses(&mut bodies, &mut origins, &mut shapes, &geometry, slots.len());
    bodies.iter_mut().for_each(|body| optimise::hoist(body, &origins, &read_only));
    peephole::run(&mut bodies, &origins, &shapes);
    pairs::run(&mut bodies, &origins, &shapes);
    let masks = infos.iter().filter_map(|info| info.mask).collect();
    let mut packs = false;
    for body in &mut bodies {
        let (origins, shapes) = (&mut origins, &mut shapes);
        let mut packer =
            Packer { origins, shapes, locals: &local_shapes, geometry: &geometry, masks: &masks, regions: &infos };
        packs |= packer.plan(body);
    }
    peephole::guards(&mut bodies, &shapes, &by_one);
    // The caller of a shared function writes its mask, even if nothing reads it.
    let mut always = vec![entry, ones];
    always.extend(roots.iter().filter_map(|root| infos[root.0 as usize].mask));
    let allocation = allocate::allocate(&mut bodies, &origins, &shapes, &locals, &local_shapes, &infos, &always);
    let infos = infos
        .into_iter()
        .map(|info| RegionInfo { mask: info.mask.map(|mask| allocation.renamed(mask)), ..info })
        .collect();
    Compiled {
        id: next_id(),
        weight: weigh(&body),
        packs,
        pack_always,
        wide_atomics,
        body,
        shared,
        roots,
        regions: infos,
        entry: allocation.renamed(entry),
        ones: allocation.renamed(ones),
        file: allocation.file,
        counts,
        slots,
        written,
        owned,
        geometry,
        workgroup_words,
    }
}

/// A register for the mask of each region but [`ALL_LANES`].
fn masks(regions: &mut Regions<'_>) -> Vec<Option<Reg>> {
    let mut masks: Vec<Option<Reg>> = vec![None];
    for index in 1..regions.drafts.len() {
        let draft = regions.drafts[index].clone();
        let taken = draft.instead_of.filter(|other| regions.total(*other) == draft.total);
        let mask = taken.and_then(|other| masks.get(other.0 as usize).copied().flatten());
        masks.push(Some(mask.unwrap_or_else(|| regions.mask(draft.total))));
    }
    masks
}

/// Replaces assignments by copies or blends, and sets the masks of accesses.
fn mask(op: &mut Op, regions: &Regions<'_>, masks: &[Option<Reg>]) {
    let of = |region: Region| masks[region.0 as usize];
    match op {
        Op::Set { d, a, init, region } => {
            let blended = !*init && regions.blended(Variable::Register(*d), *region).is_some();
            let (d, a) = (*d, *a);
            *op = match of(*region).filter(|_| blended) {
                Some(mask) => Op::Blend { f: Blend::Assign, d, a, mask },
                None => Op::copy(d, a),
            };
        }
        Op::Load(access) => access.mask = of(access.region),
        Op::Store(access) => {
            access.mask = match access.address.root {
                Root::Local(local) if regions.blended(Variable::Array(local), access.region).is_none() => None,
                _ => of(access.region),
            };
            // A store to a local array without a mask writes all lanes.
            if matches!(access.address.root, Root::Local(_)) && access.mask.is_none() {
                access.region = ALL_LANES;
            }
        }
        Op::Atomic(atomic) => atomic.access.mask = of(atomic.access.region),
        Op::Subgroup(subgroup) => subgroup.mask = of(subgroup.region),
        _ => {}
    }
}

/// Estimates the instructions per invocation, at sixteen iterations per loop.
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
