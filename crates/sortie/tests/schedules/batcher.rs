//! Callers of a batcher get each their own answer, once, whoever comes, goes, lands, fails or closes when.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use shuttle::{future, thread};

use super::{
    config::{BatchConfig, Overload},
    front::{Call, Front, Rank, Request, Retry, Step},
    metrics::Figures,
    queue::Taken,
    reply::{Address, Reply},
    sync::Mutex,
};
use crate::{
    error::{Error, ErrorKind, Result},
    explore,
};

type Numbers = Front<u32, u32>;
type Caller = Box<dyn FnOnce(&Numbers) + Send>;

/// The caller's future: asks when it is polled first.
struct Asking<'a> {
    front: &'a Numbers,
    number: u32,
    reply: Option<Reply<u32>>,
}

impl Future for Asking<'_> {
    type Output = Result<u32>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<u32>> {
        match &mut self.reply {
            Some(reply) => reply.poll(cx),
            None => {
                let rank = Rank { key: u64::from(self.number % 2), rows: 1, overload: self.front.config.overload };
                self.reply = Some(self.front.admit(self.number, rank, Call::default(), cx.waker())?);
                Poll::Pending
            }
        }
    }
}

fn ask(front: &Numbers, number: u32) -> Result<u32> {
    future::block_on(Asking { front, number, reply: None })
}

/// Asks, and goes away without having heard.
fn ask_and_go(front: &Numbers, number: u32) {
    let mut asking = Asking { front, number, reply: None };
    let polled = Pin::new(&mut asking).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending() || matches!(polled, Poll::Ready(Err(_))));
    thread::yield_now();
}

/// A device that a thread of its own is behind: lands what it is given in order, some time.
#[derive(Default)]
struct Device {
    state: Mutex<Sky>,
}

/// What is under way, and what was.
#[derive(Default)]
struct Sky {
    landed: usize,
    flying: VecDeque<Waker>,
    over: bool,
}

impl Device {
    /// What was submitted lands one after the other.
    fn run(&self) {
        loop {
            let mut state = self.state.lock();
            let next = state.flying.pop_front();
            state.landed += usize::from(next.is_some());
            let over = state.over;
            drop(state);
            match next {
                Some(bell) => bell.wake(),
                None if over => return,
                None => thread::yield_now(),
            }
        }
    }

    fn submit(&self, bell: Waker) {
        self.state.lock().flying.push_back(bell);
    }
}

struct Bell(Weak<Numbers>, usize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Some(front) = self.0.upgrade() {
            front.ring(self.1);
        }
    }
}

/// As the thread of a batcher does, with answers `3 x`; the unlucky numbers fail their batch, which is then run again in halves.
fn fly(front: &Arc<Numbers>, who: usize, device: &Device, flown: &AtomicUsize) {
    const UNLUCKY: u32 = 12;
    let mut taken: Taken<Request<u32, u32>> = Taken::default();
    let (mut under_way, mut over) = (VecDeque::<Vec<_>>::new(), 0);
    let (mut owed, mut parts, mut retried) = (Vec::new(), VecDeque::<Vec<_>>::new(), false);
    loop {
        let landed = || device.state.lock().landed > over;
        let retry = parts.front().map(|part| Retry { rows: part.len(), first: !retried });
        let step = front.next(who, &mut taken, !owed.is_empty(), retry, landed);
        taken.gone.clear();
        assert!(taken.late.is_empty(), "nobody has a deadline");
        match step {
            Step::Settle => {}
            Step::Fly(..) => {
                assert!(taken.rows <= front.config.max_batch_size);
                taken.rows = 0;
                let batch: Vec<_> = taken.batch.drain(..).map(|one| (one.request.address, one.request.input)).collect();
                assert!(batch.iter().all(|(_, number)| number % 2 == batch[0].1 % 2), "keys never mix");
                flown.fetch_add(batch.len(), Ordering::Relaxed);
                retried = false;
                device.submit(Waker::from(Arc::new(Bell(Arc::downgrade(front), who))));
                under_way.push_back(batch);
                assert!(under_way.len() <= front.config.in_flight);
            }
            Step::Retry => {
                retried = true;
                device.submit(Waker::from(Arc::new(Bell(Arc::downgrade(front), who))));
                under_way.push_back(parts.pop_front().expect("there is a part"));
                assert!(under_way.len() <= front.config.in_flight);
            }
            Step::Land => {
                over += 1;
                let mut batch = under_way.pop_front().expect("it has landed");
                let well = batch.iter().all(|(_, number)| *number != UNLUCKY);
                front.landed(who, well);
                if !well && batch.len() > 1 {
                    let rest = batch.split_off(batch.len().div_ceil(2));
                    parts.push_front(rest);
                    parts.push_front(batch);
                    continue;
                }
                let answer = |number| if well { Ok(3 * number) } else { Err(Error::new(ErrorKind::Shape, "unlucky")) };
                let answers = batch.into_iter().map(|(address, number)| (address, answer(number)));
                Address::answer_all(answers, &mut owed);
            }
            Step::End => break,
        }
        if !matches!(step, Step::Land) {
            owed.drain(..).for_each(|desk| desk.settle(&mut Vec::new()));
        }
    }
    assert!(under_way.is_empty() && parts.is_empty());
    device.state.lock().over = true;
}

fn config() -> BatchConfig {
    BatchConfig { max_batch_size: 2, queue_capacity: Some(3), in_flight: 2, ..BatchConfig::default() }
}

/// A batcher with so many devices while `callers` do what they want; afterwards it is closed.
fn live(config: BatchConfig, devices: usize, callers: Vec<Caller>) -> (Arc<Numbers>, usize) {
    let front = Arc::new(Numbers::new(config, devices, Figures::new("scenario")));
    let flown = Arc::new(AtomicUsize::new(0));
    let mut threads = Vec::new();
    for who in 0..devices {
        let device = Arc::new(Device::default());
        let (front, flown, own) = (front.clone(), flown.clone(), device.clone());
        threads.push(thread::spawn(move || fly(&front, who, &own, &flown)));
        threads.push(thread::spawn(move || device.run()));
    }
    let callers: Vec<_> = callers
        .into_iter()
        .map(|caller| {
            let front = front.clone();
            thread::spawn(move || caller(&front))
        })
        .collect();
    callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
    front.close(Error::new(ErrorKind::Canceled, "closed"));
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    (front, flown.load(Ordering::Relaxed))
}

/// Callers that ask for these numbers one after the other.
fn asking(numbers: &'static [&'static [u32]]) -> Vec<Caller> {
    let caller = |numbers: &'static [u32]| {
        let ask_all = move |front: &Numbers| {
            numbers.iter().for_each(|number| assert_eq!(ask(front, *number).expect("an answer"), 3 * number));
        };
        Box::new(ask_all) as Caller
    };
    numbers.iter().copied().map(caller).collect()
}

#[test]
fn callers_of_two_kinds_get_each_their_own_answers() {
    explore(|| {
        let (front, flown) = live(config(), 1, asking(&[&[2, 4], &[6, 1], &[3, 8]]));
        assert_eq!((front.metrics().requests, flown), (6, 6));
    });
}

#[test]
fn those_who_find_no_room_wait_for_it() {
    explore(|| {
        let config = BatchConfig { queue_capacity: Some(1), in_flight: 1, max_batch_size: 1, ..config() };
        let (_, flown) = live(config, 1, asking(&[&[2], &[4], &[6], &[8, 10]]));
        assert_eq!(flown, 5);
    });
}

#[test]
fn two_devices_share_the_work() {
    explore(|| {
        let (_, flown) = live(config(), 2, asking(&[&[2, 4], &[6, 8], &[1]]));
        assert_eq!(flown, 5);
    });
}

#[test]
fn without_greed_a_batch_flies_when_it_is_full() {
    explore(|| {
        let (_, flown) = live(BatchConfig { greedy: false, ..config() }, 1, asking(&[&[2], &[4]]));
        assert_eq!(flown, 2);
    });
}

#[test]
fn those_who_go_leave_the_others_theirs() {
    explore(|| {
        let mut callers = asking(&[&[2, 4], &[6]]);
        callers.push(Box::new(|front| ask_and_go(front, 8)));
        callers.push(Box::new(|front| ask_and_go(front, 10)));
        let (front, flown) = live(config(), 1, callers);
        assert!((3..=5).contains(&flown));
        assert_eq!(front.metrics().queued_rows, 0);
    });
}

#[test]
fn a_request_that_fails_its_batch_fails_alone() {
    explore(|| {
        let mut callers = asking(&[&[2, 4], &[6]]);
        callers.push(Box::new(|front| assert_eq!(ask(front, 12).expect_err("unlucky").0, ErrorKind::Shape)));
        let (_, flown) = live(config(), 1, callers);
        assert_eq!(flown, 4);
    });
}

#[test]
fn without_room_they_are_told_at_once() {
    explore(|| {
        let config = BatchConfig { queue_capacity: Some(1), overload: Overload::Reject, ..config() };
        let caller = |number: u32| {
            let ask = move |front: &Numbers| match ask(front, number) {
                Ok(answer) => assert_eq!(answer, 3 * number),
                Err(error) => assert_eq!(error.0, ErrorKind::Overloaded),
            };
            Box::new(ask) as Caller
        };
        let (front, flown) = live(config, 1, [2, 4, 6, 8].map(caller).into());
        assert_eq!(front.metrics().rejected as usize + flown, 4);
    });
}

#[test]
fn closing_answers_who_is_in_and_refuses_who_comes() {
    explore(|| {
        let caller = |number: u32| {
            let ask = move |front: &Numbers| match ask(front, number) {
                Ok(answer) => assert_eq!(answer, 3 * number),
                Err(error) => assert_eq!(error.0, ErrorKind::Canceled),
            };
            Box::new(ask) as Caller
        };
        let mut callers: Vec<_> = [2, 4, 6].map(caller).into();
        callers.push(Box::new(|front| front.close(Error::new(ErrorKind::Canceled, "closed early"))));
        let (front, flown) = live(config(), 2, callers);
        assert_eq!(front.metrics().requests as usize, flown);
    });
}

#[test]
fn a_device_that_is_lost_leaves_its_work_to_the_other() {
    explore(|| {
        let front = Arc::new(Numbers::new(config(), 2, Figures::new("scenario")));
        let (device, flown) = (Arc::new(Device::default()), Arc::new(AtomicUsize::new(0)));
        let (own, flying, counted) = (front.clone(), device.clone(), flown.clone());
        let flights = thread::spawn(move || fly(&own, 1, &flying, &counted));
        let landing = thread::spawn(move || device.run());
        let own = front.clone();
        // The other one fails with what it has taken, and never comes back.
        let lost = thread::spawn(move || {
            let mut taken = Taken::default();
            let step = own.next(0, &mut taken, false, None, || false);
            own.lost(0);
            let error = Error::new(ErrorKind::DeviceLost, "lost");
            taken.batch.drain(..).for_each(|one| one.request.address.answer(Err(error.clone())));
            assert!(own.retired(&error).is_empty(), "the other one goes on");
            assert!(matches!(step, Step::Fly(..) | Step::End), "{step:?}");
        });
        let callers: Vec<_> = [2, 4, 6]
            .map(|number| {
                let front = front.clone();
                thread::spawn(move || match ask(&front, number) {
                    Ok(answer) => assert_eq!(answer, 3 * number),
                    Err(error) => assert_eq!(error.0, ErrorKind::DeviceLost),
                })
            })
            .into();
        callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
        front.close(Error::new(ErrorKind::Canceled, "closed"));
        [flights, landing, lost].into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}
