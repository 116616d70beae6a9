//! A chain of small tensor ops, as work.

use super::work::{Strategy, Trial, Work};
use crate::{
    chain::{Chain, Ops},
    number,
};

pub(super) fn work(chain: &Chain, count: usize) -> Work<'_> {
    Work {
        title: format!("A chain of {}", number::counted(count, "small op")),
        about: format!(
            "Each op is one elementwise operation on {} integers and needs the result of the one before. Checked against plain Rust, bit for bit.",
            number::whole(chain.items())
        ),
        unit: "op",
        count,
        strategies: &[Strategy::Each, Strategy::Batched, Strategy::Fused, Strategy::Replayed],
        run: Box::new(move |strategy| {
            let (ops, each) = match strategy {
                Strategy::Each => (Ops::Tensors, 1),
                Strategy::Fused => (Ops::Fused, count),
                Strategy::Replayed => (Ops::Replayed, count),
                Strategy::Batched | Strategy::Batcher | Strategy::ByHand => (Ops::Tensors, count),
            };
            Ok(Trial { measurement: chain.run(ops, count, each)?, count, latency: None })
        }),
    }
}
