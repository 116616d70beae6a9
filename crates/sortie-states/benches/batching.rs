//! What batching does for many small requests: gradients of one state each, on every device there is.
//!
//! First 10,000 states (1,000 with `--quick`): `one-each` is a submission for each, waited for before the next; `one-each-ahead` has up to 64 of them under way; `batcher`
//! is a request for each, from four threads through a `BatchedStates`; `one-batch` is a single call with all of them, and `one-batch-again` a control that must read 1.0×. All
//! take turns, the last three seven times a round. A ratio is that of rates, to `one-each`, the median over all.
//!
//! Then tables of requests a second (in brackets: times `one-each`) through a `BatchedStates`: most rows of a batch (16 to 4,096, the rest as by default) by submitting
//! threads (1 to 16), and the three presets by submitting threads. Threads are pipelined: together they keep three batches' worth of requests under way (two in flight, one to
//! come), each its share, and ask for another whenever the oldest has been answered. `one at a time` are threads that wait for each answer before they ask again. How soon 99 % of
//! the answers came, and how full batches were, is of four threads. The control is a cell that is run twice, and must read 1.0×.
//!
//! It prints Markdown, or with `--json` one object a line.
//!
//! `cargo bench -p sortie-states --bench batching [-- --quick] [--json] [--device NAME]`

#![expect(clippy::print_stdout, reason = "a bench prints its tables")]

use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

use sortie::{BatchConfig, Device, DeviceKind, DeviceOptions, Reading};
use sortie_states::{Asking, BatchedStates, Gradient, Result, State, States, reference};

const SIZES: [usize; 5] = [16, 64, 256, 1024, 4096];
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Threads of the contender `batcher`, of the control, and of what only one column is shown of.
const CALLERS: usize = 4;
/// Times that a round has what takes milliseconds, and not seconds.
const LAPS: usize = 7;
/// Submissions under way of `one-each-ahead`.
const AHEAD: usize = 64;
/// Batches' worth of requests that threads keep under way together: as many as fit into the queue without waiting for room.
const UNDER_WAY: usize = 3;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let only = args.iter().position(|arg| arg == "--device").and_then(|at| args.get(at + 1));
    let effort = if has("--quick") { Effort::QUICK } else { Effort::FULL };
    let list = Device::list();
    let devices: Vec<(String, String)> = list
        .iter()
        .enumerate()
        .filter(|(_, info)| info.kind != DeviceKind::Noop && info.backend != "gl")
        .map(|(index, info)| (index.to_string(), info.name.clone()))
        .filter(|(_, name)| only.is_none_or(|only| name.to_lowercase().contains(&only.to_lowercase())))
        .collect();
    for (index, name) in devices {
        let options = DeviceOptions { device: Some(index), ..DeviceOptions::default() };
        let device = Device::open_with(options)?;
        let bench = Bench { states: States::new(&device)?, device, name, effort, json: has("--json") };
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
    /// Rounds of ways, at least, and for how long more are begun.
    rounds: usize,
    time: Duration,
    /// Rounds of a table, and how long each of its cells is run in one.
    sweeps: usize,
    cell: Duration,
}

impl Effort {
    const FULL: Self =
        Self { states: 10_000, rounds: 2, time: Duration::from_secs(6), sweeps: 5, cell: Duration::from_millis(50) };
    const QUICK: Self =
        Self { states: 1000, rounds: 1, time: Duration::from_secs(1), sweeps: 1, cell: Duration::from_millis(20) };
}

struct Bench {
    device: Device,
    states: States,
    name: String,
    effort: Effort,
    json: bool,
}

/// A way to answer for all states.
type Way<'a> = &'a dyn Fn() -> Result<Vec<Gradient>>;

/// What pipelined threads have got.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    requests_per_s: f64,
    p99_us: f64,
    fill: f64,
}

/// A row of a table.
struct Row {
    label: String,
    case: String,
    config: BatchConfig,
    /// Requests of all threads together; at least one each.
    under_way: usize,
}

struct Cell {
    row: usize,
    threads: usize,
    /// The same as the one before: a control.
    again: bool,
    batched: BatchedStates,
    outcomes: Vec<Outcome>,
}

impl Cell {
    fn median(&self, figure: fn(&Outcome) -> f64) -> f64 {
        median(self.outcomes.iter().map(figure))
    }

    /// Ratio to these rates, sweep by sweep.
    fn times(&self, rates: &[f64]) -> f64 {
        median(self.outcomes.iter().zip(rates).map(|(own, rate)| own.requests_per_s / rate))
    }

    fn against(&self, other: &Self) -> f64 {
        self.times(&other.outcomes.iter().map(|outcome| outcome.requests_per_s).collect::<Vec<_>>())
    }
}

impl Bench {
    /// 10,000 states, each way.
    fn ways(&self) -> Result<()> {
        let (states, batched) = (&self.states, BatchedStates::new(&self.device, BatchConfig::default())?);
        let many: Vec<State> = (0..self.effort.states).map(scrambled).collect();
        let expected = reference::compute_gradients(&many);
        let whole: Way = &|| states.gradients(&many);
        let ways: [(&str, &str, Way); 5] = [
            ("one-each", "one-each", &|| many.iter().map(|state| Ok(states.gradients(&[*state])?[0])).collect()),
            ("one-each-ahead", "one-each", &|| self.ahead(&many)),
            ("batcher", "one-each", &|| from_callers(&batched, &many)),
            ("one-batch", "one-each", whole),
            ("one-batch-again", "one-batch", whole),
        ];
        // Of each round, of each way, of each lap.
        let mut rates = Vec::new();
        let begin = Instant::now();
        let mut round = 0;
        // The first round is not counted: there kernels are compiled and memory is made.
        while round <= self.effort.rounds || begin.elapsed() < self.effort.time {
            let mut laps = ways.map(|_| Vec::new());
            for turn in 0..LAPS * ways.len() {
                let at = (turn + round) % ways.len();
                let (name, _, way) = ways[at];
                let long = name.starts_with("one-each");
                if long && (round == 0 || turn >= ways.len()) {
                    continue;
                }
                let start = Instant::now();
                let gradients = way()?;
                laps[at].push(many.len() as f64 / start.elapsed().as_secs_f64());
                assert!(agree(&gradients, &expected), "{name}: not what the reference says");
            }
            rates.extend((round > 0).then_some(laps));
            round += 1;
        }
        if !self.json {
            println!("\n### {}\n", self.name);
            println!("| gradients of {} states | µs a state | states a second | ratio |", many.len());
            println!("|---|---:|---:|---:|");
        }
        for (at, (name, baseline, _)) in ways.iter().enumerate() {
            let base = ways.iter().position(|(other, _, _)| other == baseline).unwrap_or(at);
            let ratios = |round: &[Vec<f64>; 5]| -> Vec<f64> {
                round[at].iter().zip(round[base].iter().cycle()).map(|(own, base)| own / base).collect()
            };
            let ratio = median(rates.iter().flat_map(ratios));
            let rate = median(rates.iter().flat_map(|round| round[at].iter().copied()));
            if self.json {
                self.line("ways", many.len(), name, "states_per_s", rate, baseline, ratio);
            } else {
                let of = if *baseline == "one-each" { String::new() } else { format!(" of `{baseline}`") };
                println!("| `{name}` | {:.2} | {} | {ratio:.2}×{of} |", 1e6 / rate, thousands(rate));
            }
        }
        Ok(())
    }

    /// How many states a second are answered by a submission each.
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
        let mut under_way: VecDeque<Reading<Gradient>> = VecDeque::with_capacity(AHEAD);
        let mut gradients = Vec::with_capacity(many.len());
        for state in many {
            if under_way.len() == AHEAD {
                gradients.extend(under_way.pop_front().map(Reading::wait).transpose()?.into_iter().flatten());
            }
            let mut batch = self.device.batch();
            under_way.push_back(self.states.record_gradients(&mut batch, &[*state]));
            // The reading hears what the ticket would.
            drop(batch.submit_async()?);
        }
        for reading in under_way {
            gradients.extend(reading.wait()?);
        }
        Ok(gradients)
    }

    /// Batch sizes by threads.
    fn sizes(&self) -> Result<()> {
        let rows = SIZES.map(|size| {
            let config = BatchConfig { max_batch_size: size, ..BatchConfig::default() };
            Row { label: thousands(size as f64), case: format!("size={size}"), config, under_way: UNDER_WAY * size }
        });
        self.table("most rows of a batch", &rows, Some(2))
    }

    /// Presets by threads, and how long it takes when each thread waits for its answer.
    fn presets(&self) -> Result<()> {
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
                    under_way: 0,
                }
            } else {
                Row { label, case, config, under_way: UNDER_WAY * config.max_batch_size }
            }
        };
        let rows: Vec<Row> = [false, true].iter().flat_map(|alone| presets.map(|preset| row(preset, *alone))).collect();
        self.table("preset", &rows, None)
    }

    /// Rows by threads; perhaps with a cell, of this row, that is run twice.
    fn table(&self, what: &str, rows: &[Row], control: Option<usize>) -> Result<()> {
        let mut cells: Vec<Cell> = Vec::new();
        for (row, Row { config, .. }) in rows.iter().enumerate() {
            let batched = BatchedStates::new(&self.device, *config)?;
            for threads in THREADS {
                let cell = |again| Cell { row, threads, again, batched: batched.clone(), outcomes: Vec::new() };
                cells.push(cell(false));
                cells.extend((control == Some(row) && threads == CALLERS).then(|| cell(true)));
            }
        }
        // The first sweep is short and not counted: there kernels are compiled and memory is made.
        let count = cells.len();
        let mut singles = Vec::new();
        for sweep in 0..=self.effort.sweeps {
            let single = self.one_each(self.effort.cell)?;
            singles.extend((sweep > 0).then_some(single));
            for turn in 0..count {
                let Cell { row, threads, batched, outcomes, .. } = &mut cells[(turn + sweep) % count];
                let window = rows[*row].under_way.div_ceil(*threads).max(1);
                let time = if sweep == 0 { Effort::QUICK.cell } else { self.effort.cell };
                let outcome = pipelined(batched, *threads, window, time)?;
                outcomes.extend((sweep > 0).then_some(outcome));
            }
        }
        let find = |row: usize, threads: usize, again: bool| {
            cells.iter().find(|cell| (cell.row, cell.threads, cell.again) == (row, threads, again))
        };
        let noise = control.and_then(|row| Some(find(row, CALLERS, true)?.against(find(row, CALLERS, false)?)));
        if self.json {
            for cell in &cells {
                let Row { case, config, .. } = &rows[cell.row];
                let (case, n) = (format!("threads={} {case}", cell.threads), config.max_batch_size);
                let rate = cell.median(|outcome| outcome.requests_per_s);
                match noise.filter(|_| cell.again) {
                    Some(noise) => self.line(&case, n, "batched-again", "requests_per_s", rate, "batched", noise),
                    None => self.line(&case, n, "batched", "requests_per_s", rate, "one-each", cell.times(&singles)),
                }
                if !cell.again {
                    self.line(&case, n, "batched", "p99_us", cell.median(|outcome| outcome.p99_us), "batched", 1.0);
                    self.line(&case, n, "batched", "fill", cell.median(|outcome| outcome.fill), "batched", 1.0);
                }
            }
            return Ok(());
        }
        let heads =
            THREADS.map(|threads| format!(" {threads} thread{} |", if threads == 1 { "" } else { "s" })).concat();
        println!("\n| {what} |{heads} 99 % within | full |\n|---|{}", "---:|".repeat(THREADS.len() + 2));
        for (row, Row { label, .. }) in rows.iter().enumerate() {
            let shown = |cell: &Cell| {
                let rate = cell.median(|outcome| outcome.requests_per_s);
                format!(" {} k ({}×) |", digits(rate / 1e3), digits(cell.times(&singles)))
            };
            let rates: String = THREADS.iter().filter_map(|threads| find(row, *threads, false)).map(shown).collect();
            let middle =
                |figure: fn(&Outcome) -> f64| find(row, CALLERS, false).map_or(f64::NAN, |cell| cell.median(figure));
            let (p99, fill) = (middle(|outcome| outcome.p99_us) / 1e3, middle(|outcome| outcome.fill));
            println!("| {label} |{rates} {p99:.2} ms | {:.0} % |", 100.0 * fill);
        }
        if let (Some(row), Some(noise)) = (control, noise) {
            println!("\nControl: {} with {CALLERS} threads again is {noise:.2}× of itself.", rows[row].label);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a line")]
    fn line(&self, case: &str, n: usize, contender: &str, metric: &str, value: f64, baseline: &str, ratio: f64) {
        let device = &self.name;
        println!(
            "{{\"bench\":\"states\",\"device\":\"{device}\",\"case\":\"{case}\",\"n\":{n},\"contender\":\"{contender}\",\"metric\":\"{metric}\",\"value\":{value:.4},\"baseline\":\"{baseline}\",\"ratio\":{ratio:.3}}}"
        );
    }
}

/// A request for each state, from a few threads.
fn from_callers(batched: &BatchedStates, many: &[State]) -> Result<Vec<Gradient>> {
    let window = (UNDER_WAY * batched.batcher().config().max_batch_size).div_ceil(CALLERS);
    let call = |own: &[State]| -> sortie::Result<Vec<Gradient>> {
        let mut under_way = VecDeque::with_capacity(window);
        let mut gradients = Vec::with_capacity(own.len());
        for state in own {
            if under_way.len() == window {
                gradients.extend(under_way.pop_front().map(Asking::wait).transpose()?.into_iter().flatten());
            }
            under_way.push_back(batched.gradients(vec![*state]).begin());
        }
        for asking in under_way {
            gradients.extend(asking.wait()?);
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

/// Threads that keep so many requests under way each, for so long.
fn pipelined(batched: &BatchedStates, threads: usize, window: usize, time: Duration) -> Result<Outcome> {
    let before = batched.metrics();
    let start = Instant::now();
    let end = start + time;
    let call = |thread: usize| -> sortie::Result<Vec<f64>> {
        let state = scrambled(thread as u32);
        let mut under_way: VecDeque<(Instant, Asking<Vec<Gradient>>)> = VecDeque::with_capacity(window);
        let mut latencies = Vec::new();
        loop {
            let now = Instant::now();
            if now < end {
                under_way.push_back((now, batched.gradients(vec![state]).begin()));
                if under_way.len() < window {
                    continue;
                }
            }
            let Some((asked, asking)) = under_way.pop_front() else { return Ok(latencies) };
            asking.wait()?;
            latencies.push(1e6 * asked.elapsed().as_secs_f64());
        }
    };
    let latencies: sortie::Result<Vec<_>> = thread::scope(|scope| {
        let callers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || call(thread))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap_or_else(|_| unreachable!("a caller panicked"))).collect()
    });
    let taken = start.elapsed().as_secs_f64();
    let mut latencies = latencies?.concat();
    latencies.sort_by(f64::total_cmp);
    let (after, most) = (batched.metrics(), batched.batcher().config().max_batch_size);
    let flown = (after.rows - before.rows) as f64 / (after.batches - before.batches).max(1) as f64;
    Ok(Outcome {
        requests_per_s: latencies.len() as f64 / taken,
        p99_us: latencies.get(latencies.len() * 99 / 100).copied().unwrap_or(f64::NAN),
        fill: flown / most as f64,
    })
}

/// A state of which no two layers need be alike.
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

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
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
