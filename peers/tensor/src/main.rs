//! Tensor operations of sortie, aprender-compute and burn, on the same adapter in one process.
//!
//! Contenders take turns; a value is a median, a ratio the median ratio to the baseline within a round. A time is from recording to completion on the
//! device; operands are resident unless a contender's name says otherwise. Answers are compared before and after.
//!
//! `cargo run --release -p peers-tensor [-- --quick] [--json]`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod aprender;
mod burn;
mod contest;
mod operands;
mod ours;

use std::time::Duration;

use crate::aprender::{CachedProduct, Program, Way};
use crate::contest::{Contender, Contest, Outcome, Pace};
use crate::operands::{COLUMNS, ROWS, SIDE};

/// The adapter everyone runs on: Mesa's lavapipe calls itself this.
const ADAPTER: &str = "llvmpipe";

/// What a reader has to know beside the figures.
const NOTES: &str = "\
sortie-again is sortie once more: how far it is from 1 is how far the figures are to be trusted.
sortie-read writes the left matrix and reads the result in each run, as aprender-cached does.
aprender executes one recorded batch again and again, which neither sortie nor burn may; aprender-record records anew; aprender-upload uploads too.
aprender's gelu is by tanh, the others' exact by erf; its vectors are as large as the matrix, since it does not broadcast.
aprender-cached is its GpuMatmulCache, which cannot be had without an upload and a read.
burn fuses, and has tuned itself before anything is timed; that takes it too long for a product in --quick.";

/// Everyone's device.
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

    fn chain(&self) -> Outcome<Contest> {
        let contenders = vec![
            Contender::new("sortie", ours::Chain::new(&self.ours)?),
            Contender::new("sortie-again", ours::Chain::new(&self.ours)?),
            Contender::approximate("aprender", Program::chain(&self.aprender, Way::Again)),
            Contender::approximate("aprender-record", Program::chain(&self.aprender, Way::Record)),
            Contender::approximate("aprender-upload", Program::chain(&self.aprender, Way::Upload)),
            Contender::new("burn", burn::Chain::new(&self.burn)),
        ];
        Ok(Contest { case: "chain", n: ROWS * COLUMNS, contenders })
    }

    /// Without burn if it must be quick: to tune its product takes it twenty seconds.
    fn product(&self, quick: bool) -> Outcome<Contest> {
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
        Ok(Contest { case: "matmul", n: SIDE, contenders })
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let quick = has("--quick");
    let (warm, timed, slow) = if quick { (0, 2, 1) } else { (1, 20, 3) };
    let pace = Pace { warm: Duration::from_secs(warm), timed: Duration::from_secs(timed), slow };
    let devices = Devices::open()?;
    for contest in [devices.chain()?, devices.product(quick)?] {
        for row in contest.hold(pace)? {
            println!("{}", if has("--json") { row.json(ADAPTER) } else { row.text() });
        }
    }
    eprintln!("{NOTES}");
    Ok(())
}
