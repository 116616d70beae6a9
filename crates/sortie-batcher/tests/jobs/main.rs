//! Jobs without a device, most of them on the test's own thread: futures that fail, panic, or wait for each other; workers that fail and recover; drivers.

mod callers;
mod drivers;
mod faults;
mod futures;

use std::{
    future::{Future, poll_fn},
    panic::resume_unwind,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    thread::{self, ThreadId},
};

use sortie_batcher::{Action, BatchConfig, Batcher, Error, ErrorKind, Job, ResponseFuture, Stage, Worker};

/// What a request has happen to its batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ask {
    Double(u32),
    /// Doubles a number, when its future is polled the second time.
    DoubleLater(u32),
    /// Starting fails or panics.
    FailStart,
    PanicStart,
    /// The future fails or panics.
    FailRun,
    PanicRun,
    /// One answer too many.
    TooMany,
    /// The connection breaks, or the whole batch is refused.
    Disconnect,
    Refuse,
}

/// Doubles numbers over a connection.
#[derive(Default)]
struct Doubler {
    /// Whether a broken connection can be made again.
    reconnects: bool,
    /// Whether batches may run in polls.
    polled: bool,
    traced: Option<Arc<AtomicUsize>>,
}

/// A connection, and what happened to it.
#[derive(Clone, Debug, Default)]
struct Connection {
    started: Arc<AtomicUsize>,
    reset: Arc<AtomicUsize>,
    reconnected: Arc<AtomicUsize>,
    /// The thread that started a batch last.
    thread: Arc<Mutex<Option<ThreadId>>>,
}

type Answers = Vec<Result<u32, Error>>;

impl Job for Doubler {
    type Input = Ask;
    type Output = u32;
    type Worker = Connection;
    type Answers = Answers;
    type Running = Pin<Box<dyn Future<Output = Result<Answers, Error>> + Send>>;
    type Error = Error;

    fn start(&self, connection: &mut Connection, inputs: &mut [Ask]) -> Result<Self::Running, Error> {
        connection.started.fetch_add(1, Ordering::Relaxed);
        *connection.thread.lock().expect("no panic") = Some(thread::current().id());
        if inputs.contains(&Ask::FailStart) {
            return Err(Error::input("it does not start"));
        }
        if inputs.contains(&Ask::PanicStart) {
            // A panic that the hook prints nothing of.
            resume_unwind(Box::new("as was asked for"));
        }
        let inputs = inputs.to_vec();
        Ok(Box::pin(run(inputs)))
    }

    fn runs_in_polls(&self) -> bool {
        self.polled
    }

    fn isolates(&self, _: Stage, error: &Error) -> bool {
        error.kind() != ErrorKind::Overloaded
    }

    fn worker_failed(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Other
    }

    fn recover(&self, connection: &mut Connection, error: &Error) -> Result<(), Error> {
        if !self.reconnects {
            return Err(error.clone());
        }
        connection.reconnected.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn reset(&self, connection: &mut Connection) -> Result<(), Error> {
        connection.reset.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn is_traced(&self, _: &Connection) -> bool {
        self.traced.is_some()
    }

    fn trace_waits(&self, _: &Connection, waits: &mut dyn Iterator<Item = std::ops::Range<std::time::Instant>>) {
        let Some(traced) = &self.traced else { return };
        traced.fetch_add(waits.count(), Ordering::Relaxed);
    }

    fn trace_batch(&self, _: &Connection, ran: std::ops::Range<std::time::Instant>, rows: usize) {
        assert!(ran.start <= ran.end);
        let Some(traced) = &self.traced else { return };
        traced.fetch_add(100 * rows, Ordering::Relaxed);
    }
}

/// Is polled twice.
async fn again() {
    let mut polled = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn run(inputs: Vec<Ask>) -> Result<Answers, Error> {
    let mut answers = Answers::new();
    for input in &inputs {
        match input {
            Ask::Double(number) => answers.push(Ok(2 * number)),
            Ask::DoubleLater(number) => {
                again().await;
                answers.push(Ok(2 * number));
            }
            Ask::FailRun => return Err(Error::input("it does not run")),
            Ask::PanicRun => resume_unwind(Box::new("as was asked for")),
            Ask::TooMany => answers.extend([Ok(1), Ok(2)]),
            Ask::Disconnect => return Err(Error::other(std::io::Error::other("connection reset"))),
            Ask::Refuse => return Err(Error::new(ErrorKind::Overloaded, "the database is busy")),
            Ask::FailStart | Ask::PanicStart => unreachable!("it has not started"),
        }
    }
    Ok(answers)
}

type Service = (Batcher<Doubler>, Worker<Doubler>, Connection);

/// A batcher whose one worker the test drives.
fn service(job: Doubler, config: BatchConfig) -> Service {
    let connection = Connection::default();
    let (batcher, mut workers) = Batcher::without_driver([connection.clone()], job, config).expect("a batcher");
    (batcher, workers.pop().expect("one worker"), connection)
}

/// Sends all of them before anything runs.
fn send(batcher: &Batcher<Doubler>, asks: &[Ask]) -> Vec<ResponseFuture<Doubler>> {
    asks.iter().map(|ask| batcher.call(*ask).send()).collect()
}

/// Steps until there is nothing to do, and says what was done.
fn steps<J: Job>(worker: &mut Worker<J>) -> Vec<Action> {
    let mut done = Vec::new();
    loop {
        match worker.step(false) {
            Action::Wait(_) => return done,
            Action::End => {
                done.push(Action::End);
                return done;
            }
            action => done.push(action),
        }
    }
}

fn kinds(responses: Vec<ResponseFuture<Doubler>>) -> Vec<Result<u32, ErrorKind>> {
    responses.into_iter().map(|response| response.wait().map_err(|error| error.kind())).collect()
}
