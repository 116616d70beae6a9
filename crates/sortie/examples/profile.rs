//! Where the time of a batch goes: op by op, scope by scope, and as a trace for Perfetto.
//!
//! `cargo run -p sortie --example profile [trace.json]`
#![expect(clippy::print_stdout, reason = "an example prints")]

use sortie::{Batch, Device, Record, Tensor};

/// A feed-forward layer with resident weights.
struct Layer {
    name: String,
    up: sortie::Buffer<f32>,
    down: sortie::Buffer<f32>,
    width: usize,
}

impl Layer {
    fn new(device: &Device, number: usize, width: usize) -> sortie::Result<Self> {
        let weights =
            |seed: usize| (0..width * 4 * width).map(|at| ((at * 7 + seed) % 13) as f32 / 1e3).collect::<Vec<_>>();
        let (up, down) = (device.upload(&weights(number))?, device.upload(&weights(number + 5))?);
        Ok(Self { name: format!("layer {number}"), up, down, width })
    }

    fn forward<'b>(&self, x: Tensor<'b, f32>) -> Tensor<'b, f32> {
        x.batch().scope(&self.name, |batch| {
            let up = batch.tensor(&self.up, [self.width, 4 * self.width]);
            let down = batch.tensor(&self.down, [4 * self.width, self.width]);
            let hidden = batch.scope("up", |_| x.matmul(up).gelu());
            x + batch.scope("down", |_| hidden.matmul(down))
        })
    }
}

/// A reusable piece of recording is a scope, too.
struct Clear<'a>(&'a sortie::Buffer<f32>);

impl Record<'_> for Clear<'_> {
    type Output = ();

    fn label(&self) -> &str {
        "clear"
    }

    fn record(&self, batch: &Batch) {
        batch.fill(self.0, 0.0);
    }
}

fn main() -> sortie::Result<()> {
    let (rows, width) = (64, 128);
    let device = Device::open()?;
    let layers = (0..4).map(|number| Layer::new(&device, number, width)).collect::<sortie::Result<Vec<_>>>()?;
    let spare = device.zeros::<f32>(1 << 16)?;
    let input = vec![0.5_f32; rows * width];

    // The first run compiles kernels; the second shows what every later one takes.
    for round in ["first", "second"] {
        let batch = device.batch();
        let profile = batch.profile();
        let x = batch.tensor_from(&input, [rows, width]);
        let out = layers.iter().fold(x, |x, layer| layer.forward(x));
        batch.record(&Clear(&spare));
        let out = out.read();
        batch.submit()?;

        let profile = profile.wait()?;
        assert_eq!(out.wait()?.len(), rows * width);
        assert_eq!(profile.ops().len(), 4 * layers.len() + 3);
        println!("{round} run: {profile}");
        if let Some(path) = std::env::args().nth(1) {
            profile.write_trace(&path)?;
            println!("open {path} in ui.perfetto.dev\n");
        }
    }
    Ok(())
}
