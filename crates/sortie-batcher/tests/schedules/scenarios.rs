//! Callers of a batcher get each their own answer, once, whatever comes, goes, finishes, fails or closes when.

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
    caller::CallerKind,
    config::{BatchConfig, Overload},
    device::{Device, Triple, UNLUCKY},
    error::{Error, ErrorKind},
    explore,
    metrics::LiveMetrics,
    parked::Parked,
    queue::Priority,
    reply::{Receiver, Reply},
    state::{Action, Admission, StateOf},
    worker::Worker,
};

pub(crate) type Numbers = StateOf<Triple>;
pub(crate) type Answer = Result<u32, Error>;
type Caller = Box<dyn FnOnce(&Numbers) + Send>;

/// The caller's future: sends its request when it is polled first.
struct Asking<'a> {
    state: &'a Numbers,
    number: u32,
    receiver: Option<Receiver<Answer>>,
}

impl Future for Asking<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        if let Some(receiver) = &mut self.receiver {
            return match receiver.poll(cx) {
                Reply::Answered(answer) => Poll::Ready(answer),
                Reply::Waiting | Reply::Lead => Poll::Pending,
            };
        }
        let (key, overload) = (u64::from(self.number % 2), self.state.config.overload);
        let admission =
            Admission { key, rows: 1, priority: Priority::Normal, deadline: None, overload, caller: CallerKind::Later };
        match self.state.admit(self.number, admission, cx.waker()) {
            Ok((receiver, _)) => {
                self.receiver = Some(receiver);
                Poll::Pending
            }
            Err(answer) => Poll::Ready(answer),
        }
    }
}

fn ask(state: &Numbers, number: u32) -> Answer {
    future::block_on(Asking { state, number, receiver: None })
}

/// Sends a request, and goes away without having its answer.
fn ask_and_go(state: &Numbers, number: u32) {
    let mut asking = Asking { state, number, receiver: None };
    let polled = Pin::new(&mut asking).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending() || matches!(polled, Poll::Ready(Err(_))));
    thread::yield_now();
}

pub(crate) fn config() -> BatchConfig {
    BatchConfig::default().with_max_batch_size(2).with_queue_capacity(3).with_in_flight(2)
}

pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Canceled, "closed")
}

/// A batcher with so many devices while `callers` do what they want; afterwards it is closed. Gives back how often numbers were started.
fn live(config: BatchConfig, devices: usize, callers: Vec<Caller>) -> (Arc<Numbers>, usize) {
    let started = Arc::new(AtomicUsize::new(0));
    let job = Triple { started: started.clone(), reopens: false, limits: limits(config), instant: false };
    let devices = (0..devices).map(|_| Arc::new(Device::default())).collect();
    (live_on(config, job, devices, callers), started.load(Ordering::Relaxed))
}

pub(crate) fn limits(config: BatchConfig) -> [usize; 2] {
    [config.max_batch_size, config.in_flight]
}

fn live_on(config: BatchConfig, job: Triple, devices: Vec<Arc<Device>>, callers: Vec<Caller>) -> Arc<Numbers> {
    let (state, job) =
        (Arc::new(Numbers::new(config, devices.len(), LiveMetrics::new("scenario"), Err)), Arc::new(job));
    let parked = Arc::new(Parked::new(devices.len()));
    let mut threads = Vec::new();
    for (index, device) in devices.into_iter().enumerate() {
        let mut worker = Worker::new(state.clone(), job.clone(), parked.clone(), index, device.clone());
        let own = device.clone();
        threads.push(thread::spawn(move || {
            while worker.step(true) != Action::End {}
            own.end();
        }));
        threads.push(thread::spawn(move || device.run()));
    }
    let callers: Vec<_> = callers
        .into_iter()
        .map(|caller| {
            let state = state.clone();
            thread::spawn(move || caller(&state))
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
    state.close(closed());
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    state
}

/// Callers that ask for these numbers one after the other.
fn asking(numbers: &'static [&'static [u32]]) -> Vec<Caller> {
    let caller = |numbers: &'static [u32]| {
        let ask_all = move |state: &Numbers| {
            numbers.iter().for_each(|number| assert_eq!(ask(state, *number).expect("an answer"), 3 * number));
        };
        Box::new(ask_all) as Caller
    };
    numbers.iter().copied().map(caller).collect()
}

/// A caller whose request may fail with an error of this kind.
fn asking_in_vain(number: u32, kind: ErrorKind) -> Caller {
    Box::new(move |state: &Numbers| match ask(state, number) {
        Ok(answer) => assert_eq!(answer, 3 * number),
        Err(error) => assert_eq!(error.kind(), kind),
    })
}

#[test]
fn callers_of_two_kinds_get_each_their_own_answers() {
    explore(|| {
        let (state, started) = live(config(), 1, asking(&[&[2, 4], &[6, 1], &[3, 8]]));
        assert_eq!((state.metrics().requests, started), (6, 6));
    });
}

#[test]
fn those_who_find_no_room_wait_for_it() {
    explore(|| {
        let config = config().with_queue_capacity(1).with_in_flight(1).with_max_batch_size(1);
        let (_, started) = live(config, 1, asking(&[&[2], &[4], &[6], &[8, 10]]));
        assert_eq!(started, 5);
    });
}

#[test]
fn two_devices_share_the_work() {
    explore(|| {
        let (_, started) = live(config(), 2, asking(&[&[2, 4], &[6, 8], &[1]]));
        assert_eq!(started, 5);
    });
}

#[test]
fn without_greed_a_batch_flies_when_it_is_full() {
    explore(|| {
        let (_, started) = live(config().with_greedy(false), 1, asking(&[&[2], &[4]]));
        assert_eq!(started, 2);
    });
}

#[test]
fn those_who_go_leave_the_others_theirs() {
    explore(|| {
        let mut callers = asking(&[&[2, 4], &[6]]);
        callers.push(Box::new(|state| ask_and_go(state, 8)));
        callers.push(Box::new(|state| ask_and_go(state, 10)));
        let (state, started) = live(config(), 1, callers);
        assert!((3..=5).contains(&started));
        assert_eq!(state.metrics().queued_rows, 0);
    });
}

#[test]
fn a_request_that_fails_its_batch_fails_alone() {
    explore(|| {
        let mut callers = asking(&[&[2, 4], &[6]]);
        let unlucky = |state: &Numbers| assert_eq!(ask(state, UNLUCKY).expect_err("unlucky").kind(), ErrorKind::Input);
        callers.push(Box::new(unlucky));
        let (state, started) = live(config(), 1, callers);
        // It was alone, or with one of the others, and then each of them was started again.
        let metrics = state.metrics();
        assert_eq!((metrics.failed, metrics.retries, started as u64), (1, 2 * metrics.isolated, 4 + metrics.retries));
    });
}

#[test]
fn without_room_they_are_told_at_once() {
    explore(|| {
        let config = config().with_queue_capacity(1).with_overload(Overload::Reject);
        let callers = [2, 4, 6, 8].map(|number| asking_in_vain(number, ErrorKind::Overloaded));
        let (state, started) = live(config, 1, callers.into());
        assert_eq!(state.metrics().rejected as usize + started, 4);
    });
}

#[test]
fn closing_answers_admitted_requests_and_refuses_new_ones() {
    explore(|| {
        let mut callers: Vec<_> = [2, 4, 6].map(|number| asking_in_vain(number, ErrorKind::Canceled)).into();
        callers.push(Box::new(|state| state.close(closed())));
        let (state, started) = live(config(), 2, callers);
        assert_eq!(state.metrics().requests as usize, started);
    });
}

#[test]
fn work_of_a_permanently_lost_device_moves_to_the_other() {
    explore(|| {
        let job = Triple { limits: limits(config()), ..Triple::default() };
        let callers = [2, 4, 6].map(|number| asking_in_vain(number, ErrorKind::Other));
        let state = live_on(config(), job, vec![Device::lost(), Arc::default()], callers.into());
        assert!(state.worker_metrics()[1].up && state.metrics().reopened == 0);
    });
}

#[test]
fn a_device_that_is_lost_fails_what_it_has_and_recovers() {
    explore(|| {
        let job = Triple { limits: limits(config()), reopens: true, ..Triple::default() };
        let callers = [2, 4, 1, 3].map(|number| asking_in_vain(number, ErrorKind::Other));
        let state = live_on(config(), job, vec![Device::lost()], callers.into());
        assert!(state.worker_metrics()[0].up && state.metrics().reopened == 1);
        assert_eq!(ask(&state, 6).expect_err("it is closed").kind(), ErrorKind::Canceled);
    });
}

#[test]
fn dropping_a_worker_fails_its_waiting_callers() {
    explore(|| {
        let (config, device) = (config(), Arc::new(Device::default()));
        let job = Arc::new(Triple { limits: limits(config), ..Triple::default() });
        let state = Arc::new(Numbers::new(config, 1, LiveMetrics::new("scenario"), Err));
        let mut worker = Worker::new(state.clone(), job, Arc::new(Parked::new(1)), 0, device.clone());
        let threads: Vec<_> = [2, 4, 6, 8]
            .map(|number| {
                let state = state.clone();
                thread::spawn(move || asking_in_vain(number, ErrorKind::Canceled)(&state))
            })
            .into();
        let own = device.clone();
        let stepping = thread::spawn(move || {
            for _ in 0..3 {
                worker.step(false);
            }
            drop(worker);
            own.end();
        });
        let running = thread::spawn(move || device.run());
        threads.into_iter().chain([stepping, running]).for_each(|thread| thread.join().expect("no panic"));
    });
}
