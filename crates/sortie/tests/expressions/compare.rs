//! Runs a kernel on two devices and compares.

use sortie::{Device, Grid, Result};

use crate::{
    family::Family,
    kernel::{FLOATS, Kernel, Output, WORDS},
};

/// No multiple of the workgroup's size.
const ITEMS: usize = 101;

/// The first word that differs, with the inputs of its invocation.
pub(crate) fn compare(
    kernel: &Kernel,
    one: &(&str, Device),
    other: &(&str, Device),
) -> std::result::Result<(), String> {
    let (words, floats) = inputs(kernel.family);
    let run = |(name, device): &(&str, Device)| {
        run(device, kernel, &words, &floats).map_err(|error| format!("{name} refuses it: {error}"))
    };
    let (a, b) = (run(one)?, run(other)?);
    let width = kernel.outputs.len();
    let wrong = (0..a.len()).find(|at| !same(kernel.outputs[at % width], a[*at], b[*at]));
    wrong.map_or(Ok(()), |at| {
        let item = at / width;
        let float = |word: u32| f32::from_bits(word);
        Err(format!(
            "output {} of invocation {item} ({:?}): {:#x} ({:?}) on {}, {:#x} ({:?}) on {}; words {:x?}, floats {:?}",
            at % width,
            kernel.outputs[at % width],
            a[at],
            float(a[at]),
            one.0,
            b[at],
            float(b[at]),
            other.0,
            &words[item * WORDS..][..WORDS],
            &floats[item * FLOATS..][..FLOATS],
        ))
    })
}

fn run(device: &Device, kernel: &Kernel, words: &[u32], floats: &[f32]) -> Result<Vec<u32>> {
    let program = device.kernel(&kernel.source)?;
    let (words, floats) = (device.upload(words)?, device.upload(floats)?);
    let out = device.zeros::<u32>(ITEMS * kernel.outputs.len())?;
    let batch = device.batch();
    batch.dispatch(&program, &[&words, &floats, &out], Grid::items(ITEMS));
    let reading = batch.read(&out);
    batch.submit()?;
    reading.wait()
}

fn same(output: Output, a: u32, b: u32) -> bool {
    let (x, y) = (f64::from(f32::from_bits(a)), f64::from(f32::from_bits(b)));
    let near = |apart: f64| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= apart;
    match output {
        Output::Word => a == b,
        Output::Float => near(0.0),
        Output::Relative(error) => near(error * x.abs().max(y.abs())),
        Output::Absolute(apart) => near(apart),
    }
}

/// Integers over their whole range, small ones and those at its edges; floats as the family wants them.
fn inputs(family: Family) -> (Vec<u32>, Vec<f32>) {
    const EDGES: [u32; 8] = [0, 1, 31, 32, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 5];
    let mut state = 0x5027_1e00_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    let words = (0..ITEMS * WORDS)
        .map(|_| match next() % 4 {
            0 => EDGES[next() as usize % 8],
            1 => next() % 16,
            _ => next(),
        })
        .collect();
    let floats = (0..ITEMS * FLOATS)
        .map(|_| match family {
            // Multiples of a quarter up to 16: see `exact`.
            Family::Integers | Family::Exact => (next() % 129) as f32 / 4.0 - 16.0,
            Family::Rounded | Family::Transcendental => 0.5 + 3.5 * (next() >> 8) as f32 / 16_777_216.0,
        })
        .collect();
    (words, floats)
}

#[test]
fn words_must_be_equal_and_floats_as_near_as_they_say() {
    let bits = |x: f32| x.to_bits();
    assert!(!same(Output::Word, 1, 2));
    assert!(!same(Output::Word, bits(0.0), bits(-0.0)));
    assert!(same(Output::Float, bits(0.0), bits(-0.0)));
    assert!(same(Output::Float, bits(f32::NAN), bits(-f32::NAN)));
    assert!(!same(Output::Float, bits(1.0), bits(1.0) + 1));
    assert!(same(Output::Relative(1e-3), bits(100.0), bits(100.05)));
    assert!(!same(Output::Relative(1e-3), bits(100.0), bits(100.5)));
    assert!(!same(Output::Absolute(1e-3), bits(100.0), bits(f32::NAN)));
}
