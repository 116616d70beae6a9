//! A chain of small operations, each of which needs the result of the one before. Submissions are nearly its whole
//! cost.
//!
//! The ops are wrapping integer arithmetic that does not commute: an op that runs too early, too late or twice changes
//! the answer, which must equal the reference bit for bit.

use std::{cell::RefCell, collections::HashMap};

use sortie::{Batch, Buffer, Device, Grid, Kernel, Replay};

use crate::{
    device::DevicePair,
    error::check_answers,
    measurement::{InFlight, Measurement},
};

/// Combines each element with its neighbour.
const STEP_WGSL: &str = include_str!("../kernels/step.wgsl");

const FACTOR: u32 = 1_664_525;
const ADDEND: u32 = 1_013_904_223;

/// What the ops of a chain are, and how they are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ops {
    /// Dispatches of [`STEP_WGSL`].
    Dispatches,
    /// Tensor ops, one dispatch each.
    Tensors,
    /// Tensor ops, fused.
    Fused,
    /// Tensor ops, fused, frozen once and replayed.
    Replayed,
}

/// Two buffers that submissions alternate between, and the addends.
struct Memory {
    buffers: [Buffer<u32>; 2],
    addends: Buffer<u32>,
}

/// A replay for either direction, because replays are bound to their buffers; and how often they were frozen.
struct FrozenPair {
    replays: [Replay; 2],
    uses: usize,
}

/// The chain, with its buffers and replays on both devices.
pub(crate) struct Chain {
    pair: DevicePair,
    kernel: Kernel,
    input: Vec<u32>,
    plain: Memory,
    fusing: Memory,
    /// By ops in a submission; one entry for each measured length.
    replays: RefCell<HashMap<usize, FrozenPair>>,
    /// By whether they are tensor ops, and their number.
    expected: RefCell<HashMap<(bool, usize), Vec<u32>>>,
}

impl Chain {
    pub(crate) fn new(pair: &DevicePair, items: usize) -> sortie::Result<Self> {
        let addends: Vec<u32> = (0..items as u32).map(addend).collect();
        let memory = |device: &Device| {
            // First, because the device checks the size.
            let buffers = [device.zeros(items)?, device.zeros(items)?];
            Ok::<_, sortie::Error>(Memory { buffers, addends: device.upload(&addends)? })
        };
        Ok(Self {
            kernel: pair.plain.kernel(STEP_WGSL)?,
            input: (0..items as u32).collect(),
            plain: memory(&pair.plain)?,
            fusing: memory(&pair.fusing)?,
            pair: pair.clone(),
            replays: RefCell::default(),
            expected: RefCell::default(),
        })
    }

    pub(crate) fn items(&self) -> usize {
        self.input.len()
    }

    /// Runs `all` ops, `each` to a submission, timed from the first record to the last completion, and checks the
    /// answer.
    pub(crate) fn run(&self, ops: Ops, all: usize, each: usize) -> Result<Measurement, Box<dyn std::error::Error>> {
        let (device, memory) = match ops {
            Ops::Dispatches | Ops::Tensors => (&self.pair.plain, &self.plain),
            Ops::Fused | Ops::Replayed => (&self.pair.fusing, &self.fusing),
        };
        if ops == Ops::Replayed {
            self.freeze(all, each)?;
        }
        memory.buffers[0].write(&self.input)?;
        memory.buffers[1].write(&vec![0; self.items()])?;
        let replays = self.replays.borrow();
        let measurement = Measurement::of(device, || {
            let mut in_flight = InFlight::on(device);
            for (turn, first) in (0..all).step_by(each).enumerate() {
                let last = all.min(first + each);
                match (ops, replays.get(&each)) {
                    // The rest at the end has another length.
                    (Ops::Replayed, Some(frozen)) if last - first == each => {
                        in_flight.replay(frozen.replays[turn % 2].run())?;
                    }
                    _ => {
                        let batch = device.batch();
                        self.record(&batch, ops, turn, first..last);
                        in_flight.submit(batch)?;
                    }
                }
            }
            in_flight.wait()
        })?;
        let answer = memory.buffers[all.div_ceil(each) % 2].download()?;
        let mut expected = self.expected.borrow_mut();
        let tensors = ops != Ops::Dispatches;
        let expected = expected.entry((tensors, all)).or_insert_with(|| reference(&self.input, tensors, all));
        check_answers(&format_args!("{ops:?}"), "item", &answer, expected, PartialEq::eq)?;
        Ok(measurement)
    }

    /// Freezes the replays of a length, outside of the timed part. Twice: a replay is split by the measured cost of its
    /// ops, which the first run of a length only estimates.
    fn freeze(&self, all: usize, each: usize) -> sortie::Result<()> {
        let uses = self.replays.borrow().get(&each).map_or(0, |frozen| frozen.uses);
        if all < each || uses > 1 {
            return Ok(());
        }
        let frozen = |turn: usize| {
            let batch = self.pair.fusing.batch();
            self.record(&batch, Ops::Replayed, turn, turn * each..(turn + 1) * each);
            batch.freeze()
        };
        let replays = [frozen(0)?, frozen(1)?];
        self.replays.borrow_mut().insert(each, FrozenPair { replays, uses: uses + 1 });
        Ok(())
    }

    /// Records the ops of one submission.
    pub(crate) fn record(&self, batch: &Batch, ops: Ops, turn: usize, range: std::ops::Range<usize>) {
        if ops == Ops::Dispatches {
            self.dispatches(batch, turn, range.len());
            return;
        }
        let memory = if ops == Ops::Tensors { &self.plain } else { &self.fusing };
        let (from, to) = (&memory.buffers[turn % 2], &memory.buffers[(turn + 1) % 2]);
        let addends = batch.tensor(&memory.addends, [self.items()]);
        let mut x = batch.tensor(from, [self.items()]);
        for op in range {
            x = if op % 2 == 0 { x * FACTOR } else { x + addends };
        }
        x.store(to);
    }

    fn dispatches(&self, batch: &Batch, turn: usize, ops: usize) {
        let grid = Grid::items(self.items());
        let [from, to] = [turn % 2, (turn + 1) % 2].map(|at| &self.plain.buffers[at]);
        if ops == 1 {
            batch.dispatch(&self.kernel, &[from, to], grid);
            return;
        }
        let between = [batch.scratch::<u32>(self.items()), batch.scratch::<u32>(self.items())];
        for op in 0..ops {
            let (last, next) = (&between[op % 2], &between[(op + 1) % 2]);
            match op {
                0 => batch.dispatch(&self.kernel, &[from, next], grid),
                _ if op + 1 == ops => batch.dispatch(&self.kernel, &[last, to], grid),
                _ => batch.dispatch(&self.kernel, &[last, next], grid),
            };
        }
    }
}

fn addend(item: u32) -> u32 {
    ADDEND.wrapping_add(item.wrapping_mul(2_654_435_761))
}

/// The chain in plain Rust.
fn reference(input: &[u32], tensors: bool, ops: usize) -> Vec<u32> {
    let mut last = input.to_vec();
    for op in 0..ops {
        let own = last.iter().zip(0..);
        last = match (tensors, op % 2) {
            (true, 0) => own.map(|(x, _)| x.wrapping_mul(FACTOR)).collect(),
            (true, _) => own.map(|(x, item)| x.wrapping_add(addend(item))).collect(),
            (false, _) => own
                .zip(last.iter().cycle().skip(1))
                .map(|((x, _), neighbour)| x.wrapping_mul(FACTOR).wrapping_add(*neighbour).wrapping_add(ADDEND))
                .collect(),
        };
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_takes_each_item_and_its_neighbour_around_the_end() {
        let step =
            |own: u32, neighbour: u32| (u64::from(own) * 1_664_525 + u64::from(neighbour) + 1_013_904_223) as u32;
        let reference = |input: &[u32], ops| reference(input, false, ops);
        assert_eq!(reference(&[7, u32::MAX, 0], 1), [step(7, u32::MAX), step(u32::MAX, 0), step(0, 7)]);
        assert_eq!(reference(&[7], 1), [step(7, 7)]);
        assert_eq!(reference(&[7, 9], 0), [7, 9]);
        let once = reference(&[1, 2, 3], 1);
        assert_eq!(reference(&[1, 2, 3], 2), reference(&once, 1));
    }

    #[test]
    fn tensor_ops_multiply_and_add_in_turn() {
        assert_eq!(reference(&[3], true, 1), [3 * 1_664_525]);
        assert_eq!(reference(&[3], true, 2), [3 * 1_664_525 + 1_013_904_223]);
    }

    #[test]
    fn every_cut_of_every_chain_gives_the_reference_s_answer() -> Result<(), Box<dyn std::error::Error>> {
        let chain = Chain::new(&DevicePair::cpu()?, 5)?;
        for ops in [Ops::Dispatches, Ops::Tensors, Ops::Fused, Ops::Replayed] {
            for each in [1, 2, 3, 4, 7, 9] {
                let measurement = chain.run(ops, 7, each)?;
                assert_eq!(measurement.submissions, 7_usize.div_ceil(each) as u64, "{ops:?}, {each} to a submission");
            }
        }
        Ok(())
    }
}
