//! A device with a thread of its own, which finishes batches in order, some time; and a job for it.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use shuttle::thread;

use crate::{
    error::{Error, ErrorKind},
    job::Job,
    sync::Mutex,
};

/// A batch with this number fails.
pub(crate) const UNLUCKY: u32 = 12;

#[derive(Default)]
pub(crate) struct Device {
    state: Mutex<DeviceState>,
}

#[derive(Default)]
struct DeviceState {
    submitted: usize,
    finished: usize,
    /// Of batches that have not finished, in order.
    wakers: VecDeque<Option<Waker>>,
    lost: bool,
    over: bool,
}

impl Device {
    /// One whose batches fail until it is opened again.
    pub(crate) fn lost() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(DeviceState { lost: true, ..DeviceState::default() }) })
    }

    /// Finishes what was submitted, one after the other, until it is over.
    pub(crate) fn run(&self) {
        loop {
            let mut state = self.state.lock();
            let next = state.wakers.pop_front();
            state.finished += usize::from(next.is_some());
            let over = state.over;
            drop(state);
            match next {
                Some(waker) => waker.into_iter().for_each(Waker::wake),
                None if over => return,
                None => thread::yield_now(),
            }
        }
    }

    /// Ends its thread.
    pub(crate) fn end(&self) {
        self.state.lock().over = true;
    }

    fn submit(&self) -> usize {
        let mut state = self.state.lock();
        state.wakers.push_back(None);
        state.submitted += 1;
        state.submitted - 1
    }
}

/// Gives three times each number.
#[derive(Default)]
pub(crate) struct Triple {
    /// Numbers that it was given, each time that it was.
    pub(crate) started: Arc<AtomicUsize>,
    /// Whether lost devices can be opened again.
    pub(crate) reopens: bool,
    /// Most numbers of a batch, and most batches of a device at once.
    pub(crate) limits: [usize; 2],
    /// Whether batches finish at once, without the device.
    pub(crate) instant: bool,
}

/// A batch under way.
pub(crate) struct Batch {
    device: Arc<Device>,
    /// `None` if it has finished at its start.
    number: Option<usize>,
    inputs: Vec<u32>,
}

impl Job for Triple {
    type Input = u32;
    type Output = u32;
    type Worker = Arc<Device>;
    type Answers = Vec<Result<u32, Error>>;
    type Running = Batch;
    type Error = Error;

    fn start(&self, device: &mut Arc<Device>, inputs: &mut [u32]) -> Result<Batch, Error> {
        let [most, in_flight] = self.limits;
        assert!(inputs.len() <= most);
        assert!(inputs.iter().all(|number| number % 2 == inputs[0] % 2), "keys never mix");
        self.started.fetch_add(inputs.len(), Ordering::Relaxed);
        let number = (!self.instant).then(|| device.submit());
        assert!(device.state.lock().wakers.len() <= in_flight);
        Ok(Batch { device: device.clone(), number, inputs: inputs.to_vec() })
    }

    fn worker_failed(&self, error: &Error) -> bool {
        error.kind() == ErrorKind::Other
    }

    fn recover(&self, device: &mut Arc<Device>, error: &Error) -> Result<(), Error> {
        let mut state = device.state.lock();
        assert!(state.wakers.is_empty(), "nothing is under way any more");
        state.lost = !self.reopens;
        if self.reopens { Ok(()) } else { Err(error.clone()) }
    }
}

impl Future for Batch {
    type Output = Result<Vec<Result<u32, Error>>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.device.state.lock();
        if let Some(number) = self.number.filter(|number| state.finished <= *number) {
            let at = number - state.finished;
            state.wakers[at] = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if state.lost {
            return Poll::Ready(Err(Error::new(ErrorKind::Other, "lost")));
        }
        if self.inputs.contains(&UNLUCKY) {
            return Poll::Ready(Err(Error::input("unlucky")));
        }
        Poll::Ready(Ok(self.inputs.iter().map(|number| Ok(3 * number)).collect()))
    }
}
