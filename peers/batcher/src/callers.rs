//! Callers that send a request as soon as they have an answer, and pause while it is not their contender's turn.
//!
//! They are started once and allocate nothing: what is allocated in a turn is the contender's.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::comparison::Outcome;
use crate::device::{Device, answer};
use crate::histogram::Histogram;

/// How long requests in flight may take when a turn ends.
const MAX_STOP_TIME: Duration = Duration::from_secs(5);

/// One way to answer requests.
pub(crate) trait Service: Send + Sync + 'static {
    /// Answers one request. An error ends the program.
    fn call(&self, input: u64) -> impl Future<Output = Result<u64, String>> + Send;
}

/// The turn after the last one.
const OVER: u64 = u64::MAX;

/// The callers of a contender.
pub(crate) struct Callers {
    shared: Arc<Shared>,
}

struct Shared {
    callers: usize,
    /// Counts turns. Each caller takes part in each turn, even if it wakes up when the turn is over.
    turn: watch::Sender<u64>,
    open: AtomicBool,
    active: AtomicUsize,
    fault: OnceLock<String>,
    times: Histogram,
}

impl Callers {
    /// Starts `n` tasks, each of which sends its own numbers and checks the answers.
    pub(crate) fn new(runtime: &Runtime, n: usize, service: impl Service) -> Self {
        let shared = Arc::new(Shared::new(n));
        let service = Arc::new(service);
        for caller in 0..n {
            // Before the first turn, which it would miss otherwise.
            let turn = shared.turn.subscribe();
            runtime.spawn(call_again(shared.clone(), turn, service.clone(), (caller as u64) << 40));
        }
        Self { shared }
    }

    /// A thread that runs full batches on the device, one after the other, without callers.
    pub(crate) fn direct(runtime: &Runtime, rows: usize, device: Arc<Device>) -> Self {
        let shared = Arc::new(Shared::new(1));
        let (own, mut turn, handle) = (shared.clone(), shared.turn.subscribe(), runtime.handle().clone());
        thread::spawn(move || {
            let mut batch: Vec<u64> = (0..rows as u64).collect();
            while handle.block_on(next(&mut turn)) {
                own.work(|| {
                    let first = batch[0];
                    device.run(&mut batch);
                    (batch[0] == answer(first)).then_some(rows as u64).ok_or_else(|| "a wrong answer".into())
                });
            }
        });
        Self { shared }
    }

    /// Times of requests.
    pub(crate) fn times(&self) -> &Histogram {
        &self.shared.times
    }

    /// Starts a turn.
    pub(crate) fn start(&self) {
        let shared = &self.shared;
        shared.active.store(shared.callers, Ordering::SeqCst);
        shared.open.store(true, Ordering::SeqCst);
        shared.turn.send_modify(|turn| *turn += 1);
    }

    /// Ends the turn, and waits until each caller has its last answer.
    pub(crate) fn stop(&self) -> Outcome<()> {
        let shared = &self.shared;
        shared.open.store(false, Ordering::SeqCst);
        let begin = Instant::now();
        while shared.active.load(Ordering::SeqCst) > 0 && shared.fault.get().is_none() {
            if begin.elapsed() > MAX_STOP_TIME {
                return Err(format!("{} requests got no answer", shared.active.load(Ordering::SeqCst)).into());
            }
            thread::sleep(Duration::from_micros(200));
        }
        shared.fault.get().map_or(Ok(()), |fault| Err(fault.clone().into()))
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.shared.turn.send_replace(OVER);
    }
}

impl Shared {
    fn new(callers: usize) -> Self {
        Self {
            callers,
            turn: watch::Sender::new(0),
            open: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            fault: OnceLock::new(),
            times: Histogram::new(),
        }
    }

    /// Works until the turn is over.
    fn work(&self, mut once: impl FnMut() -> Result<u64, String>) {
        let mut begun = Instant::now();
        while self.open.load(Ordering::Relaxed) {
            begun = self.done(begun, once());
        }
        self.active.fetch_sub(1, Ordering::SeqCst);
    }

    /// Records the answer to requests that were sent at `begun`, and returns the time now, at which the next ones are sent.
    fn done(&self, begun: Instant, answered: Result<u64, String>) -> Instant {
        let now = Instant::now();
        match answered {
            Ok(requests) => self.times.add(now - begun, requests),
            Err(fault) => {
                self.fault.get_or_init(|| fault);
                self.open.store(false, Ordering::SeqCst);
            }
        }
        now
    }
}

/// Waits for the next turn; false when there is none.
async fn next(turn: &mut watch::Receiver<u64>) -> bool {
    turn.changed().await.is_ok() && *turn.borrow_and_update() != OVER
}

async fn call_again<S: Service>(shared: Arc<Shared>, mut turn: watch::Receiver<u64>, service: Arc<S>, mut input: u64) {
    while next(&mut turn).await {
        let mut begun = Instant::now();
        while shared.open.load(Ordering::Relaxed) {
            input += 1;
            let answered = match service.call(input).await {
                Ok(found) if found == answer(input) => Ok(1),
                Ok(found) => Err(format!("{found:#x} is the answer to {:#x}, not to {input:#x}", answer(found))),
                Err(error) => Err(error),
            };
            begun = shared.done(begun, answered);
        }
        shared.active.fetch_sub(1, Ordering::SeqCst);
    }
}
