//! Requests that fail their batch fail alone: the batch is run again in halves until they are isolated.

use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sortie::{
    Batch, BatchConfig, Batcher, Device, Error, ErrorKind,
    batcher::{Answers, BatchMetrics, CallOptions, DeviceJob, OnDevice, ResponseFuture},
};

use crate::{Ask, Gate, Triple, devices, one, tripled};

/// A batcher that has been asked all of these before it runs anything but the first of them.
fn asked_at_once(
    device: &Device,
    asks: &[Ask],
    config: BatchConfig,
) -> (Batcher<OnDevice<Triple>>, Vec<ResponseFuture<OnDevice<Triple>>>) {
    let job = Triple::default();
    let gate = job.gate.clone();
    gate.set(true);
    let config = config.with_queue_capacity(usize::MAX);
    let batcher = Batcher::new(device, job, config).expect("a batcher");
    let calls = asks.iter().map(|ask| batcher.call(ask.clone()).send()).collect();
    gate.set(false);
    (batcher, calls)
}

/// The kind of error that a request ends with.
fn fault(ask: &Ask) -> Option<ErrorKind> {
    match ask {
        Ask::Fail => Some(ErrorKind::Input),
        Ask::Panic => Some(ErrorKind::JobPanicked),
        Ask::TooFew => Some(ErrorKind::Shape),
        _ => None,
    }
}

/// Waits for all of them. Each has its own answer or its own error.
fn each_has_its_own(asks: &[Ask], calls: Vec<ResponseFuture<OnDevice<Triple>>>, name: &str) -> usize {
    let mut right = 0;
    for (at, (ask, call)) in asks.iter().zip(calls).enumerate() {
        match (call.wait(), fault(ask), ask) {
            (Ok(answer), None, Ask::Numbers(numbers)) => {
                assert_eq!(answer, tripled(numbers), "{name}, {at}");
                right += 1;
            }
            (Err(error), Some(kind), _) => assert_eq!(error.kind(), kind, "{name}, {at}: {error}"),
            (answer, _, _) => panic!("{name}, {at}: {answer:?} for {ask:?}"),
        }
    }
    right
}

#[test]
fn of_many_requests_the_three_percent_that_fail_their_batches_fail_alone() {
    for (name, device) in devices() {
        let requests = if name == "cpu" { 10_000 } else { 1_000 };
        let asks: Vec<Ask> = (0..requests)
            .map(|number| match number % 100 {
                7 => Ask::Fail,
                37 => Ask::Panic,
                71 => Ask::TooFew,
                _ => one(number),
            })
            .collect();
        let before = device.metrics();
        let (batcher, calls) = asked_at_once(&device, &asks, BatchConfig::default());
        let right = each_has_its_own(&asks, calls, name);
        let (metrics, did) = (batcher.metrics(), device.metrics() - before);
        assert_eq!(right as u32, requests / 100 * 97, "{name}");
        let culprits = u64::from(requests / 100 * 3);
        // None was alone in its batch from the beginning: the first batch is good, and the others have many.
        assert_eq!(metrics.isolated, culprits, "{name}: {metrics:?}");
        // Two for each culprit and halving of 1,024; and half as many as there are requests, or 64 for each batch.
        let most = u64::from(requests) / 2 + 64 * metrics.failed;
        assert!(metrics.retries <= (2 * culprits * 10).min(most), "{name}: {metrics:?}");
        assert!(did.submissions <= metrics.batches + metrics.retries, "{name}: {metrics:?}, {did:?}");
        assert!(metrics.failed <= metrics.batches && metrics.prepared > 0, "{name}: {metrics:?}");
        assert_eq!(metrics.queued_rows, 0, "{name}");
    }
}

#[test]
fn one_culprit_costs_two_attempts_for_each_halving() {
    let device = Device::cpu().expect("the CPU");
    let config = BatchConfig::default().with_max_batch_size(64).with_greedy(false).with_max_wait(Duration::MAX);
    for culprit in [Ask::Fail, Ask::Panic, Ask::TooFew] {
        let mut asks: Vec<Ask> = (0..64).map(one).collect();
        asks[41] = culprit.clone();
        let (batcher, calls) = asked_at_once(&device, &asks, config);
        assert_eq!(each_has_its_own(&asks, calls, "cpu"), 63);
        let BatchMetrics { batches, failed, retries, isolated, prepared, .. } = batcher.metrics();
        assert_eq!((batches, failed, retries, isolated), (1, 1, 12, 1), "{culprit:?}");
        // It panics with 64, 32, 16, 8, 4, 2 and 1 requests, and each time something is left to be tried.
        assert_eq!(prepared, if culprit == Ask::Panic { 7 } else { 0 }, "{culprit:?}");
    }
}

#[test]
fn a_batch_of_nothing_but_culprits_ends_after_a_bounded_number_of_attempts() {
    let device = Device::cpu().expect("the CPU");
    let config = BatchConfig::default().with_max_batch_size(512).with_greedy(false).with_max_wait(Duration::MAX);
    let asks = vec![Ask::Panic; 512];
    let (batcher, calls) = asked_at_once(&device, &asks, config);
    each_has_its_own(&asks, calls, "cpu");
    let metrics = batcher.metrics();
    assert_eq!((metrics.failed, metrics.retries), (1, 256), "{metrics:?}");
    assert_eq!(batcher.call(one(3)).send().wait_closing(&batcher), tripled(&[3]));
}

/// Waits for an answer that leaves only because the batcher closes.
trait WaitClosing {
    fn wait_closing(self, batcher: &Batcher<OnDevice<Triple>>) -> Vec<u32>;
}

impl WaitClosing for ResponseFuture<OnDevice<Triple>> {
    fn wait_closing(self, batcher: &Batcher<OnDevice<Triple>>) -> Vec<u32> {
        batcher.close();
        self.wait().expect("an answer")
    }
}

#[test]
fn dropped_and_expired_requests_are_not_run_again() {
    let (gate, recorded) = (Arc::new(Gate::default()), Arc::new(AtomicUsize::new(0)));
    gate.set(true);
    let job = Fragile { gate: gate.clone(), recorded: recorded.clone() };
    let config = BatchConfig::default().with_max_batch_size(4).with_greedy(false).with_max_wait(Duration::MAX);
    let batcher = Batcher::new(Device::cpu().expect("the CPU"), job, config).expect("a batcher");
    let deadline = Some(Instant::now() + Duration::from_secs(2));
    let late = batcher.call(1).with(CallOptions { deadline, ..CallOptions::default() }).send();
    let gone = batcher.call(2).send();
    let panics = batcher.call(0).send();
    let last = batcher.call(3).send();
    // They are in one attempt, which waits at the gate.
    while recorded.load(Ordering::Relaxed) == 0 && batcher.metrics().expired == 0 {
        std::thread::yield_now();
    }
    drop(gone);
    while deadline.is_some_and(|deadline| Instant::now() <= deadline) {
        std::thread::yield_now();
    }
    gate.set(false);
    // On a busy machine it may have been too late at first, and three requests are no full batch.
    batcher.close();
    assert_eq!(late.wait().expect_err("too late").kind(), ErrorKind::Expired);
    assert_eq!(panics.wait().expect_err("it panics").kind(), ErrorKind::JobPanicked);
    assert_eq!(last.wait().expect("an answer"), 3);
    let metrics = batcher.metrics();
    assert_eq!((metrics.expired, metrics.canceled), (1, 1), "{metrics:?}");
}

/// Gives numbers back. Zero makes it panic, and leaves it broken until it is prepared again.
struct Fragile {
    gate: Arc<Gate>,
    /// Attempts.
    recorded: Arc<AtomicUsize>,
}

impl DeviceJob for Fragile {
    type Input = u32;
    type Output = u32;
    /// Whether it is broken.
    type Ready = bool;

    fn prepare(&self, _: &Device) -> sortie::Result<bool> {
        Ok(false)
    }

    fn record(&self, broken: &mut bool, _: &Batch, inputs: &[u32]) -> sortie::Result<Answers<u32>> {
        self.recorded.fetch_add(1, Ordering::Relaxed);
        self.gate.pass();
        if *broken {
            return Err(Error::input("it is broken"));
        }
        if inputs.contains(&0) {
            *broken = true;
            resume_unwind(Box::new("zero"));
        }
        let answers = inputs.iter().copied().map(Ok).collect();
        Ok(Box::new(move || Ok(answers)))
    }
}

#[test]
fn after_a_panic_the_job_is_prepared_again() {
    let job = Fragile { gate: Arc::default(), recorded: Arc::default() };
    let batcher = Batcher::new(Device::cpu().expect("the CPU"), job, BatchConfig::default()).expect("a batcher");
    for number in 0..3 {
        let kind = batcher.call_blocking(0).expect_err("it panics").kind();
        assert_eq!(kind, ErrorKind::JobPanicked);
        assert_eq!(batcher.metrics().prepared, number, "not before there is something to run");
        assert_eq!(batcher.call_blocking(7).expect("an answer"), 7);
        assert_eq!(batcher.metrics().prepared, number + 1);
    }
}
