//! Copy elimination: copies of variables that do not change before the last use of the copy, and copies into variables
//! that the preceding instruction can write itself.

use rustc_hash::FxHashMap;

use super::{Origin, count_reads, for_each_list, for_each_op};
use crate::{
    code::{ALL_LANES, Body, Branch, Guard, Node, Op, Reg},
    opcode::Opcode,
    shape::Shape,
};

/// Maximum instructions searched for uses: a search through lists of many thousands would take minutes.
pub(super) const MAX_OP_DISTANCE: usize = 1_000;

/// Optimises all bodies of a program.
pub(super) fn run(bodies: &mut [&mut Body], origins: &[Origin], shapes: &[Shape]) {
    let mut uses = count_reads(bodies, origins.len());
    read_through(bodies, origins, shapes, &mut uses);
    for body in bodies {
        for_each_list(body, &mut |ops| write_directly(ops, origins, shapes, &uses));
    }
}

fn reads(op: &mut Op, wanted: Reg) -> u32 {
    op.operands().iter().map(|reg| u32::from(*reg == wanted)).sum()
}

pub(super) fn writes(op: &mut Op, wanted: Reg) -> bool {
    op.results().contains(&wanted)
}

/// `t = x; … t …` becomes `… x …` if `x` is not written before the last use of `t`.
fn read_through(bodies: &mut [&mut Body], origins: &[Origin], shapes: &[Shape], uses: &mut [u32]) {
    let mut copies = Copies {
        origins,
        shapes,
        reads: vec![Reads::default(); origins.len()],
        writes: FxHashMap::default(),
        names: FxHashMap::default(),
        removed: Vec::new(),
        uses,
    };
    let mut place = 0;
    for body in &mut *bodies {
        for_each_op(body, &mut |op| {
            copies.note(op, place);
            place += 1;
        });
    }
    copies.removed = vec![false; place as usize];
    bodies.iter().fold(0, |start, body| copies.body(body, start));
    if copies.names.is_empty() {
        return;
    }
    let Copies { names, removed, .. } = copies;
    let mut place = 0;
    for body in bodies {
        for_each_list(body, &mut |ops| {
            ops.retain_mut(|op| {
                let stays = !removed[place];
                place += 1;
                op.registers(&mut |reg| *reg = renamed(&names, *reg), &mut |_| {});
                stays
            });
        });
    }
}

/// The final name of a register: a copy of a copy is renamed twice.
fn renamed(names: &FxHashMap<Reg, Reg>, mut reg: Reg) -> Reg {
    while let Some(name) = names.get(&reg) {
        reg = *name;
    }
    reg
}

/// Reads of a register by instructions: their number, and the position of the last, in program order.
#[derive(Clone, Copy, Default)]
struct Reads {
    count: u32,
    last: u32,
}

/// Copies that are replaced by their source. Everything is looked up by position, so one pass handles all copies.
struct Copies<'a> {
    origins: &'a [Origin],
    shapes: &'a [Shape],
    reads: Vec<Reads>,
    /// Where variables are written, in order.
    writes: FxHashMap<Reg, Vec<u32>>,
    /// The register that is read instead of a copy.
    names: FxHashMap<Reg, Reg>,
    /// By position: copies that are no longer read.
    removed: Vec<bool>,
    /// Reads by instructions and by conditions.
    uses: &'a mut [u32],
}

/// Where a copy may be replaced.
struct CopyScope {
    /// The end of the copy's list of instructions.
    list_end: u32,
    /// Uses from this position on need the copy.
    end: u32,
    /// Later nodes of the body have loops.
    repeats: bool,
}

impl Copies<'_> {
    fn note(&mut self, op: &mut Op, place: u32) {
        for reg in op.operands() {
            let reads = &mut self.reads[reg.0 as usize];
            *reads = Reads { count: reads.count + 1, last: place };
        }
        for reg in op.results() {
            if self.origins[reg.0 as usize] == Origin::Variable {
                self.writes.entry(reg).or_default().push(place);
            }
        }
    }

    /// Visits the copies of a body that starts at this position. Returns the position after it.
    fn body(&mut self, body: &Body, start: u32) -> u32 {
        let last_call = body.iter().rposition(|node| matches!(node, Node::Call { .. } | Node::Scope(_)));
        let is_loop = |node: &Node| matches!(node, Node::Loop(_));
        let last_loop = body.iter().rposition(|node| node.any(&is_loop));
        let mut place = start;
        let mut lists = Vec::new();
        for (index, node) in body.iter().enumerate() {
            match node {
                Node::Ops(ops) => {
                    lists.push((index, place));
                    place += ops.len() as u32;
                }
                node => place = node.bodies().fold(place, |place, body| self.body(body, place)),
            }
        }
        let end = place;
        for (index, start) in lists {
            let Node::Ops(ops) = &body[index] else { unreachable!("noted above") };
            let list_end = start + ops.len() as u32;
            let scope = CopyScope {
                list_end,
                // A function that is called later may write any variable.
                end: if last_call.is_some_and(|last| last > index) { list_end } else { end },
                // In a loop, later instructions may run first.
                repeats: last_loop.is_some_and(|last| last > index),
            };
            for (at, op) in ops.iter().enumerate().rev() {
                if let Op::Compute { opcode: Opcode::Copy, d, from: [a, ..] } = op {
                    self.copy(start + at as u32, *d, *a, &scope);
                }
            }
        }
        end
    }

    /// Replaces one copy if possible.
    fn copy(&mut self, at: u32, d: Reg, a: Reg, scope: &CopyScope) {
        let a = renamed(&self.names, a);
        if self.origins[d.0 as usize] != Origin::Temporary || self.shapes[d.0 as usize] != self.shapes[a.0 as usize] {
            return;
        }
        let Reads { count, last } = self.reads[d.0 as usize];
        // A copy that is used as a condition stays, because conditions are not renamed.
        if count != self.uses[d.0 as usize] || (count > 0 && last >= scope.end) {
            return;
        }
        let until = if scope.repeats && last >= scope.list_end { scope.end } else { last };
        let set = self.writes.get(&a).is_some_and(|writes| {
            let next = writes.partition_point(|write| *write <= at);
            writes.get(next).is_some_and(|write| *write < until)
        });
        if set {
            return;
        }
        self.names.insert(d, a);
        self.removed[at as usize] = true;
        let reads = &mut self.reads[a.0 as usize];
        *reads = Reads { count: reads.count + count - 1, last: reads.last.max(last) };
        self.uses[a.0 as usize] += count;
        self.uses[a.0 as usize] -= 1;
    }
}

pub(super) fn remove(ops: &mut Vec<Op>, removed: &[bool]) {
    let mut removed = removed.iter();
    ops.retain(|_| removed.next() != Some(&true));
}

/// `t = …; x = t` becomes `x = …` when nothing else reads `t`, and nothing in between uses `x`.
fn write_directly(ops: &mut Vec<Op>, origins: &[Origin], shapes: &[Shape], uses: &[u32]) {
    let mut made: FxHashMap<Reg, usize> = FxHashMap::default();
    let mut removed = vec![false; ops.len()];
    for index in 0..ops.len() {
        if let Op::Compute { opcode: Opcode::Copy, d, from: [a, ..] } = ops[index]
            && origins[d.0 as usize] == Origin::Variable
            && uses[a.0 as usize] == 1
            && let Some(maker) = made.get(&a).copied().filter(|maker| index - maker < MAX_OP_DISTANCE)
        {
            let touched = (maker + 1..index)
                .any(|between| !removed[between] && (reads(&mut ops[between], d) > 0 || writes(&mut ops[between], d)));
            let fits = match &mut ops[maker] {
                Op::Load(load) => shapes[a.0 as usize] == shapes[d.0 as usize] && load.parts.len() == 1,
                Op::Wide(_) => false,
                op => op.is_pure(),
            };
            let reads_it = matches!(ops[maker], Op::Load(_)) && reads(&mut ops[maker], d) > 0;
            if fits && !touched && !reads_it {
                ops[maker].registers(&mut |_| {}, &mut |reg| *reg = d);
                removed[index] = true;
                made.remove(&a);
                continue;
            }
        }
        let temporary = |reg: &Reg| origins[reg.0 as usize] == Origin::Temporary;
        made.extend(ops[index].results().into_iter().filter(temporary).map(|reg| (reg, index)));
    }
    remove(ops, &removed);
}

/// Finds conditions of `if`s that compare an index with a uniform value right before the `if` and are not used
/// elsewhere.
pub(super) fn guards(bodies: &mut [&mut Body], shapes: &[Shape], by_one: &[bool]) {
    let uses = count_reads(bodies, shapes.len());
    for body in bodies {
        guard(body, shapes, by_one, &uses);
    }
}

fn guard(body: &mut Body, shapes: &[Shape], by_one: &[bool], uses: &[u32]) {
    let mut compare = None;
    for node in body {
        let before: Option<&mut Vec<Op>> = compare.take();
        node.bodies_mut().for_each(|body| guard(body, shapes, by_one, uses));
        match node {
            Node::Ops(ops) => compare = Some(ops),
            Node::If(Branch { cond, plan, .. }) => {
                let found = before
                    .filter(|_| plan.split.is_some() && plan.outer == Some(ALL_LANES) && uses[cond.0 as usize] == 1);
                let Some(ops) = found else { continue };
                let Some(&Op::Compute { opcode: opcode @ (Opcode::LtU | Opcode::LeU), d, from: [a, b, _] }) =
                    ops.last()
                else {
                    continue;
                };
                let grows = |reg: Reg| by_one.get(reg.0 as usize) == Some(&true);
                let same = |reg: Reg| shapes[reg.0 as usize].is_uniform();
                let (index, limit, index_first) = if grows(a) && same(b) { (a, b, true) } else { (b, a, false) };
                if d == *cond && grows(index) && same(limit) {
                    let Some(compare) = ops.pop() else { unreachable!("looked at above") };
                    plan.guard = Some(Box::new(Guard { compare, opcode, index, limit, index_first }));
                }
            }
            _ => {}
        }
    }
}
