//! Which operations of a segment share a kernel, and the programs of these kernels.

use std::collections::BTreeMap;

use super::{
    Bound, Uses,
    program::{At, Body, Fold, Head, Port, Product, Program, Step},
};
use crate::{Caps, Element, RANK, Recording, Shape, SlotId, TensorKind, TensorOp, Value};

/// Operations in one kernel: what a compiler digests in little time.
const MOST_STEPS: usize = 48;
/// Scalars of one kernel: immediates are 32 words, some of which are sizes.
const MOST_SCALARS: usize = 24;

/// The tensor operations of a segment. Nodes are numbered in order.
pub(super) struct Graph<'a> {
    recording: &'a Recording,
    caps: &'a Caps,
    uses: &'a Uses,
    /// The op of each node.
    ops: &'a [u32],
    /// By slot, the node that makes it.
    maker: BTreeMap<SlotId, usize>,
    /// By node: read where another value lies.
    views: Vec<Option<View>>,
    group_of: Vec<Option<usize>>,
    groups: Vec<Group>,
}

/// A value that is seen through strides.
#[derive(Debug, Clone, Copy)]
struct View {
    base: Value,
    offset: u32,
    strides: [u32; RANK],
}

/// Nodes that share a kernel.
#[derive(Debug, Default)]
struct Group {
    /// The product, reduction or norm among them.
    head: Option<usize>,
    /// Nodes that make what the head reads.
    body: Vec<usize>,
    /// Nodes after the head, or all there are.
    tail: Vec<usize>,
    /// Elements of what the tail makes.
    len: u32,
    /// Became part of another.
    gone: bool,
}

impl Group {
    fn nodes(&self) -> impl Iterator<Item = usize> + '_ {
        self.body.iter().chain(&self.head).chain(&self.tail).copied()
    }
}

impl<'a> Graph<'a> {
    pub(super) fn new(recording: &'a Recording, caps: &'a Caps, uses: &'a Uses, ops: &'a [u32]) -> Self {
        let mut graph = Self {
            recording,
            caps,
            uses,
            ops,
            maker: BTreeMap::new(),
            views: vec![None; ops.len()],
            group_of: vec![None; ops.len()],
            groups: Vec::new(),
        };
        for node in 0..ops.len() {
            graph.maker.insert(graph.op(node).output.slot, node);
        }
        for node in 0..ops.len() {
            if !graph.op(node).output.shape.is_empty() {
                graph.place(node);
            }
        }
        graph
    }

    fn op(&self, node: usize) -> &'a TensorOp {
        &self.recording.tensors[self.recording.ops[self.ops[node] as usize].kernel as usize]
    }

    /// Decides where a node is computed.
    fn place(&mut self, node: usize) {
        let op = self.op(node);
        match op.kind {
            TensorKind::Permute(_) | TensorKind::Slice(_) | TensorKind::Broadcast => {
                self.views[node] = Some(self.view(op));
                let slot = op.output.slot.0 as usize;
                let outside = self.uses.readers[slot].iter().any(|reader| !self.ops.contains(reader));
                if !self.caps.fuse || self.uses.plain[slot] > 0 || outside {
                    self.alone(node);
                }
            }
            TensorKind::Map(_) => self.join(node),
            TensorKind::Concat(_) | TensorKind::Gather => {
                self.settle(node);
                self.alone(node);
            }
            TensorKind::Matmul { .. } => {
                self.settle(node);
                self.alone(node);
            }
            TensorKind::Reduce(..) | TensorKind::Rows(_) => self.absorb(node),
        }
    }

    /// How a node's output is seen in what it was made of.
    fn view(&self, op: &TensorOp) -> View {
        let input = &op.inputs[0];
        let from = self.seen(input).unwrap_or(View { base: *input, offset: 0, strides: input.shape.strides() });
        let mut strides = [0; RANK];
        let mut offset = from.offset;
        match op.kind {
            TensorKind::Permute(axes) => {
                for (to, axis) in strides.iter_mut().zip(axes).take(op.output.shape.rank()) {
                    *to = from.strides[usize::from(axis)];
                }
            }
            TensorKind::Slice(start) => {
                strides = from.strides;
                let skipped = (0..input.shape.rank()).map(|at| start[at] * from.strides[at]);
                offset += skipped.sum::<u32>();
            }
            _ => {
                let missing = op.output.shape.rank() - input.shape.rank();
                for (at, length) in input.shape.dims().iter().enumerate() {
                    strides[missing + at] = if *length == 1 { 0 } else { from.strides[at] };
                }
            }
        }
        View { base: from.base, offset, strides }
    }

    /// An input that is a view, in its own shape and without memory of its own.
    fn seen(&self, input: &Value) -> Option<View> {
        let node = *self.maker.get(&input.slot)?;
        let view = self.views[node].filter(|_| self.caps.fuse || self.group_of[node].is_none())?;
        (self.op(node).output.shape == input.shape).then_some(view)
    }

    /// The memory that an input is read from, and where in it.
    fn source(&self, input: &Value, from: &Shape) -> (Value, At) {
        match self.seen(input) {
            Some(view) => (view.base, At::new(from, &input.shape, &view.strides, view.offset)),
            None => (*input, At::new(from, &input.shape, &input.shape.strides(), 0)),
        }
    }

    /// A group of its own.
    fn alone(&mut self, node: usize) -> usize {
        if let Some(group) = self.group_of[node] {
            return group;
        }
        // Its input may be a view that has to be there.
        let op = self.op(node);
        let headed = matches!(op.kind, TensorKind::Matmul { .. } | TensorKind::Reduce(..) | TensorKind::Rows(_));
        let group = Group {
            head: headed.then_some(node),
            tail: if headed { Vec::new() } else { vec![node] },
            len: op.output.shape.len(),
            ..Group::default()
        };
        self.groups.push(group);
        self.group_of[node] = Some(self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// Gives the inputs of a node memory of their own, where it cannot read them through strides.
    fn settle(&mut self, node: usize) {
        let op = self.op(node);
        for (side, input) in op.inputs().iter().enumerate() {
            if let Some(view) = self.seen(input)
                && !(matches!(op.kind, TensorKind::Matmul { .. }) && transposed(&view, &input.shape).is_some())
                && !(op.kind == TensorKind::Gather && side == 1)
            {
                self.alone(self.maker[&input.slot]);
            }
            // A reshaped view.
            if let Some(maker) = self.maker.get(&input.slot).copied()
                && self.views[maker].is_some()
                && self.seen(input).is_none()
            {
                self.alone(maker);
            }
        }
    }

    /// Puts an elementwise node with those that made what it reads, as far as that goes.
    fn join(&mut self, node: usize) {
        let op = self.op(node);
        let shape = op.output.shape;
        let mut candidates: Vec<usize> = Vec::new();
        let mut others: Vec<usize> = Vec::new();
        for input in op.inputs() {
            let Some(maker) = self.maker.get(&input.slot).copied() else { continue };
            if self.views[maker].is_some() && self.seen(input).is_none() {
                self.alone(maker);
            }
            let (memory, at) = self.source(input, &shape);
            let Some(made) = self.maker.get(&memory.slot).and_then(|maker| self.group_of[*maker]) else { continue };
            let list = if at == At::Same && memory.slot == input.slot { &mut candidates } else { &mut others };
            if !list.contains(&made) {
                list.push(made);
            }
        }
        if !self.caps.fuse {
            self.alone(node);
            return;
        }
        // The last first: what it waits for is most likely there.
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        let mut target: Option<usize> = None;
        for candidate in candidates.clone() {
            let fits = self.takes(candidate, node)
                && candidates
                    .iter()
                    .chain(&others)
                    .all(|other| *other == candidate || Some(*other) == target || !self.depends(*other, candidate))
                && !others.contains(&candidate);
            if !fits {
                continue;
            }
            match target {
                None => target = Some(candidate),
                Some(first) => {
                    let apart = !self.depends(first, candidate) && !self.depends(candidate, first);
                    if apart && self.mergeable(first, candidate, node) {
                        self.merge(first, candidate);
                    }
                }
            }
        }
        match target {
            Some(target) => {
                self.groups[target].tail.push(node);
                self.group_of[node] = Some(target);
            }
            None => drop(self.alone(node)),
        }
    }

    /// Whether a group has room for one more node.
    fn takes(&self, group: usize, node: usize) -> bool {
        let (of, output) = (&self.groups[group], &self.op(node).output);
        let headed = match of.head.map(|head| self.op(head).kind) {
            None => true,
            Some(TensorKind::Matmul { .. }) => !self.caps.host && output.element != Element::F16,
            // A row is kept in the first output meanwhile.
            Some(TensorKind::Rows(_)) => output.element == Element::F32,
            Some(_) => output.element != Element::F16,
        };
        headed && of.len == output.shape.len() && self.fits(of.nodes().chain([node]))
    }

    fn mergeable(&self, one: usize, other: usize, node: usize) -> bool {
        let (a, b) = (&self.groups[one], &self.groups[other]);
        let heads = a.head.is_some() && b.head.is_some();
        // Elementwise nodes follow the head.
        !heads && a.len == b.len && self.fits(a.nodes().chain(b.nodes()).chain([node]))
    }

    fn merge(&mut self, one: usize, other: usize) {
        let taken = std::mem::take(&mut self.groups[other]);
        taken.nodes().for_each(|node| self.group_of[node] = Some(one));
        let group = &mut self.groups[one];
        if taken.head.is_some() {
            group.head = taken.head;
            group.body = taken.body;
        }
        group.tail.extend(taken.tail);
        group.tail.sort_unstable();
        self.groups[other].gone = true;
    }

    /// Whether nodes together stay within what a kernel may have.
    fn fits(&self, nodes: impl Iterator<Item = usize>) -> bool {
        let nodes: Vec<usize> = nodes.collect();
        let mut reads: Vec<(SlotId, u64)> = Vec::new();
        let (mut writes, mut scalars, mut sides) = (0, 0, 0);
        for node in &nodes {
            let op = self.op(*node);
            scalars += scalars_of(op);
            sides += if matches!(op.kind, TensorKind::Matmul { .. }) { 2 } else { 0 };
            for input in op.inputs() {
                let (memory, _) = self.source(input, &op.output.shape_or(input));
                let inside = self.maker.get(&memory.slot).is_some_and(|maker| nodes.contains(maker));
                let key = (memory.slot, memory.start);
                if !inside && !reads.contains(&key) {
                    reads.push(key);
                }
            }
            let slot = op.output.slot.0 as usize;
            let inside = |reader: &u32| nodes.iter().any(|node| self.ops[*node] == *reader);
            writes += usize::from(self.uses.plain[slot] > 0 || !self.uses.readers[slot].iter().all(inside));
        }
        let ports = reads.len() + writes.max(1) + sides;
        nodes.len() <= MOST_STEPS && scalars <= MOST_SCALARS && ports <= self.caps.storage_buffers as usize
    }

    /// Whether one group needs, directly or not, what another makes.
    fn depends(&self, one: usize, other: usize) -> bool {
        // What was complete before it began does not depend on it.
        let began = self.groups[other].nodes().min().unwrap_or_default();
        let mut seen = vec![false; self.groups.len()];
        let mut open = vec![one];
        while let Some(group) = open.pop() {
            let complete = self.groups[group].nodes().max().is_none_or(|last| last < began);
            if complete || std::mem::replace(&mut seen[group], true) {
                continue;
            }
            if group == other {
                return one != other;
            }
            open.extend(self.needs(group));
        }
        false
    }

    /// Groups whose results a group reads from memory.
    fn needs(&self, group: usize) -> Vec<usize> {
        let mut needs = Vec::new();
        for node in self.groups[group].nodes() {
            let op = self.op(node);
            for input in op.inputs() {
                let memory = self.seen(input).map_or(*input, |view| view.base);
                let made = self.maker.get(&memory.slot).and_then(|maker| self.group_of[*maker]);
                needs.extend(made.filter(|made| *made != group));
            }
        }
        needs
    }

    /// A reduction: with what makes its input, if that makes nothing else.
    fn absorb(&mut self, node: usize) {
        let op = self.op(node);
        let input = op.inputs[0];
        let reshaped = self.maker.get(&input.slot).copied().filter(|maker| self.views[*maker].is_some());
        if let Some(maker) = reshaped.filter(|_| self.seen(&input).is_none()) {
            self.alone(maker);
        }
        let made = self.maker.get(&input.slot).and_then(|maker| self.group_of[*maker]);
        let found = made.filter(|group| self.caps.fuse && self.only_for(*group, node));
        let Some(group) = found else {
            self.alone(node);
            return;
        };
        let group_of = &mut self.groups[group];
        group_of.body = std::mem::take(&mut group_of.tail);
        group_of.head = Some(node);
        group_of.len = op.output.shape.len();
        self.group_of[node] = Some(group);
    }

    /// Whether an elementwise group makes one value, which only this node reads.
    fn only_for(&self, group: usize, node: usize) -> bool {
        let of = &self.groups[group];
        let inside = |reader: &u32| of.tail.iter().any(|node| self.ops[*node] == *reader);
        let alone = of.tail.iter().all(|member| {
            let op = self.op(*member);
            let slot = op.output.slot.0 as usize;
            let read = |reader: &u32| match op.output.slot == self.op(node).inputs[0].slot {
                true => *reader == self.ops[node],
                false => inside(reader),
            };
            self.uses.plain[slot] == 0 && self.uses.readers[slot].iter().all(read)
        });
        let plain = of.tail.iter().all(|member| matches!(self.op(*member).kind, TensorKind::Map(_)));
        let same = of.len == self.op(node).inputs[0].shape.len();
        of.head.is_none() && plain && same && alone && self.fits(of.nodes().chain([node]))
    }

    /// The kernels, each after those that it needs.
    pub(super) fn kernels(&self) -> Vec<Bound> {
        let mut done = vec![false; self.groups.len()];
        let mut order = Vec::new();
        for group in 0..self.groups.len() {
            self.visit(group, &mut done, &mut order);
        }
        order.into_iter().map(|group| self.kernel(&self.groups[group])).collect()
    }

    fn visit(&self, group: usize, done: &mut [bool], order: &mut Vec<usize>) {
        // By hand: a recording may be a chain of thousands.
        let mut open = vec![(group, false)];
        while let Some((group, ready)) = open.pop() {
            if ready {
                order.push(group);
                continue;
            }
            if self.groups[group].gone || std::mem::replace(&mut done[group], true) {
                continue;
            }
            open.push((group, true));
            open.extend(self.needs(group).into_iter().map(|need| (need, false)));
        }
    }

    fn kernel(&self, group: &Group) -> Bound {
        let mut builder = Builder { graph: self, ports: Vec::new(), reads: Vec::new(), scalars: Vec::new() };
        let mut head = Head::None;
        let mut known: BTreeMap<SlotId, usize> = BTreeMap::new();
        let mut tail = Body::default();
        if let Some(node) = group.head {
            let op = self.op(node);
            head = builder.head(node, &group.body);
            tail.steps.push(Step::Head(op.output.element));
            known.insert(op.output.slot, 0);
        }
        for node in &group.tail {
            builder.node(*node, &mut tail, &mut known);
        }
        let mut outputs = Vec::new();
        let mut writes = Vec::new();
        let members: Vec<u32> = group.nodes().map(|node| self.ops[node]).collect();
        for node in group.head.iter().chain(&group.tail) {
            let output = self.op(*node).output;
            let slot = output.slot.0 as usize;
            let needed =
                self.uses.plain[slot] > 0 || self.uses.readers[slot].iter().any(|reader| !members.contains(reader));
            if needed {
                tail.stores.push(known[&output.slot]);
                outputs.push(Port::of(&output));
                writes.push((output.slot, output.start..output.end()));
            }
        }
        if outputs.is_empty() {
            // Nobody asks for any of it; the last is made all the same, so that there is something to run.
            let last = group.nodes().last().unwrap_or_else(|| unreachable!("a group has a node"));
            let output = self.op(last).output;
            tail.stores.push(known[&output.slot]);
            outputs.push(Port::of(&output));
            writes.push((output.slot, output.start..output.end()));
        }
        let scalars = builder.scalars.len();
        let program = Program { head, tail, inputs: builder.ports, outputs, scalars };
        let origin = members.iter().max().copied().unwrap_or_default();
        Bound { program, reads: builder.reads, writes, scalars: builder.scalars, origin }
    }
}

fn scalars_of(op: &TensorOp) -> usize {
    match op.kind {
        TensorKind::Map(f) => f.scalars(),
        TensorKind::Rows(f) => usize::from(f != crate::Norm::Softmax),
        _ => 0,
    }
}

/// Whether a view of at least two axes is contiguous but for its last two, which are or are not swapped.
fn transposed(view: &View, shape: &Shape) -> Option<bool> {
    let rank = shape.rank();
    if rank < 2 || view.offset != 0 || u64::from(view.base.shape.len()) != u64::from(shape.len()) {
        return None;
    }
    let mut dims: Vec<u32> = shape.dims().to_vec();
    let straight = Shape::of(&dims).strides();
    if view.strides[..rank] == straight[..rank] {
        return Some(false);
    }
    dims.swap(rank - 2, rank - 1);
    let mut swapped = Shape::of(&dims).strides();
    swapped.swap(rank - 2, rank - 1);
    (view.strides[..rank] == swapped[..rank]).then_some(true)
}

/// Collects what a kernel is bound to while its bodies are put together.
struct Builder<'g, 'a> {
    graph: &'g Graph<'a>,
    ports: Vec<Port>,
    reads: Vec<(SlotId, std::ops::Range<u64>)>,
    scalars: Vec<u32>,
}

impl Builder<'_, '_> {
    /// The input that reads a value; the same one again for the same value.
    fn input(&mut self, value: &Value) -> usize {
        let range = (value.slot, value.start..value.end());
        let known =
            self.reads.iter().zip(&self.ports).position(|(read, port)| *read == range && *port == Port::of(value));
        known.unwrap_or_else(|| self.fresh(value))
    }

    /// An input of its own.
    fn fresh(&mut self, value: &Value) -> usize {
        self.reads.push((value.slot, value.start..value.end()));
        self.ports.push(Port::of(value));
        self.ports.len() - 1
    }

    /// The scalars of a node: the number of the first.
    fn scalars(&mut self, node: usize) -> usize {
        let graph = self.graph;
        let op = &graph.recording.ops[graph.ops[node] as usize];
        let first = self.scalars.len();
        let count = scalars_of(graph.op(node));
        self.scalars.extend((0..count).map(|at| op.data.start + 4 * u32::try_from(at).unwrap_or_default()));
        first
    }

    /// The step that gives an input of a node.
    fn operand(&mut self, input: &Value, shape: &Shape, body: &mut Body, known: &BTreeMap<SlotId, usize>) -> usize {
        let (memory, at) = self.graph.source(input, shape);
        if at == At::Same
            && memory.slot == input.slot
            && let Some(step) = known.get(&input.slot)
        {
            return *step;
        }
        let load = Step::Load { input: self.input(&memory), at };
        let found = body.steps.iter().position(|step| *step == load);
        found.unwrap_or_else(|| {
            body.steps.push(load);
            body.steps.len() - 1
        })
    }

    /// Appends what a node computes.
    fn node(&mut self, node: usize, body: &mut Body, known: &mut BTreeMap<SlotId, usize>) {
        let op = self.graph.op(node);
        let shape = op.output.shape;
        let step = match op.kind {
            TensorKind::Map(f) => {
                let args = op.inputs().iter().map(|input| self.operand(input, &shape, body, known)).collect();
                Step::Apply { f, args, scalars: self.scalars(node), element: op.output.element }
            }
            TensorKind::Concat(axis) => {
                let inner: u32 = shape.dims()[usize::from(axis) + 1..].iter().product();
                let piece = |input: &Value| input.shape.dims()[usize::from(axis)] * inner;
                let pieces = [piece(&op.inputs[0]), piece(&op.inputs[1])];
                // One that is empty lies nowhere.
                let sides = [0, 1].map(|side| if pieces[side] == 0 { 1 - side } else { side });
                Step::Join { inputs: sides.map(|side| self.input(&op.inputs[side])), pieces }
            }
            TensorKind::Gather => {
                let table = &op.inputs[0];
                let row: u32 = table.shape.dims()[1..].iter().product();
                let (memory, at) = self.graph.source(&op.inputs[1], &op.inputs[1].shape);
                // One index for each row.
                let mut dims = match at {
                    At::Same => vec![(memory.shape.len(), 1)],
                    At::Strided { ref dims, .. } => dims.clone(),
                };
                let offset = if let At::Strided { offset, .. } = at { offset } else { 0 };
                dims.push((row, 0));
                let at = if row == 1 && at == At::Same { At::Same } else { At::Strided { offset, dims } };
                body.steps.push(Step::Load { input: self.input(&memory), at });
                let index = body.steps.len() - 1;
                Step::Gather { input: self.input(table), index, rows: table.shape.dims()[0], row }
            }
            // A view that needs memory of its own.
            TensorKind::Permute(_) | TensorKind::Slice(_) | TensorKind::Broadcast => {
                let view = self.graph.view(op);
                let at = At::new(&shape, &shape, &view.strides, view.offset);
                Step::Load { input: self.input(&view.base), at }
            }
            TensorKind::Matmul { .. } | TensorKind::Reduce(..) | TensorKind::Rows(_) => unreachable!("a head"),
        };
        body.steps.push(step);
        known.insert(op.output.slot, body.steps.len() - 1);
    }

    /// What a head computes, with the nodes that make what it reads.
    fn head(&mut self, node: usize, before: &[usize]) -> Head {
        let op = self.graph.op(node);
        if let TensorKind::Matmul { transposed } = op.kind {
            return Head::Product(self.product(op, transposed));
        }
        let input = &op.inputs[0];
        let mut body = Body::default();
        let mut known = BTreeMap::new();
        for member in before {
            self.node(*member, &mut body, &mut known);
        }
        let step = self.operand(input, &input.shape, &mut body, &known);
        body.stores.push(step);
        match op.kind {
            TensorKind::Reduce(f, axes) => {
                let mut dims: Vec<(u32, bool)> = Vec::new();
                for (axis, length) in input.shape.dims().iter().enumerate() {
                    let reduced = axes >> axis & 1 == 1;
                    match dims.last_mut() {
                        Some((outer, kind)) if *kind == reduced => *outer *= length,
                        _ => dims.push((*length, reduced)),
                    }
                }
                Head::Fold(Fold { f, element: input.element, dims }, body)
            }
            TensorKind::Rows(f) => {
                let row = input.shape.dims().last().copied().unwrap_or(1);
                Head::Rows { f, row, scalar: self.scalars(node), body }
            }
            _ => unreachable!("not a head"),
        }
    }

    fn product(&mut self, op: &TensorOp, given: [bool; 2]) -> Product {
        let rank = op.output.shape.rank();
        let (m, n) = (op.output.shape.dims()[rank - 2], op.output.shape.dims()[rank - 1]);
        let batch = op.output.shape.dims()[..rank - 2].iter().product();
        let left = op.inputs[0].shape.dims();
        let k = left[left.len() - if given[0] { 2 } else { 1 }];
        let mut of = Product { m, k, n, batch, sides: [0; 2], transposed: given, shared: [false; 2] };
        for (side, input) in op.inputs().iter().enumerate() {
            let seen = self.graph.seen(input).and_then(|view| Some((view.base, transposed(&view, &input.shape)?)));
            let (memory, swapped) = seen.unwrap_or((*input, false));
            of.sides[side] = self.fresh(&memory);
            of.transposed[side] ^= swapped;
            of.shared[side] = input.shape.rank() == 2;
        }
        of
    }
}

impl Value {
    /// The shape that inputs stretch to, where a node is elementwise; else the input's own.
    fn shape_or(&self, input: &Value) -> Shape {
        if self.shape.broadcast(&input.shape) == Some(self.shape) { self.shape } else { input.shape }
    }
}

const _: () = assert!(MOST_SCALARS + 8 <= 32, "scalars and sizes fit into the immediates that every device has");
