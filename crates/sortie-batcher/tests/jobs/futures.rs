//! Futures of batches are polled when they ask for it, and only then, whichever batch they belong to.

use std::{
    task::{Context, Waker},
    time::Duration,
};

use sortie_batcher::FlushReason;

use super::*;

/// Batches that finish when the test says so, and count how often they were polled.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<Vec<Batch>>>);

#[derive(Default)]
struct Batch {
    polls: usize,
    open: bool,
    waker: Option<Waker>,
}

struct Gated(Gate, usize, Vec<u32>);

impl Gate {
    /// Lets a batch finish, or only wakes it.
    fn wake(&self, batch: usize, open: bool) {
        let mut batches = self.0.lock().expect("no panic");
        batches[batch].open = open;
        let waker = batches[batch].waker.take();
        drop(batches);
        waker.expect("it was polled").wake();
    }

    fn polls(&self) -> Vec<usize> {
        self.0.lock().expect("no panic").iter().map(|batch| batch.polls).collect()
    }
}

impl Future for Gated {
    type Output = Result<Answers, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut batches = self.0.0.lock().expect("no panic");
        let batch = &mut batches[self.1];
        batch.polls += 1;
        batch.waker = Some(cx.waker().clone());
        if !batch.open {
            return Poll::Pending;
        }
        Poll::Ready(Ok(self.2.iter().map(|number| Ok(number + 1)).collect()))
    }
}

impl Job for Gate {
    type Input = u32;
    type Output = u32;
    type Worker = ();
    type Answers = Answers;
    type Running = Gated;
    type Error = Error;

    fn start(&self, (): &mut (), inputs: &mut [u32]) -> Result<Gated, Error> {
        let mut batches = self.0.lock().expect("no panic");
        batches.push(Batch::default());
        Ok(Gated(self.clone(), batches.len() - 1, inputs.to_vec()))
    }
}

fn gated() -> (Gate, Batcher<Gate>, Worker<Gate>) {
    let gate = Gate::default();
    let config = BatchConfig::default().with_max_batch_size(1).with_max_wait(Duration::from_secs(3600));
    let (batcher, mut workers) = Batcher::without_driver([()], gate.clone(), config).expect("a batcher");
    (gate, batcher, workers.pop().expect("one worker"))
}

#[test]
fn a_step_does_one_thing_and_says_what() {
    let (gate, batcher, mut worker) = gated();
    assert_eq!(worker.step(false), Action::Wait(None));
    let response = batcher.call(1).send();
    assert_eq!(worker.step(false), Action::Start { reason: FlushReason::Full, capacity: 1 });
    assert_eq!(worker.step(false), Action::Wait(None));
    gate.wake(0, false);
    assert_eq!(worker.step(false), Action::Poll, "it was woken for nothing");
    assert_eq!(worker.step(false), Action::Wait(None));
    gate.wake(0, true);
    assert_eq!(worker.step(false), Action::Poll);
    assert_eq!(response.wait().expect("an answer"), 2);
    assert_eq!(gate.polls(), [3], "at its start, and each time that it was woken");
    batcher.close();
    assert_eq!(worker.step(true), Action::End);
}

#[test]
fn all_batches_under_way_make_progress_and_are_answered_in_order() {
    let (gate, batcher, mut worker) = gated();
    let responses = [1, 2, 3].map(|number| batcher.call(number).send());
    assert_eq!(steps(&mut worker).len(), 2, "two are under way");
    gate.wake(1, false);
    assert_eq!(steps(&mut worker), [Action::Poll]);
    assert_eq!(gate.polls(), [1, 2], "the younger one was polled, and the other was not");
    gate.wake(1, true);
    assert_eq!(steps(&mut worker), [Action::Poll]);
    assert_eq!(batcher.metrics().service.max, Duration::ZERO, "no batch was answered");
    gate.wake(0, true);
    steps(&mut worker);
    gate.wake(2, true);
    steps(&mut worker);
    let answers = responses.map(|response| response.wait().expect("an answer"));
    assert_eq!((answers, gate.polls()), ([2, 3, 4], vec![2, 3, 2]));
}

#[test]
fn a_sleeping_worker_wakes_when_a_batch_asks_to_be_polled() {
    let (gate, batcher, mut worker) = gated();
    let stepping = std::thread::spawn(move || while worker.step(true) != Action::End {});
    let response = batcher.call(1).send();
    while gate.polls().is_empty() || gate.0.lock().expect("no panic")[0].waker.is_none() {
        std::thread::yield_now();
    }
    gate.wake(0, true);
    assert_eq!(response.wait().expect("an answer"), 2);
    batcher.close();
    stepping.join().expect("no panic");
}

#[test]
fn waits_and_batches_are_traced_on_request() {
    let traced = Arc::new(AtomicUsize::new(0));
    let job = Doubler { traced: Some(traced.clone()), ..Doubler::default() };
    let (batcher, mut worker, _) = service(job, BatchConfig::default());
    let responses = send(&batcher, &[Ask::Double(1), Ask::Double(2)]);
    steps(&mut worker);
    assert_eq!(kinds(responses), [Ok(2), Ok(4)]);
    assert_eq!(traced.load(Ordering::Relaxed), 202, "two waits, and a batch of two rows");
}
