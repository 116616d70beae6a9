//! Groups the operations of a segment into kernels, and builds their programs.

use std::collections::BTreeMap;

use super::{
    BoundProgram, Uses,
    builder::{Builder, scalars_of},
    program::{Body, Expr, Head, Indexing, Program, ProgramBuffer},
    views::View,
};
use crate::{Caps, ElementType, Function, Recording, Shape, SlotId, TensorKind, TensorOp, TensorRef};

/// Maximum operations in one kernel, so that it compiles quickly.
const MAX_STEPS: usize = 48;
/// Maximum scalars of one kernel: immediates are 32 words, some of which are sizes.
const MAX_SCALARS: usize = 24;

/// The tensor operations of a segment. Nodes are numbered in order.
pub(super) struct Graph<'a> {
    pub(super) recording: &'a Recording,
    pub(super) caps: &'a Caps,
    uses: &'a Uses,
    /// The op of each node.
    pub(super) ops: &'a [u32],
    /// The node that makes each slot.
    pub(super) maker: BTreeMap<SlotId, usize>,
    /// By node: its view, if it is read from another value's memory.
    pub(super) views: Vec<Option<View>>,
    pub(super) group_of: Vec<Option<usize>>,
    groups: Vec<Group>,
}

/// Nodes that share a kernel.
#[derive(Debug, Default)]
struct Group {
    /// The product, reduction or norm among them.
    head: Option<usize>,
    /// Nodes that compute the input of the head.
    body: Vec<usize>,
    /// Nodes after the head, or all nodes if there is no head.
    tail: Vec<usize>,
    /// Elements of the tail's outputs.
    len: u32,
    /// Merged into another group.
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

    pub(super) fn op(&self, node: usize) -> &'a TensorOp {
        super::tensor_of(self.recording, self.ops[node])
    }

    /// Decides where a node is computed.
    fn place(&mut self, node: usize) {
        let op = self.op(node);
        for input in op.inputs() {
            // A view in another shape needs its own memory.
            if let Some(maker) = self.maker.get(&input.slot).copied()
                && self.views[maker].is_some()
                && self.seen(input).is_none()
            {
                self.alone(maker);
            }
        }
        match op.kind {
            // Native products widen halves where they read them.
            TensorKind::Map(Function::Cast) if self.widens(op) => {
                self.views[node] = Some(self.view(op));
                self.settle_view(node);
            }
            TensorKind::Permute(_) | TensorKind::Slice(_) | TensorKind::Broadcast => {
                self.views[node] = Some(self.view(op));
                self.settle_view(node);
            }
            TensorKind::Map(_) => self.join(node),
            TensorKind::Concat(_) | TensorKind::Gather | TensorKind::Matmul { .. } => {
                self.settle(node);
                self.alone(node);
            }
            TensorKind::Reduce(..) | TensorKind::Rows(_) => self.absorb(node),
        }
    }

    /// Whether a cast only widens halves for products.
    fn widens(&self, op: &TensorOp) -> bool {
        let from = op.inputs().first().map(|input| input.element);
        let product =
            |reader: &u32| matches!(super::tensor_of(self.recording, *reader).kind, TensorKind::Matmul { .. });
        self.caps.native_programs
            && from == Some(ElementType::F16)
            && op.output.element == ElementType::F32
            && self.uses.readers[op.output.slot.0 as usize].iter().all(product)
    }

    /// Gives a view its own memory, if something else than the nodes of this segment reads it.
    fn settle_view(&mut self, node: usize) {
        let slot = self.op(node).output.slot.0 as usize;
        let outside = self.uses.readers[slot].iter().any(|reader| !self.ops.contains(reader));
        if !self.caps.fuse || self.uses.plain[slot] > 0 || outside {
            self.alone(node);
        }
    }

    /// Puts a node into its own group.
    fn alone(&mut self, node: usize) -> usize {
        if let Some(group) = self.group_of[node] {
            return group;
        }
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

    /// Gives the inputs of a node their own memory, if it cannot read them through strides.
    fn settle(&mut self, node: usize) {
        let op = self.op(node);
        for (side, input) in op.inputs().iter().enumerate() {
            if self.seen(input).is_some()
                && self.multiplied(op, side).is_none()
                && !(op.kind == TensorKind::Gather && side == 1)
            {
                self.alone(self.maker[&input.slot]);
            }
        }
    }

    /// Puts an elementwise node into the groups of its inputs, as far as possible.
    fn join(&mut self, node: usize) {
        let op = self.op(node);
        let shape = op.output.shape;
        let mut candidates: Vec<usize> = Vec::new();
        let mut others: Vec<usize> = Vec::new();
        for input in op.inputs() {
            let (memory, at) = self.source(input, &shape);
            let Some(made) = self.maker.get(&memory.slot).and_then(|maker| self.group_of[*maker]) else { continue };
            let list = if at == Indexing::Same && memory.slot == input.slot { &mut candidates } else { &mut others };
            if !list.contains(&made) {
                list.push(made);
            }
        }
        if !self.caps.fuse {
            self.alone(node);
            return;
        }
        // The last first: it most likely depends on the others.
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

    /// Whether a node fits into a group.
    fn takes(&self, group: usize, node: usize) -> bool {
        let of = &self.groups[group];
        let same = of.len == self.op(node).output.shape.len();
        same && self.follows(node, of.head) && self.fits(of.nodes().chain([node]))
    }

    /// Whether a node may follow a head in its kernel.
    fn follows(&self, node: usize, head: Option<usize>) -> bool {
        let element = self.op(node).output.element;
        match head.map(|head| self.op(head).kind) {
            None => true,
            // The first output stores the row meanwhile.
            Some(TensorKind::Rows(_)) => element == ElementType::F32,
            Some(_) => element != ElementType::F16,
        }
    }

    fn mergeable(&self, one: usize, other: usize, node: usize) -> bool {
        let (a, b) = (&self.groups[one], &self.groups[other]);
        let heads = a.head.is_some() && b.head.is_some();
        // Elementwise nodes follow the head.
        let follow = a.tail.iter().chain(&b.tail).all(|node| self.follows(*node, a.head.or(b.head)));
        !heads && follow && a.len == b.len && self.fits(a.nodes().chain(b.nodes()).chain([node]))
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

    /// Whether nodes together stay within the limits of a kernel.
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
        nodes.len() <= MAX_STEPS && scalars <= MAX_SCALARS && ports <= self.caps.storage_buffers as usize
    }

    /// Whether one group depends, directly or not, on another.
    fn depends(&self, one: usize, other: usize) -> bool {
        let mut seen = vec![false; self.groups.len()];
        let mut open = vec![one];
        while let Some(group) = open.pop() {
            if std::mem::replace(&mut seen[group], true) {
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
            for side in 0..self.op(node).inputs().len() {
                let memory = self.memory(self.op(node), side);
                let made = self.maker.get(&memory.slot).and_then(|maker| self.group_of[*maker]);
                needs.extend(made.filter(|made| *made != group));
            }
        }
        needs
    }

    /// Places a reduction: together with the group that computes its input, if that has no other output.
    fn absorb(&mut self, node: usize) {
        let op = self.op(node);
        let input = op.inputs[0];
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

    /// Whether an elementwise group has one output, which only this node reads.
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

    /// The kernels in dependency order.
    pub(super) fn kernels(&self) -> Vec<BoundProgram> {
        let mut done = vec![false; self.groups.len()];
        let mut order = Vec::new();
        for group in 0..self.groups.len() {
            self.visit(group, &mut done, &mut order);
        }
        order.into_iter().map(|group| self.kernel(&self.groups[group])).collect()
    }

    fn visit(&self, group: usize, done: &mut [bool], order: &mut Vec<usize>) {
        // An explicit stack: a recording may be a chain of thousands.
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

    fn kernel(&self, group: &Group) -> BoundProgram {
        let mut builder = Builder { graph: self, ports: Vec::new(), reads: Vec::new(), scalars: Vec::new() };
        let mut head = Head::None;
        let mut known: BTreeMap<SlotId, usize> = BTreeMap::new();
        let mut tail = Body::default();
        if let Some(node) = group.head {
            let op = self.op(node);
            head = builder.head(node, &group.body);
            tail.steps.push(Expr::Head(op.output.element));
            known.insert(op.output.slot, 0);
        }
        for node in &group.tail {
            builder.node(*node, &mut tail, &mut known);
        }
        let members: Vec<u32> = group.nodes().map(|node| self.ops[node]).collect();
        let is_used = |node: &usize| {
            let slot = self.op(*node).output.slot.0 as usize;
            self.uses.plain[slot] > 0 || self.uses.readers[slot].iter().any(|reader| !members.contains(reader))
        };
        let mut stored: Vec<usize> = group.head.iter().chain(&group.tail).copied().filter(is_used).collect();
        if stored.is_empty() {
            // None of the outputs is used; the last one is computed anyway, so that there is something to run.
            stored.extend(group.nodes().last());
        }
        let stored: Vec<TensorRef> = stored.into_iter().map(|node| self.op(node).output).collect();
        tail.stores.extend(stored.iter().map(|output| known[&output.slot]));
        let outputs = stored.iter().map(ProgramBuffer::of).collect();
        let writes = stored.iter().map(|output| (output.slot, output.start..output.end())).collect();
        let scalars = builder.scalars.len();
        let program = Program { head, tail, inputs: builder.ports, outputs, scalars };
        let origin = members.iter().max().copied().unwrap_or_default();
        let members = self.with_views(group, members);
        BoundProgram { program, reads: builder.reads, writes, scalars: builder.scalars, origin, members }
    }

    /// The operations of a group with the views that they read through, in order.
    fn with_views(&self, group: &Group, mut members: Vec<u32>) -> Vec<u32> {
        let mut open: Vec<usize> = group.nodes().collect();
        while let Some(node) = open.pop() {
            let makers = self.op(node).inputs().iter().filter_map(|input| self.maker.get(&input.slot).copied());
            for view in makers.filter(|maker| self.views[*maker].is_some() && self.group_of[*maker].is_none()) {
                if !members.contains(&self.ops[view]) {
                    members.push(self.ops[view]);
                    open.push(view);
                }
            }
        }
        members.sort_unstable();
        members
    }
}

impl TensorRef {
    /// The shape that inputs are broadcast to, if the node is elementwise; else the input's own.
    fn shape_or(&self, input: &TensorRef) -> Shape {
        if self.shape.broadcast(&input.shape) == Some(self.shape) { self.shape } else { input.shape }
    }
}

const _: () = assert!(MAX_SCALARS + 8 <= 32, "scalars and sizes fit into the immediates that every device has");
