//! Functions over tensors need no batch; operations of one's own return tensors; a structure keeps a batch and ids.

use sortie::{
    Batch, Buffer, Device, Record, Result, Tensor,
    tensor::{Operand, TensorId},
};

struct Layer {
    weights: Buffer<f32>,
    bias: Buffer<f32>,
}

impl Layer {
    fn forward<'b>(&self, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        let (w, b) = (x.batch().tensor(&self.weights, [2, 2]), x.batch().tensor(&self.bias, [2]));
        (x.matmul(w) + b).relu()
    }
}

fn blend<'b>(x: Tensor<'b, f32>, y: Tensor<'b, f32>, share: impl Into<Operand<'b, f32>>) -> Tensor<'b, f32> {
    x + (y - x) * share
}

struct Twice<'b>(Tensor<'b, f32>);

impl<'b> Record<'b> for Twice<'b> {
    type Output = Tensor<'b, f32>;

    fn record(&self, _: &'b Batch) -> Tensor<'b, f32> {
        self.0 + self.0
    }
}

struct Owner {
    batch: Batch,
    last: TensorId<f32>,
}

impl Owner {
    fn double(&mut self) {
        self.last = (self.batch.at(self.last) * 2.0).id();
    }
}

#[test]
fn functions_take_and_return_tensors() -> Result<()> {
    let device = Device::cpu()?;
    let layer = Layer { weights: device.upload(&[1.0, 0.0, 0.0, 1.0])?, bias: device.upload(&[0.5, -3.0])? };

    let batch = device.batch();
    let x = batch.tensor_from(&[1.0_f32, 2.0], [1, 2]);
    let y = layer.forward(layer.forward(x));
    let blended = blend(x, y, 0.5);
    let also = blend(x, y, x.greater(1.0).cast::<f32>());
    let twice = batch.record(&Twice(blended)).read();
    let scoped = batch.scope("layers", |_| layer.forward(also)).read();
    batch.submit()?;
    assert_eq!(twice.wait()?, [3.0, 2.0]);
    assert_eq!(scoped.wait()?, [1.5, 0.0]);

    let batch = device.batch();
    let last = batch.tensor_from(&[1.0_f32], [1]).id();
    let mut owner = Owner { batch, last };
    for _ in 0..10 {
        owner.double();
    }
    let reading = owner.batch.at(owner.last).read();
    let [last] = owner.batch.run_and_read(reading)?;
    assert_eq!(last, 1024.0);
    Ok(())
}
