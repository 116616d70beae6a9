//! Thousands of tiny requests from many callers, as work.

use std::{
    collections::VecDeque,
    error::Error,
    time::{Duration, Instant},
};

use sortie::{BatchConfig, Batcher, Device, Grid, Kernel, OnDevice, Reading, Rows};
use tokio::runtime::{Builder, Runtime};

use super::work::{Service, Strategy, Trial, Work};
use crate::{
    lap::{Lap, most_under_way},
    number,
    pair::Pair,
    wrong::Wrong,
};

/// One number out of four, mixed so that each bit of them matters.
const MIX_WGSL: &str = "
    @group(0) @binding(0) var<storage, read> x: array<vec4<u32>>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64)
    fn mix_row(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) {
            var h = 2166136261u;
            for (var k = 0u; k < 4u; k++) { h = (h ^ x[id.x][k]) * 16777619u; h ^= h >> 15u; }
            y[id.x] = h;
        }
    }";

/// Who asks again when answered, all at the same time.
const CALLERS: usize = 1000;

/// Rows of a batch by hand: those of a batcher's.
const ROWS: usize = 1024;

/// Requests of four numbers, answered by one.
pub(super) struct Requests {
    device: Device,
    kernel: Kernel,
    batcher: Batcher<OnDevice<Rows<u32, u32>>>,
    runtime: Runtime,
    inputs: Vec<[u32; 4]>,
    expected: Vec<u32>,
    /// The longest that a submission for each of them may take.
    patience: Duration,
    /// How many are run with a submission each, once that is known.
    each: Option<usize>,
}

impl Requests {
    pub(super) fn new(pair: &Pair, count: usize, patience: Duration) -> Result<Self, Box<dyn Error>> {
        let device = pair.fusing.clone();
        let input = |at: usize| [1, 3, 5, 7].map(|factor: u32| (at as u32).wrapping_mul(factor).rotate_left(factor));
        let inputs: Vec<[u32; 4]> = (0..count).map(input).collect();
        Ok(Self {
            kernel: device.kernel(MIX_WGSL)?,
            batcher: Batcher::new(&device, Rows::new([4, 1], MIX_WGSL), BatchConfig::default())?,
            runtime: Builder::new_current_thread().build()?,
            expected: inputs.iter().map(|input| mix(*input)).collect(),
            inputs,
            patience,
            each: None,
            device,
        })
    }

    /// Nobody's answer is waited for before others have asked.
    fn submission_each(&self, count: usize) -> Result<Trial, Box<dyn Error>> {
        let most = most_under_way(&self.device);
        let mut answers = Vec::with_capacity(count);
        let mut latencies = Vec::with_capacity(count);
        let lap = Lap::of(&self.device, || {
            let mut under_way: VecDeque<(Instant, Reading<u32>)> = VecDeque::new();
            let mut answer = |(asked, reading): (Instant, Reading<u32>)| {
                answers.extend(reading.wait()?);
                latencies.push(asked.elapsed());
                Ok::<_, sortie::Error>(())
            };
            for input in &self.inputs[..count] {
                let asked = Instant::now();
                let mut batch = self.device.batch();
                let x = batch.upload(input, [4]);
                let y = batch.scratch::<u32>(1);
                batch.dispatch(&self.kernel, &[&x, &y], Grid::items(1));
                let y = batch.read(y);
                if most == 0 {
                    batch.submit()?;
                } else {
                    // Its reading hears how it went.
                    drop(batch.submit_async()?);
                }
                under_way.push_back((asked, y));
                while under_way.len() > most
                    && let Some(oldest) = under_way.pop_front()
                {
                    answer(oldest)?;
                }
            }
            under_way.into_iter().try_for_each(answer)
        })?;
        self.checked(Strategy::Each, lap, count, &answers, &mut latencies, None)
    }

    fn by_batcher(&self) -> Result<Trial, Box<dyn Error>> {
        let before = self.batcher.metrics();
        let count = self.inputs.len();
        let mut answers = vec![0; count];
        let mut latencies = Vec::with_capacity(count);
        let lap = Lap::of(&self.device, || {
            self.runtime.block_on(async {
                let callers = (0..CALLERS).map(|caller| {
                    let batcher = self.batcher.clone();
                    // Every thousandth request is this caller's.
                    let mine: Vec<_> = self.inputs.iter().copied().enumerate().skip(caller).step_by(CALLERS).collect();
                    tokio::spawn(async move {
                        let mut answers = Vec::with_capacity(mine.len());
                        for (at, input) in mine {
                            let asked = Instant::now();
                            let answer = batcher.call(input.to_vec()).await?;
                            answers.push((at, answer.first().copied(), asked.elapsed()));
                        }
                        Ok::<_, sortie::Error>(answers)
                    })
                });
                for caller in callers.collect::<Vec<_>>() {
                    for (at, answer, latency) in caller.await?? {
                        answers[at] = answer.ok_or("a request came back without an answer")?;
                        latencies.push(latency);
                    }
                }
                Ok::<_, Box<dyn Error>>(())
            })
        })?;
        let after = self.batcher.metrics();
        let most = (after.batches - before.batches) * self.batcher.config().max_batch_size as u64;
        let fill = (after.rows - before.rows) as f64 / most.max(1) as f64;
        self.checked(Strategy::Batcher, lap, count, &answers, &mut latencies, Some(fill))
    }

    /// What a batcher could gain at most: somebody who has all requests at hand.
    fn by_hand(&self) -> Result<Trial, Box<dyn Error>> {
        let mut answers = Vec::with_capacity(self.inputs.len());
        let mut latencies = Vec::with_capacity(self.inputs.len());
        let lap = Lap::of(&self.device, || {
            let mut readings = Vec::new();
            for rows in self.inputs.chunks(ROWS) {
                let asked = Instant::now();
                let mut batch = self.device.batch();
                let x = batch.upload(rows.as_flattened(), [rows.len(), 4]);
                let y = batch.scratch::<u32>(rows.len());
                batch.dispatch(&self.kernel, &[&x, &y], Grid::items(rows.len()));
                readings.push((asked, batch.read(y)));
                drop(batch.submit_async()?);
            }
            for (asked, reading) in readings {
                let some = reading.wait()?;
                latencies.extend(some.iter().map(|_| asked.elapsed()));
                answers.extend(some);
            }
            Ok::<_, sortie::Error>(())
        })?;
        self.checked(Strategy::ByHand, lap, self.inputs.len(), &answers, &mut latencies, None)
    }

    fn checked(
        &self,
        way: Strategy,
        lap: Lap,
        count: usize,
        answers: &[u32],
        latencies: &mut [Duration],
        fill: Option<f64>,
    ) -> Result<Trial, Box<dyn Error>> {
        Wrong::unless_equal(&format!("{}, {way}", self.title()), "request", answers, &self.expected[..count])?;
        latencies.sort_unstable();
        let within = |hundredth: usize| latencies.get(latencies.len() * hundredth / 100).copied().unwrap_or_default();
        let service = Some(Service { p50: within(50), p99: within(99), fill });
        Ok(Trial { lap, count, service })
    }
}

impl Work for Requests {
    fn title(&self) -> String {
        format!("{} tiny requests", number::whole(self.inputs.len()))
    }

    fn about(&self) -> String {
        let each = match most_under_way(&self.device) {
            0 => "A submission each is waited for, which this device is fastest with.".to_owned(),
            most => format!("With a submission each, {most} are under way at a time."),
        };
        let (callers, rows) = (number::whole(CALLERS), number::whole(ROWS));
        format!(
            "Four numbers in, one out, there and back. {each} The Batcher serves {callers} callers who each wait for an answer before they ask again; by hand \
             is {rows} rows to a batch with all requests at hand, the bound. Checked against plain Rust, bit for bit."
        )
    }

    fn unit(&self) -> &'static str {
        "request"
    }

    fn count(&self) -> usize {
        self.inputs.len()
    }

    fn ways(&self) -> &'static [Strategy] {
        &[Strategy::Each, Strategy::Batcher, Strategy::ByHand]
    }

    fn run(&mut self, way: Strategy) -> Result<Trial, Box<dyn Error>> {
        match (way, self.each) {
            (Strategy::Batcher, _) => self.by_batcher(),
            (Strategy::ByHand, _) => self.by_hand(),
            (_, Some(count)) => self.submission_each(count),
            (_, None) => {
                let all = self.inputs.len();
                let first = self.submission_each(all.min(500))?;
                let affordable = self.patience.as_secs_f64() * 1e6 / first.micros_per_unit();
                // A round number, so that nobody takes it for all of them.
                let affordable = (affordable as usize / 500 * 500).max(500);
                self.each = Some(all.min(affordable));
                Ok(first)
            }
        }
    }
}

/// What the kernel computes, in plain Rust.
fn mix(input: [u32; 4]) -> u32 {
    input.into_iter().fold(2_166_136_261, |h: u32, x| {
        let h = (h ^ x).wrapping_mul(16_777_619);
        h ^ h >> 15
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_answers_all_and_the_batcher_says_how_full_its_batches_were() -> Result<(), Box<dyn Error>> {
        let mut requests = Requests::new(&Pair::open(Some("cpu"))?, 1500, Duration::from_secs(3600))?;
        for way in [Strategy::Each, Strategy::Each, Strategy::Batcher, Strategy::ByHand] {
            let trial = requests.run(way)?;
            let service = trial.service.expect("requests are served");
            assert!(service.p50 <= service.p99);
            assert_eq!(service.fill.is_some(), way == Strategy::Batcher);
        }
        assert_eq!(requests.run(Strategy::Each)?.lap.submissions, 1500);
        assert_eq!(requests.run(Strategy::ByHand)?.lap.submissions, 2);
        Ok(())
    }

    #[test]
    fn what_would_take_too_long_is_done_for_fewer() -> Result<(), Box<dyn Error>> {
        let mut requests = Requests::new(&Pair::open(Some("cpu"))?, 1500, Duration::ZERO)?;
        requests.run(Strategy::Each)?;
        assert_eq!(requests.run(Strategy::Each)?.count, 500);
        assert_eq!(requests.run(Strategy::Batcher)?.count, 1500);
        Ok(())
    }
}
