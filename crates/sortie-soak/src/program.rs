//! Random programs on the public API, misuse included, checked against plain Rust that runs everything in order.
//!
//! The choices come from a [`Choose`]: a random generator in the part `programs`, the bytes of a fuzzer in `fuzz/`.

use std::time::Duration;

use sortie::{Batch, Buffer, Device, Error, ErrorKind, Grid, Kernel, Reading, Result, Slot, Split, Ticket};

/// Makes the choices of a program.
pub trait Choose {
    /// A number below `n`, which is at least 1.
    fn below(&mut self, n: usize) -> usize;

    /// True once in `n` times.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

impl Choose for fastrand::Rng {
    fn below(&mut self, n: usize) -> usize {
        self.usize(..n)
    }
}

/// Choices read from bytes; the first of each once they are used up.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Choose for Bytes<'_> {
    fn below(&mut self, n: usize) -> usize {
        let Some((two, rest)) = self.0.split_first_chunk() else { return 0 };
        self.0 = rest;
        usize::from(u16::from_le_bytes(*two)) % n
    }
}

/// What must not happen.
pub type Fault = String;

/// A device with buffers whose contents are known.
pub struct Program<'a, C> {
    choose: &'a mut C,
    device: Device,
    kernels: [Kernel; 3],
    /// Of another device.
    foreign: (Buffer<u32>, Kernel),
    held: Vec<Held>,
    pending: Vec<Pending>,
    /// Of a batch that is over.
    stale: Option<Slot<u32>>,
    /// Data of writes and fills.
    next_value: u32,
}

struct Held {
    buffer: Buffer<u32>,
    data: Vec<u32>,
}

/// A batch that was submitted, with what its readings will say.
struct Pending {
    ticket: Ticket,
    readings: Readings,
}

type Readings = Vec<(Reading<u32>, Vec<u32>)>;

/// A batch being recorded.
struct Draft {
    batch: Batch,
    /// What the buffers hold after what has been recorded.
    after: Vec<Vec<u32>>,
    readings: Readings,
    verdict: Verdict,
}

/// Whether a batch has to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Right,
    /// Depends on the device.
    Either,
    Wrong,
}

const AFFINE: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] = x[id.x] * 3u + 1u; }
    }
";
const COMBINE: &str = "
    @group(0) @binding(0) var<storage, read> x: array<u32>;
    @group(0) @binding(1) var<storage, read_write> y: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&y) { y[id.x] = y[id.x] ^ (x[id.x % arrayLength(&x)] + id.x); }
    }
";
const SHIFT: &str = "
    var<immediate> by: u32;
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] += by; }
    }
";

fn affine(data: &mut [u32]) {
    data.iter_mut().for_each(|x| *x = x.wrapping_mul(3).wrapping_add(1));
}

fn combine(x: &[u32], y: &mut [u32]) {
    for (at, y) in y.iter_mut().enumerate() {
        *y ^= x[at % x.len()].wrapping_add(at as u32);
    }
}

/// Most elements of a buffer.
const LONGEST: usize = 300;
/// Most buffers at once.
const MOST_HELD: usize = 8;

impl<'a, C: Choose> Program<'a, C> {
    /// A program on this device; `other` is one whose buffers do not belong to it.
    ///
    /// # Errors
    /// What preparing it fails with.
    pub fn new(device: &Device, other: &Device, choose: &'a mut C) -> Result<Self> {
        let kernels = [device.kernel(AFFINE)?, device.kernel(COMBINE)?, device.kernel(SHIFT)?];
        let foreign = (other.upload(&[1; 64])?, other.kernel(AFFINE)?);
        let (held, pending) = (Vec::new(), Vec::new());
        Ok(Self { choose, device: device.clone(), kernels, foreign, held, pending, stale: None, next_value: 1 })
    }

    /// Runs some steps and checks all buffers at the end.
    ///
    /// # Errors
    /// The first thing that must not happen.
    pub fn run(mut self, steps: usize) -> Result<(), Fault> {
        for _ in 0..steps {
            self.step()?;
        }
        while !self.pending.is_empty() {
            self.settle()?;
        }
        (0..self.held.len()).try_for_each(|at| self.compare(at))
    }

    fn step(&mut self) -> Result<(), Fault> {
        if self.held.len() < 2 {
            return self.upload();
        }
        match self.choose.below(16) {
            0 => self.upload(),
            1 => {
                let at = self.choose.below(self.held.len());
                drop(self.held.swap_remove(at));
                Ok(())
            }
            2 => self.write(),
            3 => {
                let at = self.choose.below(self.held.len());
                self.compare(at)
            }
            4 => self.settle(),
            5 => self.cancel(),
            6 => self.overwrite_behind(),
            7 | 8 => self.replay(),
            9 => self.refuse_kernel(),
            _ => self.batch(),
        }
    }

    fn upload(&mut self) -> Result<(), Fault> {
        if self.held.len() >= MOST_HELD {
            self.held.swap_remove(0);
        }
        let len = if self.choose.once_in(20) { 0 } else { 1 + self.choose.below(LONGEST) };
        let data = self.data(len);
        let buffer = self.device.upload(&data).map_err(|error| format!("upload: {error:?}"))?;
        self.held.push(Held { buffer, data });
        Ok(())
    }

    fn write(&mut self) -> Result<(), Fault> {
        let at = self.choose.below(self.held.len());
        let [start, end] = self.range(self.held[at].data.len());
        let wrong = self.choose.once_in(8);
        let data = self.data(end.saturating_sub(start) + usize::from(wrong));
        let fits = start <= end && end <= self.held[at].data.len();
        let written = self.held[at].buffer.slice(start..end).write(&data);
        match written {
            Ok(()) if fits && !wrong => self.held[at].data[start..end].copy_from_slice(&data),
            Ok(()) if data.is_empty() => {}
            Ok(()) => return Err(format!("write of {} elements to {start}..{end} succeeds", data.len())),
            Err(error) if fits && !wrong => return Err(format!("write: {error:?}")),
            Err(error) => mistake(&error)?,
        }
        Ok(())
    }

    fn compare(&mut self, at: usize) -> Result<(), Fault> {
        let Held { buffer, data } = &self.held[at];
        match buffer.download() {
            Ok(found) if found == *data => Ok(()),
            Ok(found) => Err(differs("a buffer", &found, data)),
            Err(error) => Err(format!("download: {error:?}")),
        }
    }

    /// Waits for the oldest batch that is pending, or drops it.
    fn settle(&mut self) -> Result<(), Fault> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let Pending { ticket, readings } = self.pending.remove(0);
        if self.choose.once_in(8) {
            return Ok(());
        }
        if self.choose.once_in(4)
            && let Err(error) = ticket.wait_timeout(Duration::ZERO)
            && error.kind() != &ErrorKind::Timeout
        {
            return Err(format!("a ticket: {error:?}"));
        }
        ticket.wait().map_err(|error| format!("a ticket: {error:?}"))?;
        check(readings)
    }

    fn batch(&mut self) -> Result<(), Fault> {
        let mut draft = self.draft();
        for _ in 0..1 + self.choose.below(12) {
            self.record(&mut draft);
        }
        if self.choose.once_in(10) {
            draft.batch.split_by(Split::Every(1 + self.choose.below(4)));
        }
        match self.choose.below(8) {
            0 => self.abandon(draft),
            1..4 => self.submit_async(draft),
            _ => self.submit(draft),
        }
    }

    fn draft(&self) -> Draft {
        let after = self.held.iter().map(|held| held.data.clone()).collect();
        Draft { batch: self.device.batch(), after, readings: Vec::new(), verdict: Verdict::Right }
    }

    /// A batch that is dropped: its readings say so.
    fn abandon(&mut self, mut draft: Draft) -> Result<(), Fault> {
        self.stale = Some(draft.batch.scratch(4));
        if let Some((reading, _)) = draft.readings.pop() {
            // Not submitted yet: an error at once.
            expect_error("a reading of a batch that was not submitted", reading.wait().map(drop))?;
        }
        drop(draft.batch);
        for (reading, _) in draft.readings {
            expect_error("a reading of a dropped batch", reading.wait().map(drop))?;
        }
        Ok(())
    }

    fn submit(&mut self, draft: Draft) -> Result<(), Fault> {
        let Draft { batch, after, readings, verdict } = draft;
        match (batch.submit(), verdict) {
            (Ok(()), Verdict::Right | Verdict::Either) => {
                self.commit(after);
                check(readings)
            }
            (Ok(()), Verdict::Wrong) => Err("a batch with a mistake succeeds".into()),
            (Err(error), Verdict::Right) => Err(format!("submit: {error:?}")),
            (Err(error), _) => refused(&error, readings),
        }
    }

    fn submit_async(&mut self, draft: Draft) -> Result<(), Fault> {
        let Draft { batch, after, readings, verdict } = draft;
        match (batch.submit_async(), verdict) {
            (Ok(ticket), Verdict::Right | Verdict::Either) => {
                self.commit(after);
                self.pending.push(Pending { ticket, readings });
                if self.pending.len() > 4 { self.settle() } else { Ok(()) }
            }
            (Ok(_), Verdict::Wrong) => Err("a batch with a mistake is submitted".into()),
            (Err(error), Verdict::Right) => Err(format!("submit_async: {error:?}")),
            (Err(error), _) => refused(&error, readings),
        }
    }

    fn commit(&mut self, after: Vec<Vec<u32>>) {
        self.held.iter_mut().zip(after).for_each(|(held, data)| held.data = data);
    }

    /// Records one op, mostly a right one.
    fn record(&mut self, draft: &mut Draft) {
        let [at, other] = [(); 2].map(|()| self.choose.below(self.held.len()));
        let (buffer, len) = (self.held[at].buffer.clone(), self.held[at].data.len());
        let [start, end] = self.range(len);
        let inside = start <= end && end <= len;
        let grid = Grid::items(len);
        match self.choose.below(14) {
            0 => {
                let value = self.value();
                draft.batch.fill(buffer.slice(start..end), value);
                draft.unless(!inside);
                if inside {
                    draft.after[at][start..end].fill(value);
                }
            }
            1 => {
                let more = usize::from(self.choose.once_in(10));
                let data = self.data(end.saturating_sub(start) + more);
                draft.batch.write(buffer.slice(start..end), &data);
                draft.unless(!inside || data.len() != end - start);
                if inside && data.len() == end - start {
                    draft.after[at][start..end].copy_from_slice(&data);
                }
            }
            2 => self.record_copy(draft, [at, other], [start, end]),
            3 | 4 => {
                draft.unless(!inside);
                let expected = if inside { draft.after[at][start..end].to_vec() } else { Vec::new() };
                draft.readings.push((draft.batch.read(buffer.slice(start..end)), expected));
            }
            5 | 6 => {
                draft.batch.dispatch(&self.kernels[0], &[&buffer], grid).label("affine");
                draft.maybe(len == 0);
                affine(&mut draft.after[at]);
            }
            7 => {
                let y = self.held[other].buffer.clone();
                draft.batch.dispatch(&self.kernels[1], &[&buffer, &y], Grid::items(y.len()));
                draft.maybe(len == 0 || y.is_empty());
                draft.unless(at == other && len > 0);
                if at != other && len > 0 {
                    let x = draft.after[at].clone();
                    combine(&x, &mut draft.after[other]);
                }
            }
            8 => {
                let by = self.value();
                draft.batch.dispatch(&self.kernels[2], &[&buffer], grid).immediates(&by);
                draft.maybe(len == 0);
                draft.after[at].iter_mut().for_each(|x| *x = x.wrapping_add(by));
            }
            9 => self.record_tensor(draft, [at, other]),
            10 => {
                let room = draft.batch.scratch::<u32>(1 + len);
                draft.batch.dispatch(&self.kernels[0], &[&room], Grid::items(1 + len));
                draft.readings.push((draft.batch.read(room), vec![1; 1 + len]));
            }
            11 => draft.batch.barrier(),
            12 => draft.batch.split(),
            _ => self.record_misuse(draft, &buffer),
        }
    }

    fn record_copy(&mut self, draft: &mut Draft, [from, to]: [usize; 2], [start, end]: [usize; 2]) {
        let [source, target] = [from, to].map(|at| self.held[at].buffer.clone());
        let begin = self.choose.below(target.len() + 1);
        let stop = begin + end.saturating_sub(start) + usize::from(self.choose.once_in(10));
        draft.batch.copy(source.slice(start..end), target.slice(begin..stop));
        let fits = start <= end && end <= source.len() && stop <= target.len();
        let right = fits && stop - begin == end - start;
        draft.unless(!right);
        if right {
            let data = draft.after[from][start..end].to_vec();
            draft.after[to][begin..stop].copy_from_slice(&data);
        }
    }

    /// Sums and products of whole buffers, stored to one of them.
    fn record_tensor(&mut self, draft: &mut Draft, [at, to]: [usize; 2]) {
        let [source, target] = [at, to].map(|at| self.held[at].buffer.clone());
        let batch = &mut draft.batch;
        let x = batch.tensor(&source, [source.len()]);
        let y = batch.add(x, x);
        let y = batch.mul(y, x);
        batch.store(y, &target);
        draft.maybe(source.is_empty() || target.is_empty());
        draft.unless(source.len() != target.len());
        if source.len() == target.len() {
            draft.after[to] = draft.after[at].iter().map(|x| x.wrapping_add(*x).wrapping_mul(*x)).collect();
        }
    }

    /// What is always a mistake.
    fn record_misuse(&mut self, draft: &mut Draft, buffer: &Buffer<u32>) {
        let (foreign, kernel) = &self.foreign;
        let one = Grid::items(1);
        match self.choose.below(8) {
            0 => drop(draft.batch.dispatch(&self.kernels[0], &[], one)),
            1 => drop(draft.batch.dispatch(&self.kernels[0], &[foreign], one)),
            2 => drop(draft.batch.dispatch(kernel, &[buffer], one)),
            3 => drop(draft.batch.dispatch(&self.kernels[2], &[buffer], one)),
            4 => drop(draft.batch.dispatch(&self.kernels[2], &[buffer], one).immediates(&[1_u32; 5])),
            5 => draft.batch.fill(foreign, 3),
            6 => drop(draft.batch.dispatch(&self.kernels[0], &[buffer], Grid::items(-1))),
            _ => match self.stale {
                Some(stale) => draft.batch.fill(stale, 1),
                None => draft.readings.push((draft.batch.read(foreign), Vec::new())),
            },
        }
        draft.verdict = Verdict::Wrong;
    }

    /// A batch that is canceled runs, or does nothing, or leaves its buffer poisoned until that is written again.
    fn cancel(&mut self) -> Result<(), Fault> {
        let at = self.choose.below(self.held.len());
        let buffer = self.held[at].buffer.clone();
        let mut batch = self.device.batch();
        let mut after = self.held[at].data.clone();
        for _ in 0..1 + self.choose.below(6) {
            batch.dispatch(&self.kernels[0], &[&buffer], Grid::items(buffer.len().max(1)));
            batch.split();
            affine(&mut after);
        }
        let ticket = match batch.submit_async() {
            Ok(ticket) => ticket,
            Err(error) if buffer.is_empty() => return mistake(&error),
            Err(error) => return Err(format!("submit_async: {error:?}")),
        };
        ticket.cancel();
        match ticket.wait() {
            Ok(()) => self.held[at].data = after,
            Err(error) if error.kind() == &ErrorKind::Canceled => {
                let before = &self.held[at].data;
                match buffer.download() {
                    Ok(found) if found == *before => {}
                    Ok(found) if found == after => self.held[at].data = after,
                    Ok(found) => return Err(differs("the buffer of a canceled batch", &found, before)),
                    Err(error) if error.kind() == &ErrorKind::Poisoned => {
                        let data = self.data(buffer.len());
                        buffer.write(&data).map_err(|error| format!("write to a poisoned buffer: {error:?}"))?;
                        self.held[at].data = data;
                    }
                    Err(error) => return Err(format!("download after a cancel: {error:?}")),
                }
            }
            Err(error) => return Err(format!("a canceled batch: {error:?}")),
        }
        self.compare(at)
    }

    /// All of a buffer is overwritten behind a batch that is canceled: it is clean.
    fn overwrite_behind(&mut self) -> Result<(), Fault> {
        let at = self.choose.below(self.held.len());
        let buffer = self.held[at].buffer.clone();
        if buffer.is_empty() {
            return Ok(());
        }
        let mut first = self.device.batch();
        for _ in 0..1 + self.choose.below(6) {
            first.dispatch(&self.kernels[0], &[&buffer], Grid::items(buffer.len()));
            first.split();
        }
        let mut second = self.device.batch();
        let data = self.data(buffer.len());
        second.write(&buffer, &data);
        let submitted = first.submit_async().and_then(|first| Ok((first, second.submit_async()?)));
        let (first, second) = submitted.map_err(|error| format!("submit_async: {error:?}"))?;
        first.cancel();
        second.wait().map_err(|error| format!("an overwrite behind a canceled batch: {error:?}"))?;
        match first.wait() {
            Err(error) if error.kind() != &ErrorKind::Canceled => return Err(format!("a canceled batch: {error:?}")),
            _ => self.held[at].data = data,
        }
        self.compare(at).map_err(|fault| format!("overwritten behind a canceled batch: {fault}"))
    }

    /// A replay with an input and an output, run rightly and wrongly.
    fn replay(&mut self) -> Result<(), Fault> {
        let [at, to] = [(); 2].map(|()| self.choose.below(self.held.len()));
        let [source, target] = [at, to].map(|at| self.held[at].buffer.clone());
        let mut batch = self.device.batch();
        let x = batch.input::<u32>([source.len()]);
        let w = batch.tensor(&source, [source.len()]);
        let y = batch.mul(x, w);
        batch.store(y, &target);
        batch.dispatch(&self.kernels[0], &[&target], Grid::items(target.len()));
        let out = batch.output(&target);
        let (replay, right) = (batch.freeze(), source.len() == target.len());
        let replay = match replay {
            Ok(replay) if right => replay,
            Ok(_) => return Err("a replay with a mistake is frozen".into()),
            Err(error) if right && !source.is_empty() => return Err(format!("freeze: {error:?}")),
            Err(error) => return mistake(&error),
        };
        for _ in 0..self.choose.below(5) {
            let data = self.data(source.len());
            let mut run = replay.run();
            let wrong = self.choose.once_in(5) && !data.is_empty();
            match wrong {
                true if self.choose.once_in(2) => run.write(x, &data[1..]),
                true => {}
                false => run.write(x, &data),
            }
            let reading = run.read(out);
            let ticket = match run.submit_async() {
                Ok(_) if wrong => return Err("a run without its input is submitted".into()),
                Ok(ticket) => ticket,
                Err(error) if wrong => {
                    refused(&error, vec![(reading, Vec::new())])?;
                    continue;
                }
                Err(error) => return Err(format!("a run: {error:?}")),
            };
            let mut after: Vec<u32> = data.iter().zip(&self.held[at].data).map(|(x, w)| x.wrapping_mul(*w)).collect();
            affine(&mut after);
            self.held[to].data.clone_from(&after);
            self.pending.push(Pending { ticket, readings: vec![(reading, after)] });
        }
        Ok(())
    }

    fn refuse_kernel(&mut self) -> Result<(), Fault> {
        let sources = ["", "fn", "@compute fn main() {}", "@compute @workgroup_size(0) fn main() {}", "\u{0}", "🦀"];
        let source = sources[self.choose.below(sources.len())];
        match self.device.kernel(source) {
            Ok(_) => Err(format!("the kernel {source:?} compiles")),
            Err(error) => mistake(&error),
        }
    }

    /// A range within `len`, seldom one that is not.
    fn range(&mut self, len: usize) -> [usize; 2] {
        let [a, b] = [(); 2].map(|()| self.choose.below(len + 1));
        match self.choose.below(24) {
            0 => [a, len + 1 + b],
            1 => [a.max(b), a.min(b)],
            2 => [0, len],
            _ => [a.min(b), a.max(b)],
        }
    }

    fn value(&mut self) -> u32 {
        self.next_value = self.next_value.wrapping_mul(0x9e37_79b9).wrapping_add(1);
        self.next_value
    }

    fn data(&mut self, len: usize) -> Vec<u32> {
        (0..len).map(|_| self.value()).collect()
    }
}

impl Draft {
    fn unless(&mut self, wrong: bool) {
        if wrong {
            self.verdict = Verdict::Wrong;
        }
    }

    fn maybe(&mut self, depends: bool) {
        if depends {
            self.verdict = self.verdict.max(Verdict::Either);
        }
    }
}

fn check(readings: Readings) -> Result<(), Fault> {
    for (reading, expected) in readings {
        match reading.wait() {
            Ok(found) if found == expected => {}
            Ok(found) => return Err(differs("a reading", &found, &expected)),
            Err(error) => return Err(format!("a reading: {error:?}")),
        }
    }
    Ok(())
}

/// A batch was refused: by a mistake, and its readings fail too.
fn refused(error: &Error, readings: Readings) -> Result<(), Fault> {
    mistake(error)?;
    readings
        .into_iter()
        .try_for_each(|(reading, _)| expect_error("a reading of a refused batch", reading.wait().map(drop)))
}

/// The error is one of a caller's mistakes.
fn mistake(error: &Error) -> Result<(), Fault> {
    let is_mistake = |error: &Error| {
        use ErrorKind::{Bindings, Grid, Shader, Shape, TooLarge, Unsupported};
        matches!(error.kind(), Bindings | Grid | Shader | Shape | TooLarge { .. } | Unsupported)
    };
    if error.mistakes().iter().all(is_mistake) { Ok(()) } else { Err(format!("a mistake ends with {error:?}")) }
}

/// An error, but not one of the library's own.
fn expect_error(of: &str, outcome: Result<()>) -> Result<(), Fault> {
    match outcome {
        Ok(()) => Err(format!("{of} succeeds")),
        Err(error) if error.kind() == &ErrorKind::Internal => Err(format!("{of}: {error:?}")),
        Err(_) => Ok(()),
    }
}

fn differs(what: &str, found: &[u32], expected: &[u32]) -> Fault {
    let at = found.iter().zip(expected).position(|(found, expected)| found != expected).unwrap_or_default();
    let show = |data: &[u32]| data.get(at).copied().unwrap_or_default();
    let lengths = [found.len(), expected.len()];
    format!("{what} is wrong at {at}: {} instead of {} (lengths {lengths:?})", show(found), show(expected))
}
