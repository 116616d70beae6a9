//! A row's bits depend neither on the other rows of its batch, nor on their number, nor on where it stands.

use fastrand::Rng;
use sortie::{Batch, Buffer, Device, DeviceOptions, Tensor};

use crate::{drivers, some};

const WIDTH: usize = 64;
const HEADS: usize = 2;
const INNER: usize = 256;
const TOKENS: usize = 8;
/// Sequences to choose from, and most of a batch: enough that threads share the largest products.
const POOL: usize = 12;
const MOST: usize = 40;
const CASES: usize = 1_000;

/// The weights of an encoder layer.
struct Layer {
    qkv: [Buffer<f32>; 3],
    out: Buffer<f32>,
    up: Buffer<f32>,
    down: Buffer<f32>,
    bias: Buffer<f32>,
}

impl Layer {
    fn new(device: &Device) -> sortie::Result<Self> {
        let upload = |len: usize, seed: usize| {
            let weights: Vec<f32> = some(len, seed).iter().map(|x| x / 16.0).collect();
            device.upload(&weights)
        };
        let square = WIDTH * WIDTH;
        Ok(Self {
            qkv: [upload(square, 1)?, upload(square, 2)?, upload(square, 3)?],
            out: upload(square, 4)?,
            up: upload(WIDTH * INNER, 5)?,
            down: upload(INNER * WIDTH, 6)?,
            bias: upload(INNER, 7)?,
        })
    }

    /// The layer's result for sequences of equal length.
    fn record<'b>(&self, batch: &'b Batch, x: Tensor<'b, f32>, count: usize) -> Tensor<'b, f32> {
        let weight = |buffer: &Buffer<f32>, dims: [usize; 2]| batch.tensor(buffer, dims);
        let heads = |weights: &Buffer<f32>| {
            let all = x.matmul(weight(weights, [WIDTH, WIDTH]));
            all.reshape([count, TOKENS, HEADS, WIDTH / HEADS]).permute(&[0, 2, 1, 3])
        };
        let [q, k, v] = self.qkv.each_ref().map(heads);
        let scores = (q.matmul(k.transpose()) * 0.18).softmax();
        let mixed = scores.matmul(v).permute(&[0, 2, 1, 3]).reshape([count * TOKENS, WIDTH]);
        let x = (mixed.matmul(weight(&self.out, [WIDTH, WIDTH])) + x).layer_norm(1e-5);
        let inner = (x.matmul(weight(&self.up, [WIDTH, INNER])) + batch.tensor(&self.bias, [INNER])).gelu();
        (inner.matmul(weight(&self.down, [INNER, WIDTH])) + x).layer_norm(1e-5)
    }

    fn run(&self, device: &Device, sequences: &[&[f32]]) -> sortie::Result<Vec<u32>> {
        let batch = device.batch();
        let x = batch.tensor_from(&sequences.concat(), [sequences.len() * TOKENS, WIDTH]);
        let result = self.record(&batch, x, sequences.len()).read();
        batch.submit()?;
        Ok(result.wait()?.iter().map(|x| x.to_bits()).collect())
    }
}

#[test]
fn a_row_of_an_encoder_layer_has_the_same_bits_in_every_batch() -> sortie::Result<()> {
    let all = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    let cases = if all { CASES } else { CASES / 10 };
    let names = ["cpu", "llvmpipe", "swiftshader"];
    for name in names.into_iter().filter(|name| *name == "cpu" || drivers::open(name).is_some()) {
        let device = Device::open_with(DeviceOptions::default().with_device(name))?;
        let layer = Layer::new(&device)?;
        let pool: Vec<Vec<f32>> = (0..POOL).map(|seed| some(TOKENS * WIDTH, seed + 10)).collect();
        let alone = pool.iter().map(|sequence| layer.run(&device, &[sequence])).collect::<sortie::Result<Vec<_>>>()?;
        let mut random = Rng::with_seed(21);
        for case in 0..cases {
            let chosen: Vec<usize> = (0..random.usize(1..=MOST)).map(|_| random.usize(..POOL)).collect();
            let sequences: Vec<&[f32]> = chosen.iter().map(|at| &pool[*at][..]).collect();
            let found = layer.run(&device, &sequences)?;
            let expected: Vec<u32> = chosen.iter().flat_map(|at| &alone[*at]).copied().collect();
            let differing = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
            assert_eq!(differing, 0, "case {case} on {name}: {} sequences", chosen.len());
        }
    }
    Ok(())
}
