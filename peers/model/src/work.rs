//! The tokens that all contenders embed.

use sortie_bench::{Clock, Cost, Outcome};

/// Rows of tokens, padded with zeros.
pub(crate) struct Work {
    pub(crate) rows: usize,
    pub(crate) length: usize,
    pub(crate) tokens: Vec<u32>,
    pub(crate) lengths: Vec<u32>,
}

/// A contender.
pub(crate) trait Encode {
    /// The embeddings of all rows.
    fn embed(&mut self, work: &Work) -> Outcome<Vec<f32>>;

    /// Mean wall and CPU time of a run, in µs.
    fn time(&mut self, work: &Work, runs: usize) -> Outcome<[f64; 2]> {
        let cost = Cost::of(Clock::Process, || (0..runs).try_for_each(|_| self.embed(work).map(drop)))?;
        Ok([cost.wall_us, cost.cpu_us].map(|us| us / runs as f64))
    }
}

impl Work {
    /// Rows of different lengths, the first of which is full.
    pub(crate) fn new(rows: usize, length: usize) -> Self {
        let lengths: Vec<u32> = (0..rows).map(|row| (length - row % 4 * length / 8) as u32).collect();
        let token = |at: usize| {
            let is_padding = at % length >= lengths[at / length] as usize;
            if is_padding { 0 } else { 1000 + (at * 7919 % 28_000) as u32 }
        };
        Self { rows, length, tokens: (0..rows * length).map(token).collect(), lengths }
    }
}
