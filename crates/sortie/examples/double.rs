//! Two dispatches, one submission. The second reads what the first writes; the dependency is found automatically.
#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use sortie::{Device, Grid};

const DOUBLE: &str = "
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { y[id.x] = 2.0 * x[id.x]; }
    }";

fn main() -> sortie::Result<()> {
    let device = Device::open()?; // the best GPU, else the built-in CPU
    let double = device.kernel(DOUBLE)?;
    let x = device.upload(&[1.0_f32, 2.0, 3.0])?;
    let y = device.zeros::<f32>(x.len())?;

    let batch = device.batch(); // recording touches no device
    batch.dispatch(&double, &[&x, &y], Grid::items(x.len()));
    batch.dispatch(&double, &[&y, &x], Grid::items(x.len())).label("again");
    let result = batch.read(&x);
    batch.submit()?; // or submit_async()?, and await the result

    let result = result.wait()?;
    println!("{result:?} on {}", device.info());
    assert_eq!(result, [4.0, 8.0, 12.0]);
    Ok(())
}
