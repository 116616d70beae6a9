//! `sortie demo`: what one submission instead of many does on this machine.
//!
//! Every op reads what the last one wrote, at its own place and its neighbour's, in wrapping integer arithmetic. So one op run too
//! early, too late or twice changes the answer, and the answer must equal the CPU's to the bit.

use std::{
    collections::VecDeque,
    error::Error,
    fmt,
    io::Write,
    time::{Duration, Instant},
};

use sortie::{Batch, Buffer, Device, DeviceKind, DeviceOptions, Grid, Kernel, Ticket};

use crate::progress::Progress;

const STEP_WGSL: &str = "
    @group(0) @binding(0) var<storage, read> last: array<u32>;
    @group(0) @binding(1) var<storage, read_write> next: array<u32>;
    @compute @workgroup_size(64)
    fn step(@builtin(global_invocation_id) id: vec3<u32>) {
        let n = arrayLength(&last);
        if id.x < n { next[id.x] = 1664525u * last[id.x] + last[(id.x + 1u) % n] + 1013904223u; }
    }";

/// Both ways take turns, and the median of an odd number of rounds is one that happened.
const ROUNDS: usize = 5;

/// Submissions that wait in line take memory, and more of them make nothing faster.
const MOST_UNDER_WAY: usize = 64;

/// Time many small dispatches, one submission each and as one batch, and check the answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Demo {
    /// A part of the device's name, its index in `sortie devices`, or `cpu`
    #[arg(long)]
    device: Option<String>,
    /// How many dispatches
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    ops: u32,
    /// How many numbers each dispatch works on
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
}

/// The kernel and the two buffers it goes to and fro between.
struct Chain {
    device: Device,
    kernel: Kernel,
    input: Vec<u32>,
    buffers: [Buffer<u32>; 2],
    ops: usize,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    SubmissionEach,
    OneBatch,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SubmissionEach => "one submission each",
            Self::OneBatch => "one batch",
        })
    }
}

impl Demo {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        let device = Device::open_with(DeviceOptions { device: self.device.clone(), ..Default::default() })?;
        if device.info().kind == DeviceKind::Noop {
            return Err("the noop device runs nothing: there is no answer to check".into());
        }
        writeln!(out, "{} dispatches of {} items on {}", self.ops, self.items, device.info())?;
        let chain = Chain::new(device, self.items, self.ops as usize)?;
        let mut progress = Progress::new();
        let expected = reference(&chain.input, chain.ops, &mut progress);

        let ways = [Way::SubmissionEach, Way::OneBatch];
        let mut times = ways.map(|_| Vec::new());
        // Round 0 warms up: it compiles, plans and fills the caches.
        for round in 0..=ROUNDS {
            for (way, times) in ways.iter().zip(&mut times) {
                let (time, answer) = chain.run(*way, &mut progress)?;
                check(*way, &answer, &expected)?;
                if round > 0 {
                    times.push(time);
                }
            }
            progress.tick(|| format!("{round} of {ROUNDS} rounds"));
        }

        let medians = times.map(median);
        for (way, time) in ways.iter().zip(medians) {
            let micros = time.as_secs_f64() * 1e6;
            writeln!(out, "{way:<20} {:>9.3} ms {:>9.2} µs/op", micros / 1e3, micros / f64::from(self.ops))?;
        }
        let [each, batch] = medians.map(|time| time.as_secs_f64());
        writeln!(out, "ratio {:.1} (medians of {ROUNDS} rounds)", each / batch)?;
        writeln!(out, "both answers equal the CPU's, bit for bit")?;
        Ok(())
    }
}

impl Chain {
    fn new(device: Device, items: u32, ops: usize) -> sortie::Result<Self> {
        let kernel = device.kernel(STEP_WGSL)?;
        // First, because the device knows how much is too much.
        let buffers = [device.zeros(items as usize)?, device.zeros(items as usize)?];
        Ok(Self { device, kernel, input: (0..items).collect(), buffers, ops })
    }

    /// The time from the first op recorded to the last one done, and the answer.
    fn run(&self, way: Way, progress: &mut Progress) -> sortie::Result<(Duration, Vec<u32>)> {
        let [first, second] = &self.buffers;
        first.write(&self.input)?;
        second.write(&vec![0; self.input.len()])?;
        let start = Instant::now();
        match way {
            Way::SubmissionEach => self.submission_each(progress)?,
            Way::OneBatch => self.one_batch()?,
        }
        let time = start.elapsed();
        Ok((time, self.buffers[self.ops % 2].download()?))
    }

    /// Nobody waits for an op before recording the next one: that would measure the way there and back instead.
    fn submission_each(&self, progress: &mut Progress) -> sortie::Result<()> {
        let mut under_way = VecDeque::new();
        for op in 0..self.ops {
            let mut batch = self.device.batch();
            self.record(&mut batch, op);
            under_way.push_back(batch.submit_async()?);
            if under_way.len() > MOST_UNDER_WAY
                && let Some(oldest) = under_way.pop_front()
            {
                oldest.wait()?;
            }
            progress.tick(|| format!("{op} of {} submissions", self.ops));
        }
        under_way.iter().try_for_each(Ticket::wait)
    }

    fn one_batch(&self) -> sortie::Result<()> {
        let mut batch = self.device.batch();
        for op in 0..self.ops {
            self.record(&mut batch, op);
        }
        batch.submit()
    }

    fn record(&self, batch: &mut Batch, op: usize) {
        let (last, next) = (&self.buffers[op % 2], &self.buffers[(op + 1) % 2]);
        batch.dispatch(&self.kernel, &[last, next], Grid::items(self.input.len()));
    }
}

/// What the kernel computes, on the CPU.
fn reference(input: &[u32], ops: usize, progress: &mut Progress) -> Vec<u32> {
    let mut last = input.to_vec();
    for op in 0..ops {
        let neighbours = last.iter().cycle().skip(1);
        last = last
            .iter()
            .zip(neighbours)
            .map(|(own, neighbour)| own.wrapping_mul(1_664_525).wrapping_add(*neighbour).wrapping_add(1_013_904_223))
            .collect();
        progress.tick(|| format!("{op} of {ops} steps on the CPU, to compare with"));
    }
    last
}

fn check(way: Way, answer: &[u32], expected: &[u32]) -> Result<(), String> {
    if answer.len() != expected.len() {
        return Err(format!("{way} gave {} items instead of {}", answer.len(), expected.len()));
    }
    match answer.iter().zip(expected).position(|(answer, expected)| answer != expected) {
        None => Ok(()),
        Some(item) => Err(format!("{way} gave {} for item {item}, but the CPU gives {}", answer[item], expected[item])),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_takes_each_item_and_its_neighbour_around_the_end() {
        let step =
            |own: u32, neighbour: u32| (u64::from(own) * 1_664_525 + u64::from(neighbour) + 1_013_904_223) as u32;
        let reference = |input: &[u32], ops| reference(input, ops, &mut Progress::new());
        assert_eq!(reference(&[7, u32::MAX, 0], 1), [step(7, u32::MAX), step(u32::MAX, 0), step(0, 7)]);
        assert_eq!(reference(&[7], 1), [step(7, 7)]);
        assert_eq!(reference(&[7, 9], 0), [7, 9]);
        let once = reference(&[1, 2, 3], 1);
        assert_eq!(reference(&[1, 2, 3], 2), reference(&once, 1));
    }

    #[test]
    fn the_median_is_the_middle_one_whatever_the_order() {
        let median = |millis: &[u64]| median(millis.iter().copied().map(Duration::from_millis).collect());
        assert_eq!(median(&[9, 1, 5]), Duration::from_millis(5));
        assert_eq!(median(&[4]), Duration::from_millis(4));
    }

    #[test]
    fn a_wrong_answer_is_named_with_its_place() {
        assert_eq!(check(Way::OneBatch, &[1, 2], &[1, 2]), Ok(()));
        let error = check(Way::OneBatch, &[1, 3], &[1, 2]).expect_err("3 is not 2");
        assert_eq!(error, "one batch gave 3 for item 1, but the CPU gives 2");
        assert!(check(Way::OneBatch, &[], &[1]).is_err());
    }
}
