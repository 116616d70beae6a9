//! Callers that run their own batches on their own threads: they get the same answers, errors and metrics as from the
//! worker's thread.

use std::{
    sync::mpsc,
    task::{Context, Wake, Waker},
    time::Duration,
};

use sortie_batcher::{BatchMetrics, Threads, batch_fn};

use super::*;

/// A batcher on one thread, which has measured its job.
fn started(job: Doubler, config: BatchConfig, threads: Threads) -> (Batcher<Doubler>, Connection) {
    let connection = Connection::default();
    let batcher = Batcher::with_driver([connection.clone()], job, config, Box::new(threads)).expect("a batcher");
    for number in 0..2 {
        assert_eq!(batcher.call(Ask::Double(number)).send().wait().expect("an answer"), 2 * number);
    }
    (batcher, connection)
}

fn polled() -> Doubler {
    Doubler { polled: true, ..Doubler::default() }
}

fn ran_here(connection: &Connection) -> bool {
    *connection.thread.lock().expect("no panic") == Some(thread::current().id())
}

/// Calls until a batch runs on this thread: the worker's thread must be asleep for that.
fn call_until_here(batcher: &Batcher<Doubler>, connection: &Connection) {
    while !ran_here(connection) {
        assert_eq!(batcher.call_blocking(Ask::Double(4)).expect("an answer"), 8);
    }
}

/// A waker that counts.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_lone_caller_that_blocks_runs_its_batch_on_its_own_thread() {
    let (batcher, connection) = started(Doubler::default(), BatchConfig::default(), Threads::default());
    call_until_here(&batcher, &connection);
    let metrics = batcher.metrics();
    assert_eq!((metrics.rows, metrics.batches, metrics.idle), (metrics.requests, metrics.requests, metrics.requests));
}

#[test]
fn a_lone_task_runs_its_batch_in_its_poll_if_the_job_allows_it() {
    let (batcher, connection) = started(polled(), BatchConfig::default(), Threads::default());
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(counter.clone());
    loop {
        let before = counter.0.load(Ordering::Relaxed);
        let mut request = batcher.call(Ask::Double(4));
        let first = Pin::new(&mut request).poll(&mut Context::from_waker(&waker));
        if let Poll::Ready(answer) = first {
            assert_eq!(answer.expect("an answer"), 8);
            assert!(ran_here(&connection));
            assert_eq!(counter.0.load(Ordering::Relaxed), before, "a caller that has its answer is not woken for it");
            break;
        }
        assert_eq!(request.wait().expect("an answer"), 8);
    }
}

#[test]
fn no_batch_runs_in_a_poll_if_the_job_does_not_allow_it() {
    let (batcher, connection) = started(Doubler::default(), BatchConfig::default(), Threads::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        for number in 0..200 {
            assert_eq!(batcher.call(Ask::Double(number)).await.expect("an answer"), 2 * number);
            assert!(!ran_here(&connection));
        }
    });
}

#[test]
fn on_exclusive_threads_no_batch_runs_on_a_caller() {
    let (batcher, connection) = started(polled(), BatchConfig::default(), Threads::default().exclusive());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for number in 0..100 {
        assert_eq!(batcher.call_blocking(Ask::Double(number)).expect("an answer"), 2 * number);
        assert!(!ran_here(&connection));
        let answer = runtime.block_on(async { batcher.call(Ask::Double(number)).await });
        assert_eq!(answer.expect("an answer"), 2 * number);
        assert!(!ran_here(&connection));
    }
}

#[test]
fn a_batch_that_does_not_finish_at_once_is_finished_by_the_worker() {
    let (batcher, connection) = started(Doubler::default(), BatchConfig::default(), Threads::default());
    loop {
        assert_eq!(batcher.call_blocking(Ask::DoubleLater(4)).expect("an answer"), 8);
        if ran_here(&connection) {
            break;
        }
    }
}

#[test]
fn a_batch_that_fails_on_its_caller_fails_as_on_the_worker() {
    for (ask, kind) in [
        (Ask::FailStart, ErrorKind::Input),
        (Ask::PanicStart, ErrorKind::JobPanicked),
        (Ask::FailRun, ErrorKind::Input),
        (Ask::PanicRun, ErrorKind::JobPanicked),
        (Ask::TooMany, ErrorKind::Shape),
        (Ask::Refuse, ErrorKind::Overloaded),
    ] {
        let (batcher, connection) = started(Doubler::default(), BatchConfig::default(), Threads::default());
        let mut failed = 0;
        loop {
            call_until_here(&batcher, &connection);
            *connection.thread.lock().expect("no panic") = None;
            let error = batcher.call_blocking(ask).expect_err("it fails");
            failed += 1;
            assert_eq!(error.kind(), kind, "{ask:?}");
            if ran_here(&connection) {
                break;
            }
        }
        assert_eq!(batcher.call_blocking(Ask::Double(1)).expect("an answer"), 2, "{ask:?}");
        let BatchMetrics { failed: batches, retries, isolated, prepared, .. } = batcher.metrics();
        assert_eq!((batches, retries, isolated), (failed, 0, 0), "{ask:?}");
        let resets = if kind == ErrorKind::JobPanicked { failed } else { 0 };
        assert_eq!((prepared, connection.reset.load(Ordering::Relaxed) as u64), (resets, resets), "{ask:?}");
    }
}

#[test]
fn a_worker_that_fails_on_a_caller_recovers_on_its_own_thread() {
    let job = Doubler { reconnects: true, ..Doubler::default() };
    let (batcher, connection) = started(job, BatchConfig::default(), Threads::default());
    call_until_here(&batcher, &connection);
    assert_eq!(batcher.call_blocking(Ask::Disconnect).expect_err("broken").kind(), ErrorKind::Other);
    assert_eq!(batcher.call_blocking(Ask::Double(3)).expect("an answer"), 6);
    assert_eq!((connection.reconnected.load(Ordering::Relaxed), batcher.metrics().reopened), (1, 1));
}

#[test]
fn waits_and_batches_of_callers_are_traced() {
    let traced = Arc::new(AtomicUsize::new(0));
    let job = Doubler { traced: Some(traced.clone()), ..Doubler::default() };
    let (batcher, connection) = started(job, BatchConfig::default(), Threads::default());
    call_until_here(&batcher, &connection);
    assert_eq!(traced.load(Ordering::Relaxed) as u64, 101 * batcher.metrics().batches);
}

#[test]
fn a_batch_that_must_wait_for_others_is_not_run_by_its_caller() {
    let config = BatchConfig::default().with_greedy(false).with_max_wait(Duration::from_micros(10));
    let (batcher, connection) = started(polled(), config, Threads::default());
    for number in 0..20 {
        assert_eq!(batcher.call_blocking(Ask::Double(number)).expect("an answer"), 2 * number);
        assert!(!ran_here(&connection));
    }
    assert_eq!(batcher.metrics().waited, 22);
}

#[test]
fn a_lone_caller_may_be_too_late_or_refused() {
    let (batcher, connection) = started(Doubler::default(), BatchConfig::default(), Threads::default());
    call_until_here(&batcher, &connection);
    let late = batcher.call(Ask::Double(1)).within(Duration::ZERO).wait();
    assert_eq!(late.expect_err("too late").kind(), ErrorKind::Expired);
    assert_eq!(batcher.call(Ask::Double(1)).within(Duration::from_secs(3600)).wait().expect("an answer"), 2);
    batcher.close();
    assert_eq!(batcher.call_blocking(Ask::Double(1)).expect_err("closed").kind(), ErrorKind::Canceled);
    assert_eq!(batcher.metrics().expired, 1);
}

#[test]
fn the_thread_of_a_worker_that_callers_have_used_ends_with_the_batcher() {
    let (closed, threads) = mpsc::channel();
    let driver = Threads::default().on_close(move |thread| drop(closed.send(thread)));
    let (batcher, connection) = started(Doubler::default(), BatchConfig::default(), driver);
    call_until_here(&batcher, &connection);
    drop(batcher);
    threads.recv().expect("a thread").join().expect("no panic");
}

#[test]
fn tasks_of_one_executor_share_batches() {
    let (batcher, _) = started(polled(), BatchConfig::default().with_max_batch_size(64), Threads::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let caller = |caller: u32| {
            let batcher = batcher.clone();
            tokio::spawn(async move {
                for number in caller..caller + 100 {
                    assert_eq!(batcher.call(Ask::Double(number)).await.expect("an answer"), 2 * number);
                }
            })
        };
        for task in (0..32).map(caller).collect::<Vec<_>>() {
            task.await.expect("no panic");
        }
    });
    let metrics = batcher.metrics();
    assert_eq!((metrics.requests, metrics.rows), (3202, 3202));
    assert!(metrics.batches < 1601, "{} batches", metrics.batches);
}

#[test]
fn a_task_dropped_before_it_runs_the_batch_does_not_affect_other_requests() {
    let (batcher, _) = started(polled(), BatchConfig::default(), Threads::default());
    for round in 0..200 {
        let poll = |request: &mut sortie_batcher::RequestFuture<Doubler>| {
            Pin::new(request).poll(&mut Context::from_waker(Waker::noop()))
        };
        let mut requests = [0, 1, 2].map(|number| batcher.call(Ask::Double(number)));
        let answered = requests.each_mut().map(|request| poll(request).is_ready());
        let [first, second, third] = requests;
        drop(first);
        for (number, request) in [(1, second), (2, third)] {
            if !answered[number as usize] {
                assert_eq!(request.wait().expect("an answer"), 2 * number, "round {round}");
            }
        }
    }
}

#[test]
fn a_task_that_is_not_polled_again_delays_no_other_caller() {
    let (batcher, _) = started(polled(), BatchConfig::default(), Threads::default());
    for round in 0..50 {
        let mut request = batcher.call(Ask::Double(1));
        let first = Pin::new(&mut request).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(batcher.call(Ask::Double(2)).send().wait().expect("an answer"), 4, "round {round}");
        if first.is_pending() {
            assert_eq!(request.wait().expect("an answer"), 2, "round {round}");
        }
    }
}

#[test]
fn many_threads_and_tasks_get_each_their_own_answers() {
    let batcher = Batcher::new([Connection::default(), Connection::default()], polled(), BatchConfig::default());
    let batcher = batcher.expect("a batcher");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let tasks: Vec<_> = (0..16)
        .map(|caller| {
            let batcher = batcher.clone();
            runtime.spawn(async move {
                for number in caller * 1000..caller * 1000 + 300 {
                    assert_eq!(batcher.call(Ask::Double(number)).await.expect("an answer"), 2 * number);
                }
            })
        })
        .collect();
    for number in 0..300 {
        assert_eq!(batcher.call_blocking(Ask::Double(number)).expect("an answer"), 2 * number);
    }
    for task in tasks {
        runtime.block_on(task).expect("no panic");
    }
    assert_eq!(batcher.metrics().rows, 17 * 300);
}

#[test]
fn a_job_may_call_another_batcher_on_the_thread_of_its_caller() {
    let inner = Batcher::new([()], batch_fn(|numbers: &[u32]| numbers.to_vec()), BatchConfig::default());
    let inner = inner.expect("a batcher");
    let outer = batch_fn(move |numbers: &[u32]| {
        numbers.iter().map(|number| inner.call_blocking(*number).unwrap_or_default()).collect()
    });
    let outer = Batcher::new([()], outer, BatchConfig::default()).expect("a batcher");
    for number in 0..100 {
        assert_eq!(outer.call_blocking(number).expect("an answer"), number);
    }
}
