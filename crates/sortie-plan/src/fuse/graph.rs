//! Groups the operations of a segment into kernels, and builds their programs.

use super::{
    BoundProgram,
    builder::{Builder, Known, scalars_of},
    program::{Body, Expr, Head, Indexing, Program, ProgramBuffer},
    reach::Reach,
    slots::Slots,
    uses::Uses,
    views::{Source, View},
};
use crate::{Caps, ElementType, Function, Recording, SlotId, TensorKind, TensorOp, TensorRef};

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
    pub(super) slots: &'a Slots,
    /// By node: its view, if it is read from another value's memory.
    pub(super) views: Vec<Option<View>>,
    pub(super) group_of: Vec<Option<usize>>,
    groups: Vec<Group>,
    /// By node: the operations that read it and are not in its group.
    outside: Vec<u32>,
    /// Which groups depend on which.
    reach: Reach,
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
    /// What its kernel takes.
    cost: Cost,
    /// Merged into another group.
    gone: bool,
}

/// What the kernel of a group takes.
#[derive(Debug, Default, Clone)]
struct Cost {
    nodes: usize,
    scalars: usize,
    /// Sides of a product.
    sides: usize,
    /// Memory that no node of the group makes.
    reads: Vec<(SlotId, u64)>,
    /// Values that are used outside of the group.
    writes: usize,
}

/// What one more node adds to the [`Cost`] of a group.
#[derive(Debug, Default)]
struct More {
    nodes: usize,
    scalars: usize,
    sides: usize,
    /// As many as `count`.
    reads: [Option<(SlotId, u64)>; 3],
    count: usize,
    writes: usize,
    /// Values of the group that only this node uses.
    unwritten: usize,
}

impl More {
    fn of(op: &TensorOp) -> Self {
        let sides = if matches!(op.kind, TensorKind::Matmul { .. }) { 2 } else { 0 };
        // Lengths and rows are parameters too.
        let lengths = match op.kind {
            TensorKind::Concat(_) => 2,
            TensorKind::Gather => 1,
            _ => 0,
        };
        Self { nodes: 1, scalars: scalars_of(op) + lengths, sides, ..Self::default() }
    }

    fn read(&mut self, key: (SlotId, u64)) {
        if !self.reads.contains(&Some(key)) {
            self.reads[self.count] = Some(key);
            self.count += 1;
        }
    }
}

impl Cost {
    fn add(&mut self, more: &More) {
        self.nodes += more.nodes;
        self.scalars += more.scalars;
        self.sides += more.sides;
        self.reads.extend(more.reads.iter().flatten());
        self.writes = self.writes + more.writes - more.unwritten;
    }

    /// Whether all is within the limits of a kernel, with some more.
    fn fits(&self, more: &More, caps: &Caps) -> bool {
        let writes = self.writes + more.writes - more.unwritten;
        let ports = self.reads.len() + more.count + writes.max(1) + self.sides + more.sides;
        self.nodes + more.nodes <= MAX_STEPS
            && self.scalars + more.scalars <= MAX_SCALARS
            && ports <= caps.storage_buffers as usize
    }
}

impl Group {
    fn nodes(&self) -> impl Iterator<Item = usize> + '_ {
        self.body.iter().chain(&self.head).chain(&self.tail).copied()
    }
}

impl<'a> Graph<'a> {
    pub(super) fn new(
        recording: &'a Recording,
        caps: &'a Caps,
        uses: &'a Uses,
        slots: &'a Slots,
        reach: Reach,
        ops: &'a [u32],
    ) -> Self {
        let mut graph = Self {
            recording,
            caps,
            uses,
            ops,
            slots,
            views: vec![None; ops.len()],
            group_of: vec![None; ops.len()],
            groups: Vec::with_capacity(ops.len()),
            outside: Vec::with_capacity(ops.len()),
            reach,
        };
        graph.reach.restart(ops.len());
        for node in 0..ops.len() {
            graph.outside.push(index(uses.readers(graph.op(node).output.slot).len()));
        }
        for node in 0..ops.len() {
            if !graph.op(node).output.shape.is_empty() {
                graph.place(node);
            }
        }
        graph
    }

    /// Its memory, for the next segment.
    pub(super) fn into_reach(self) -> Reach {
        self.reach
    }

    /// The node that makes a slot.
    pub(super) fn maker(&self, slot: SlotId) -> Option<usize> {
        self.slots.maker(slot)
    }

    /// The group that makes a slot.
    fn made(&self, slot: SlotId) -> Option<usize> {
        self.group_of[self.maker(slot)?]
    }

    pub(super) fn op(&self, node: usize) -> &'a TensorOp {
        super::tensor_of(self.recording, self.ops[node])
    }

    /// Decides where a node is computed.
    fn place(&mut self, node: usize) {
        let op = self.op(node);
        for input in op.inputs() {
            // A view in another shape needs its own memory.
            if let Some(maker) = self.maker(input.slot)
                && self.views[maker].is_some()
                && self.seen(input).is_none_or(|view| view.base.slot == input.slot)
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
            && self.uses.readers(op.output.slot).iter().all(product)
    }

    /// Gives a view its own memory, if something else than the nodes of this segment reads it.
    fn settle_view(&mut self, node: usize) {
        let slot = self.op(node).output.slot;
        let outside = self.uses.readers(slot).iter().any(|reader| self.ops.binary_search(reader).is_err());
        if !self.caps.fuse || self.uses.plain(slot) > 0 || outside {
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
        self.reach.push();
        self.enter(node, self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// Makes a node part of a group: its dependences and what it takes become the group's.
    fn enter(&mut self, node: usize, group: usize) {
        if self.caps.fuse {
            let more = self.more(group, node);
            self.groups[group].cost.add(&more);
        }
        self.group_of[node] = Some(group);
        let op = self.op(node);
        for side in 0..op.inputs().len() {
            if let Some(maker) =
                self.input_within(op, side, |maker| maker != node && self.group_of[maker] == Some(group))
            {
                self.outside[maker] -= 1;
            }
            if let Some(made) = self.made(self.memory(op, side).slot).filter(|made| *made != group) {
                self.reach.add(group, made);
            }
        }
    }

    /// The node that makes an input, if it is `inside`; `None` for an input that was already listed.
    fn input_within(&self, op: &TensorOp, side: usize, inside: impl Fn(usize) -> bool) -> Option<usize> {
        let slot = op.inputs()[side].slot;
        let listed = op.inputs()[..side].iter().any(|before| before.slot == slot);
        self.maker(slot).filter(|maker| !listed && inside(*maker))
    }

    /// What a group takes more with one more node.
    fn more(&self, group: usize, node: usize) -> More {
        let op = self.op(node);
        let inside = |maker: usize| self.group_of[maker] == Some(group);
        let mut more = More::of(op);
        for (side, input) in op.inputs().iter().enumerate() {
            let (memory, has_offset) = self.place_of(input);
            more.scalars += usize::from(has_offset);
            let key = (memory.slot, memory.start);
            if !self.maker(memory.slot).is_some_and(inside) && !self.groups[group].cost.reads.contains(&key) {
                more.read(key);
            }
            let last = |maker: &usize| self.outside[*maker] == 1 && self.uses.plain(self.op(*maker).output.slot) == 0;
            more.unwritten += usize::from(self.input_within(op, side, inside).as_ref().is_some_and(last));
        }
        let slot = op.output.slot;
        more.writes = usize::from(self.uses.plain(slot) > 0 || !self.uses.readers(slot).is_empty());
        more
    }

    /// What nodes take together.
    fn cost(&self, nodes: &[usize]) -> Cost {
        let inside = |maker: usize| nodes.contains(&maker);
        let mut cost = Cost::default();
        for node in nodes {
            let op = self.op(*node);
            let mut more = More::of(op);
            for input in op.inputs() {
                let (memory, has_offset) = self.place_of(input);
                more.scalars += usize::from(has_offset);
                let key = (memory.slot, memory.start);
                if !self.maker(memory.slot).is_some_and(inside) && !cost.reads.contains(&key) {
                    more.read(key);
                }
            }
            let slot = op.output.slot;
            let within = |reader: &u32| self.ops.binary_search(reader).is_ok_and(inside);
            more.writes = usize::from(self.uses.plain(slot) > 0 || !self.uses.readers(slot).iter().all(within));
            cost.add(&more);
        }
        cost
    }

    /// Gives the inputs of a node their own memory, if it cannot read them through strides.
    fn settle(&mut self, node: usize) {
        let op = self.op(node);
        for (side, input) in op.inputs().iter().enumerate() {
            if self.seen(input).is_some()
                && self.multiplied(op, side).is_none()
                && !(op.kind == TensorKind::Gather && side == 1)
            {
                self.maker(input.slot).map(|maker| self.alone(maker));
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
            let Source { memory, at, .. } = self.source(input, &shape);
            let Some(made) = self.made(memory.slot) else { continue };
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
                && candidates.iter().chain(&others).all(|other| {
                    *other == candidate || Some(*other) == target || !self.reach.depends(*other, candidate)
                })
                && !others.contains(&candidate);
            if !fits {
                continue;
            }
            match target {
                None => target = Some(candidate),
                Some(first) => {
                    let apart = !self.reach.depends(first, candidate) && !self.reach.depends(candidate, first);
                    if apart && self.mergeable(first, candidate, node) {
                        self.merge(first, candidate);
                    }
                }
            }
        }
        match target {
            Some(target) => {
                self.groups[target].tail.push(node);
                self.enter(node, target);
            }
            None => drop(self.alone(node)),
        }
    }

    /// Whether a node fits into a group.
    fn takes(&self, group: usize, node: usize) -> bool {
        let of = &self.groups[group];
        let same = of.len == self.op(node).output.shape.len();
        same && self.follows(node, of.head) && self.fits(group, node)
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
        let fits = || {
            let nodes: Vec<usize> = a.nodes().chain(b.nodes()).chain([node]).collect();
            nodes.len() <= MAX_STEPS && self.cost(&nodes).fits(&More::default(), self.caps)
        };
        !heads && follow && a.len == b.len && fits()
    }

    fn merge(&mut self, one: usize, other: usize) {
        // What either reads of the other is no longer read from outside.
        for (reader, read) in [(one, other), (other, one)] {
            for node in self.groups[reader].nodes().collect::<Vec<_>>() {
                let op = self.op(node);
                for side in 0..op.inputs().len() {
                    if let Some(maker) = self.input_within(op, side, |maker| self.group_of[maker] == Some(read)) {
                        self.outside[maker] -= 1;
                    }
                }
            }
        }
        let taken = std::mem::take(&mut self.groups[other]);
        taken.nodes().for_each(|node| self.group_of[node] = Some(one));
        self.reach.merge(one, other);
        let group = &mut self.groups[one];
        if taken.head.is_some() {
            group.head = taken.head;
            group.body = taken.body;
        }
        group.tail.extend(taken.tail);
        group.tail.sort_unstable();
        let nodes: Vec<usize> = group.nodes().collect();
        self.groups[one].cost = self.cost(&nodes);
        self.groups[other].gone = true;
    }

    /// Whether a group stays within the limits of a kernel with one more node.
    fn fits(&self, group: usize, node: usize) -> bool {
        self.groups[group].cost.fits(&self.more(group, node), self.caps)
    }

    /// Groups whose results a group reads from memory.
    fn needs(&self, group: usize) -> impl Iterator<Item = usize> + '_ {
        let sides = |node: usize| (0..self.op(node).inputs().len()).map(move |side| (node, side));
        let made = |(node, side): (usize, usize)| self.made(self.memory(self.op(node), side).slot);
        self.groups[group].nodes().flat_map(sides).filter_map(made).filter(move |made| *made != group)
    }

    /// Places a reduction: together with the group that computes its input, if that has no other output.
    fn absorb(&mut self, node: usize) {
        let op = self.op(node);
        let input = op.inputs[0];
        let found = self.made(input.slot).filter(|group| self.caps.fuse && self.only_for(*group, node));
        let Some(group) = found else {
            self.alone(node);
            return;
        };
        let group_of = &mut self.groups[group];
        group_of.body = std::mem::take(&mut group_of.tail);
        group_of.head = Some(node);
        group_of.len = op.output.shape.len();
        self.enter(node, group);
    }

    /// Whether an elementwise group has one output, which only this node reads.
    fn only_for(&self, group: usize, node: usize) -> bool {
        let of = &self.groups[group];
        let read = self.op(node).inputs[0].slot;
        let alone = of.tail.iter().all(|member| {
            let slot = self.op(*member).output.slot;
            let outside = match slot == read {
                true => self.uses.readers(slot) != [self.ops[node]],
                false => self.outside[*member] > 0,
            };
            self.uses.plain(slot) == 0 && !outside
        });
        let plain = of.tail.iter().all(|member| matches!(self.op(*member).kind, TensorKind::Map(_)));
        let same = of.len == self.op(node).inputs[0].shape.len();
        of.head.is_none() && plain && same && alone && self.fits(group, node)
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
            open.extend(self.needs(group).map(|need| (need, false)));
        }
    }

    fn kernel(&self, group: &Group) -> BoundProgram {
        let mut builder = Builder { graph: self, ports: Vec::new(), reads: Vec::new(), scalars: Vec::new() };
        let mut head = Head::None;
        let mut known = Known::default();
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
        let is_used = |node: &usize| self.outside[*node] > 0 || self.uses.plain(self.op(*node).output.slot) > 0;
        let mut stored: Vec<usize> = group.head.iter().chain(&group.tail).copied().filter(is_used).collect();
        if stored.is_empty() {
            // None of the outputs is used; the last one is computed anyway, so that there is something to run.
            stored.extend(group.nodes().last());
        }
        let stored: Vec<TensorRef> = stored.into_iter().map(|node| self.op(node).output).collect();
        tail.stores.extend(stored.iter().filter_map(|output| known.get(output.slot)));
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
            let makers = self.op(node).inputs().iter().filter_map(|input| self.maker(input.slot));
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

fn index(len: usize) -> u32 {
    u32::try_from(len).expect("lists are indexed by u32")
}

const _: () = assert!(MAX_SCALARS + 8 <= 32, "scalars and sizes fit into the immediates that every device has");
