//! A front for any number of callers, whose requests share batches.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use sortie::{BatchConfig, BatchMetrics, Batcher, CallOptions, Fleet, OnDevice, ResponseFuture};

use crate::{
    answer::Answer,
    ask::Ask,
    gradient::Gradient,
    job::StatesJob,
    request::{Bezier, Interpolation, Sequence},
    state::State,
};

/// The operations of [`States`](crate::States), for thousands of callers that ask for a little each. Cheap to clone, usable from any thread and with
/// any executor.
///
/// What callers ask for at about the same time shares a batch, whatever its kind: one upload, one submission, one read. Each caller gets
/// its own answer, with the same bits as if it had asked alone; a mistake is nobody else's. [`BatchConfig`] says how many rows a batch
/// may have, which are states of answers, and how long a request waits for others.
///
/// Every method returns an [`Asking`], which can be awaited or [waited for](Asking::wait).
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

    /// The same, but that what is asked of it has this deadline or priority.
    ///
    /// ```
    /// use std::time::Instant;
    /// use sortie::{BatchConfig, CallOptions, Device, ErrorKind};
    /// use sortie_states::{BatchedStates, State};
    ///
    /// let states = BatchedStates::new(&Device::cpu()?, BatchConfig::default())?;
    /// let late = states.with(CallOptions { deadline: Some(Instant::now()), ..CallOptions::default() });
    /// let error = late.gradients(vec![State::default()]).wait().unwrap_err();
    /// assert_eq!(error.kind(), &ErrorKind::Expired);
    /// assert!(states.gradients(vec![State::default()]).wait().is_ok());
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn with(&self, call: CallOptions) -> Self {
        Self { batcher: self.batcher.clone(), call }
    }

    /// How |z| of every layer changes: see [`Slope`](crate::Slope).
    pub fn gradients(&self, states: Vec<State>) -> Asking<Vec<Gradient>> {
        self.ask(Ask::gradients(states), |answer, _| answer.into_gradients())
    }

    /// States between two: see [`Interpolation`].
    pub fn interpolate(&self, request: Interpolation) -> Asking<Vec<State>> {
        self.ask(request.into(), |answer, _| answer.into_states())
    }

    /// Frames of an animation, for each its states: see [`Sequence`].
    pub fn sequence(&self, request: Sequence) -> Asking<Vec<Vec<State>>> {
        let frames = Frames { count: request.frames, len: request.a.len() };
        Asking { frames, ..self.ask(request.into(), |answer, frames| frames.cut(&answer.into_states())) }
    }

    /// Points of a quadratic curve: see [`Bezier`].
    pub fn quadratic_bezier(&self, request: Bezier<3>) -> Asking<Vec<State>> {
        self.ask(request.into(), |answer, _| answer.into_states())
    }

    /// Points of a cubic curve: see [`Bezier`].
    pub fn cubic_bezier(&self, request: Bezier<4>) -> Asking<Vec<State>> {
        self.ask(request.into(), |answer, _| answer.into_states())
    }

    /// How far apart the two states of each pair are as complex numbers: see [`state_distance`](crate::reference::state_distance).
    pub fn state_distance(&self, pairs: Vec<[State; 2]>) -> Asking<Vec<f32>> {
        self.ask(Ask::state_distance(pairs), |answer, _| answer.into_distances())
    }

    /// How long the way between the two states of each pair is: see [`geodesic_distance`](crate::reference::geodesic_distance).
    pub fn geodesic_distance(&self, pairs: Vec<[State; 2]>) -> Asking<Vec<f32>> {
        self.ask(Ask::geodesic_distance(pairs), |answer, _| answer.into_distances())
    }

    /// Lets no more requests in. Those that are in are answered.
    pub fn close(&self) {
        self.batcher.close();
    }

    /// What it has done so far.
    #[must_use]
    pub fn metrics(&self) -> BatchMetrics {
        self.batcher.metrics()
    }

    /// The batcher behind it.
    #[must_use]
    pub fn batcher(&self) -> &Batcher<OnDevice<StatesJob>> {
        &self.batcher
    }

    fn ask<T>(&self, ask: Ask, take: fn(Answer, Frames) -> T) -> Asking<T> {
        Asking { calling: self.batcher.call_with(ask, self.call), frames: Frames::default(), take }
    }
}

/// An answer to come: a future, or something to [wait](Asking::wait) for.
///
/// Nothing happens until it is polled. Dropped before its batch flies, it takes no part in it.
///
/// ```
/// use sortie::{BatchConfig, Device};
/// use sortie_states::{BatchedStates, State};
///
/// let states = BatchedStates::new(&Device::cpu()?, BatchConfig::default())?;
/// let asking = states.state_distance(vec![[State::from_byte(0x00), State::from_byte(0x40)]]);
/// assert_eq!(asking.wait()?.len(), 1); // or `asking.await?`
/// # Ok::<(), sortie::Error>(())
/// ```
#[must_use = "nothing is asked until it is awaited"]
pub struct Asking<T> {
    calling: ResponseFuture<OnDevice<StatesJob>>,
    frames: Frames,
    /// How the answer of the job becomes the caller's.
    take: fn(Answer, Frames) -> T,
}

// Nothing of it is pinned.
impl<T> Unpin for Asking<T> {}

/// Of a sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    count: usize,
    /// States of each.
    len: usize,
}

impl<T> Asking<T> {
    /// Asks now, and leaves the answer for later: so that one thread can have several requests under way.
    ///
    /// ```
    /// use sortie::{BatchConfig, Device};
    /// use sortie_states::{BatchedStates, State};
    ///
    /// let states = BatchedStates::new(&Device::cpu()?, BatchConfig::default())?;
    /// let under_way: Vec<_> = (0..100).map(|byte| states.gradients(vec![State::from_byte(byte)]).begin()).collect();
    /// for gradients in under_way {
    ///     assert_eq!(gradients.wait()?.len(), 1);
    /// }
    /// # Ok::<(), sortie::Error>(())
    /// ```
    pub fn begin(self) -> Self {
        Self { calling: self.calling.send(), ..self }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// [`Input`](sortie::ErrorKind::Input) when the request makes no sense, [`Overloaded`](sortie::ErrorKind::Overloaded) when there is no room and the
    /// batcher does not wait for it, [`Expired`](sortie::ErrorKind::Expired), [`Canceled`](sortie::ErrorKind::Canceled) when it has been closed, and whatever the device fails with.
    pub fn wait(self) -> sortie::Result<T> {
        self.calling.wait().map(|answer| (self.take)(answer, self.frames))
    }
}

impl<T> Future for Asking<T> {
    type Output = sortie::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.calling).poll(cx);
        answer.map_ok(|answer| (self.take)(answer, self.frames))
    }
}

impl<T> fmt::Debug for Asking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("calling", &self.calling).finish_non_exhaustive()
    }
}

impl Frames {
    fn cut(self, states: &[State]) -> Vec<Vec<State>> {
        (0..self.count).map(|frame| states[frame * self.len..][..self.len].to_vec()).collect()
    }
}
