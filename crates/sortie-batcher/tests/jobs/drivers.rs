//! Threads and other drivers.

use std::sync::mpsc;

use sortie_batcher::{Driver, Threads, batch_fn};

use super::*;

#[test]
fn threads_call_their_hooks_and_end_when_the_last_handle_is_dropped() {
    let started = Arc::new(AtomicUsize::new(0));
    let (closed, threads) = mpsc::channel();
    let counted = started.clone();
    let driver = Threads::named("doubler")
        .on_start(move || {
            assert_eq!(thread::current().name(), Some("doubler"));
            counted.fetch_add(1, Ordering::Relaxed);
        })
        .on_close(move |thread| drop(closed.send(thread)));
    let workers = vec![Connection::default(); 3];
    let batcher = Batcher::with_driver(workers, Doubler::default(), BatchConfig::default(), Box::new(driver));
    let batcher = batcher.expect("a batcher");
    let last = batcher.call(Ask::Double(21)).send();
    drop(batcher);
    assert!(threads.try_recv().is_err(), "the request keeps it open");
    assert_eq!(last.wait().expect("an answer"), 42);
    // What waits for the answer is its last handle.
    threads.iter().take(3).for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(started.load(Ordering::Relaxed), 3);
}

/// Drives no worker.
struct Refusing;

impl<J: Job> Driver<J> for Refusing {
    fn start(&self, worker: Worker<J>) -> Result<(), Error> {
        drop(worker);
        Err(Error::new(ErrorKind::Internal, "no thread for it"))
    }
}

#[test]
fn a_driver_that_refuses_a_worker_fails_the_batcher() {
    let config = BatchConfig::default();
    let error = Batcher::with_driver([Connection::default()], Doubler::default(), config, Box::new(Refusing));
    assert_eq!(error.expect_err("refused").to_string(), "no thread for it");
}

#[test]
fn many_threads_and_workers_answer_each_their_own() {
    let squares = batch_fn(|numbers: &[u64]| numbers.iter().map(|x| x * x).collect());
    let batcher = Batcher::new([(); 3], squares, BatchConfig::default().with_max_batch_size(16));
    let batcher = batcher.expect("a batcher");
    thread::scope(|scope| {
        for thread in 0..8 {
            let batcher = &batcher;
            scope.spawn(move || {
                for number in thread * 1000..thread * 1000 + 200 {
                    assert_eq!(batcher.call_blocking(number).expect("an answer"), number * number);
                }
            });
        }
    });
    assert_eq!(batcher.metrics().requests, 1600);
    assert_eq!(batcher.worker_metrics().iter().map(|worker| worker.rows).sum::<u64>(), 1600);
}
