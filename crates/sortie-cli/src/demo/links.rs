//! A chain of small tensor operations, as work.

use std::error::Error;

use super::work::{Strategy, Trial, Work};
use crate::{
    chain::{Chain, Ops},
    number,
};

/// As many links as were asked for.
pub(super) struct Links<'a> {
    pub(super) chain: &'a Chain,
    pub(super) ops: usize,
}

impl Work for Links<'_> {
    fn title(&self) -> String {
        format!("A chain of {} small ops", number::whole(self.ops))
    }

    fn about(&self) -> String {
        format!(
            "Each op is one elementwise operation on {} integers and needs the result of the one before. Checked against plain Rust, bit for bit.",
            number::whole(self.chain.items())
        )
    }

    fn unit(&self) -> &'static str {
        "op"
    }

    fn count(&self) -> usize {
        self.ops
    }

    fn ways(&self) -> &'static [Strategy] {
        &[Strategy::Each, Strategy::Batched, Strategy::Fused, Strategy::Replayed]
    }

    fn run(&mut self, way: Strategy) -> Result<Trial, Box<dyn Error>> {
        let (ops, each) = match way {
            Strategy::Each => (Ops::Tensors, 1),
            Strategy::Fused => (Ops::Fused, self.ops),
            Strategy::Replayed => (Ops::Replayed, self.ops),
            Strategy::Batched | Strategy::Batcher | Strategy::ByHand => (Ops::Tensors, self.ops),
        };
        let lap = self.chain.run(ops, self.ops, each).map_err(|error| format!("{}, {way}: {error}", self.title()))?;
        Ok(Trial { lap, count: self.ops, service: None })
    }
}
