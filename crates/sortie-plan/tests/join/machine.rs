//! Runs a recording in order on plain memory. Functions mix words, so that a value tells what it was computed from.

use sortie_plan::{Op, OpKind, Recording, Shape, SlotKind, TensorKind, TensorOp, TensorRef};

/// What a run leaves behind: the data of reads, and the memory of external slots.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    reads: Vec<(u32, Vec<u32>)>,
    external: Vec<Vec<u32>>,
}

fn mix(a: u32, b: u32) -> u32 {
    let mixed = (u64::from(a) ^ 0x9e37_79b9).wrapping_mul((u64::from(b) ^ 0x85eb_ca6b) | 1 << 32);
    (mixed ^ mixed >> 29) as u32
}

pub(crate) fn run(recording: &Recording) -> Outcome {
    let word = |slot: usize, at: usize, kind: SlotKind| match kind {
        // Table indices and data alike.
        SlotKind::External => mix(slot as u32, at as u32),
        SlotKind::Scratch => 0,
    };
    let mut memory: Vec<Vec<u32>> = recording
        .slots
        .iter()
        .enumerate()
        .map(|(slot, info)| (0..info.bytes as usize / 4).map(|at| word(slot, at, info.kind)).collect())
        .collect();
    let mut reads = Vec::new();
    for op in &recording.ops {
        step(recording, op, &mut memory, &mut reads);
    }
    reads.sort_unstable();
    let external = memory.into_iter().zip(&recording.slots).filter(|(_, info)| info.kind == SlotKind::External);
    Outcome { reads, external: external.map(|(words, _)| words).collect() }
}

fn step(recording: &Recording, op: &Op, memory: &mut [Vec<u32>], reads: &mut Vec<(u32, Vec<u32>)>) {
    let range = |at: usize| {
        let access = &recording.accesses_of(op)[at];
        (access.slot.0 as usize, access.start as usize / 4..access.end as usize / 4)
    };
    match op.kind {
        OpKind::Tensor { tensor, scalars } => {
            let tensor = &recording.tensors[tensor.0 as usize];
            let words = compute(tensor, scalars.start, memory);
            memory[tensor.output.slot.0 as usize][..words.len()].copy_from_slice(&words);
        }
        OpKind::Copy => {
            let ((from, read), (to, written)) = (range(0), range(1));
            let words = memory[from][read].to_vec();
            memory[to][written].copy_from_slice(&words);
        }
        OpKind::Write { data } if op.accesses.len > 0 => {
            let (to, written) = range(0);
            // Small, so that they are also indices.
            memory[to][written].iter_mut().zip((data.start..).step_by(4)).for_each(|(to, at)| *to = mix(at, 7) % 5);
        }
        OpKind::Read { to } => {
            let (from, read) = range(0);
            reads.push((to.start, memory[from][read].to_vec()));
        }
        _ => {}
    }
}

fn value<'m>(of: &TensorRef, memory: &'m [Vec<u32>]) -> &'m [u32] {
    let start = of.start as usize / 4;
    &memory[of.slot.0 as usize][start..start + of.shape.len() as usize]
}

/// The element of an input that is broadcast to `from`, for element `e`.
fn broadcast(e: usize, from: &Shape, input: &Shape) -> usize {
    let (strides, own) = (from.strides(), input.strides());
    let missing = from.rank() - input.rank();
    (0..input.rank())
        .filter(|axis| input.dims()[*axis] != 1)
        .map(|axis| e / strides[axis + missing] as usize % from.dims()[axis + missing] as usize * own[axis] as usize)
        .sum()
}

fn compute(op: &TensorOp, scalar: u32, memory: &[Vec<u32>]) -> Vec<u32> {
    let (shape, inputs) = (op.output.shape, op.inputs());
    let len = shape.len() as usize;
    let first = value(&inputs[0], memory);
    let last = shape.dims().last().map_or(1, |length| *length as usize);
    match op.kind {
        TensorKind::Map(f) => (0..len)
            .map(|e| {
                let start = mix(f as u32, if op.numbers > 0 { scalar } else { 0 });
                let arg = |input: &TensorRef| value(input, memory)[broadcast(e, &shape, &input.shape)];
                inputs.iter().fold(start, |all, input| mix(all, arg(input)))
            })
            .collect(),
        TensorKind::Slice(start) => {
            let (own, strides) = (shape.strides(), inputs[0].shape.strides());
            let at =
                |e: usize, axis: usize| e / own[axis] as usize % shape.dims()[axis] as usize + start[axis] as usize;
            let from = |e: usize| (0..shape.rank()).map(|axis| at(e, axis) * strides[axis] as usize).sum::<usize>();
            (0..len).map(|e| first[from(e)]).collect()
        }
        TensorKind::Permute(_) => {
            let rows = last;
            (0..len).map(|e| first[e % rows * (len / rows) + e / rows]).collect()
        }
        TensorKind::Matmul { .. } => {
            let (k, n) = (*inputs[0].shape.dims().last().expect("two axes") as usize, last);
            let right = value(&inputs[1], memory);
            let sum = |e: usize| (0..k).fold(3, |sum, s| mix(sum, mix(first[e / n * k + s], right[s * n + e % n])));
            (0..len).map(sum).collect()
        }
        TensorKind::Gather => {
            let (index, row) = (value(&inputs[1], memory), last);
            (0..len).map(|e| first.get(index[e / row] as usize * row + e % row).copied().unwrap_or(0)).collect()
        }
        TensorKind::Concat(axis) => {
            let inner: usize = shape.dims()[usize::from(axis) + 1..].iter().map(|length| *length as usize).product();
            let piece = |input: &TensorRef| input.shape.dims()[usize::from(axis)] as usize * inner;
            let (one, two, second) = (piece(&inputs[0]), piece(&inputs[1]), value(&inputs[1], memory));
            let element = |e: usize| match (e / (one + two), e % (one + two)) {
                (turn, within) if within < one => first[turn * one + within],
                (turn, within) => second[turn * two + within - one],
            };
            (0..len).map(element).collect()
        }
        TensorKind::Rows(_) => {
            let of_row = |e: usize| first[e / last * last..][..last].iter().fold(5, |all, word| mix(all, *word));
            (0..len).map(|e| mix(of_row(e), first[e])).collect()
        }
        TensorKind::Reduce(..) => {
            let each = first.len() / len;
            first.chunks(each).map(|set| set.iter().fold(9, |all, word| mix(all, *word))).collect()
        }
        TensorKind::Broadcast => (0..len).map(|e| first[broadcast(e, &shape, &inputs[0].shape)]).collect(),
    }
}
