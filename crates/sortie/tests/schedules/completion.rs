//! Every waiter is notified of the end, however the threads run.

use std::{sync::atomic::Ordering, time::Duration};

use shuttle::{future, sync::Arc, thread};

use crate::{
    error::{Error, ErrorKind},
    explore,
    finish::completion::{Completion, canceled},
};

#[test]
fn every_waiter_is_woken_at_the_end_once_it_is_submitted() {
    let scenario = || {
        let completion = Arc::new(Completion::new());
        completion.submitted();
        let blocked = thread::spawn({
            let completion = completion.clone();
            move || completion.wait()
        });
        let patient = thread::spawn({
            let completion = completion.clone();
            move || completion.wait_timeout(Duration::from_secs(3600))
        });
        let awaited: Vec<_> = (0..2)
            .map(|_| {
                let completion = completion.clone();
                let key = completion.key();
                future::spawn(std::future::poll_fn(move |cx| completion.poll(key, cx)))
            })
            .collect();
        completion.finish(Ok(()));
        assert_eq!(blocked.join().expect("no panic"), Ok(()));
        assert_eq!(patient.join().expect("no panic"), Ok(()));
        for task in awaited {
            assert_eq!(future::block_on(task).expect("no panic"), Ok(()));
        }
        assert!(completion.is_done());
    };
    explore(scenario);
}

#[test]
fn an_expired_wait_timeout_is_returned_and_changes_nothing() {
    let scenario = || {
        let completion = Completion::new();
        completion.submitted();
        assert_eq!(completion.wait_timeout(Duration::ZERO), Err(Error(ErrorKind::Timeout)));
        completion.finish(Ok(()));
        assert_eq!(completion.wait_timeout(Duration::ZERO), Ok(()));
    };
    explore(scenario);
}

#[test]
fn the_first_to_end_it_decides_for_all() {
    let scenario = || {
        let completion = Arc::new(Completion::new());
        completion.submitted();
        let failing = thread::spawn({
            let completion = completion.clone();
            move || completion.finish(Err(Error(ErrorKind::Canceled)))
        });
        completion.finish(Ok(()));
        let (one, other) = (completion.wait(), completion.wait());
        failing.join().expect("no panic");
        assert_eq!(one, other);
        assert_eq!(completion.wait(), one, "and it stays so");
    };
    explore(scenario);
}

#[test]
fn canceled_work_never_starts_or_is_notified() {
    let scenario = || {
        let completion = Arc::new(Completion::new());
        completion.submitted();
        let runs = thread::spawn({
            let completion = completion.clone();
            move || {
                let began = completion.begin();
                if began {
                    // As a kernel would: it stops when it sees that it should.
                    let stopped = completion.canceled.load(Ordering::Relaxed);
                    completion.finish(if stopped { Err(canceled()) } else { Ok(()) });
                }
                began
            }
        });
        completion.cancel();
        let outcome = completion.wait();
        let began = runs.join().expect("no panic");
        assert!(began || outcome == Err(Error(ErrorKind::Canceled)), "what never began was canceled");
        assert_eq!(completion.wait(), outcome, "and it stays so");
    };
    explore(scenario);
}
