//! Programs of many instances: trees, sequences and perceptrons, of random shapes.

use sortie_plan::{
    Access, ElementType, Function, Norm, Op, OpKind, RANK, Recording, Reduction, Shape, SlotId, SlotInfo, SlotKind,
    Span, TensorKind, TensorOp, TensorRef,
};

/// A recording while it is made.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) recording: Recording,
    written: usize,
    read: usize,
}

impl Draft {
    fn value(&mut self, kind: SlotKind, dims: &[u32]) -> TensorRef {
        let dims: Vec<usize> = dims.iter().map(|length| *length as usize).collect();
        let shape = Shape::new(&dims).unwrap_or_else(|| panic!("{dims:?} is a shape"));
        let bytes = (u64::from(shape.len()) * 4).max(4);
        let slot = self.recording.push_slot(SlotInfo { kind, bytes });
        TensorRef { slot, start: 0, shape, element: ElementType::F32 }
    }

    pub(crate) fn external(&mut self, dims: &[u32]) -> TensorRef {
        self.value(SlotKind::External, dims)
    }

    pub(crate) fn upload(&mut self, dims: &[u32]) -> TensorRef {
        let value = self.value(SlotKind::Scratch, dims);
        let bytes = value.end() as usize;
        let data = Span::new(self.written..self.written + bytes);
        self.written += bytes;
        self.push(OpKind::Write { data }, &[Access::write(value.slot, 0..value.end())]);
        value
    }

    fn push(&mut self, kind: OpKind, accesses: &[Access]) {
        let first = self.recording.accesses.len();
        accesses.iter().for_each(|access| self.recording.push_access(*access));
        let accesses = Span::new(first..self.recording.accesses.len());
        self.recording.push_op(Op { kind, accesses });
    }

    fn op(&mut self, kind: TensorKind, inputs: &[TensorRef], numbers: u8, scalars: Span, dims: &[u32]) -> TensorRef {
        let output = self.value(SlotKind::Scratch, dims);
        let mut all = [output; 3];
        all[..inputs.len()].copy_from_slice(inputs);
        let tensor = TensorOp { kind, inputs: all, count: inputs.len() as u8, numbers, output };
        let tensor = self.recording.push_tensor(tensor);
        self.recording.push_op(Op::bare(OpKind::Tensor { tensor, scalars }));
        output
    }

    pub(crate) fn matmul(&mut self, x: TensorRef, by: TensorRef) -> TensorRef {
        let dims = [x.shape.dims()[0], by.shape.dims()[1]];
        self.op(TensorKind::Matmul { transposed: [false; 2] }, &[x, by], 0, Span::EMPTY, &dims)
    }

    pub(crate) fn map(&mut self, inputs: &[TensorRef], dims: &[u32]) -> TensorRef {
        let f = [Function::Tanh, Function::Add, Function::Select][inputs.len() - 1];
        self.op(TensorKind::Map(f), inputs, 0, Span::EMPTY, dims)
    }

    pub(crate) fn map_number(&mut self, x: TensorRef, at: u32) -> TensorRef {
        let dims = x.shape;
        self.op(TensorKind::Map(Function::Mul), &[x], 0b10, Span { start: at, len: 4 }, dims.dims())
    }

    pub(crate) fn read(&mut self, value: TensorRef) {
        let to = Span::new(self.read..self.read + value.end() as usize);
        self.read = to.range().end;
        self.push(OpKind::Read { to }, &[Access::read(value.slot, value.start..value.end())]);
    }

    fn copy(&mut self, value: TensorRef, to: SlotId) {
        let length = value.end() - value.start;
        self.push(OpKind::Copy, &[Access::read(value.slot, value.start..value.end()), Access::write(to, 0..length)]);
    }

    /// A write that is left without anything to do.
    pub(crate) fn written_before(&mut self) {
        self.push(OpKind::Write { data: Span::EMPTY }, &[]);
    }

    pub(crate) fn barrier(&mut self) {
        self.push(OpKind::Barrier, &[]);
    }
}

/// A multiplicative generator: the same programs everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) % u64::from(most)) as u32
    }
}

/// The parameters of all instances.
struct Model {
    width: u32,
    square: TensorRef,
    gates: TensorRef,
    bias: TensorRef,
    table: TensorRef,
}

/// A random program.
pub(crate) fn random(seed: u64) -> Recording {
    let mut draft = Draft::default();
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let width = [1, 2, 4, 8][random.below(4) as usize];
    let model = Model {
        width,
        square: draft.external(&[width, width]),
        gates: draft.external(&[width, 2 * width]),
        bias: draft.external(&[width]),
        table: draft.external(&[4, width]),
    };
    let stores: Vec<TensorRef> = (0..3).map(|_| draft.external(&[4, width])).collect();
    for _ in 0..2 + random.below(8) {
        let value = match random.below(4) {
            0 => tree(&mut draft, &model, &mut random, 3),
            1 => sequence(&mut draft, &model, &mut random),
            2 => rows(&mut draft, &model, &mut random),
            _ => loose(&mut draft, &model, &mut random),
        };
        match random.below(8) {
            0 => draft.copy(value, stores[random.below(3) as usize].slot),
            1 => draft.barrier(),
            _ => {}
        }
        draft.read(value);
    }
    draft.recording
}

fn leaf(draft: &mut Draft, model: &Model, random: &mut Random) -> TensorRef {
    match random.below(3) {
        0 => draft.upload(&[1, model.width]),
        _ => {
            let index = draft.upload(&[1]);
            draft.op(TensorKind::Gather, &[model.table, index], 0, Span::EMPTY, &[1, model.width])
        }
    }
}

/// Both gates of a product, and what they make.
fn cell(draft: &mut Draft, model: &Model, x: TensorRef, state: TensorRef) -> TensorRef {
    let rows = x.shape.dims()[0];
    let dims = [rows, model.width];
    let both = draft.matmul(x, model.gates);
    let slice = |start| TensorKind::Slice([0, start, 0, 0, 0, 0]);
    let one = draft.op(slice(0), &[both], 0, Span::EMPTY, &dims);
    let two = draft.op(slice(model.width), &[both], 0, Span::EMPTY, &dims);
    let one = draft.map(&[one, model.bias], &dims);
    let two = draft.map(&[one, two, state], &dims);
    draft.map_number(two, 8)
}

fn tree(draft: &mut Draft, model: &Model, random: &mut Random, depth: u32) -> TensorRef {
    if depth == 0 || random.below(4) == 0 {
        return leaf(draft, model, random);
    }
    let left = tree(draft, model, random, depth - 1);
    let right = tree(draft, model, random, depth - 1);
    cell(draft, model, left, right)
}

fn sequence(draft: &mut Draft, model: &Model, random: &mut Random) -> TensorRef {
    let mut state = leaf(draft, model, random);
    for _ in 0..random.below(5) {
        let x = leaf(draft, model, random);
        state = cell(draft, model, x, state);
    }
    let dims = state.shape;
    match random.below(3) {
        0 => draft.op(TensorKind::Rows(Norm::Softmax), &[state], 0, Span::EMPTY, dims.dims()),
        1 => draft.op(TensorKind::Reduce(Reduction::Sum, 0b10, 1), &[state], 0, Span::EMPTY, &[1, 1]),
        _ => state,
    }
}

/// Several rows, concatenated and transposed weights.
fn rows(draft: &mut Draft, model: &Model, random: &mut Random) -> TensorRef {
    let (count, width) = (1 + random.below(4), model.width);
    let x = draft.upload(&[count, width]);
    let permute = TensorKind::Permute([1, 0, 0, 0, 0, 0]);
    let weights = draft.op(permute, &[model.square], 0, Span::EMPTY, &[width, width]);
    let y = draft.matmul(x, weights);
    let y = draft.map(&[y, x], &[count, width]);
    let both = draft.op(TensorKind::Concat(1), &[x, y], 0, Span::EMPTY, &[count, 2 * width]);
    let half = TensorKind::Slice([0, width / 2, 0, 0, 0, 0]);
    let half = draft.op(half, &[both], 0, Span::EMPTY, &[count, width]);
    let half = draft.matmul(half, model.square);
    draft.map(&[half], &[count, width])
}

/// Values of one dimension, a shared state, and a reshape.
fn loose(draft: &mut Draft, model: &Model, random: &mut Random) -> TensorRef {
    let width = model.width;
    let x = draft.upload(&[width]);
    let y = draft.map(&[x, model.bias], &[width]);
    let both = draft.op(TensorKind::Concat(0), &[x, y], 0, Span::EMPTY, &[2 * width]);
    let y = draft.op(TensorKind::Slice([1, 0, 0, 0, 0, 0]), &[both], 0, Span::EMPTY, &[width]);
    let y = draft.map(&[y, x], &[width]);
    let row = TensorRef { shape: Shape::new(&[1, width as usize]).expect("a shape"), ..y };
    let z = cell(draft, model, row, row);
    if random.below(2) == 0 { draft.map(&[z, y], &[1, width]) } else { z }
}

const _: () = assert!(RANK == 6);
