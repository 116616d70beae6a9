//! Callers that run their own batches while the worker sleeps: each gets its own answer, whoever runs it, and whoever goes,
//! fails or closes meanwhile.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use shuttle::{future, thread};

use crate::{
    caller::{CallerKind, CallerTask},
    config::BatchConfig,
    device::{Device, Triple, UNLUCKY},
    error::ErrorKind,
    explore,
    metrics::LiveMetrics,
    parked::Parked,
    queue::Priority,
    reply::Receiver,
    scenarios::{Answer, Numbers, closed, config, limits},
    state::{Action, Admission},
    worker::Worker,
};

/// A batcher with one worker that lends itself.
struct Lending {
    state: Arc<Numbers>,
    parked: Arc<Parked<Triple>>,
}

type Caller = Box<dyn FnOnce(&Arc<Lending>) + Send>;

/// A request whose caller runs batches as the batcher tells it.
struct Asking {
    lending: Arc<Lending>,
    number: u32,
    kind: CallerKind,
    receiver: Option<Receiver<Answer>>,
    /// How often callers ran a batch, or were to run one.
    ran: Arc<AtomicUsize>,
}

impl Future for Asking {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let lending = self.lending.clone();
        let Lending { state, parked } = &*lending;
        if let Some(receiver) = &mut self.receiver {
            return parked.poll(state, receiver, cx);
        }
        let (overload, caller) = (state.config.overload, self.kind);
        let admission = Admission { key: 0, rows: 1, priority: Priority::Normal, deadline: None, overload, caller };
        match state.admit(self.number, admission, cx.waker()) {
            Ok((mut receiver, task)) => {
                self.ran.fetch_add(usize::from(task != CallerTask::Wait), Ordering::Relaxed);
                parked.perform(state, task, &receiver);
                let polled = match task {
                    CallerTask::Wait => Poll::Pending,
                    CallerTask::Run(_) => parked.poll(state, &mut receiver, cx),
                    CallerTask::Lead => {
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                };
                self.receiver = Some(receiver);
                polled
            }
            Err(answer) => Poll::Ready(answer),
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.receiver.as_mut().is_some_and(Receiver::leave) {
            self.lending.state.pass_on();
        }
    }
}

/// Runs callers against a batcher that has measured its job, and closes it.
fn live(config: BatchConfig, job: Triple, callers: Vec<Caller>) -> Arc<Numbers> {
    let state = Arc::new(Numbers::new(config, 1, LiveMetrics::new("scenario"), Err));
    let (parked, device) = (Arc::new(Parked::new(1)), Arc::new(Device::default()));
    let mut worker = Worker::new(state.clone(), Arc::new(job), parked.clone(), 0, device.clone());
    worker.lend();
    let own = device.clone();
    let stepping = thread::spawn(move || {
        while worker.step(true) != Action::End {}
        own.end();
    });
    let running = thread::spawn(move || device.run());
    let lending = Arc::new(Lending { state, parked });
    let unknown = Arc::default();
    for number in [2, 4] {
        assert_eq!(ask(&lending, number, CallerKind::Later, &unknown).expect("an answer"), 3 * number);
    }
    let callers: Vec<_> = callers
        .into_iter()
        .map(|caller| {
            let lending = lending.clone();
            thread::spawn(move || caller(&lending))
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
    lending.state.close(closed());
    [stepping, running].into_iter().for_each(|thread| thread.join().expect("no panic"));
    lending.state.clone()
}

fn ask(lending: &Arc<Lending>, number: u32, kind: CallerKind, ran: &Arc<AtomicUsize>) -> Answer {
    let (lending, ran) = (lending.clone(), ran.clone());
    future::block_on(Asking { lending, number, kind, receiver: None, ran })
}

fn job(instant: bool) -> Triple {
    Triple { limits: limits(config()), instant, reopens: true, ..Triple::default() }
}

/// A caller that asks for these numbers one after the other.
fn asking(kind: CallerKind, numbers: &'static [u32], ran: &Arc<AtomicUsize>) -> Caller {
    let ran = ran.clone();
    Box::new(move |lending| {
        for number in numbers {
            assert_eq!(ask(lending, *number, kind, &ran).expect("an answer"), 3 * number);
        }
    })
}

/// A caller that goes after its future was polled so often.
fn going(kind: CallerKind, number: u32, polls: usize) -> Caller {
    Box::new(move |lending| {
        let (lending, ran) = (lending.clone(), Arc::default());
        let mut asking = Asking { lending, number, kind, receiver: None, ran };
        for _ in 0..polls {
            if Pin::new(&mut asking).poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return;
            }
            thread::yield_now();
        }
    })
}

/// Explores callers of this kind, and checks that some ran batches.
fn explore_callers(instant: bool, callers: fn(&Arc<AtomicUsize>) -> Vec<Caller>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = ran.clone();
    explore(move || {
        let state = live(config(), job(instant), callers(&counted));
        assert_eq!(state.metrics().queued_rows, 0);
    });
    assert!(ran.load(Ordering::Relaxed) > 0, "callers run batches");
}

#[test]
fn callers_that_block_run_their_batches_and_meet() {
    explore_callers(true, |ran| {
        let caller = |numbers| asking(CallerKind::Blocked, numbers, ran);
        vec![caller(&[2, 4, 6]), caller(&[8, 10])]
    });
}

#[test]
fn tasks_run_their_batches_and_meet() {
    explore_callers(true, |ran| {
        let caller = |numbers| asking(CallerKind::Polled, numbers, ran);
        vec![caller(&[2, 4]), caller(&[6]), caller(&[8, 10])]
    });
}

#[test]
fn callers_of_all_kinds_share_batches_that_finish_later() {
    explore_callers(false, |ran| {
        let kinds = [CallerKind::Polled, CallerKind::Blocked, CallerKind::Later];
        kinds.map(|kind| asking(kind, &[2, 4], ran)).into()
    });
}

#[test]
fn the_thread_runs_the_batch_of_a_task_dropped_before_it_ran() {
    explore_callers(true, |ran| {
        let mut callers = vec![asking(CallerKind::Polled, &[2, 4], ran), asking(CallerKind::Later, &[6], ran)];
        callers.extend([1, 2].map(|polls| going(CallerKind::Polled, 8, polls)));
        callers
    });
}

#[test]
fn a_task_that_is_not_polled_again_delays_no_other_caller() {
    explore_callers(true, |ran| {
        let ran_by = ran.clone();
        let stalled = move |lending: &Arc<Lending>| {
            let kind = CallerKind::Polled;
            let mut asking = Asking { lending: lending.clone(), number: 8, kind, receiver: None, ran: ran_by.clone() };
            let polled = Pin::new(&mut asking).poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(ask(lending, 10, CallerKind::Later, &ran_by).expect("an answer"), 30);
            if polled.is_pending() {
                assert_eq!(future::block_on(asking).expect("an answer"), 24);
            }
        };
        vec![asking(CallerKind::Polled, &[2, 4], ran), Box::new(stalled), asking(CallerKind::Later, &[6], ran)]
    });
}

#[test]
fn a_request_that_fails_the_batch_of_a_caller_fails_alone() {
    explore_callers(true, |ran| {
        let ran_by = ran.clone();
        let unlucky = move |lending: &Arc<Lending>| {
            let answer = ask(lending, UNLUCKY, CallerKind::Polled, &ran_by);
            assert_eq!(answer.expect_err("unlucky").kind(), ErrorKind::Input);
        };
        let caller = |numbers| asking(CallerKind::Polled, numbers, ran);
        vec![caller(&[2, 4]), Box::new(unlucky), caller(&[6])]
    });
}

#[test]
fn closing_answers_requests_that_callers_run_and_refuses_new_ones() {
    explore(|| {
        let caller = |kind, number| -> Caller {
            Box::new(move |lending| match ask(lending, number, kind, &Arc::default()) {
                Ok(answer) => assert_eq!(answer, 3 * number),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Canceled),
            })
        };
        let callers: Vec<Caller> = vec![
            caller(CallerKind::Polled, 2),
            caller(CallerKind::Blocked, 4),
            caller(CallerKind::Polled, 6),
            Box::new(|lending| lending.state.close(closed())),
        ];
        live(config(), job(true), callers);
    });
}
