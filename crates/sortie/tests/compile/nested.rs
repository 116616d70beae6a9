//! Operations nest, and operators take tensors and numbers on either side.

use half::f16;
use sortie::{Device, Result};

#[test]
fn operations_nest_and_operators_take_numbers() -> Result<()> {
    let device = Device::cpu()?;
    let batch = device.batch();

    let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
    let w = batch.tensor_from(&[1.0_f32, 0.0, 0.0, 1.0], [2, 2]);
    let b = batch.tensor_from(&[1.0_f32, -1.0], [2]);
    let nested = ((x.matmul(w) + b).relu() - x * 0.5).minimum(10.0).maximum(-10.0).read();
    let numbers = (1.0 - x) * 2.0 + 3.0 / x - 1.0;
    let numbers = (2.0 * numbers + 1.0).read();
    let chosen = x.greater(2.0).select(x.pow(2.0), 0.0).read();
    let equal = x.equal(2.0).select(1.0 + x, x - 1.0).read();

    let u = batch.tensor_from(&[5_u32, 6], [2]);
    let unsigned = (10 - u * 1 + 2).maximum(7).read();
    let i = batch.tensor_from(&[5_i32, -6], [2]);
    let signed = (-1 - i / 2).read();
    let h = batch.tensor_from(&[f16::from_f32(1.5), f16::from_f32(-2.0)], [2]);
    let halves = (1.0 - h * 2.0).cast::<f32>().read();

    batch.submit()?;
    assert_eq!(nested.wait()?, [1.5, 0.0, 2.5, 1.0]);
    assert_eq!(numbers.wait()?[..2], [5.0, -2.0]);
    assert_eq!(chosen.wait()?, [0.0, 0.0, 9.0, 16.0]);
    assert_eq!(equal.wait()?, [0.0, 3.0, 2.0, 3.0]);
    assert_eq!(unsigned.wait()?, [7, 7]);
    assert_eq!(signed.wait()?, [-3, 2]);
    assert_eq!(halves.wait()?, [-2.0, 5.0]);
    Ok(())
}
