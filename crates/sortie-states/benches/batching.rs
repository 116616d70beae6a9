//! What batching does for many small requests: gradients of one state each, on every device.
//!
//! First 10,000 states (1,000 with `--quick`): `one-each` is a submission for each, waited for before the next;
//! `one-each-ahead` has up to 64 of them in flight; `batcher` is a request for each, from four threads through a
//! `BatchedStates`; `batcher-alone` is the same from one thread that waits for each answer; `one-batch` is a single call
//! with all of them, and `one-batch-again` a control that must read 1.0×. All take turns. A ratio is the median ratio of
//! rates to `one-each` within a round.
//!
//! Then requests a second through a `BatchedStates`, compared with `one-each`: `sizes` has batches of 16 to 4,096 rows,
//! `presets` the three presets, each with 1 to 16 submitting threads. Threads are pipelined: together they keep three
//! batches of requests in flight, each thread its share, and send another when the oldest is answered. `one-at-a-time`
//! are threads that wait for each answer. `p99_us` is the 99th percentile of latency, `fill` how full batches were. The
//! contender that ends in `again` is a control: it is compared with the same one and must read 1.0×.
//!
//! `cargo bench -p sortie-states --bench batching [-- --quick] [--json] [--device NAME]`

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use sortie::{BatchConfig, Device, DeviceOptions, Reading, device::DeviceKind};
use sortie_bench::{Args, Case, Contender, Outcome, Report, Rounds, quantile};
use sortie_states::{BatchedStates, Gradient, Result, State, States, StatesFuture, reference};

const SIZES: [usize; 5] = [16, 64, 256, 1024, 4096];
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Threads of the contender `batcher` and of the control.
const CALLERS: usize = 4;
/// Calls in a turn of those that take milliseconds instead of seconds.
const CALLS_PER_TURN: u32 = 7;
/// Submissions of `one-each-ahead` in flight.
const MAX_IN_FLIGHT: usize = 64;
/// Batches of requests that all threads together keep in flight: as many as fit into the queue without waiting for room.
const BATCHES_IN_FLIGHT: usize = 3;

fn main() -> Outcome<()> {
    let args = Args::read(&["--device="]);
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let mut report = Report::new("states", args.json);
    for (index, info) in Device::list().into_iter().enumerate() {
        if info.kind == DeviceKind::Noop || info.backend == "gl" || !args.matches("--device", &info.name) {
            continue;
        }
        let options = DeviceOptions::default().with_device(index.to_string());
        let device = Device::open_with(options)?;
        let states = States::new(&device)?;
        let bench = Bench { device, states, name: info.name, effort };
        bench.ways(&mut report)?;
        bench.sizes(&mut report)?;
        bench.presets(&mut report)?;
    }
    Ok(())
}

/// How much is done.
#[derive(Clone, Copy)]
struct Effort {
    states: u32,
    /// Rounds of the first table.
    rounds: Rounds,
    /// Rounds of the other tables, and how long a cell is run in each.
    sweeps: usize,
    cell: Duration,
}

impl Effort {
    const FULL: Self = Self {
        states: 10_000,
        rounds: Rounds { min: 2, max: 100, budget: Duration::from_secs(6) },
        sweeps: 5,
        cell: Duration::from_millis(50),
    };
    const QUICK: Self = Self {
        states: 1000,
        rounds: Rounds { min: 1, max: 100, budget: Duration::from_secs(1) },
        sweeps: 1,
        cell: Duration::from_millis(20),
    };
}

struct Bench {
    device: Device,
    states: States,
    name: String,
    effort: Effort,
}

/// One way to compute the gradients of all states.
type Way<'a> = &'a dyn Fn() -> Result<Vec<Gradient>>;

/// What pipelined threads are measured by.
const METRICS: [&str; 3] = ["requests_per_s", "p99_us", "fill"];

/// A batcher with some threads that send requests.
struct Pipelined {
    name: String,
    batched: BatchedStates,
    threads: usize,
    /// Requests that each thread keeps in flight.
    window: usize,
}

impl Bench {
    /// All states, each way.
    fn ways(&self, report: &mut Report) -> Outcome<()> {
        let (states, batched) = (&self.states, BatchedStates::new(&self.device, BatchConfig::default())?);
        let many: Vec<State> = (0..self.effort.states).map(scrambled).collect();
        let expected = reference::compute_gradients(&many);
        let whole: Way = &|| states.gradients(&many);
        let ways: [(&str, usize, Way); 6] = [
            ("one-each", 0, &|| many.iter().map(|state| Ok(states.gradients(&[*state])?[0])).collect()),
            ("one-each-ahead", 0, &|| self.ahead(&many)),
            ("batcher", 0, &|| from_callers(&batched, &many)),
            ("batcher-alone", 0, &|| many.iter().map(|state| Ok(batched.gradients(vec![*state]).wait()?[0])).collect()),
            ("one-batch", 0, whole),
            ("one-batch-again", 4, whole),
        ];
        let turn = |at: usize| -> Outcome<[f64; 1]> {
            let (name, _, way) = ways[at];
            let calls = if name.starts_with("one-each") || name == "batcher-alone" { 1 } else { CALLS_PER_TURN };
            let mut time = Duration::ZERO;
            for _ in 0..calls {
                let start = Instant::now();
                let gradients = way()?;
                time += start.elapsed();
                assert!(agree(&gradients, &expected), "{name}: not the gradients of the reference");
            }
            Ok([many.len() as f64 / (time / calls).as_secs_f64()])
        };
        // Kernels are compiled and memory is allocated in the first calls.
        (2..ways.len()).try_for_each(|at| turn(at).map(drop))?;
        let samples = self.effort.rounds.run(ways.len(), |at, _| turn(at))?;
        let names: Vec<_> = ways.iter().map(|(name, baseline, _)| Contender::new(*name, *baseline)).collect();
        let case = Case { device: &self.name, case: "ways", n: many.len(), metrics: ["states_per_s"] };
        report.rows(&case, &names, &samples);
        Ok(())
    }

    /// States a second with a submission for each.
    fn one_each(&self, time: Duration) -> Result<f64> {
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed() < time {
            self.states.gradients(&[scrambled(count)])?;
            count += 1;
        }
        Ok(f64::from(count) / start.elapsed().as_secs_f64())
    }

    /// A submission for each state, without waiting for it before the next.
    fn ahead(&self, many: &[State]) -> Result<Vec<Gradient>> {
        let mut in_flight: VecDeque<Reading<Gradient>> = VecDeque::with_capacity(MAX_IN_FLIGHT);
        let mut gradients = Vec::with_capacity(many.len());
        for state in many {
            if in_flight.len() == MAX_IN_FLIGHT {
                gradients.extend(in_flight.pop_front().map(Reading::wait).transpose()?.into_iter().flatten());
            }
            let batch = self.device.batch();
            in_flight.push_back(self.states.record_gradients(&batch, &[*state]));
            // The reading waits for the batch, so the ticket is not needed.
            drop(batch.submit_async()?);
        }
        for reading in in_flight {
            gradients.extend(reading.wait()?);
        }
        Ok(gradients)
    }

    /// Batch sizes by threads.
    fn sizes(&self, report: &mut Report) -> Outcome<()> {
        let mut all = Vec::new();
        for size in SIZES {
            let config = BatchConfig::default().with_max_batch_size(size);
            all.extend(self.by_threads(&format!("size-{size}"), config, BATCHES_IN_FLIGHT * size)?);
        }
        self.measure("sizes", all, Some("size-256-4"), report)
    }

    /// Presets by threads, pipelined and with threads that wait for each answer.
    fn presets(&self, report: &mut Report) -> Outcome<()> {
        let presets = [
            ("default", BatchConfig::default()),
            ("latency", BatchConfig::latency()),
            ("throughput", BatchConfig::throughput()),
        ];
        let mut all = Vec::new();
        for (name, config) in presets {
            all.extend(self.by_threads(name, config, BATCHES_IN_FLIGHT * config.max_batch_size)?);
            all.extend(self.by_threads(&format!("{name}-one-at-a-time"), config, 0)?);
        }
        self.measure("presets", all, None, report)
    }

    /// One batcher with each number of threads, which together keep `in_flight` requests in flight, at least one each.
    fn by_threads(&self, name: &str, config: BatchConfig, in_flight: usize) -> Outcome<[Pipelined; THREADS.len()]> {
        let batched = BatchedStates::new(&self.device, config)?;
        Ok(THREADS.map(|threads| Pipelined {
            name: format!("{name}-{threads}"),
            batched: batched.clone(),
            threads,
            window: in_flight.div_ceil(threads).max(1),
        }))
    }

    /// Measures all by turns, against `one-each`. The contender that `control` names is measured twice.
    fn measure(&self, case: &str, mut all: Vec<Pipelined>, control: Option<&str>, report: &mut Report) -> Outcome<()> {
        let mut contenders = vec![Contender::new("one-each", 0)];
        contenders.extend(all.iter().map(|pipelined| Contender::new(pipelined.name.clone(), 0)));
        if let Some(at) = all.iter().position(|pipelined| Some(pipelined.name.as_str()) == control) {
            let Pipelined { name, batched, threads, window } = &all[at];
            let (name, batched) = (format!("{name}-again"), batched.clone());
            contenders.push(Contender::new(name.clone(), at + 1));
            all.push(Pipelined { name, batched, threads: *threads, window: *window });
        }
        let turn = |at: usize, time: Duration| -> Outcome<[f64; 3]> {
            match at.checked_sub(1) {
                None => Ok([self.one_each(time)?, f64::NAN, f64::NAN]),
                Some(at) => Ok(all[at].run(time)?),
            }
        };
        // Kernels are compiled and memory is allocated in a first, short sweep.
        (0..contenders.len()).try_for_each(|at| turn(at, Effort::QUICK.cell).map(drop))?;
        let samples = Rounds::new(self.effort.sweeps).run(contenders.len(), |at, _| turn(at, self.effort.cell))?;
        report.rows(&Case { device: &self.name, case, n: 1, metrics: METRICS }, &contenders, &samples);
        Ok(())
    }
}

/// A request for each state, from a few threads.
fn from_callers(batched: &BatchedStates, many: &[State]) -> Result<Vec<Gradient>> {
    let window = (BATCHES_IN_FLIGHT * batched.batcher().config().max_batch_size).div_ceil(CALLERS);
    let call = |own: &[State]| -> sortie::Result<Vec<Gradient>> {
        let mut in_flight = VecDeque::with_capacity(window);
        let mut gradients = Vec::with_capacity(own.len());
        for state in own {
            if in_flight.len() == window {
                gradients.extend(in_flight.pop_front().map(StatesFuture::wait).transpose()?.into_iter().flatten());
            }
            in_flight.push_back(batched.gradients(vec![*state]).send());
        }
        for future in in_flight {
            gradients.extend(future.wait()?);
        }
        Ok(gradients)
    };
    let answers: sortie::Result<Vec<_>> = thread::scope(|scope| {
        let callers: Vec<_> =
            many.chunks(many.len().div_ceil(CALLERS)).map(|own| scope.spawn(move || call(own))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap_or_else(|_| unreachable!("a caller panicked"))).collect()
    });
    Ok(answers?.concat())
}

impl Pipelined {
    /// Sends requests for `time`: the values of [`METRICS`].
    fn run(&self, time: Duration) -> Result<[f64; 3]> {
        let Self { batched, threads, window, .. } = self;
        let before = batched.metrics();
        let start = Instant::now();
        let end = start + time;
        let call = |thread: usize| -> sortie::Result<Vec<f64>> {
            let state = scrambled(thread as u32);
            let mut in_flight: VecDeque<(Instant, StatesFuture<Vec<Gradient>>)> = VecDeque::with_capacity(*window);
            let mut latencies = Vec::new();
            loop {
                let now = Instant::now();
                if now < end {
                    let request = batched.gradients(vec![state]);
                    // A thread that waits for each answer sends when it waits.
                    in_flight.push_back((now, if *window > 1 { request.send() } else { request }));
                    if in_flight.len() < *window {
                        continue;
                    }
                }
                let Some((sent, future)) = in_flight.pop_front() else { return Ok(latencies) };
                future.wait()?;
                latencies.push(1e6 * sent.elapsed().as_secs_f64());
            }
        };
        let latencies: sortie::Result<Vec<_>> = thread::scope(|scope| {
            let callers: Vec<_> = (0..*threads).map(|thread| scope.spawn(move || call(thread))).collect();
            callers
                .into_iter()
                .map(|caller| caller.join().unwrap_or_else(|_| unreachable!("a caller panicked")))
                .collect()
        });
        let taken = start.elapsed().as_secs_f64();
        let latencies = latencies?.concat();
        let (after, capacity) = (batched.metrics(), batched.batcher().config().max_batch_size);
        let rows_per_batch = (after.rows - before.rows) as f64 / (after.batches - before.batches).max(1) as f64;
        let rate = latencies.len() as f64 / taken;
        Ok([rate, quantile(latencies, 0.99), rows_per_batch / capacity as f64])
    }
}

/// A state with a pseudo-random byte in each layer.
fn scrambled(seed: u32) -> State {
    let byte = |layer: u32| (16 * seed + layer).wrapping_mul(0x9e37_79b1).to_be_bytes()[0];
    State::from_bytes(std::array::from_fn(|layer| byte(layer as u32)))
}

fn agree(answers: &[Gradient], expected: &[Gradient]) -> bool {
    let near = |(one, other): (&Gradient, &Gradient)| {
        one.layers
            .iter()
            .zip(other.layers)
            .all(|(one, other)| (one.rho - other.rho).abs() < 1e-3 && one.theta == other.theta)
    };
    answers.len() == expected.len() && answers.iter().zip(expected).all(near)
}
