//! Thousands of tiny requests from many callers, as work.

use std::{
    collections::VecDeque,
    error::Error,
    time::{Duration, Instant},
};

use sortie::{
    BatchConfig, Batcher, Device, Grid, Kernel, Reading,
    batcher::{OnDevice, Rows},
};
use tokio::runtime::{Builder, Runtime};

use super::work::{Latency, Strategy, Trial, Work};
use crate::{
    device::DevicePair,
    error::check_answers,
    measurement::{Measurement, max_in_flight},
    number,
};

/// Hashes four numbers into one, so that each of their bits matters.
const MIX_WGSL: &str = include_str!("../../kernels/mix.wgsl");

/// Concurrent callers; each sends its next request when the last one is answered.
const CALLERS: usize = 1000;

/// Rows of a batch by hand, as many as a batcher's.
const ROWS: usize = 1024;

/// With one submission each, the number of requests is a multiple of this, or all.
const EACH_STEP: usize = 500;

/// Requests of four numbers, answered by one.
struct Requests {
    device: Device,
    kernel: Kernel,
    batcher: Batcher<OnDevice<Rows<u32, u32>>>,
    runtime: Runtime,
    inputs: Vec<[u32; 4]>,
    expected: Vec<u32>,
    /// The longest that one submission for each request may take.
    max_each_time: Duration,
    /// How many requests are run with one submission each, once that is known.
    each: Option<usize>,
}

pub(super) fn work(pair: &DevicePair, count: usize, max_each_time: Duration) -> Result<Work<'static>, Box<dyn Error>> {
    let mut requests = Requests::new(pair, count, max_each_time)?;
    let each = match max_in_flight(&requests.device) {
        0 => "A submission each is waited for, which is fastest on this device.".to_owned(),
        max => format!("With a submission each, {max} are in flight at a time."),
    };
    Ok(Work {
        title: number::counted(count, "tiny request"),
        about: format!(
            "Four numbers in, one out, including both transfers. {each} The Batcher serves {} callers, each of which waits for an answer before it sends the \
             next request. By hand, all requests are known at once and go in batches of {} rows: the upper bound. Checked against plain Rust, bit for bit.",
            number::whole(CALLERS),
            number::whole(ROWS)
        ),
        unit: "request",
        count,
        strategies: &[Strategy::Each, Strategy::Batcher, Strategy::ByHand],
        run: Box::new(move |strategy| requests.run(strategy)),
    })
}

impl Requests {
    fn new(pair: &DevicePair, count: usize, max_each_time: Duration) -> Result<Self, Box<dyn Error>> {
        let device = pair.fusing.clone();
        let input = |at: usize| [1, 3, 5, 7].map(|factor: u32| (at as u32).wrapping_mul(factor).rotate_left(factor));
        let inputs: Vec<[u32; 4]> = (0..count).map(input).collect();
        Ok(Self {
            kernel: device.kernel(MIX_WGSL)?,
            batcher: Batcher::new(&device, Rows::new([4, 1], MIX_WGSL), BatchConfig::default())?,
            runtime: Builder::new_current_thread().build()?,
            expected: inputs.iter().map(|input| mix(*input)).collect(),
            inputs,
            max_each_time,
            each: None,
            device,
        })
    }

    fn run(&mut self, strategy: Strategy) -> Result<Trial, Box<dyn Error>> {
        let all = self.inputs.len();
        match (strategy, self.each) {
            (Strategy::Batcher, _) => self.by_batcher(),
            (Strategy::ByHand, _) => self.in_batches(all, ROWS),
            (_, Some(count)) => self.in_batches(count, 1),
            (_, None) => {
                let first = self.in_batches(all.min(EACH_STEP), 1)?;
                let affordable = self.max_each_time.as_secs_f64() * 1e6 / first.micros_per_unit();
                self.each = Some(all.min((affordable as usize / EACH_STEP * EACH_STEP).max(EACH_STEP)));
                Ok(first)
            }
        }
    }

    /// The first `count` requests, `rows` to a batch. The next batch is submitted before the newest is waited for.
    fn in_batches(&self, count: usize, rows: usize) -> Result<Trial, Box<dyn Error>> {
        let max = max_in_flight(&self.device);
        let mut answers = Vec::with_capacity(count);
        let mut latencies = Vec::with_capacity(count);
        let measurement = Measurement::of(&self.device, || {
            let mut in_flight: VecDeque<(Instant, Reading<u32>)> = VecDeque::new();
            let mut answer = |(start, reading): (Instant, Reading<u32>)| {
                let some = reading.wait()?;
                latencies.extend(some.iter().map(|_| start.elapsed()));
                answers.extend(some);
                Ok::<_, sortie::Error>(())
            };
            for inputs in self.inputs[..count].chunks(rows) {
                let start = Instant::now();
                let batch = self.device.batch();
                let x = batch.scratch::<[u32; 4]>(inputs.len());
                batch.write(x, inputs);
                let y = batch.scratch::<u32>(inputs.len());
                batch.dispatch(&self.kernel, &[&x, &y], Grid::items(inputs.len()));
                let y = batch.read(y);
                if max == 0 {
                    batch.submit()?;
                } else {
                    // The reading reports how it ended.
                    drop(batch.submit_async()?);
                }
                in_flight.push_back((start, y));
                if in_flight.len() > max {
                    in_flight.pop_front().map_or(Ok(()), &mut answer)?;
                }
            }
            in_flight.into_iter().try_for_each(answer)
        })?;
        self.checked(measurement, &answers, latencies, None)
    }

    fn by_batcher(&self) -> Result<Trial, Box<dyn Error>> {
        let before = self.batcher.metrics();
        let mut answers = vec![0; self.inputs.len()];
        let mut latencies = Vec::with_capacity(self.inputs.len());
        let measurement = Measurement::of(&self.device, || {
            self.runtime.block_on(async {
                let callers = (0..CALLERS).map(|caller| {
                    let batcher = self.batcher.clone();
                    let own: Vec<_> = self.inputs.iter().copied().enumerate().skip(caller).step_by(CALLERS).collect();
                    tokio::spawn(async move {
                        let mut answers = Vec::with_capacity(own.len());
                        for (at, input) in own {
                            let start = Instant::now();
                            let answer = batcher.call(input.to_vec()).await?;
                            answers.push((at, answer.first().copied(), start.elapsed()));
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
        let capacity = (after.batches - before.batches) * self.batcher.config().max_batch_size as u64;
        let fill = (after.rows - before.rows) as f64 / capacity.max(1) as f64;
        self.checked(measurement, &answers, latencies, Some(fill))
    }

    fn checked(
        &self,
        measurement: Measurement,
        answers: &[u32],
        mut latencies: Vec<Duration>,
        fill: Option<f64>,
    ) -> Result<Trial, Box<dyn Error>> {
        let count = latencies.len();
        check_answers(&"the device", "request", answers, &self.expected[..count], PartialEq::eq)?;
        latencies.sort_unstable();
        let percentile = |percent: usize| latencies.get(count * percent / 100).copied().unwrap_or_default();
        let latency = Some(Latency { p50: percentile(50), p99: percentile(99), fill });
        Ok(Trial { measurement, count, latency })
    }
}

/// The kernel in plain Rust.
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
    fn each_strategy_answers_all_and_the_batcher_reports_its_fill() -> Result<(), Box<dyn Error>> {
        let mut requests = Requests::new(&DevicePair::cpu()?, 1500, Duration::from_secs(3600))?;
        for strategy in [Strategy::Each, Strategy::Each, Strategy::Batcher, Strategy::ByHand] {
            let latency = requests.run(strategy)?.latency.expect("requests have latencies");
            assert!(latency.p50 <= latency.p99);
            assert_eq!(latency.fill.is_some(), strategy == Strategy::Batcher);
        }
        assert_eq!(requests.run(Strategy::Each)?.measurement.submissions, 1500);
        assert_eq!(requests.run(Strategy::ByHand)?.measurement.submissions, 2);
        Ok(())
    }

    #[test]
    fn fewer_requests_are_run_if_all_would_take_too_long() -> Result<(), Box<dyn Error>> {
        let mut requests = Requests::new(&DevicePair::cpu()?, 1500, Duration::ZERO)?;
        requests.run(Strategy::Each)?;
        assert_eq!(requests.run(Strategy::Each)?.count, 500);
        assert_eq!(requests.run(Strategy::Batcher)?.count, 1500);
        Ok(())
    }
}
