//! Callers who ask again as soon as they have an answer, and stand still while it is another's turn.
//!
//! They are made once and allocate nothing: what is allocated in a turn is the contender's.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::contest::Outcome;
use crate::device::{Device, answer};
use crate::ledger::Ledger;

/// Nobody takes longer than this for what is under way when a turn ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// One way to have requests answered.
pub(crate) trait Service: Send + Sync + 'static {
    /// Has one request answered. An error is told to the reader, and ends everything.
    fn call(&self, input: u64) -> impl Future<Output = Result<u64, String>> + Send;
}

/// The turn after the last one.
const OVER: u64 = u64::MAX;

/// The callers of a contender.
pub(crate) struct Lane {
    shared: Arc<Shared>,
}

struct Shared {
    callers: usize,
    /// Counts turns: everyone takes part in each, even who hears of it when it is over.
    turn: watch::Sender<u64>,
    open: AtomicBool,
    active: AtomicUsize,
    fault: OnceLock<String>,
    ledger: Ledger,
}

impl Lane {
    /// So many tasks, each of which sends its own numbers and checks the answers.
    pub(crate) fn callers(runtime: &Runtime, n: usize, service: impl Service) -> Self {
        let shared = Arc::new(Shared::new(n));
        let service = Arc::new(service);
        for caller in 0..n {
            // Before the first turn, which it would miss else.
            let turn = shared.turn.subscribe();
            runtime.spawn(call_again(shared.clone(), turn, service.clone(), (caller as u64) << 40));
        }
        Self { shared }
    }

    /// A thread that has the device run full batches, one after the other, for nobody.
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

    /// Where the times go.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// Lets the callers begin.
    pub(crate) fn open(&self) {
        let shared = &self.shared;
        shared.active.store(shared.callers, Ordering::SeqCst);
        shared.open.store(true, Ordering::SeqCst);
        shared.turn.send_modify(|turn| *turn += 1);
    }

    /// Has the callers stop, and waits until each has its last answer.
    pub(crate) fn close(&self) -> Outcome<()> {
        let shared = &self.shared;
        shared.open.store(false, Ordering::SeqCst);
        let begin = Instant::now();
        while shared.active.load(Ordering::SeqCst) > 0 && shared.fault.get().is_none() {
            if begin.elapsed() > PATIENCE {
                return Err(format!("{} requests got no answer", shared.active.load(Ordering::SeqCst)).into());
            }
            thread::sleep(Duration::from_micros(200));
        }
        shared.fault.get().map_or(Ok(()), |fault| Err(fault.clone().into()))
    }
}

impl Drop for Lane {
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
            ledger: Ledger::new(),
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

    /// Requests that were begun at a time are answered now, which is when the next ones begin.
    fn done(&self, begun: Instant, answered: Result<u64, String>) -> Instant {
        let now = Instant::now();
        match answered {
            Ok(requests) => self.ledger.enter(now - begun, requests),
            Err(fault) => {
                self.fault.get_or_init(|| fault);
                self.open.store(false, Ordering::SeqCst);
            }
        }
        now
    }
}

/// Until the next turn; false when there is none.
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
