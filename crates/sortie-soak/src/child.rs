//! A child process: started, watched and judged.

use std::{
    io::{self, Read},
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
    thread::{self, JoinHandle},
    time::Duration,
};

use wait_timeout::ChildExt;

use crate::{
    part::{Part, Task},
    report::{Event, monotonic},
};

/// How a child process ended, and what it reported.
#[derive(Debug, Default)]
pub struct Ended {
    /// Operations done.
    pub operations: u64,
    /// What must not happen: faults that it reported, a signal, a hang.
    pub failures: Vec<String>,
    /// Figures that it reported.
    pub figures: Vec<(String, f64)>,
    /// Lines for the reader.
    pub notes: Vec<String>,
    /// The end of its standard error.
    pub stderr: String,
}

/// Bytes of a standard stream that are kept.
const MAX_STREAM_BYTES: usize = 1 << 20;

/// An exit that takes longer is a failure.
const MAX_EXIT_TIME: Duration = Duration::from_secs(2);

/// Runs one task of a part in a process of its own.
pub fn run(part: &Part, task: &Task) -> Ended {
    match command(part, task).and_then(|mut command| output(&mut command, part.patience)) {
        Ok(output) => judge(part, task, output),
        Err(error) => {
            Ended { failures: vec![format!("the child process does not start: {error}")], ..Ended::default() }
        }
    }
}

fn command(part: &Part, task: &Task) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("child").arg(part.name).args(task.options().split(' '));
    if let Some(time) = task.time {
        command.args(["--time", &time.to_string()]);
    }
    // Neither files on this machine nor the validation layer, which is not thread-safe, may affect the child.
    let environment =
        [("SORTIE_TUNING", "off"), ("SORTIE_CACHE", "off"), ("WGPU_DEBUG", "0"), ("WGPU_VALIDATION", "0")];
    command.envs(environment).env("RUST_BACKTRACE", "0");
    Ok(command)
}

/// Collects what a child reported, and checks how it ended.
fn judge(part: &Part, task: &Task, output: Output) -> Ended {
    let mut ended = Ended { stderr: output.stderr, ..Ended::default() };
    let (mut at, mut exiting) = (String::new(), None);
    for event in output.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match event {
            Event::At(what) => at = format!(" at {what}"),
            Event::Operations(count) => ended.operations = count,
            Event::Fault(what) => ended.failures.push(what),
            Event::Figure(name, value) => ended.figures.push((name, value)),
            Event::Note(what) => ended.notes.push(what),
            Event::Exiting(time) => exiting = Some(time),
        }
    }
    let Some(status) = output.status else {
        ended.failures.push(format!("hung: no end after {} s{at}", part.patience.as_secs()));
        return ended;
    };
    match (signal(status), status.code()) {
        (Some(killed), _) => ended.failures.push(format!("{killed}{at}")),
        // A child that has reported faults ends with an exit code of 1.
        (None, Some(code)) if code != 0 && ended.failures.is_empty() => {
            ended.failures.push(format!("exit code {code}{at}"));
        }
        _ => {}
    }
    if let Some(exiting) = exiting {
        let took = Duration::from_nanos(output.end.saturating_sub(exiting));
        ended.figures.push(("longest exit ms".into(), took.as_secs_f64() * 1e3));
        // Times are never checked in `scripts/test`.
        if took > MAX_EXIT_TIME && !task.quick {
            ended.failures.push(format!("the exit took {:.1} s{at}", took.as_secs_f64()));
        }
    }
    ended
}

/// How a command ended, and what it printed.
#[derive(Debug)]
pub struct Output {
    /// `None` when it had to be killed.
    pub status: Option<ExitStatus>,
    /// When it had ended, by the monotonic clock in nanoseconds.
    pub end: u64,
    /// The end of standard output.
    pub stdout: String,
    /// The end of standard error.
    pub stderr: String,
}

/// Runs a command, and kills it when it takes too long.
///
/// # Errors
/// When it does not start.
pub fn output(command: &mut Command, patience: Duration) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let readers = [tail(child.stdout.take()), tail(child.stderr.take())];
    let status = child.wait_timeout(patience)?;
    if status.is_none() {
        drop(child.kill());
        drop(child.wait());
    }
    let end = monotonic();
    let [stdout, stderr] = readers.map(|reader| reader.join().unwrap_or_default());
    Ok(Output { status, end, stdout, stderr })
}

/// The signal that ended it, if one did.
pub fn signal(status: ExitStatus) -> Option<String> {
    // "signal: 6 (SIGABRT)", or "signal: 34" for one without a name.
    let text = status.to_string();
    status.signal().map(|signal| match text.split(['(', ')']).nth(1) {
        Some(name) => format!("killed by {name}"),
        None => format!("killed by signal {signal}"),
    })
}

/// Reads a pipe to its end on a thread, and keeps the last bytes.
fn tail(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
        let mut pipe = pipe.expect("standard streams are pipes");
        while let Ok(read @ 1..) = pipe.read(&mut piece) {
            kept.extend_from_slice(&piece[..read]);
            kept.drain(..kept.len().saturating_sub(MAX_STREAM_BYTES));
        }
        String::from_utf8_lossy(&kept).into_owned()
    })
}
