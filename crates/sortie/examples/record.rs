//! Reusable pieces of recording: each implements `Record`, and any number of them share one submission.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use sortie::{Batch, Buffer, Device, Grid, Kernel, Record, Result};

const AFFINE: &str = "
    struct Params { scale: i32, shift: i32 }
    var<immediate> params: Params;
    @group(0) @binding(0) var<storage, read_write> x: array<i32>;
    @compute @workgroup_size(64)
    fn affine(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] = params.scale * x[id.x] + params.shift; }
    }";

/// One layer: `x = scale * x + shift`.
struct Affine<'a> {
    name: &'a str,
    kernel: &'a Kernel,
    x: &'a Buffer<i32>,
    scale: i32,
    shift: i32,
}

impl Record<'_> for Affine<'_> {
    type Output = ();

    /// Names what it records in errors and profiles, here "model/first/apply" and so on.
    fn label(&self) -> &str {
        self.name
    }

    fn record(&self, batch: &Batch) {
        let params = [self.scale, self.shift];
        batch.dispatch(self.kernel, &[self.x], Grid::items(self.x.len())).immediates(&params).label("apply");
    }
}

fn main() -> Result<()> {
    let device = Device::open()?;
    let kernel = &device.kernel(AFFINE)?;
    let input: Vec<i32> = (0..1000).collect();
    let x = &device.upload(&input)?;
    let original = device.zeros::<i32>(x.len())?;

    let first = Affine { name: "first", kernel, x, scale: 3, shift: 1 };
    let second = Affine { name: "second", kernel, x, scale: -2, shift: 5 };

    let before = device.metrics();
    let batch = device.batch();
    batch.copy(x, &original);
    batch.scope("model", |batch| {
        batch.record(&first);
        batch.record_all(&[&second, &first]);
    });
    println!("{batch:?}");
    assert_eq!(batch.num_ops(), 4);
    let (was, is) = (batch.read(&original), batch.read(x));
    batch.submit()?;

    let expected: Vec<i32> = input.iter().map(|x| 3 * (-2 * (3 * x + 1) + 5) + 1).collect();
    assert_eq!((was.wait()?, is.wait()?), (input, expected));
    let did = device.metrics() - before;
    println!("{} submission, {} dispatches, {} transfers", did.submissions, did.dispatches, did.transfers);
    assert_eq!((did.submissions, did.dispatches), (1, 3));
    Ok(())
}
