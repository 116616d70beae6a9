//! How many kernels, dispatches, buffers: exact, on wgpu's noop device.

use sortie::{Buffer, Device, Tensor, device::Planning};

fn noop(planning: Planning) -> Device {
    let options = crate::drivers::uncut().with_device("noop").with_planning(planning);
    Device::open_with(options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_chain_of_any_length_is_one_kernel() -> sortie::Result<()> {
    let device = noop(Planning::default());
    let batch = device.batch();
    let (x, w) = (batch.tensor_from(&[1.0_f32; 1024], [32, 32]), batch.tensor_from(&[1.0_f32; 32], [32]));
    let mut y = x;
    for _ in 0..5 {
        y = y * w;
        y = y.gelu();
        let gate = y.sigmoid();
        y = gate + x;
    }
    let (first, second) = (-y, y.exp());
    drop((batch.read(first), batch.read(second)));
    let plan = batch.plan()?;
    assert_eq!((plan.dispatches(), plan.kernels(), plan.submissions()), (1, 1, 1));
    batch.submit()?;
    let metrics = device.metrics();
    // 22 operations, one of which the kernel is called by.
    assert_eq!((metrics.dispatches, metrics.fused_ops), (1, 21));
    Ok(())
}

#[test]
fn what_depends_on_a_reduction_does_not_join_what_it_reduces() -> sortie::Result<()> {
    let device = noop(Planning::default());
    let batch = device.batch();
    let x = batch.tensor_from(&[1.0_f32; 1024], [32, 32]);
    let x = x.exp();
    let mean = x.mean(&[1]);
    let mean = mean.reshape([32, 1]);
    let y = x - mean;
    let y = y.abs();
    drop(batch.read(y));
    // exp, mean, the rest.
    assert_eq!(batch.plan()?.dispatches(), 3);
    batch.submit()
}

#[test]
fn heads_and_tails_join_a_reduction() -> sortie::Result<()> {
    let device = noop(Planning::default());
    let batch = device.batch();
    let (x, w) = (batch.tensor_from(&[1.0_f32; 1024], [32, 32]), batch.tensor_from(&[1.0_f32; 32], [32]));
    let y = x * w;
    let y = y.exp();
    let y = y.sum(&[1]);
    let y = y.log();
    let y = y + w;
    drop(batch.read(y));
    assert_eq!(batch.plan()?.dispatches(), 1);
    batch.submit()
}

#[test]
fn without_fusion_every_operation_is_a_dispatch() -> sortie::Result<()> {
    let device = noop(Planning { fuse: false, ..Planning::default() });
    let batch = device.batch();
    let x = batch.tensor_from(&[1.0_f32; 64], [8, 8]);
    let y = x.exp();
    let y = y.transpose();
    let y = y.matmul(x);
    let y = y.relu();
    let y = y.sum(&[0]);
    drop(batch.read(y));
    assert_eq!(batch.plan()?.dispatches(), 5);
    batch.submit()?;
    assert_eq!(device.metrics().fused_ops, 0);
    Ok(())
}

struct Layer {
    gate: Buffer<f32>,
    up: Buffer<f32>,
    down: Buffer<f32>,
}

const WIDTH: usize = 64;
const HIDDEN: usize = 160;
const ROWS: usize = 8;

fn ffn<'b>(x: Tensor<'b, f32>, layers: &[Layer]) -> Tensor<'b, f32> {
    let batch = x.batch();
    layers.iter().fold(x, |x, layer| {
        let gate = batch.tensor(&layer.gate, [WIDTH, HIDDEN]);
        let up = batch.tensor(&layer.up, [WIDTH, HIDDEN]);
        let down = batch.tensor(&layer.down, [HIDDEN, WIDTH]);
        let normed = x.rms_norm(1e-6);
        let gate = normed.matmul(gate);
        let gate = gate.swish();
        let up = normed.matmul(up);
        let hidden = gate * up;
        let out = hidden.matmul(down);
        x + out
    })
}

#[test]
fn a_feed_forward_stack_has_four_kernels_one_submission_and_the_memory_of_two_layers() -> sortie::Result<()> {
    let device = noop(Planning::default());
    let layers: Vec<Layer> = (0..36)
        .map(|_| {
            Ok(Layer {
                gate: device.zeros(WIDTH * HIDDEN)?,
                up: device.zeros(WIDTH * HIDDEN)?,
                down: device.zeros(HIDDEN * WIDTH)?,
            })
        })
        .collect::<sortie::Result<_>>()?;
    let run = || -> sortie::Result<_> {
        let batch = device.batch();
        let x = batch.tensor_from(&[1.0_f32; ROWS * WIDTH], [ROWS, WIDTH]);
        let y = ffn(x, &layers);
        drop(batch.read(y));
        let plan = batch.plan()?;
        batch.submit()?;
        Ok(plan)
    };
    let plan = run()?;
    assert!(plan.kernels() <= 4, "{plan:?}");
    assert_eq!((plan.submissions(), plan.dispatches()), (1, 36 * 4));
    // x, its norm, gate, up.
    let layer = 4 * ROWS * (2 * WIDTH + 2 * HIDDEN);
    assert!(plan.peak_bytes() <= 2 * layer as u64, "{plan:?}");
    let before = device.metrics();
    assert_eq!(before.submissions, 1);
    run()?;
    let after = device.metrics();
    assert_eq!(after.pipelines_created, before.pipelines_created, "the second run compiles nothing");
    assert_eq!(after.buffers_created, before.buffers_created, "and allocates nothing");
    assert_eq!(after.plans_made, before.plans_made, "and plans nothing");
    Ok(())
}

#[test]
fn a_value_that_is_only_stored_is_made_in_its_place() -> sortie::Result<()> {
    let device = noop(Planning::default());
    let (x, y) = (device.zeros::<f32>(256)?, device.zeros::<f32>(256)?);
    let batch = device.batch();
    let a = batch.tensor(&x, [256]);
    let b = a.exp();
    b.store(&y);
    let plan = batch.plan()?;
    batch.submit()?;
    assert_eq!((plan.peak_bytes(), device.metrics().transfers), (0, 0));
    // What was there is still wanted: a copy it is.
    let batch = device.batch();
    let (a, old) = (batch.tensor(&x, [256]), batch.tensor(&y, [256]));
    let b = a + old;
    b.store(&y);
    batch.submit()?;
    assert_eq!(device.metrics().transfers, 1);
    Ok(())
}

#[test]
fn ten_thousand_operations_are_planned_in_one_go() -> sortie::Result<()> {
    let device = noop(Planning::default());
    let batch = device.batch();
    let w = batch.tensor_from(&[1.0_f32; 64], [8, 8]);
    let mut x = batch.tensor_from(&[1.0_f32; 64], [8, 8]);
    for _ in 0..2_500 {
        let y = x.matmul(w);
        let y = y.relu();
        let sums = y.sum(&[1]);
        let sums = sums.reshape([8, 1]);
        x = x + sums;
    }
    drop(batch.read(x));
    let plan = batch.plan()?;
    assert_eq!((plan.dispatches(), plan.submissions()), (2 * 2_500 + 2_500, 1));
    batch.submit()
}
