//! A child process: started, watched and judged.

use std::{
    io::{self, BufRead, BufReader, Read},
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    part::{Part, Task},
    report::{Event, monotonic},
};

/// How a child ended and what it told.
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

/// Bytes of standard error that are kept.
const MAX_STDERR_BYTES: usize = 4096;

/// An exit that takes longer is a failure.
const MAX_EXIT_TIME: Duration = Duration::from_secs(2);

/// Runs one task of a part in a process of its own.
#[must_use]
pub fn run(part: &Part, task: &Task) -> Ended {
    match start(part, task) {
        Ok(child) => watch(part, task, child),
        Err(error) => {
            Ended { failures: vec![format!("the child process does not start: {error}")], ..Ended::default() }
        }
    }
}

fn start(part: &Part, task: &Task) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("child").arg(part.name);
    command.args(["--device", &task.device, "--seed", &task.seed.to_string(), "--size", &task.size.to_string()]);
    if task.quick {
        command.arg("--quick");
    }
    if let Some(time) = task.time {
        command.args(["--time", &time.to_string()]);
    }
    // Neither what is on this machine already nor the validation layer, which is not thread-safe, has a say.
    let environment =
        [("SORTIE_TUNING", "off"), ("SORTIE_CACHE", "off"), ("WGPU_DEBUG", "0"), ("WGPU_VALIDATION", "0")];
    command.envs(environment).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn watch(part: &Part, task: &Task, mut child: Child) -> Ended {
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let mut stderr = child.stderr.take().expect("standard error is a pipe");
    let (send, events) = mpsc::channel();
    let reader = thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        lines.filter_map(|line| Event::parse(&line)).try_for_each(|event| send.send(event))
    });
    let errors = thread::spawn(move || tail(&mut stderr, MAX_STDERR_BYTES));

    let deadline = Instant::now() + part.patience;
    let status = wait(&mut child, deadline);
    let end = monotonic();
    drop(reader.join());
    let mut ended = Ended { stderr: errors.join().unwrap_or_default(), ..Ended::default() };
    let (mut at, mut exiting) = (None, None);
    for event in events {
        match event {
            Event::At(what) => at = Some(what),
            Event::Operations(count) => ended.operations = count,
            Event::Fault(what) => ended.failures.push(what),
            Event::Figure(name, value) => ended.figures.push((name, value)),
            Event::Note(what) => ended.notes.push(what),
            Event::Exiting(time) => exiting = Some(time),
        }
    }
    let at = at.map(|at| format!(" at {at}")).unwrap_or_default();
    match status {
        None => ended.failures.push(format!("hung: no end after {} s{at}", part.patience.as_secs())),
        Some(status) => ended.failures.extend(judge(status, ended.failures.is_empty()).map(|how| format!("{how}{at}"))),
    }
    if let (Some(exiting), Some(_)) = (exiting, status) {
        let took = Duration::from_nanos(end.saturating_sub(exiting));
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
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a command, and kills it when it takes too long.
///
/// # Errors
/// When it does not start.
pub fn output(command: &mut Command, patience: Duration) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read = |from: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || from.map(|mut from| tail(&mut from, 1 << 20)).unwrap_or_default())
    };
    let stdout = read(stdout.map(|pipe| Box::new(pipe) as _));
    let stderr = read(stderr.map(|pipe| Box::new(pipe) as _));
    let status = wait(&mut child, Instant::now() + patience);
    let [stdout, stderr] = [stdout, stderr].map(|thread| thread.join().unwrap_or_default());
    Ok(Output { status, stdout, stderr })
}

/// `None` when it had to be killed.
fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() > deadline {
            drop(child.kill());
            drop(child.wait());
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// What is wrong with how it ended. A child that has reported faults ends with an exit code of 1.
fn judge(status: ExitStatus, clean: bool) -> Option<String> {
    match (signal(status), status.code()) {
        (Some(killed), _) => Some(killed),
        (None, Some(0)) => None,
        (None, Some(_)) if !clean => None,
        (None, code) => Some(format!("exit code {}", code.unwrap_or(-1))),
    }
}

/// The signal that ended it, if one did.
#[must_use]
pub fn signal(status: ExitStatus) -> Option<String> {
    status.signal().map(|signal| format!("killed by {}", signal_name(signal)))
}

fn signal_name(signal: i32) -> String {
    match signal {
        4 => "SIGILL".into(),
        6 => "SIGABRT".into(),
        7 => "SIGBUS".into(),
        8 => "SIGFPE".into(),
        9 => "SIGKILL".into(),
        11 => "SIGSEGV".into(),
        24 => "SIGXCPU".into(),
        other => format!("signal {other}"),
    }
}

/// Reads to the end and keeps the last bytes.
fn tail(from: &mut impl Read, most: usize) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = from.read(&mut piece) {
        kept.extend_from_slice(&piece[..read]);
        kept.drain(..kept.len().saturating_sub(most));
    }
    String::from_utf8_lossy(&kept).into_owned()
}
