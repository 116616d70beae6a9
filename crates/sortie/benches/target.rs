//! Whether a latency target is kept under load: a batcher with [`BatchSizing::Target`] and [`Overload::Reject`] is
//! offered half of the device's capacity, all of it, and twice as much.
//!
//! The load is open: requests of one row arrive at random (Poisson) from two threads, on a schedule that does not depend
//! on the answers. A latency is the time from the scheduled arrival until the caller has the answer, for every request
//! that was answered, from the first one on: batchers start without an estimate. `capacity` is the rate of full batches
//! for callers that wait for room; the work of a row is chosen so that it is about 20,000 rows a second, so that offering
//! twice as much takes little of the machine. `late` is how long after its schedule a request was made, at the 99th
//! percentile; it is part of the latency. Where it is more than half of the target, the machine did not offer the load,
//! which is offered again, up to three times in all. `alone` is the 99th percentile of a request that runs alone,
//! measured before and after the loads of a device, the shorter of both: a lower target cannot be met.
//!
//! `cargo bench -p sortie --bench target [-- --quick] [--json] [--device NAME]`

#![expect(clippy::print_stdout, reason = "a bench prints its table")]

use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use sortie::{
    BatchConfig, Batcher, Device, DeviceOptions, ErrorKind,
    batcher::{BatchSizing, OnDevice, Overload, ResponseFuture, Rows},
    device::DeviceKind,
};
use sortie_bench::{Args, quantile};

/// Each row takes as many steps as its input says. Workgroups of one: a row alone takes as long as one among many.
const WORK: &str = include_str!("kernels/steps.wgsl");

/// Milliseconds.
const TARGETS: [u64; 3] = [5, 20, 50];
/// Parts of the capacity.
const LOADS: [f64; 3] = [0.5, 1.0, 2.0];
const GENERATORS: u64 = 2;
/// Steps of a row when the capacity is measured first, and the maximum. lavapipe ends a loop after 65,535.
const STEPS: f64 = 5_000.0;
const MAX_STEPS: f64 = 10_000.0;
/// Rows a second that are aimed at.
const RATE: f64 = 20_000.0;
/// The share of a target that requests may be late by, at the 99th percentile.
const MAX_LATE_SHARE: f64 = 0.5;
/// How often a load is offered until it is on time.
const MAX_OFFERS: usize = 3;
/// The allowed ratio of a percentile to its target.
const MAX_RATIO: f64 = 1.5;

type Work = Rows<f32, f32>;

fn main() -> sortie::Result<()> {
    let args = Args::read(&["--device="]);
    let devices = Device::list().into_iter().enumerate();
    let wanted = devices.filter(|(_, info)| {
        info.kind != DeviceKind::Noop && info.backend != "gl" && args.matches("--device", &info.name)
    });
    for (index, info) in wanted {
        let device = Device::open_with(DeviceOptions::default().with_device(index.to_string()))?;
        bench(&device, &info.name, Duration::from_secs(if args.quick { 1 } else { 5 }), args.json)?;
    }
    Ok(())
}

/// The result of one load.
struct Outcome {
    target: Duration,
    load: f64,
    late: Vec<Duration>,
    latencies: Vec<Duration>,
}

fn bench(device: &Device, name: &str, time: Duration, json: bool) -> sortie::Result<()> {
    let measured = time.min(Duration::from_secs(2));
    let steps = (STEPS * capacity(device, STEPS, measured)? / RATE).min(MAX_STEPS).round();
    let capacity = capacity(device, steps, measured)?;
    let before = alone(device, steps)?;
    let mut outcomes = Vec::new();
    for target in TARGETS.map(Duration::from_millis) {
        for load in LOADS {
            let offer = || Load { target, load, capacity, steps, time }.offer(device);
            let mut outcome = offer()?;
            for _ in 1..MAX_OFFERS {
                if outcome.is_on_time() {
                    break;
                }
                outcome = offer()?;
            }
            outcomes.push(outcome);
        }
    }
    let alone = before.min(alone(device, steps)?);
    if !json {
        println!(
            "\n### {name}\n\nCapacity {capacity:.0} rows a second; a request alone takes {} at the 99th percentile.\n",
            ms(alone)
        );
        println!("| target | load | offered/s | answered/s | rejected | late | p50 | p99 | p99 / target |");
        println!("|---:|---:|---:|---:|---:|---:|---:|---:|---|");
    }
    for outcome in outcomes {
        outcome.print(name, alone, time, json);
    }
    Ok(())
}

impl Outcome {
    /// Whether the load was offered on schedule.
    fn is_on_time(&self) -> bool {
        percentile(&self.late, 0.99) <= self.target.mul_f64(MAX_LATE_SHARE)
    }

    fn print(&self, name: &str, alone: Duration, time: Duration, json: bool) {
        let Self { target, load, late, latencies } = self;
        let [p50, p99] = [0.5, 0.99].map(|part| percentile(latencies, part));
        let ratio = p99.as_secs_f64() / target.as_secs_f64();
        let verdict = match () {
            () if ratio <= MAX_RATIO => "kept",
            () if alone > *target => "cannot be met by one row",
            () if !self.is_on_time() => "was not offered on time",
            () => "missed",
        };
        let [offers, answers] = [late.len(), latencies.len()].map(|count| count as f64 / time.as_secs_f64());
        let late = percentile(late, 0.99);
        let rejected = 100.0 * (1.0 - answers / offers);
        if json {
            println!(
                "{{\"bench\":\"target\",\"device\":\"{name}\",\"target_ms\":{},\"load\":{load},\"offered_per_s\":{offers:.0},\"answered_per_s\":{answers:.0},\"late_p99_ms\":{:.3},\"p50_ms\":{:.3},\"p99_ms\":{:.3},\"alone_p99_ms\":{:.3},\"ratio\":{ratio:.3},\"verdict\":\"{verdict}\"}}",
                target.as_millis(),
                1e3 * late.as_secs_f64(),
                1e3 * p50.as_secs_f64(),
                1e3 * p99.as_secs_f64(),
                1e3 * alone.as_secs_f64(),
            );
        } else {
            println!(
                "| {} ms | {load}× | {offers:.0} | {answers:.0} | {rejected:.1} % | {} | {} | {} | {ratio:.2}, {verdict} |",
                target.as_millis(),
                ms(late),
                ms(p50),
                ms(p99),
            );
        }
    }
}

fn work() -> Work {
    Rows::new([1, 1], WORK)
}

/// Rows a second in full batches, for callers that keep three batches in flight.
fn capacity(device: &Device, steps: f64, time: Duration) -> sortie::Result<f64> {
    let batcher = Batcher::new(device, work(), BatchConfig::default().with_max_batch_size(256))?;
    // The first batches compile and allocate.
    for rows in [1, 16, 256] {
        batcher.call_blocking(vec![steps as f32; rows])?;
    }
    let (begin, mut in_flight, mut answered) = (Instant::now(), std::collections::VecDeque::new(), 0);
    while begin.elapsed() < time {
        while in_flight.len() < 768 {
            in_flight.push_back(batcher.call(vec![steps as f32]).send());
        }
        for call in in_flight.drain(..256) {
            call.wait()?;
            answered += 1;
        }
    }
    Ok(f64::from(answered) / begin.elapsed().as_secs_f64())
}

/// The 99th percentile of the time of a request that runs alone.
fn alone(device: &Device, steps: f64) -> sortie::Result<Duration> {
    let batcher = Batcher::new(device, work(), BatchConfig::latency())?;
    let mut times = Vec::new();
    for request in 0..300 {
        thread::sleep(Duration::from_millis(1));
        let begin = Instant::now();
        batcher.call(vec![steps as f32]).wait()?;
        // The first ones compile and allocate.
        if request >= 20 {
            times.push(begin.elapsed());
        }
    }
    Ok(percentile(&times, 0.99))
}

/// A load, and how long it is offered.
struct Load {
    target: Duration,
    /// Of the capacity.
    load: f64,
    capacity: f64,
    steps: f64,
    time: Duration,
}

impl Load {
    fn offer(self, device: &Device) -> sortie::Result<Outcome> {
        let Self { target, load, capacity, steps, time } = self;
        let (sizing, overload) = (BatchSizing::Target { p99: target }, Overload::Reject);
        let batcher = Batcher::new(device, work(), BatchConfig::default().with_sizing(sizing).with_overload(overload))?;
        let each = load * capacity / GENERATORS as f64;
        let begin = Instant::now() + Duration::from_millis(10);
        let collected = thread::scope(|scope| {
            let generate = |seed: u64| {
                let (sender, receiver) = mpsc::channel();
                let batcher = batcher.clone();
                let schedule = Schedule { begin, time, rate: each, steps: steps as f32 };
                scope.spawn(move || schedule.offer(&batcher, seed, &sender));
                scope.spawn(move || collect(&receiver))
            };
            let threads: Vec<_> = (1..=GENERATORS).map(generate).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<sortie::Result<Vec<_>>>()
        })?;
        let mut outcome = Outcome { target, load, late: Vec::new(), latencies: Vec::new() };
        for (late, latencies) in collected {
            outcome.late.extend(late);
            outcome.latencies.extend(latencies);
        }
        Ok(outcome)
    }
}

/// When a request was scheduled, how much later it was made, and its response.
type Offered = (Instant, Duration, ResponseFuture<OnDevice<Work>>);

/// Requests at random times, `rate` per second on average.
struct Schedule {
    begin: Instant,
    time: Duration,
    rate: f64,
    steps: f32,
}

impl Schedule {
    fn offer(&self, batcher: &Batcher<OnDevice<Work>>, seed: u64, to: &mpsc::Sender<Offered>) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut arrival = self.begin;
        while arrival < self.begin + self.time {
            thread::sleep(arrival.saturating_duration_since(Instant::now()));
            let late = arrival.elapsed();
            let sent = to.send((arrival, late, batcher.call(vec![self.steps]).send()));
            assert!(sent.is_ok(), "the answers are waited for");
            arrival += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / self.rate);
        }
    }
}

/// The lateness of each request, and the latency of each answer.
fn collect(from: &mpsc::Receiver<Offered>) -> sortie::Result<(Vec<Duration>, Vec<Duration>)> {
    let (mut lateness, mut latencies) = (Vec::new(), Vec::new());
    for (arrival, late, call) in from {
        lateness.push(late);
        match call.wait() {
            Ok(_) => latencies.push(arrival.elapsed()),
            Err(error) if error.kind() == ErrorKind::Overloaded => {}
            Err(error) => return Err(error),
        }
    }
    Ok((lateness, latencies))
}

fn percentile(times: &[Duration], share: f64) -> Duration {
    let seconds = quantile(times.iter().map(Duration::as_secs_f64), share);
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", 1e3 * time.as_secs_f64())
}
