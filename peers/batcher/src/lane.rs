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

#[derive(Clone, Copy, PartialEq)]
enum Gate {
    Shut,
    Open,
    /// For good.
    Over,
}

/// The callers of a contender.
pub(crate) struct Lane {
    shared: Arc<Shared>,
}

struct Shared {
    callers: usize,
    gate: watch::Sender<Gate>,
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
            runtime.spawn(call_again(shared.clone(), service.clone(), (caller as u64) << 40));
        }
        Self { shared }
    }

    /// A thread that has the device run full batches, one after the other, for nobody.
    pub(crate) fn direct(runtime: &Runtime, rows: usize, device: Arc<Device>) -> Self {
        let shared = Arc::new(Shared::new(1));
        let (own, handle) = (shared.clone(), runtime.handle().clone());
        thread::spawn(move || {
            let mut batch: Vec<u64> = (0..rows as u64).collect();
            let mut gate = own.gate.subscribe();
            while handle.block_on(own.wait(&mut gate)) {
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
        shared.gate.send_replace(Gate::Open);
    }

    /// Has the callers stop, and waits until each has its last answer.
    pub(crate) fn close(&self) -> Outcome<()> {
        let shared = &self.shared;
        shared.gate.send_replace(Gate::Shut);
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
        self.shared.gate.send_replace(Gate::Over);
    }
}

impl Shared {
    fn new(callers: usize) -> Self {
        Self {
            callers,
            gate: watch::Sender::new(Gate::Shut),
            open: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            fault: OnceLock::new(),
            ledger: Ledger::new(),
        }
    }

    /// Until the gate opens; false when it never will again.
    async fn wait(&self, gate: &mut watch::Receiver<Gate>) -> bool {
        gate.wait_for(|gate| *gate != Gate::Shut).await.is_ok_and(|gate| *gate == Gate::Open)
    }

    /// Works while the gate is open.
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

async fn call_again<S: Service>(shared: Arc<Shared>, service: Arc<S>, mut input: u64) {
    let mut gate = shared.gate.subscribe();
    while shared.wait(&mut gate).await {
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
