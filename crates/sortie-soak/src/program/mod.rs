//! Random programs on the public API, misuse included, checked against plain Rust that runs everything in order.
//!
//! The choices come from a [`Choose`]: a random generator in the part `programs`, the bytes of a fuzzer in `fuzz/`.

mod choose;
mod draft;
mod expect;
mod work;

use std::time::Duration;

use sortie::{Buffer, Device, ErrorKind, Grid, Kernel, Result, Slot, Ticket, policy::Split};

pub use self::{
    choose::{Bytes, Choose},
    expect::Fault,
};
use self::{
    draft::{Draft, Verdict},
    expect::{Readings, check, differs, expect_error, mistake, refused},
    work::{AFFINE, COMBINE, SHIFT, affine},
};

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

/// Elements of a buffer, at most.
const MAX_ELEMENTS: usize = 300;
/// Buffers at once, at most.
const MAX_BUFFERS: usize = 8;

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
        if self.held.len() >= MAX_BUFFERS {
            self.held.swap_remove(0);
        }
        let len = if self.choose.once_in(20) { 0 } else { 1 + self.choose.below(MAX_ELEMENTS) };
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
            && error.kind() != ErrorKind::Timeout
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
            1..4 => self.submit(draft, false),
            _ => self.submit(draft, true),
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

    fn submit(&mut self, draft: Draft, wait: bool) -> Result<(), Fault> {
        let Draft { batch, after, readings, verdict } = draft;
        let submitted = if wait { batch.submit().map(|()| None) } else { batch.submit_async().map(Some) };
        match (submitted, verdict) {
            (Ok(ticket), Verdict::Right | Verdict::Either) => {
                self.commit(after);
                let Some(ticket) = ticket else { return check(readings) };
                self.pending.push(Pending { ticket, readings });
                if self.pending.len() > 4 { self.settle() } else { Ok(()) }
            }
            (Ok(_), Verdict::Wrong) => Err("a batch with a mistake is submitted".into()),
            (Err(error), Verdict::Right) => Err(format!("submit: {error:?}")),
            (Err(error), _) => refused(&error, readings),
        }
    }

    fn commit(&mut self, after: Vec<Vec<u32>>) {
        self.held.iter_mut().zip(after).for_each(|(held, data)| held.data = data);
    }

    /// A batch that is canceled runs, or does nothing, or leaves its buffer poisoned until that is written again.
    fn cancel(&mut self) -> Result<(), Fault> {
        let at = self.choose.below(self.held.len());
        let buffer = self.held[at].buffer.clone();
        let batch = self.device.batch();
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
            Err(error) if error.kind() == ErrorKind::Canceled => {
                let before = &self.held[at].data;
                match buffer.download() {
                    Ok(found) if found == *before => {}
                    Ok(found) if found == after => self.held[at].data = after,
                    Ok(found) => return Err(differs("the buffer of a canceled batch", &found, before)),
                    Err(error) if error.kind() == ErrorKind::Poisoned => {
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
        let first = self.device.batch();
        for _ in 0..1 + self.choose.below(6) {
            first.dispatch(&self.kernels[0], &[&buffer], Grid::items(buffer.len()));
            first.split();
        }
        let second = self.device.batch();
        let data = self.data(buffer.len());
        second.write(&buffer, &data);
        let submitted = first.submit_async().and_then(|first| Ok((first, second.submit_async()?)));
        let (first, second) = submitted.map_err(|error| format!("submit_async: {error:?}"))?;
        first.cancel();
        second.wait().map_err(|error| format!("an overwrite behind a canceled batch: {error:?}"))?;
        match first.wait() {
            Err(error) if error.kind() != ErrorKind::Canceled => return Err(format!("a canceled batch: {error:?}")),
            _ => self.held[at].data = data,
        }
        self.compare(at).map_err(|fault| format!("overwritten behind a canceled batch: {fault}"))
    }

    /// A replay with an input and an output, run rightly and wrongly.
    fn replay(&mut self) -> Result<(), Fault> {
        let [at, to] = [(); 2].map(|()| self.choose.below(self.held.len()));
        let [source, target] = [at, to].map(|at| self.held[at].buffer.clone());
        let batch = self.device.batch();
        let (input, x) = batch.input::<u32>([source.len()]);
        let w = batch.tensor(&source, [source.len()]);
        (x * w).store(&target);
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
                true if self.choose.once_in(2) => run.write(input, &data[1..]),
                true => {}
                false => run.write(input, &data),
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
