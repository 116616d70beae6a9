//! Tensor operations of sortie, aprender-compute and burn, on the same adapter in one process.
//!
//! Contenders take turns; a ratio is the median ratio to the baseline within a round. A time is from recording to completion on the
//! device; operands are resident unless a contender's name says otherwise. Answers are compared before and after.
//!
//! `cargo run --release -p peers-tensor [-- --quick] [--json]`

#![expect(clippy::print_stderr, reason = "notes go to stderr")]

mod aprender;
mod burn;
mod comparison;
mod operands;
mod ours;

use std::time::Duration;

use sortie_bench::{Args, Report};

use crate::aprender::{CachedProduct, Program, Way};
use crate::comparison::{Comparison, Contender, Outcome, Pace};
use crate::operands::{COLUMNS, ROWS, SIDE};

/// The adapter of all contenders, by a part of its name.
const ADAPTER: &str = "llvmpipe";

/// Notes on the figures.
const NOTES: &str = "\
sortie-again is the control: its distance from 1 is the error of the figures.
sortie-read writes the left matrix and reads the result in each run, as aprender-cached does.
aprender executes one recorded batch again and again, which neither sortie nor burn may; aprender-record records anew; aprender-upload uploads too.
aprender's gelu is by tanh, the others' exact by erf; its vectors are as large as the matrix, since it does not broadcast.
aprender-cached is its GpuMatmulCache, which cannot be had without an upload and a read.
burn fuses, and has tuned itself before anything is timed; that takes it too long for a product in --quick.";

/// A device for each crate.
struct Devices {
    ours: sortie::Device,
    aprender: trueno::backends::gpu::GpuDevice,
    burn: ::burn::tensor::Device,
}

impl Devices {
    /// Opens the same adapter for all, and says what each of them calls it.
    fn open() -> Outcome<Self> {
        let ours = ours::open(ADAPTER)?;
        let (aprender, aprender_name) = aprender::open(ADAPTER)?;
        let (burn, burn_name) = burn::open(ADAPTER)?;
        eprintln!("sortie on {} ({})", ours.info().name, ours.info().backend);
        eprintln!("aprender-compute on {aprender_name}");
        eprintln!("burn on {burn_name}");
        Ok(Self { ours, aprender, burn })
    }

    fn chain(&self) -> Outcome<Comparison> {
        let contenders = vec![
            Contender::new("sortie", ours::Chain::new(&self.ours)?),
            Contender::new("sortie-again", ours::Chain::new(&self.ours)?),
            Contender::approximate("aprender", Program::chain(&self.aprender, Way::Again)),
            Contender::approximate("aprender-record", Program::chain(&self.aprender, Way::Record)),
            Contender::approximate("aprender-upload", Program::chain(&self.aprender, Way::Upload)),
            Contender::new("burn", burn::Chain::new(&self.burn)),
        ];
        Ok(Comparison { case: "chain", n: ROWS * COLUMNS, contenders })
    }

    /// Without burn if `quick`: it takes twenty seconds to tune its product.
    fn product(&self, quick: bool) -> Outcome<Comparison> {
        let mut contenders = vec![
            Contender::new("sortie", ours::Product::new(&self.ours)?),
            Contender::new("sortie-again", ours::Product::new(&self.ours)?),
            Contender::new("sortie-read", ours::ReadProduct::new(&self.ours)?),
            Contender::new("aprender", Program::product(&self.aprender, Way::Again)),
            Contender::new("aprender-cached", CachedProduct::new(&self.aprender)),
        ];
        if !quick {
            contenders.push(Contender::new("burn", burn::Product::new(&self.burn)));
        }
        Ok(Comparison { case: "matmul", n: SIDE, contenders })
    }
}

fn main() -> Outcome<()> {
    let args = Args::read(&[]);
    let (warm_up, timed, slow_rounds) = if args.quick { (0, 2, 1) } else { (1, 20, 3) };
    let pace = Pace { warm_up: Duration::from_secs(warm_up), timed: Duration::from_secs(timed), slow_rounds };
    let mut report = Report::new("peers-tensor", args.json);
    let devices = Devices::open()?;
    for comparison in [devices.chain()?, devices.product(args.quick)?] {
        comparison.run(ADAPTER, pace, &mut report)?;
    }
    eprintln!("{NOTES}");
    Ok(())
}
