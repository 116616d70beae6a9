//! Kernels that the library generates for tensor operations were held to the budget for compiling the user's own: on a busy machine a product of matrices failed with `Timeout`.

use std::time::Duration;

use sortie::DeviceOptions;

use super::on_all_with;

#[test]
fn generated_kernels_have_no_compile_budget() {
    let options = DeviceOptions::default().with_compile_budget(Duration::from_nanos(1));
    on_all_with(&options, |device| {
        let batch = device.batch();
        let x = batch.tensor_from(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]);
        let product = x.matmul(x);
        let read = batch.read(product);
        batch.submit()?;
        assert_eq!(read.wait()?, [7.0, 10.0, 15.0, 22.0]);
        Ok(())
    });
}
