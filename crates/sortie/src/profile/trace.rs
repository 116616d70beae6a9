//! Traces in Chrome's format, which Perfetto also opens.
//!
//! One clock: microseconds since the trace began. Tracks are threads of two processes, the host and the device. Events
//! on a thread nest and are written as `B` and `E` pairs. Events without a thread (recording or awaiting a batch, a
//! queued request) are `b` and `e` pairs with an id.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread::ThreadId,
};

use parking_lot::Mutex;

use super::{
    Profile, StageKind, StepProfile, file_error,
    watch::{TraceNote, Watch, WatchEvent, Watchers},
};
use crate::{
    clock::Instant,
    error::{Error, Result},
};

/// A trace of everything that a device does, from [`Device::trace`](crate::Device::trace) until it is finished.
///
/// Every batch is profiled meanwhile. Dropping it also ends the trace, but does not wait for the file to be complete,
/// and does not report write errors.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// # let path = std::env::temp_dir().join(format!("sortie-doc-all-{}.json", std::process::id()));
/// let trace = device.trace(&path)?;
/// device.batch().submit()?;
/// println!("open {} in ui.perfetto.dev", trace.path().display());
/// trace.finish()?;
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), sortie::Error>(())
/// ```
#[must_use = "a trace ends when it is dropped"]
#[derive(Debug)]
pub struct Trace {
    watch: Option<Watch>,
    path: PathBuf,
    failed: Arc<Mutex<Option<io::Error>>>,
}

impl Trace {
    /// Creates the file, and writes all events from now on to it.
    pub(crate) fn begin(notes: &Arc<Watchers>, path: PathBuf) -> Result<Self> {
        let begun = File::create(&path).and_then(|file| TraceWriter::new(BufWriter::new(file), Instant::now()));
        let mut writer = Some(begun.map_err(|error| file_error(&path, error))?);
        let failed = Arc::new(Mutex::new(None));
        let told = failed.clone();
        let watch = notes.watch(move |watched| {
            let outcome = match (&watched, &mut writer) {
                (_, None) => Ok(()),
                (WatchEvent::Batch(profile), Some(writer)) => writer.profile(profile),
                (WatchEvent::TraceNote(note), Some(writer)) => writer.note(note),
                (WatchEvent::End(missed), Some(writer)) => writer.missed(*missed).and_then(|()| writer.end()),
            };
            if let Err(error) = outcome {
                // Nothing more is written; `finish` returns the error.
                writer = None;
                told.lock().get_or_insert(error);
            }
        })?;
        Ok(Self { watch: Some(watch), path, failed })
    }

    /// Ends the trace, once the batches now in flight have completed and been written.
    ///
    /// # Errors
    /// [`File`](crate::ErrorKind::File) when something could not be written.
    pub fn finish(mut self) -> Result<()> {
        let whole = self.watch.take().is_none_or(Watch::end);
        let failed = self.failed.lock().take();
        failed.map_or(Ok(()), |error| Err(file_error(&self.path, error)))?;
        if whole { Ok(()) } else { Err(Error::internal("the thread that writes a trace panicked; please report it")) }
    }

    getters! { self:
        /// Batches and batcher events that were dropped because too many were queued. The file also contains this
        /// number.
        missed: u64 = self.watch.as_ref().map_or(0, Watch::missed);

        /// The file.
        path: &Path = &self.path;
    }
}

/// The processes of a trace.
const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// Writes events.
pub(super) struct TraceWriter<W: Write> {
    to: W,
    zero: Instant,
    any: bool,
    /// Threads of the host; numbers start at 1.
    threads: Vec<ThreadId>,
    /// Devices by number.
    devices: Vec<String>,
    /// End of the last event of each device.
    ended: Vec<u64>,
    ids: u64,
}

/// An event with its time range, in nanoseconds since the trace began.
struct Event<'a> {
    name: &'a str,
    category: &'static str,
    begin: u64,
    end: u64,
    /// More arguments: names, and values as JSON.
    arguments: &'a str,
}

impl<W: Write> TraceWriter<W> {
    pub(super) fn new(to: W, zero: Instant) -> io::Result<Self> {
        let (threads, devices, ended) = (Vec::new(), Vec::new(), Vec::new());
        let mut writer = Self { to, zero, any: false, threads, devices, ended, ids: 0 };
        writer.to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        writer.metadata("process_name", HOST, 0, "host")?;
        writer.metadata("process_name", DEVICE, 0, "devices")?;
        Ok(writer)
    }

    /// Ends the file.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.to.write_all(b"\n]}\n")?;
        self.to.flush()
    }

    pub(super) fn profile(&mut self, profile: &Profile) -> io::Result<()> {
        let data = &profile.data;
        let shift = self.shift(data.zero);
        self.ids += 1;
        let id = self.ids;
        for stage in &data.host {
            let (begin, end) = (at_of(shift, stage.begin), at_of(shift, stage.end));
            let event = |name, category, arguments| Event { name, category, begin, end, arguments };
            let name = match stage.kind {
                // Batches may be recorded concurrently on one thread.
                StageKind::Record => {
                    self.apart(id, &event("record", "batch", ""))?;
                    continue;
                }
                StageKind::Plan => "plan",
                StageKind::Encode => "encode",
                StageKind::Submit => "submit",
            };
            let thread = self.thread(stage.thread, stage.thread_name.as_deref())?;
            self.open(HOST, thread, &event(name, "host", &format!("\"batch\":{id}")))?;
            self.close(HOST, thread, end)?;
        }
        let completed = data.submissions.iter().map(|submission| submission.completed).max();
        let submitted = data.host.iter().filter(|stage| stage.kind == StageKind::Submit).map(|stage| stage.end).max();
        if let Some((from, to)) = submitted.zip(completed).filter(|(from, to)| from < to) {
            let (begin, end) = (at_of(shift, from), at_of(shift, to));
            self.apart(id, &Event { name: "wait", category: "batch", begin, end, arguments: "" })?;
        }
        self.device(profile, id, shift)
    }

    /// Writes the device's events: submissions, in them scopes, in them ops.
    fn device(&mut self, profile: &Profile, id: u64, shift: i64) -> io::Result<()> {
        let data = &profile.data;
        let track = self.track(&data.device)?;
        for (number, submission) in data.submissions.iter().enumerate() {
            // Steps are sorted by submission.
            let [first, end] =
                [number, number + 1].map(|part| data.steps.partition_point(|step| step.submission() < part));
            let steps = &data.steps[first..end];
            let mut spans: Vec<(u64, u64, &str, Option<&StepProfile>)> = Vec::new();
            for step in steps {
                match (step.span(), step.pass()) {
                    (Some((begin, end)), _) => spans.push((begin, end, step.name(), Some(step))),
                    (None, Some(pass)) => {
                        let known = data.passes.get(pass).copied().flatten();
                        let new = known.filter(|(begin, _)| spans.last().is_none_or(|last| last.0 < *begin));
                        spans.extend(new.map(|(begin, end)| (begin, end, "pass", None)));
                    }
                    (None, None) => {}
                }
            }
            // Without timestamps, a submission lasts from submit to completion.
            let begin = spans.first().map_or(submission.left, |(begin, ..)| *begin);
            let end = spans.iter().map(|(_, end, ..)| *end).max().unwrap_or(submission.completed);
            let earliest = self.ended[track as usize];
            let begin = at_of(shift, begin).max(earliest);
            let end = at_of(shift, end).max(begin);
            self.ended[track as usize] = end;
            let (steps, times) = (steps.len(), quoted(&data.tier.to_string()));
            let mut arguments = format!("\"batch\":{id},\"submission\":{number},\"steps\":{steps},\"times\":{times}");
            if !data.caveats.is_empty() {
                arguments += &format!(",\"disturbed by\":{}", quoted(&data.caveats.join("; ")));
            }
            let event = Event { name: "submission", category: "device", begin, end, arguments: &arguments };
            self.open(DEVICE, track, &event)?;
            self.steps(profile, track, shift, begin, end, &spans)?;
            self.close(DEVICE, track, end)?;
        }
        Ok(())
    }

    fn steps(
        &mut self,
        profile: &Profile,
        track: u32,
        shift: i64,
        from: u64,
        to: u64,
        spans: &[(u64, u64, &str, Option<&StepProfile>)],
    ) -> io::Result<()> {
        let mut open: Vec<usize> = Vec::new();
        let mut last = from;
        for (begin, end, name, step) in spans {
            let begin = at_of(shift, *begin).clamp(last, to);
            let end = at_of(shift, *end).clamp(begin, to);
            let scopes = step.map(|step| scopes(profile, step)).unwrap_or_default();
            let common = open.iter().zip(&scopes).take_while(|(open, wanted)| open == wanted).count();
            while open.len() > common {
                open.pop();
                self.close(DEVICE, track, last)?;
            }
            for scope in &scopes[common..] {
                let label = profile.scopes()[*scope].label();
                self.open(DEVICE, track, &Event { name: label, category: "scope", begin, end, arguments: "" })?;
                open.push(*scope);
            }
            let arguments = step.map(|step| arguments(profile, step)).unwrap_or_default();
            self.open(DEVICE, track, &Event { name, category: "step", begin, end, arguments: &arguments })?;
            self.close(DEVICE, track, end)?;
            last = end;
        }
        while open.pop().is_some() {
            self.close(DEVICE, track, last)?;
        }
        Ok(())
    }

    /// Writes the number of missing events.
    fn missed(&mut self, missed: u64) -> io::Result<()> {
        match missed {
            0 => Ok(()),
            _ => self.metadata("process_labels", HOST, 0, &format!("{missed} batches or notes are missing")),
        }
    }

    /// Writes an event that is not a batch.
    pub(super) fn note(&mut self, note: &TraceNote) -> io::Result<()> {
        let arguments = note.count.map(|(what, count)| format!("\"{what}\":{count}")).unwrap_or_default();
        for time in &note.times {
            self.ids += 1;
            let (begin, end) = (self.since(time.start), self.since(time.end));
            let (name, category) = (note.name.as_str(), note.category);
            self.apart(self.ids, &Event { name, category, begin, end: end.max(begin), arguments: &arguments })?;
        }
        Ok(())
    }

    fn since(&self, at: Instant) -> u64 {
        at_of(self.shift(at), 0)
    }

    /// Nanoseconds since the beginning of the trace; negative for earlier times.
    fn shift(&self, at: Instant) -> i64 {
        let between = |late: Instant, early: Instant| {
            i64::try_from(late.saturating_duration_since(early).as_nanos()).unwrap_or(i64::MAX)
        };
        between(at, self.zero) - between(self.zero, at)
    }

    /// The number of a thread. A new thread is announced in the file.
    fn thread(&mut self, thread: ThreadId, name: Option<&str>) -> io::Result<u32> {
        let known = self.threads.iter().position(|known| *known == thread);
        let index = match known {
            Some(index) => index,
            None => {
                self.threads.push(thread);
                let index = self.threads.len() - 1;
                let name = name.map_or_else(|| format!("thread {}", index + 1), str::to_owned);
                self.metadata("thread_name", HOST, number(index + 1), &name)?;
                index
            }
        };
        Ok(number(index + 1))
    }

    fn track(&mut self, device: &str) -> io::Result<u32> {
        if let Some(index) = self.devices.iter().position(|known| known == device) {
            return Ok(number(index));
        }
        self.devices.push(device.to_owned());
        self.ended.push(0);
        let index = number(self.devices.len() - 1);
        self.metadata("thread_name", DEVICE, index, device)?;
        Ok(index)
    }

    fn metadata(&mut self, what: &str, process: u32, thread: u32, name: &str) -> io::Result<()> {
        let (name, key) = (quoted(name), if what == "process_labels" { "labels" } else { "name" });
        self.write(format_args!(
            "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{process},\"tid\":{thread},\"ts\":0,\"args\":{{\"{key}\":{name}}}}}"
        ))
    }

    fn open(&mut self, process: u32, thread: u32, event: &Event<'_>) -> io::Result<()> {
        let (name, ts) = (quoted(event.name), micros(event.begin));
        let Event { category, arguments, .. } = event;
        self.write(format_args!(
            "{{\"ph\":\"B\",\"name\":{name},\"cat\":\"{category}\",\"pid\":{process},\"tid\":{thread},\"ts\":{ts},\"args\":{{{arguments}}}}}"
        ))
    }

    fn close(&mut self, process: u32, thread: u32, at: u64) -> io::Result<()> {
        let ts = micros(at);
        self.write(format_args!("{{\"ph\":\"E\",\"pid\":{process},\"tid\":{thread},\"ts\":{ts}}}"))
    }

    /// Writes an event without a thread.
    fn apart(&mut self, id: u64, event: &Event<'_>) -> io::Result<()> {
        let name = quoted(event.name);
        let Event { category, arguments, .. } = event;
        for (phase, at) in [("b", event.begin), ("e", event.end)] {
            let ts = micros(at);
            self.write(format_args!(
                "{{\"ph\":\"{phase}\",\"name\":{name},\"cat\":\"{category}\",\"id\":{id},\"pid\":{HOST},\"tid\":0,\"ts\":{ts},\"args\":{{{arguments}}}}}"
            ))?;
        }
        Ok(())
    }

    fn write(&mut self, event: std::fmt::Arguments<'_>) -> io::Result<()> {
        let separator = if std::mem::replace(&mut self.any, true) { "," } else { "" };
        write!(self.to, "{separator}\n{event}")
    }
}

/// The scopes that hold all ops of a step, the outermost first.
fn scopes(profile: &Profile, step: &StepProfile) -> Vec<usize> {
    let holds = |scope: usize| step.ops().iter().all(|op| profile.scopes()[scope].ops().contains(op));
    let innermost = step.ops().first().and_then(|op| profile.ops().get(*op)?.scope());
    let mut scopes: Vec<usize> = std::iter::successors(innermost, |scope| profile.scopes()[*scope].outer())
        .filter(|scope| holds(*scope))
        .collect();
    scopes.reverse();
    scopes
}

fn arguments(profile: &Profile, step: &StepProfile) -> String {
    let ops: Vec<String> = step.ops().iter().map(ToString::to_string).collect();
    let mut text = format!("\"ops\":[{}],\"bytes\":{}", ops.join(","), step.bytes());
    if let Some(flops) = step.flops() {
        text += &format!(",\"flops\":{flops}");
    }
    let last = step.ops().last().and_then(|op| profile.ops().get(*op));
    if let Some(op) = last {
        text += &format!(",\"recorded\":{}", quoted(&format!("{}:{}", op.location().file(), op.location().line())));
        if !op.label().is_empty() {
            text += &format!(",\"label\":{}", quoted(op.label()));
        }
    }
    text
}

fn at_of(shift: i64, nanoseconds: u64) -> u64 {
    nanoseconds.saturating_add_signed(shift)
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// Nanoseconds as microseconds, exactly.
fn micros(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// A string as JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if u32::from(control) < 0x20 => quoted += &format!("\\u{:04x}", u32::from(control)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_json_has_it() {
        assert_eq!(quoted("a \"b\" \\ \n é"), "\"a \\\"b\\\" \\\\ \\u000a é\"");
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        assert_eq!([0, 999, 1_234_567].map(micros), ["0.000", "0.999", "1234.567"]);
    }
}
