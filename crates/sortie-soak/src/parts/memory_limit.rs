//! Too little memory in the whole process (`ulimit -v`): what the user asks for in a size of their own fails with
//! `OutOfMemory`, and the device goes on working. Each case has a process of its own.

use std::time::Duration;

use rustix::process::Resource;
use sortie::{
    Buffer, Device, Error, ErrorKind, Result, Stream,
    stream::{Sink, Source},
};

use super::work::{SLOW_ROWS, works};
use crate::{
    devices, memory,
    part::{Part, Task},
    report::Report,
};

pub(crate) const PART: Part = Part {
    cases: 2 * CASES.len() as u64,
    quick_runs: 2 * CASES.len() as u64,
    patience: Duration::from_secs(300),
    ..Part::new(
        "memory-limit",
        "downloads, reads, writes and uploads under a limit of address space; one case per process",
        run,
    )
};

/// Elements of what is asked for: 512 MiB, which there is no room for; and 192 MiB, which there is room for once, but not
/// for a copy.
const SIZES: [usize; 2] = [128 << 20, 48 << 20];

/// Bytes of address space beyond what is in use. Threads and the C runtime reserve some tens of megabytes each.
const ROOM: u64 = 320 << 20;

/// What is asked for. It is given a buffer and host memory of that size, made before the limit.
type Case = (&'static str, Needs, fn(&Device, &Prepared) -> Result<()>);

#[derive(Clone, Copy, PartialEq)]
enum Needs {
    Nothing,
    Buffer,
    Host,
}

struct Prepared {
    /// Elements.
    size: usize,
    buffer: Option<Buffer<u32>>,
    host: Vec<u32>,
}

impl Prepared {
    fn buffer(&self) -> Result<&Buffer<u32>> {
        self.buffer.as_ref().ok_or_else(|| Error::input("the case has no buffer"))
    }
}

const CASES: &[Case] = &[
    ("a download", Needs::Buffer, |_, with| with.buffer()?.download().map(drop)),
    ("a read", Needs::Buffer, |device, with| {
        let batch = device.batch();
        let reading = batch.read(with.buffer()?);
        batch.submit()?;
        reading.wait().map(drop)
    }),
    ("a read, submitted asynchronously", Needs::Buffer, |device, with| {
        let batch = device.batch();
        let reading = batch.read(with.buffer()?);
        let ticket = batch.submit_async()?;
        reading.wait()?;
        ticket.wait()
    }),
    ("data of a batch", Needs::Host, |device, with| {
        let batch = device.batch();
        let room = batch.scratch::<u32>(with.host.len());
        batch.write(room, &with.host);
        batch.submit()
    }),
    ("a tensor's data", Needs::Host, |device, with| {
        let batch = device.batch();
        let reading = batch.tensor_from(&with.host, [with.host.len()]).read();
        batch.submit()?;
        reading.wait().map(drop)
    }),
    ("an upload", Needs::Host, |device, with| device.upload(&with.host).map(drop)),
    ("a write", Needs::Host, |device, with| {
        let x = device.zeros::<u32>(with.host.len())?;
        x.write(&with.host)?;
        x.slice(..1).download().map(drop)
    }),
    ("zeros", Needs::Nothing, |device, with| device.zeros::<u32>(with.size).map(drop)),
    ("scratch", Needs::Nothing, |device, with| {
        let batch = device.batch();
        let room = batch.scratch::<u32>(with.size);
        batch.fill(room, 0);
        batch.submit()
    }),
    ("a replay's input", Needs::Host, |device, with| {
        let batch = device.batch();
        let (input, x) = batch.input::<u32>([with.size]);
        let _ = x.output();
        let replay = batch.freeze()?;
        let mut run = replay.run();
        run.write(input, &with.host);
        run.submit()
    }),
    ("a replay's output", Needs::Buffer, |device, with| {
        let batch = device.batch();
        let out = batch.output(with.buffer()?);
        let replay = batch.freeze()?;
        let mut run = replay.run();
        let reading = run.read(out);
        run.submit()?;
        reading.wait().map(drop)
    }),
    ("a stream's window", Needs::Nothing, |device, with| {
        let rows = device.kernel(SLOW_ROWS)?;
        let stream = Stream::<u32, u32>::kernel(device, &rows).window(4 * with.size);
        stream.run(Source::items(0..with.size as u32), Sink::each(|_| Ok::<(), std::io::Error>(()))).map(drop)
    }),
    ("many buffers", Needs::Nothing, |device, _| {
        let mut kept = Vec::new();
        loop {
            kept.push(device.zeros::<u32>(1 << 20)?);
        }
    }),
];

fn run(task: &Task, report: &mut Report) -> Result<()> {
    let (name, needs, case) = CASES[task.seed as usize % CASES.len()];
    report.at(name);
    report.count(1);
    let device = devices::open(&task.device)?;
    works(&device)?;
    let size = SIZES[task.seed as usize / CASES.len() % SIZES.len()];
    let prepared = Prepared {
        size,
        buffer: if needs == Needs::Buffer { Some(device.zeros(size)?) } else { None },
        host: if needs == Needs::Host { vec![7; size] } else { Vec::new() },
    };
    // All of it is there before the limit is set.
    works(&device)?;
    memory::limit(Resource::As, memory::address_space() + ROOM);
    match case(&device, &prepared).map_err(|error| (error.kind(), error)) {
        Err((ErrorKind::OutOfMemory { .. }, _)) => {}
        // A device may not take as much in any case.
        Err((ErrorKind::TooLarge { .. }, _)) => {}
        Err((_, error)) => report.fault(format!("{name}: {error:?} instead of OutOfMemory")),
        Ok(()) if size < SIZES[0] => {}
        Ok(()) => report.fault(format!("{name}: 512 MiB were found where there are {} MiB", ROOM >> 20)),
    }
    works(&device)
}
