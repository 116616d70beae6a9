//! The operations for many callers, whose requests share batches.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use sortie::{
    BatchConfig, Batcher, Fleet,
    batcher::{BatchMetrics, CallOptions, OnDevice, RequestFuture, ResponseFuture},
};

use crate::{
    answer::Answer,
    gradient::Gradient,
    job::StatesJob,
    request::{Bezier, Interpolation, Sequence},
    state::State,
    states_request::StatesRequest,
};

/// The operations of [`States`](crate::States), for thousands of callers with small requests. Cheap to clone, usable from
/// any thread and with any executor.
///
/// Requests that arrive at about the same time share a batch, whatever their kind: one upload, one submission, one read.
/// Each caller gets its own answer, with the same bits as if it were alone; an invalid request fails only itself.
/// [`BatchConfig`] says how many rows (states of answers) a batch may have, and how long a request waits for others.
///
/// Every method returns an [`StatesFuture`], which can be awaited or [waited for](StatesFuture::wait).
///
/// ```
/// use sortie::{BatchConfig, Device};
/// use sortie_states::{BatchedStates, Interpolation, State};
///
/// let states = BatchedStates::new(&Device::open()?, BatchConfig::default())?;
/// std::thread::scope(|scope| {
///     for byte in 0..8 {
///         let states = states.clone();
///         scope.spawn(move || {
///             let (a, b) = (vec![State::from_byte(0x00)], vec![State::from_byte(0x08 + byte)]);
///             let end = states.interpolate(Interpolation { a, b: b.clone(), t: 1.0, slerp: true }).wait()?;
///             assert_eq!(end, b);
///             assert_eq!(states.gradients(end).wait()?.len(), 1);
///             Ok::<(), sortie::Error>(())
///         });
///     }
/// });
/// assert_eq!(states.metrics().requests, 16);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchedStates {
    batcher: Batcher<OnDevice<StatesJob>>,
    call: CallOptions,
}

impl BatchedStates {
    /// Starts a batcher on a [device](sortie::Device), or on a fleet of them.
    ///
    /// # Errors
    /// As [`Batcher::new`].
    pub fn new(devices: impl Into<Fleet>, config: BatchConfig) -> sortie::Result<Self> {
        Ok(Self { batcher: Batcher::new(devices.into(), StatesJob, config)?, call: CallOptions::default() })
    }

    /// The same batcher, with a deadline or priority for the requests made through this handle.
    ///
    /// ```
    /// use std::time::Instant;
    /// use sortie::{BatchConfig, Device, ErrorKind, batcher::CallOptions};
    /// use sortie_states::{BatchedStates, State};
    ///
    /// let states = BatchedStates::new(&Device::cpu()?, BatchConfig::default())?;
    /// let late = states.with(CallOptions { deadline: Some(Instant::now()), ..CallOptions::default() });
    /// let error = late.gradients(vec![State::default()]).wait().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Expired);
    /// assert!(states.gradients(vec![State::default()]).wait().is_ok());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn with(&self, call: CallOptions) -> Self {
        Self { batcher: self.batcher.clone(), call }
    }

    /// How |z| of every layer changes: see [`Slope`](crate::Slope).
    pub fn gradients(&self, states: Vec<State>) -> StatesFuture<Vec<Gradient>> {
        self.request(StatesRequest::gradients(states), |answer, _| answer.into_gradients())
    }

    /// States between two: see [`Interpolation`].
    pub fn interpolate(&self, request: Interpolation) -> StatesFuture<Vec<State>> {
        self.request(request.into(), |answer, _| answer.into_states())
    }

    /// Frames of an animation, for each its states: see [`Sequence`].
    pub fn sequence(&self, request: Sequence) -> StatesFuture<Vec<Vec<State>>> {
        let frames = Frames { count: request.frames, len: request.a.len() };
        StatesFuture { frames, ..self.request(request.into(), |answer, frames| frames.split(&answer.into_states())) }
    }

    /// Points of a quadratic curve: see [`Bezier`].
    pub fn quadratic_bezier(&self, request: Bezier<3>) -> StatesFuture<Vec<State>> {
        self.request(request.into(), |answer, _| answer.into_states())
    }

    /// Points of a cubic curve: see [`Bezier`].
    pub fn cubic_bezier(&self, request: Bezier<4>) -> StatesFuture<Vec<State>> {
        self.request(request.into(), |answer, _| answer.into_states())
    }

    /// Distances of pairs of states as complex numbers: see [`state_distance`](crate::reference::state_distance).
    pub fn state_distance(&self, pairs: Vec<[State; 2]>) -> StatesFuture<Vec<f32>> {
        self.request(StatesRequest::state_distance(pairs), |answer, _| answer.into_distances())
    }

    /// Distances of pairs of states in log-polar coordinates: see
    /// [`geodesic_distance`](crate::reference::geodesic_distance).
    pub fn geodesic_distance(&self, pairs: Vec<[State; 2]>) -> StatesFuture<Vec<f32>> {
        self.request(StatesRequest::geodesic_distance(pairs), |answer, _| answer.into_distances())
    }

    /// Accepts no more requests. Those that are queued are answered.
    pub fn close(&self) {
        self.batcher.close();
    }

    /// Counts and times so far.
    #[must_use]
    pub fn metrics(&self) -> BatchMetrics {
        self.batcher.metrics()
    }

    /// The batcher behind it.
    #[must_use]
    pub fn batcher(&self) -> &Batcher<OnDevice<StatesJob>> {
        &self.batcher
    }

    fn request<T>(&self, request: StatesRequest, take: fn(Answer, Frames) -> T) -> StatesFuture<T> {
        let request = self.batcher.call(request).with(self.call);
        StatesFuture { call: Call::Unsent(request), frames: Frames::default(), take }
    }
}

/// The answer to a request: a future, or something to [wait](StatesFuture::wait) for.
///
/// The request is sent when it is first polled. If it is dropped before its batch is submitted, it is left out.
///
/// ```
/// use sortie::{BatchConfig, Device};
/// use sortie_states::{BatchedStates, State};
///
/// let states = BatchedStates::new(&Device::cpu()?, BatchConfig::default())?;
/// let distances = states.state_distance(vec![[State::from_byte(0x00), State::from_byte(0x40)]]);
/// assert_eq!(distances.wait()?.len(), 1); // or `distances.await?`
/// # Ok::<(), sortie::Error>(())
/// ```
#[must_use = "the request is sent when this is awaited"]
pub struct StatesFuture<T> {
    call: Call,
    frames: Frames,
    /// Turns the answer of the job into that of the caller.
    take: fn(Answer, Frames) -> T,
}

#[derive(Debug)]
enum Call {
    Unsent(RequestFuture<OnDevice<StatesJob>>),
    Sent(ResponseFuture<OnDevice<StatesJob>>),
}

// No field is pinned.
impl<T> Unpin for StatesFuture<T> {}

/// The shape of a sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    count: usize,
    /// States of each.
    len: usize,
}

impl<T> StatesFuture<T> {
    /// Sends the request now, so that one thread can have several requests in flight.
    ///
    /// ```
    /// use sortie::{BatchConfig, Device};
    /// use sortie_states::{BatchedStates, State};
    ///
    /// let states = BatchedStates::new(&Device::cpu()?, BatchConfig::default())?;
    /// let in_flight: Vec<_> = (0..100).map(|byte| states.gradients(vec![State::from_byte(byte)]).send()).collect();
    /// for gradients in in_flight {
    ///     assert_eq!(gradients.wait()?.len(), 1);
    /// }
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn send(self) -> Self {
        let call = match self.call {
            Call::Unsent(request) => Call::Sent(request.send()),
            sent @ Call::Sent(_) => sent,
        };
        Self { call, ..self }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// [`Input`](sortie::ErrorKind::Input) for an invalid request, [`Overloaded`](sortie::ErrorKind::Overloaded) when the
    /// queue is full and the batcher rejects, [`Expired`](sortie::ErrorKind::Expired),
    /// [`Canceled`](sortie::ErrorKind::Canceled) when the batcher has been closed, and errors of the device.
    pub fn wait(self) -> sortie::Result<T> {
        let answer = match self.call {
            Call::Unsent(request) => request.wait(),
            Call::Sent(response) => response.wait(),
        };
        answer.map(|answer| (self.take)(answer, self.frames))
    }
}

impl<T> Future for StatesFuture<T> {
    type Output = sortie::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut self.call {
            Call::Unsent(request) => Pin::new(request).poll(cx),
            Call::Sent(response) => Pin::new(response).poll(cx),
        };
        answer.map_ok(|answer| (self.take)(answer, self.frames))
    }
}

impl<T> fmt::Debug for StatesFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatesFuture").field("call", &self.call).finish_non_exhaustive()
    }
}

impl Frames {
    fn split(self, states: &[State]) -> Vec<Vec<State>> {
        (0..self.count).map(|frame| states[frame * self.len..][..self.len].to_vec()).collect()
    }
}
