//! Builds the program of a kernel, node by node.

use super::{
    graph::Graph,
    program::{Body, Expr, Head, Indexing, Product, ProgramBuffer, Reduce, Scalar, SideLayout},
    views::{ProductSide, Source},
};
use crate::{Norm, Shape, SlotId, TensorKind, TensorOp, TensorRef};

/// Collects the bindings of a kernel while its bodies are built.
pub(super) struct Builder<'g, 'a> {
    pub(super) graph: &'g Graph<'a>,
    pub(super) ports: Vec<ProgramBuffer>,
    pub(super) reads: Vec<(SlotId, std::ops::Range<u64>)>,
    pub(super) scalars: Vec<Scalar>,
}

/// The steps that compute the values of a kernel: few, so a list.
#[derive(Default)]
pub(super) struct Known {
    list: Vec<(SlotId, usize)>,
}

impl Known {
    pub(super) fn insert(&mut self, slot: SlotId, step: usize) {
        self.list.push((slot, step));
    }

    pub(super) fn get(&self, slot: SlotId) -> Option<usize> {
        // Mostly one of the last.
        self.list.iter().rev().find(|(known, _)| *known == slot).map(|(_, step)| *step)
    }
}

impl Builder<'_, '_> {
    /// The input that reads a value; reused for the same value.
    fn input(&mut self, value: &TensorRef) -> usize {
        let range = (value.slot, value.start..value.end());
        let mut known = self.reads.iter().zip(&self.ports);
        let known = known.position(|(read, port)| *read == range && *port == ProgramBuffer::of(value));
        known.unwrap_or_else(|| self.fresh(value))
    }

    /// A new input.
    fn fresh(&mut self, value: &TensorRef) -> usize {
        self.reads.push((value.slot, value.start..value.end()));
        self.ports.push(ProgramBuffer::of(value));
        self.ports.len() - 1
    }

    /// Adds the scalars of a node; returns the index of the first.
    fn scalars(&mut self, node: usize) -> usize {
        let graph = self.graph;
        let op = &graph.recording.ops[graph.ops[node] as usize];
        let first = self.scalars.len();
        let count = scalars_of(graph.op(node));
        let start = op.immediates().start;
        self.scalars.extend((0..count).map(|at| Scalar::Recorded(start + 4 * u32::try_from(at).unwrap_or_default())));
        first
    }

    /// A word that is a parameter of its own, whatever its value: then one kernel serves all values.
    fn value(&mut self, value: u32) -> usize {
        self.scalars.push(Scalar::Value(value));
        self.scalars.len() - 1
    }

    /// The step that loads a value; reused for the same load.
    fn load(&mut self, source: Source, body: &mut Body) -> usize {
        let Source { memory, mut at, offset: first } = source;
        let input = self.input(&memory);
        let found = body.steps.iter().position(|step| match (step, &at) {
            (Expr::Load { input: of, at: Indexing::Same }, Indexing::Same) => *of == input,
            (
                Expr::Load { input: of, at: Indexing::Strided { offset: known, dims: known_dims } },
                Indexing::Strided { dims, .. },
            ) => {
                let known = known.map_or(Scalar::Value(0), |known| self.scalars[known.scalar]);
                *of == input && known == Scalar::Value(first) && known_dims == dims
            }
            _ => false,
        });
        found.unwrap_or_else(|| {
            self.number(&mut at, first);
            body.steps.push(Expr::Load { input, at });
            body.steps.len() - 1
        })
    }

    /// Gives the offset of an indexing its scalar.
    fn number(&mut self, at: &mut Indexing, first: u32) {
        if let Indexing::Strided { offset: Some(offset), .. } = at {
            offset.scalar = self.value(first);
        }
    }

    /// The step that computes an input of a node.
    fn operand(&mut self, input: &TensorRef, shape: &Shape, body: &mut Body, known: &Known) -> usize {
        let source = self.graph.source(input, shape);
        if source.at == Indexing::Same
            && source.memory.slot == input.slot
            && let Some(step) = known.get(input.slot)
        {
            return step;
        }
        self.load(source, body)
    }

    /// Appends the computation of a node.
    pub(super) fn node(&mut self, node: usize, body: &mut Body, known: &mut Known) {
        let op = self.graph.op(node);
        let shape = op.output.shape;
        let step = match op.kind {
            TensorKind::Map(f) => {
                let (mut scalar, element) = (self.scalars(node), op.argument_element());
                let mut args = Vec::new();
                for argument in op.arguments() {
                    args.push(match argument {
                        Some(input) => self.operand(input, &shape, body, known),
                        None => {
                            body.steps.push(Expr::Number { scalar, element });
                            scalar += 1;
                            body.steps.len() - 1
                        }
                    });
                }
                Expr::Apply { f, args, element: op.output.element }
            }
            TensorKind::Concat(axis) => {
                let inner: u32 = shape.dims()[usize::from(axis) + 1..].iter().product();
                let piece = |input: &TensorRef| input.shape.dims()[usize::from(axis)] * inner;
                let pieces = [piece(&op.inputs[0]), piece(&op.inputs[1])];
                // An empty tensor has no memory.
                let sides = [0, 1].map(|side| if pieces[side] == 0 { 1 - side } else { side });
                let inputs = sides.map(|side| self.input(&op.inputs[side]));
                Expr::Join { inputs, pieces: pieces.map(|piece| (piece > 0).then(|| self.value(piece))) }
            }
            TensorKind::Gather => {
                let table = &op.inputs[0];
                let row: u32 = table.shape.dims()[1..].iter().product();
                let Source { memory, at, offset: first } = self.graph.source(&op.inputs[1], &op.inputs[1].shape);
                // One index per row.
                let mut dims = match at {
                    Indexing::Same => vec![(memory.shape.len(), 1)],
                    Indexing::Strided { ref dims, .. } => dims.clone(),
                };
                let offset = if let Indexing::Strided { offset, .. } = at { offset } else { None };
                dims.push((row, 0));
                let mut at =
                    if row == 1 && at == Indexing::Same { Indexing::Same } else { Indexing::Strided { offset, dims } };
                self.number(&mut at, first);
                body.steps.push(Expr::Load { input: self.input(&memory), at });
                let index = body.steps.len() - 1;
                Expr::Gather { input: self.input(table), index, rows: self.value(table.shape.dims()[0]), row }
            }
            // A view that needs its own memory.
            TensorKind::Permute(_) | TensorKind::Slice(_) | TensorKind::Broadcast => {
                let view = self.graph.view(op);
                let mut at = Indexing::new(&shape, &shape, &view.strides, view.offset);
                self.number(&mut at, view.offset);
                Expr::Load { input: self.input(&view.base), at }
            }
            TensorKind::Matmul { .. } | TensorKind::Reduce(..) | TensorKind::Rows(_) => unreachable!("a head"),
        };
        body.steps.push(step);
        known.insert(op.output.slot, body.steps.len() - 1);
    }

    /// The computation of a head, with the nodes that compute its input.
    pub(super) fn head(&mut self, node: usize, before: &[usize]) -> Head {
        let op = self.graph.op(node);
        if let TensorKind::Matmul { transposed } = op.kind {
            return Head::Product(self.product(op, transposed));
        }
        let input = &op.inputs[0];
        let mut body = Body::default();
        let mut known = Known::default();
        for member in before {
            self.node(*member, &mut body, &mut known);
        }
        let step = self.operand(input, &input.shape, &mut body, &known);
        body.stores.push(step);
        match op.kind {
            TensorKind::Reduce(f, axes, parts) => {
                let mut dims: Vec<(u32, bool)> = Vec::new();
                for (axis, length) in input.shape.dims().iter().enumerate() {
                    let reduced = axes >> axis & 1 == 1;
                    match dims.last_mut() {
                        Some((outer, kind)) if *kind == reduced => *outer *= length,
                        _ => dims.push((*length, reduced)),
                    }
                }
                Head::Reduce(Reduce { f, element: input.element, dims, parts }, body)
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
        let mut of = Product { batch, transposed: given, shared: [false; 2], ..Product::new(m, k, n) };
        for (side, input) in op.inputs().iter().enumerate() {
            let layout = SideLayout::new(&input.shape, &input.shape.strides());
            let own = ProductSide { memory: *input, swapped: false, layout, offset: 0 };
            let ProductSide { memory, swapped, mut layout, offset } = self.graph.multiplied(op, side).unwrap_or(own);
            layout.offset = (offset != 0).then(|| self.value(offset));
            of.sides[side] = self.fresh(&memory);
            of.transposed[side] ^= swapped;
            of.shared[side] = input.shape.rank() == 2;
            of.layouts[side] = if given[side] { layout.transposed() } else { layout };
        }
        of
    }
}

/// Number of scalars of a node.
pub(super) fn scalars_of(op: &TensorOp) -> usize {
    match op.kind {
        TensorKind::Map(_) => op.numbers.count_ones() as usize,
        TensorKind::Rows(f) => usize::from(f != Norm::Softmax),
        _ => 0,
    }
}
