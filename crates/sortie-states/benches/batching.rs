//! What batching does for many small requests: gradients of one state each, on every device.
//!
//! First 10,000 states (1,000 with `--quick`): `one-each` is a submission for each, waited for before the next;
//! `one-each-ahead` has up to 64 of them in flight; `batcher` is a request for each, from four threads through a
//! `BatchedStates`; `one-batch` is a single call with all of them, and `one-batch-again` a control that must read 1.0×.
//! All take turns. A ratio is the median ratio of rates to `one-each` within a round.
//!
//! Then tables of requests a second (in brackets: times `one-each`) through a `BatchedStates`: rows of a batch (16 to
//! 4,096) by submitting threads (1 to 16), and the three presets by submitting threads. Threads are pipelined: together
//! they keep three batches of requests in flight, each thread its share, and send another when the oldest is answered.
//! `one at a time` are threads that wait for each answer. The 99th percentile of latency, and how full batches were, are
//! those of four threads. The control is a cell that is run twice, and must read 1.0×.
//!
//! It prints Markdown, or with `--json` one object per line.
//!
//! `cargo bench -p sortie-states --bench batching [-- --quick] [--json] [--device NAME]`

#![expect(clippy::print_stdout, reason = "a bench prints its tables")]

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use sortie::{BatchConfig, Device, DeviceOptions, Reading, device::DeviceKind};
use sortie_bench::{Args, Line, Outcome, Report, Rounds, quantile};
use sortie_states::{BatchedStates, Gradient, Result, State, States, StatesFuture, reference};

const SIZES: [usize; 5] = [16, 64, 256, 1024, 4096];
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Threads of the contender `batcher`, of the control, and of the last two columns.
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
    for (index, info) in Device::list().into_iter().enumerate() {
        if info.kind == DeviceKind::Noop || info.backend == "gl" || !args.matches("--device", &info.name) {
            continue;
        }
        let options = DeviceOptions::default().with_device(index.to_string());
        let device = Device::open_with(options)?;
        let (states, report) = (States::new(&device)?, Report::new("states", args.json));
        let bench = Bench { device, states, name: info.name, effort, json: args.json, report };
        bench.ways()?;
        bench.sizes()?;
        bench.presets()?;
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
    json: bool,
    report: Report,
}

/// One way to compute the gradients of all states.
type Way<'a> = &'a dyn Fn() -> Result<Vec<Gradient>>;

/// A row of a table.
struct Row {
    label: String,
    case: String,
    config: BatchConfig,
    /// Requests of all threads together; at least one each.
    in_flight: usize,
}

/// What pipelined threads are measured by.
const METRICS: [&str; 3] = ["requests_per_s", "p99_us", "fill"];

struct Cell {
    row: usize,
    threads: usize,
    /// Whether it repeats the one before: the control.
    again: bool,
    batched: BatchedStates,
}

impl Bench {
    /// All states, each way.
    fn ways(&self) -> Outcome<()> {
        let (states, batched) = (&self.states, BatchedStates::new(&self.device, BatchConfig::default())?);
        let many: Vec<State> = (0..self.effort.states).map(scrambled).collect();
        let expected = reference::compute_gradients(&many);
        let whole: Way = &|| states.gradients(&many);
        let ways: [(&str, usize, Way); 5] = [
            ("one-each", 0, &|| many.iter().map(|state| Ok(states.gradients(&[*state])?[0])).collect()),
            ("one-each-ahead", 0, &|| self.ahead(&many)),
            ("batcher", 0, &|| from_callers(&batched, &many)),
            ("one-batch", 0, whole),
            ("one-batch-again", 3, whole),
        ];
        let turn = |at: usize| -> Outcome<[f64; 1]> {
            let (name, _, way) = ways[at];
            let calls = if name.starts_with("one-each") { 1 } else { CALLS_PER_TURN };
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
        if !self.json {
            println!("\n### {}\n", self.name);
            println!("| gradients of {} states | µs a state | states a second | ratio |", many.len());
            println!("|---|---:|---:|---:|");
        }
        for (at, (name, base, _)) in ways.iter().enumerate() {
            let (rate, ratio, baseline) = (samples.median(at, 0), samples.ratio(at, *base, 0), ways[*base].0);
            if self.json {
                self.line("ways", many.len(), name, "states_per_s", rate, baseline, ratio);
            } else {
                let of = if *base == 0 { String::new() } else { format!(" of `{baseline}`") };
                println!("| `{name}` | {:.2} | {} | {ratio:.2}×{of} |", 1e6 / rate, thousands(rate));
            }
        }
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
    fn sizes(&self) -> Outcome<()> {
        let rows = SIZES.map(|size| {
            let config = BatchConfig::default().with_max_batch_size(size);
            Row {
                label: thousands(size as f64),
                case: format!("size={size}"),
                config,
                in_flight: BATCHES_IN_FLIGHT * size,
            }
        });
        self.table("most rows of a batch", &rows, Some(2))
    }

    /// Presets by threads, and how long it takes when each thread waits for its answer.
    fn presets(&self) -> Outcome<()> {
        let presets = [
            ("default", BatchConfig::default()),
            ("latency", BatchConfig::latency()),
            ("throughput", BatchConfig::throughput()),
        ];
        let row = |(name, config): (&str, BatchConfig), alone: bool| {
            let (label, case) = (format!("`{name}`"), format!("preset={name}"));
            if alone {
                Row {
                    label: format!("{label}, one at a time"),
                    case: format!("{case} one-at-a-time"),
                    config,
                    in_flight: 0,
                }
            } else {
                Row { label, case, config, in_flight: BATCHES_IN_FLIGHT * config.max_batch_size }
            }
        };
        let rows: Vec<Row> = [false, true].iter().flat_map(|alone| presets.map(|preset| row(preset, *alone))).collect();
        self.table("preset", &rows, None)
    }

    /// Rows by threads; `control` is the row of the cell that is run twice.
    fn table(&self, title: &str, rows: &[Row], control: Option<usize>) -> Outcome<()> {
        let mut cells: Vec<Cell> = Vec::new();
        for (row, Row { config, .. }) in rows.iter().enumerate() {
            let batched = BatchedStates::new(&self.device, *config)?;
            for threads in THREADS {
                let cell = |again| Cell { row, threads, again, batched: batched.clone() };
                cells.push(cell(false));
                cells.extend((control == Some(row) && threads == CALLERS).then(|| cell(true)));
            }
        }
        // The last contender is `one-each`, the baseline of all cells.
        let one_each = cells.len();
        let turn = |at: usize, time: Duration| -> Outcome<[f64; 3]> {
            let Some(Cell { row, threads, batched, .. }) = cells.get(at) else {
                return Ok([self.one_each(time)?, f64::NAN, f64::NAN]);
            };
            Ok(pipelined(batched, *threads, rows[*row].in_flight.div_ceil(*threads).max(1), time)?)
        };
        // Kernels are compiled and memory is allocated in a first, short sweep.
        (0..=one_each).try_for_each(|at| turn(at, Effort::QUICK.cell).map(drop))?;
        let samples = Rounds::new(self.effort.sweeps).run(one_each + 1, |at, _| turn(at, self.effort.cell))?;
        let find = |row: usize, threads: usize, again: bool| {
            cells.iter().position(|cell| (cell.row, cell.threads, cell.again) == (row, threads, again))
        };
        let of_callers = |row: usize| find(row, CALLERS, false).unwrap_or(one_each);
        if self.json {
            for (at, cell) in cells.iter().enumerate() {
                let Row { case, config, .. } = &rows[cell.row];
                let (case, n) = (format!("threads={} {case}", cell.threads), config.max_batch_size);
                let [rate, p99, fill] = [0, 1, 2].map(|metric| samples.median(at, metric));
                if cell.again {
                    let ratio = samples.ratio(at, of_callers(cell.row), 0);
                    self.line(&case, n, "batched-again", METRICS[0], rate, "batched", ratio);
                } else {
                    self.line(&case, n, "batched", METRICS[0], rate, "one-each", samples.ratio(at, one_each, 0));
                    self.line(&case, n, "batched", METRICS[1], p99, "batched", 1.0);
                    self.line(&case, n, "batched", METRICS[2], fill, "batched", 1.0);
                }
            }
            return Ok(());
        }
        let heads =
            THREADS.map(|threads| format!(" {threads} thread{} |", if threads == 1 { "" } else { "s" })).concat();
        println!("\n| {title} |{heads} 99 % within | full |\n|---|{}", "---:|".repeat(THREADS.len() + 2));
        for (row, Row { label, .. }) in rows.iter().enumerate() {
            let shown = |at: usize| {
                let (rate, ratio) = (samples.median(at, 0) / 1e3, samples.ratio(at, one_each, 0));
                format!(" {} k ({}×) |", digits(rate), digits(ratio))
            };
            let rates: String = THREADS.iter().filter_map(|threads| find(row, *threads, false)).map(shown).collect();
            let [p99, fill] = [1, 2].map(|metric| samples.median(of_callers(row), metric));
            println!("| {label} |{rates} {:.2} ms | {:.0} % |", p99 / 1e3, 100.0 * fill);
        }
        if let Some(row) = control
            && let Some(again) = find(row, CALLERS, true)
        {
            let ratio = samples.ratio(again, of_callers(row), 0);
            println!("\nControl: {} with {CALLERS} threads again is {ratio:.2}× of itself.", rows[row].label);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a line")]
    fn line(&self, case: &str, n: usize, contender: &str, metric: &str, value: f64, baseline: &str, ratio: f64) {
        self.report.line(&Line { device: &self.name, case, n, contender, metric, value, baseline, ratio });
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

/// Threads that each keep `window` requests in flight for `time`: the values of [`METRICS`].
fn pipelined(batched: &BatchedStates, threads: usize, window: usize, time: Duration) -> Result<[f64; 3]> {
    let before = batched.metrics();
    let start = Instant::now();
    let end = start + time;
    let call = |thread: usize| -> sortie::Result<Vec<f64>> {
        let state = scrambled(thread as u32);
        let mut in_flight: VecDeque<(Instant, StatesFuture<Vec<Gradient>>)> = VecDeque::with_capacity(window);
        let mut latencies = Vec::new();
        loop {
            let now = Instant::now();
            if now < end {
                in_flight.push_back((now, batched.gradients(vec![state]).send()));
                if in_flight.len() < window {
                    continue;
                }
            }
            let Some((sent, future)) = in_flight.pop_front() else { return Ok(latencies) };
            future.wait()?;
            latencies.push(1e6 * sent.elapsed().as_secs_f64());
        }
    };
    let latencies: sortie::Result<Vec<_>> = thread::scope(|scope| {
        let callers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || call(thread))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap_or_else(|_| unreachable!("a caller panicked"))).collect()
    });
    let taken = start.elapsed().as_secs_f64();
    let latencies = latencies?.concat();
    let (after, capacity) = (batched.metrics(), batched.batcher().config().max_batch_size);
    let rows_per_batch = (after.rows - before.rows) as f64 / (after.batches - before.batches).max(1) as f64;
    let rate = latencies.len() as f64 / taken;
    Ok([rate, quantile(latencies, 0.99), rows_per_batch / capacity as f64])
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

/// Three digits or so.
fn digits(value: f64) -> String {
    match value {
        ..1.0 => format!("{value:.2}"),
        1.0..100.0 => format!("{value:.1}"),
        _ => thousands(value),
    }
}

/// 1234567 as 1,234,567.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or("")).collect();
    groups.join(",")
}
