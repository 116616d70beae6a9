//! The kernels that stand for tensor operations, word for word. `SORTIE_BLESS=1` writes them anew; look at the difference.

use std::{fs, path::Path};

use naga::valid::{Capabilities, ValidationFlags, Validator};
use sortie_plan::{
    Caps, ElementType, Function, MatmulKernel, Norm, Op, OpKind, Recording, Reduction, Shape, SlotInfo, SlotKind, Span,
    TensorKind, TensorOp, TensorRef,
    fuse::{Lowered, Scalar, lower},
};

/// A recording of tensor operations.
#[derive(Default)]
struct Draft {
    recording: Recording,
    scalars: u32,
}

impl Draft {
    fn value(&mut self, kind: SlotKind, dims: &[usize], element: ElementType) -> TensorRef {
        let shape = Shape::new(dims).unwrap_or_else(|| panic!("{dims:?} is a shape"));
        let bytes = (u64::from(shape.len()) * element.bytes()).next_multiple_of(4).max(4);
        TensorRef { slot: self.recording.push_slot(SlotInfo { kind, bytes }), start: 0, shape, element }
    }

    fn input(&mut self, dims: &[usize]) -> TensorRef {
        self.value(SlotKind::External, dims, ElementType::F32)
    }

    fn op(&mut self, kind: TensorKind, inputs: &[TensorRef], dims: &[usize], scalars: u32) -> TensorRef {
        self.op_with(kind, inputs, 0, dims, scalars)
    }

    /// As [`Draft::op`]; the arguments whose bits are set in `numbers` are numbers.
    fn op_with(
        &mut self,
        kind: TensorKind,
        inputs: &[TensorRef],
        numbers: u8,
        dims: &[usize],
        scalars: u32,
    ) -> TensorRef {
        let output = self.value(SlotKind::Scratch, dims, ElementType::F32);
        let mut all = [output; 3];
        all[..inputs.len()].copy_from_slice(inputs);
        let tensor = TensorOp { kind, inputs: all, count: inputs.len() as u8, numbers, output };
        let tensor = self.recording.push_tensor(tensor);
        let span = Span::new(self.scalars as usize..(self.scalars + 4 * scalars) as usize);
        self.scalars += 4 * scalars;
        self.recording.push_op(Op::bare(OpKind::Tensor { tensor, scalars: span }));
        output
    }

    fn map(&mut self, f: Function, inputs: &[TensorRef], dims: &[usize]) -> TensorRef {
        self.op(TensorKind::Map(f), inputs, dims, 0)
    }

    /// A function of inputs and numbers.
    fn map_with(&mut self, f: Function, inputs: &[TensorRef], numbers: u8, dims: &[usize]) -> TensorRef {
        self.op_with(TensorKind::Map(f), inputs, numbers, dims, numbers.count_ones())
    }

    fn lower(&self, fuse: bool) -> Lowered {
        lower(&self.recording, &Caps { fuse, ..Caps::default() })
    }
}

/// Compares the kernels of a recording with what is kept.
fn check(name: &str, draft: &Draft) {
    check_with(name, draft, &Caps::default());
}

fn check_with(name: &str, draft: &Draft, caps: &Caps) {
    let lowered = draft.lower(true);
    let text: Vec<String> = lowered
        .programs
        .iter()
        .map(|program| {
            let source = program.source(caps);
            format!("// grid {:?}, sizes {:?}, {} scalars\n{}", source.grid, source.words, program.scalars, source.text)
        })
        .collect();
    for text in &text {
        let module =
            naga::front::wgsl::parse_str(text).unwrap_or_else(|error| panic!("{}", error.emit_to_string(text)));
        let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
        validator.validate(&module).unwrap_or_else(|error| panic!("{}", error.emit_to_string(text)));
    }
    let text = text.join("\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(format!("{name}.wgsl"));
    if std::env::var_os("SORTIE_BLESS").is_some() {
        fs::write(&path, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{name} is now\n{text}");
}

#[test]
fn a_chain_with_a_row_that_stretches_is_one_kernel_of_vectors() {
    let mut draft = Draft::default();
    let (x, w, b) = (draft.input(&[64, 32]), draft.input(&[32]), draft.input(&[64, 1]));
    let v = draft.map(Function::Mul, &[x, w], &[64, 32]);
    let v = draft.map(Function::Add, &[v, b], &[64, 32]);
    let g = draft.map(Function::Gelu, &[v], &[64, 32]);
    let s = draft.map_with(Function::Mul, &[g], 0b10, &[64, 32]);
    draft.map(Function::Maximum, &[s, x], &[64, 32]);
    check("chain", &draft);
    assert_eq!(draft.lower(false).programs.len(), 5);
}

#[test]
fn what_is_the_same_for_all_rows_is_loaded_once_for_several() {
    let mut draft = Draft::default();
    let dims = [5, 1026, 1024];
    let (x, w, r) = (draft.input(&dims), draft.input(&[1024]), draft.input(&[1026, 1]));
    let stretched = draft.op(TensorKind::Broadcast, &[w], &dims, 0);
    let s = draft.map(Function::Exp, &[stretched], &dims);
    let v = draft.map(Function::Mul, &[x, s], &dims);
    draft.map(Function::Sub, &[v, r], &dims);
    check("rows", &draft);
}

#[test]
fn an_odd_number_of_elements_goes_one_by_one_and_views_are_read_where_they_lie() {
    let mut draft = Draft::default();
    let x = draft.input(&[5, 7]);
    let t = draft.op(TensorKind::Permute([1, 0, 0, 0, 0, 0]), &[x], &[7, 5], 0);
    let s = draft.op(TensorKind::Slice([2, 1, 0, 0, 0, 0]), &[t], &[3, 3], 0);
    draft.map_with(Function::Clamp, &[s], 0b110, &[3, 3]);
    check("views", &draft);
}

#[test]
fn a_product_has_its_tail_in_its_kernel() {
    let mut draft = Draft::default();
    let (a, b, bias) = (draft.input(&[70, 32]), draft.input(&[32, 64]), draft.input(&[64]));
    let y = draft.op(TensorKind::Matmul { transposed: [false; 2] }, &[a, b], &[70, 64], 0);
    let y = draft.map(Function::Add, &[y, bias], &[70, 64]);
    draft.map(Function::Relu, &[y], &[70, 64]);
    check("product", &draft);
}

#[test]
fn a_large_product_is_computed_as_suits_the_device() {
    let mut draft = Draft::default();
    let (a, b) = (draft.input(&[3, 96, 130]), draft.input(&[3, 102, 130]));
    let b = draft.op(TensorKind::Permute([0, 2, 1, 0, 0, 0]), &[b], &[3, 130, 102], 0);
    draft.op(TensorKind::Matmul { transposed: [false; 2] }, &[a, b], &[3, 96, 102], 0);
    check_with("tiles", &draft, &Caps { product: MatmulKernel::Tiles, ..Caps::default() });
}

#[test]
fn a_reduction_has_head_and_tail_in_its_kernel() {
    let mut draft = Draft::default();
    let (x, y) = (draft.input(&[4, 1000]), draft.input(&[4, 1000]));
    let squares = draft.map(Function::Mul, &[x, y], &[4, 1000]);
    let sum = draft.op(TensorKind::Reduce(Reduction::Sum, 0b10, 1), &[squares], &[4], 0);
    draft.map(Function::Sqrt, &[sum], &[4]);
    check("fold", &draft);
}

#[test]
fn a_large_reduction_has_parts() {
    let mut draft = Draft::default();
    let x = draft.input(&[3, 1_000_000]);
    let squares = draft.map(Function::Mul, &[x, x], &[3, 1_000_000]);
    let parts = draft.op(TensorKind::Reduce(Reduction::Sum, 0b10, 22), &[squares], &[3, 22], 0);
    draft.op(TensorKind::Reduce(Reduction::Sum, 0b10, 1), &[parts], &[3], 0);
    check("parts", &draft);
}

#[test]
fn rows_are_kept_in_the_output_between_passes() {
    let mut draft = Draft::default();
    let (x, mask) = (draft.input(&[8, 16, 16]), draft.input(&[16, 16]));
    let x = draft.map_with(Function::Mul, &[x], 0b10, &[8, 16, 16]);
    let x = draft.map(Function::Add, &[x, mask], &[8, 16, 16]);
    draft.op(TensorKind::Rows(Norm::Softmax), &[x], &[8, 16, 16], 0);
    check("softmax", &draft);
}

#[test]
fn a_long_row_has_a_workgroup() {
    let mut draft = Draft::default();
    let (x, w) = (draft.input(&[8, 1000]), draft.input(&[1000]));
    let x = draft.op(TensorKind::Rows(Norm::Layer), &[x], &[8, 1000], 1);
    draft.map(Function::Mul, &[x, w], &[8, 1000]);
    check("layer", &draft);
}

#[test]
fn other_places_tables_and_lengths_need_no_other_kernel() {
    let kernels = |at: u32, rows: usize, first: usize, second: usize| {
        let mut draft = Draft::default();
        let x = draft.input(&[20, 8]);
        let slice = draft.op(TensorKind::Slice([at, 0, 0, 0, 0, 0]), &[x], &[first, 8], 0);
        let slice = draft.map(Function::Exp, &[slice], &[first, 8]);
        let (table, index) = (draft.input(&[rows, 8]), draft.value(SlotKind::External, &[second], ElementType::U32));
        let found = draft.op(TensorKind::Gather, &[table, index], &[second, 8], 0);
        let found = draft.map(Function::Abs, &[found], &[second, 8]);
        draft.op(TensorKind::Concat(0), &[slice, found], &[first + second, 8], 0);
        let lowered = draft.lower(true);
        lowered.programs.iter().map(|program| program.source(&Caps::default()).text).collect::<Vec<_>>()
    };
    let one = kernels(3, 50, 4, 6);
    assert_eq!(one.len(), 3);
    assert_eq!(kernels(1, 7, 2, 12), one);
    assert_eq!(kernels(9, 1000, 8, 3), one);
}

#[test]
fn native_products_of_slices_at_other_places_are_one_program() {
    let program = |row: u32, column: u32| {
        let mut draft = Draft::default();
        let (x, w) = (draft.input(&[20, 8]), draft.input(&[8, 30]));
        let left = draft.op(TensorKind::Slice([row, 0, 0, 0, 0, 0]), &[x], &[4, 8], 0);
        let right = draft.op(TensorKind::Slice([0, column, 0, 0, 0, 0]), &[w], &[8, 10], 0);
        draft.op(TensorKind::Matmul { transposed: [false; 2] }, &[left, right], &[4, 10], 0);
        let lowered = lower(&draft.recording, &Caps { native_programs: true, ..Caps::default() });
        (lowered.programs, lowered.scalars)
    };
    let (programs, scalars) = program(3, 5);
    assert_eq!((programs.len(), scalars), (1, vec![Scalar::Value(24), Scalar::Value(5)]));
    assert_eq!(program(7, 20), (programs, vec![Scalar::Value(56), Scalar::Value(20)]));
}
