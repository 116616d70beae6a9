//! Which way to compute large products of matrices suits a device.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sortie_plan::{
    Caps, Element, ProductWay, Recording, TensorKind,
    fuse::{Body, Head, Port, Product, Program, Step},
};

use crate::{
    batch::Grid,
    device::{Device, DeviceKind, Shared},
    error::Result,
};

/// Multiplications from which on it is worth knowing: a few times what finding out costs.
const WORTHWHILE: u64 = 1 << 24;
/// The side of the matrices that are multiplied to find out.
const SIDE: usize = 256;
const ROUNDS: usize = 5;

/// The way that suits a device, measured if it is not known and the recording is worth it.
pub(crate) fn product_way(shared: &Arc<Shared>, recording: &Recording) -> ProductWay {
    let tuning = shared.tuning();
    let usual = if shared.kind() == DeviceKind::Software { ProductWay::Wide } else { ProductWay::Blocks };
    let runs = !matches!(shared.kind(), DeviceKind::Noop | DeviceKind::Cpu);
    match (tuning.product.get(), &tuning.file) {
        (Some(way), _) => *way,
        (None, Some(file)) if runs && is_worthwhile(recording) => *tuning.product.get_or_init(|| {
            match fastest(&Device::of(shared)) {
                Ok(way) => {
                    if let Err(error) = file.set(&[("product", way.name())]) {
                        file.unwritable(&error);
                    }
                    way
                }
                // Whatever is wrong will show when the batch runs.
                Err(_) => usual,
            }
        }),
        _ => usual,
    }
}

fn is_worthwhile(recording: &Recording) -> bool {
    recording.tensors.iter().any(|op| {
        let TensorKind::Matmul { transposed } = op.kind else { return false };
        let left = op.inputs[0].shape.dims();
        let k = left.len().checked_sub(if transposed[0] { 2 } else { 1 }).map_or(0, |at| left[at]);
        u64::from(op.output.shape.len()) * u64::from(k) >= WORTHWHILE
    })
}

/// Tries all ways in turns, and takes the one with the best median.
fn fastest(device: &Device) -> Result<ProductWay> {
    let side = SIDE as u32;
    let product =
        Product { m: side, k: side, n: side, batch: 1, sides: [0, 1], transposed: [false; 2], shared: [true; 2] };
    let port = Port { element: Element::F32, len: side * side };
    let program = Program {
        head: Head::Product(product),
        tail: Body { steps: vec![Step::Head(Element::F32)], stores: vec![0] },
        inputs: vec![port; 2],
        outputs: vec![port],
        scalars: 0,
    };
    let ones = device.upload(&vec![1.0_f32; SIDE * SIDE])?;
    let result = device.zeros::<f32>(SIDE * SIDE)?;
    let limits = &device.info().limits;
    let tiles = limits.workgroup_invocations >= 256 && limits.workgroup_bytes >= 16_384;
    let ways = ProductWay::ALL.into_iter().filter(|way| tiles || *way != ProductWay::Tiles);
    let mut contenders = Vec::new();
    for way in ways {
        let source = program.source(&Caps { product: way, ..Caps::default() });
        contenders.push((way, device.kernel(&source.text)?, source, [Duration::ZERO; ROUNDS]));
    }
    // The first round compiles.
    for round in 0..=ROUNDS {
        for (_, kernel, source, times) in &mut contenders {
            let start = Instant::now();
            let mut batch = device.batch();
            batch.dispatch(kernel, &[&ones, &ones, &result], Grid::groups(source.grid)).immediates(&[side; 3]);
            batch.submit()?;
            if let Some(time) = round.checked_sub(1).and_then(|round| times.get_mut(round)) {
                *time = start.elapsed();
            }
        }
    }
    for (.., times) in &mut contenders {
        times.sort();
    }
    let best = contenders.iter().min_by_key(|(.., times)| times[ROUNDS / 2]);
    Ok(best.map_or(ProductWay::Blocks, |(way, ..)| *way))
}
