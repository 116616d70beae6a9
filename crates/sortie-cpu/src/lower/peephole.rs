//! Copies that are not needed: of variables that do not change before the copy is last used, and into variables that the
//! instruction before could have written itself.

use rustc_hash::FxHashMap;

use super::{Origin, for_each_op};
use crate::{
    code::{Binary, Body, EVERY, Guard, Node, Op, Reg, Unary},
    shape::Shape,
};

/// Instructions that are looked through for uses: in a list of many thousands, looking at all of them would take minutes.
pub(super) const NEAR: usize = 1_000;

pub(super) fn run(body: &mut Body, origins: &[Origin], shapes: &[Shape]) {
    let mut uses = vec![0_u32; origins.len()];
    count(body, &mut uses);
    read_through(body, origins, shapes, &mut uses);
    lists(body, &mut |ops| {
        read_directly(ops, origins, shapes, &mut uses);
        write_directly(ops, origins, shapes, &uses);
    });
}

pub(super) fn count(body: &mut Body, uses: &mut [u32]) {
    for_each_op(body, &mut |op| op.registers(&mut |reg| uses[reg.0 as usize] += 1, &mut |_| {}));
    fn conditions(body: &Body, uses: &mut [u32]) {
        for node in body {
            match node {
                Node::If { cond, accept, reject, .. } => {
                    uses[cond.0 as usize] += 1;
                    conditions(accept, uses);
                    conditions(reject, uses);
                }
                Node::Loop { body, continuing, break_if, .. } => {
                    if let Some(cond) = break_if {
                        uses[cond.0 as usize] += 1;
                    }
                    conditions(body, uses);
                    conditions(continuing, uses);
                }
                Node::Scope(body) => conditions(body, uses),
                _ => {}
            }
        }
    }
    conditions(body, uses);
}

pub(super) fn lists(body: &mut Body, visit: &mut impl FnMut(&mut Vec<Op>)) {
    for node in body {
        match node {
            Node::Ops(ops) => visit(ops),
            Node::If { accept, reject, .. } => {
                lists(accept, visit);
                lists(reject, visit);
            }
            Node::Loop { body, continuing, .. } => {
                lists(body, visit);
                lists(continuing, visit);
            }
            Node::Scope(body) => lists(body, visit),
            _ => {}
        }
    }
}

fn has_loop(node: &Node) -> bool {
    match node {
        Node::Loop { .. } => true,
        Node::If { accept, reject, .. } => accept.iter().chain(reject).any(has_loop),
        Node::Scope(body) => body.iter().any(has_loop),
        Node::Ops(_) | Node::Break(_) | Node::Continue(_) | Node::Return | Node::Call { .. } | Node::Barrier { .. } => {
            false
        }
    }
}

fn reads(op: &mut Op, wanted: Reg) -> u32 {
    let mut found = 0;
    op.registers(&mut |reg| found += u32::from(*reg == wanted), &mut |_| {});
    found
}

pub(super) fn writes(op: &mut Op, wanted: Reg) -> bool {
    let mut found = false;
    op.registers(&mut |_| {}, &mut |reg| found |= *reg == wanted);
    found
}

/// As [`read_directly`], for copies that are used in what follows their list, where nothing sets the variable before the last use.
fn read_through(body: &mut Body, origins: &[Origin], shapes: &[Shape], uses: &mut [u32]) {
    for index in 0..body.len() {
        match &mut body[index] {
            Node::If { accept, reject, .. } => {
                read_through(accept, origins, shapes, uses);
                read_through(reject, origins, shapes, uses);
            }
            Node::Loop { body, continuing, .. } => {
                read_through(body, origins, shapes, uses);
                read_through(continuing, origins, shapes, uses);
            }
            Node::Scope(body) => read_through(body, origins, shapes, uses),
            _ => {}
        }
        let Node::Ops(ops) = &body[index] else { continue };
        if body[index + 1..].iter().any(|node| matches!(node, Node::Call { .. } | Node::Scope(_))) {
            continue;
        }
        let copies: Vec<(usize, Reg, Reg)> = ops
            .iter()
            .enumerate()
            .filter_map(|(at, op)| match op {
                Op::Unary { f: Unary::Copy, d, a, .. } => Some((at, *d, *a)),
                _ => None,
            })
            .filter(|(_, d, a)| {
                origins[d.0 as usize] == Origin::Temporary && shapes[d.0 as usize] == shapes[a.0 as usize]
            })
            .collect();
        for (at, d, a) in copies.into_iter().rev() {
            let (mut found, mut set) = (0, false);
            // In a loop, what comes later may come first.
            let before = if body[index + 1..].iter().any(has_loop) { u32::MAX } else { uses[d.0 as usize] };
            let mut look = |op: &mut Op| {
                found += reads(op, d);
                set |= found < before && writes(op, a);
            };
            if let Node::Ops(ops) = &mut body[index] {
                ops[at + 1..].iter_mut().for_each(&mut look);
            }
            let mut rest = body.split_off(index + 1);
            for_each_op(&mut rest, &mut look);
            body.append(&mut rest);
            // Conditions are not instructions: a copy that is one stays.
            if set || found != uses[d.0 as usize] {
                continue;
            }
            let mut swap = |op: &mut Op| {
                op.registers(
                    &mut |reg| {
                        if *reg == d {
                            *reg = a;
                        }
                    },
                    &mut |_| {},
                );
            };
            if let Node::Ops(ops) = &mut body[index] {
                ops[at + 1..].iter_mut().for_each(&mut swap);
                ops.remove(at);
            }
            let mut rest = body.split_off(index + 1);
            for_each_op(&mut rest, &mut swap);
            body.append(&mut rest);
            uses[a.0 as usize] += found;
            uses[a.0 as usize] -= 1;
        }
    }
}

/// `t = x; … t …` becomes `… x …` when `x` is not written in between.
fn read_directly(ops: &mut Vec<Op>, origins: &[Origin], shapes: &[Shape], uses: &mut [u32]) {
    let mut index = 0;
    let mut gone = vec![false; ops.len()];
    while index < ops.len() {
        let Op::Unary { f: Unary::Copy, d, a, .. } = ops[index] else {
            index += 1;
            continue;
        };
        let plain = origins[d.0 as usize] == Origin::Temporary && shapes[d.0 as usize] == shapes[a.0 as usize];
        let mut left = uses[d.0 as usize];
        let mut end = index + 1;
        while plain && left > 0 && end < ops.len().min(index + NEAR) {
            left -= reads(&mut ops[end], d);
            end += 1;
            if left > 0 && writes(&mut ops[end - 1], a) {
                break;
            }
        }
        if !plain || left > 0 {
            index += 1;
            continue;
        }
        for op in &mut ops[index + 1..end] {
            op.registers(
                &mut |reg| {
                    if *reg == d {
                        *reg = a;
                        uses[a.0 as usize] += 1;
                    }
                },
                &mut |_| {},
            );
        }
        uses[a.0 as usize] -= 1;
        gone[index] = true;
        index += 1;
    }
    remove(ops, &gone);
}

pub(super) fn remove(ops: &mut Vec<Op>, gone: &[bool]) {
    let mut gone = gone.iter();
    ops.retain(|_| gone.next() != Some(&true));
}

/// `t = …; x = t` becomes `x = …` when nobody else wants `t`, and `x` is not looked at in between.
fn write_directly(ops: &mut Vec<Op>, origins: &[Origin], shapes: &[Shape], uses: &[u32]) {
    let mut made: FxHashMap<Reg, usize> = FxHashMap::default();
    let mut gone = vec![false; ops.len()];
    for index in 0..ops.len() {
        if let Op::Unary { f: Unary::Copy, d, a, .. } = ops[index]
            && origins[d.0 as usize] == Origin::Variable
            && uses[a.0 as usize] == 1
            && let Some(maker) = made.get(&a).copied().filter(|maker| index - maker < NEAR)
        {
            let touched = (maker + 1..index)
                .any(|between| !gone[between] && (reads(&mut ops[between], d) > 0 || writes(&mut ops[between], d)));
            let fits = match &mut ops[maker] {
                Op::Load(load) => shapes[a.0 as usize] == shapes[d.0 as usize] && load.parts.len() == 1,
                op => op.is_pure(),
            };
            let reads_it = matches!(ops[maker], Op::Load(_)) && reads(&mut ops[maker], d) > 0;
            if fits && !touched && !reads_it {
                ops[maker].registers(&mut |_| {}, &mut |reg| *reg = d);
                gone[index] = true;
                made.remove(&a);
                continue;
            }
        }
        ops[index].registers(&mut |_| {}, &mut |reg| {
            if origins[reg.0 as usize] == Origin::Temporary {
                made.insert(*reg, index);
            }
        });
    }
    remove(ops, &gone);
}

/// Finds conditions that compare an index with something uniform right before they are asked, and by nobody else.
pub(super) fn guards(body: &mut Body, shapes: &[Shape], by_one: &[bool]) {
    let mut uses = vec![0; shapes.len()];
    count(body, &mut uses);
    guard(body, shapes, by_one, &uses);
}

fn guard(body: &mut Body, shapes: &[Shape], by_one: &[bool], uses: &[u32]) {
    let mut compare = None;
    for node in body {
        let before = compare.take();
        match node {
            Node::Ops(ops) => compare = Some(ops),
            Node::If { cond, accept, reject, how } => {
                guard(accept, shapes, by_one, uses);
                guard(reject, shapes, by_one, uses);
                let found =
                    before.filter(|_| how.split.is_some() && how.outer == Some(EVERY) && uses[cond.0 as usize] == 1);
                let Some(ops) = found else { continue };
                let Some(Op::Binary { f: f @ (Binary::LtU | Binary::LeU), d, a, b, .. }) = ops.last() else { continue };
                let grows = |reg: &Reg| by_one.get(reg.0 as usize) == Some(&true);
                let same = |reg: &Reg| shapes[reg.0 as usize].is_uniform();
                let (index, limit, index_first) = match (a, b) {
                    (a, b) if grows(a) && same(b) => (*a, *b, true),
                    (a, b) if same(a) && grows(b) => (*b, *a, false),
                    _ => continue,
                };
                if d != cond {
                    continue;
                }
                let f = *f;
                let Some(compare) = ops.pop() else { unreachable!("looked at above") };
                how.guard = Some(Box::new(Guard { compare, f, index, limit, index_first }));
            }
            Node::Loop { body, continuing, .. } => {
                guard(body, shapes, by_one, uses);
                guard(continuing, shapes, by_one, uses);
            }
            Node::Scope(body) => guard(body, shapes, by_one, uses),
            _ => {}
        }
    }
}
