//! Every operation on a device.

use bytemuck::Pod;
use sortie::{Batch, Device, Grid, Kernel, Reading, Slot};

use crate::{
    blend::{Between, Blends},
    error::Result,
    gradient::{Gradient, factor},
    request::{Bezier, Interpolation, Sequence},
    state::State,
    states_request::Metric,
};

const GRADIENT: &str = concat!(include_str!("../kernels/layer.wgsl"), include_str!("../kernels/gradient.wgsl"));
const BLEND: &str = concat!(include_str!("../kernels/layer.wgsl"), include_str!("../kernels/blend.wgsl"));
const DISTANCE: &str = concat!(include_str!("../kernels/layer.wgsl"), include_str!("../kernels/distance.wgsl"));

/// Kernels take layers four at a time.
const WORDS: usize = size_of::<State>() / 4;

/// The operations on states, compiled for a device. Cheap to clone, usable from any thread.
///
/// Every operation takes any number of requests. The plain methods answer them with one submission of one dispatch, and none at
/// all where nothing was asked for. The `record_` methods append the same to a batch of the caller's, among other work, and give back
/// what will hold the answers of all requests, one after the other; an invalid request is refused before anything is recorded.
///
/// Interpolations, sequences and curves have the same bits on every device as in the [`reference`](mod@crate::reference). Gradients and distances
/// are within 10⁻⁵ of it, relative to their size.
///
/// A call is never divided: one whose states or answers are more than the device binds at once (a gradient is 128 bytes) fails with
/// [`TooLarge`](sortie::ErrorKind::TooLarge).
///
/// ```
/// use sortie_states::{State, States, reference};
///
/// let device = sortie::Device::open()?;
/// let states = States::new(&device)?;
/// let many: Vec<_> = (0..=255).map(State::from_byte).collect();
/// let gradients = states.gradients(&many)?;
/// let expected = reference::compute_gradients(&many);
/// assert!((gradients[255].layers[0].rho - expected[255].layers[0].rho).abs() < 1e-5);
/// assert_eq!(device.metrics().submissions, 1);
/// # Ok::<(), sortie_states::StatesError>(())
/// ```
#[derive(Clone, Debug)]
pub struct States {
    device: Device,
    gradient: Kernel,
    blend: Kernel,
    /// By metric.
    distance: [Kernel; 2],
}

impl States {
    /// Compiles the kernels.
    ///
    /// # Errors
    /// [`Device`](crate::StatesError::Device) when the device refuses them, for example because it is lost.
    pub fn new(device: &Device) -> Result<Self> {
        let distance = device.module(DISTANCE)?;
        Ok(Self {
            gradient: device.module(GRADIENT)?.with("factor", factor()).only_kernel()?,
            blend: device.kernel(BLEND)?,
            distance: [distance.kernel("state_distance")?, distance.kernel("geodesic_distance")?],
            device: device.clone(),
        })
    }

    /// How |z| of every layer changes: see [`Slope`](crate::Slope).
    ///
    /// # Errors
    /// [`Device`](crate::StatesError::Device).
    pub fn gradients(&self, states: &[State]) -> Result<Vec<Gradient>> {
        self.answer(states.len(), |batch| self.record_gradients(batch, states))
    }

    /// States between two: see [`Interpolation`]. Requests of any t, mode and length share a dispatch.
    ///
    /// # Errors
    /// [`Lengths`](crate::StatesError::Lengths), [`NotANumber`](crate::StatesError::NotANumber) and
    /// [`TooMany`](crate::StatesError::TooMany), naming the request; [`Device`](crate::StatesError::Device).
    pub fn interpolate(&self, requests: &[Interpolation]) -> Result<Vec<Vec<State>>> {
        let states = self.blended("interpolate", &blends(requests)?)?;
        Ok(cut(&states, requests.iter().map(|request| request.a.len())))
    }

    /// Frames of animations: see [`Sequence`]. For each request its frames, for each frame its states.
    ///
    /// # Errors
    /// As [`States::interpolate`].
    pub fn sequence(&self, requests: &[Sequence]) -> Result<Vec<Vec<Vec<State>>>> {
        let states = self.blended("sequence", &blends(requests)?)?;
        let frames = cut(&states, requests.iter().map(|request| request.a.len() * request.frames));
        let frames = frames.iter().zip(requests);
        Ok(frames.map(|(states, request)| cut(states, (0..request.frames).map(|_| request.a.len()))).collect())
    }

    /// Points of quadratic curves: see [`Bezier`].
    ///
    /// # Errors
    /// As [`States::interpolate`].
    pub fn quadratic_bezier(&self, requests: &[Bezier<3>]) -> Result<Vec<Vec<State>>> {
        let states = self.blended("quadratic Bézier", &blends(requests)?)?;
        Ok(cut(&states, requests.iter().map(|request| request.points[0].len())))
    }

    /// Points of cubic curves: see [`Bezier`].
    ///
    /// ```
    /// use sortie_states::{Bezier, State, States, reference};
    ///
    /// # let states = States::new(&sortie::Device::cpu()?)?;
    /// let points = [0x00, 0x52, 0x2d, 0x7a].map(|byte| vec![State::from_byte(byte)]);
    /// let requests: Vec<_> = (0..10).map(|k| Bezier { points: points.clone(), t: k as f32 / 9.0 }).collect();
    /// let curve = states.cubic_bezier(&requests)?;
    /// let [a, b, c, d] = points.each_ref().map(Vec::as_slice);
    /// assert_eq!(curve[3], reference::cubic_bezier([a, b, c, d], 3.0 / 9.0)?);
    /// # Ok::<(), sortie_states::StatesError>(())
    /// ```
    ///
    /// # Errors
    /// As [`States::interpolate`].
    pub fn cubic_bezier(&self, requests: &[Bezier<4>]) -> Result<Vec<Vec<State>>> {
        let states = self.blended("cubic Bézier", &blends(requests)?)?;
        Ok(cut(&states, requests.iter().map(|request| request.points[0].len())))
    }

    /// Distances of pairs of states as complex numbers: see [`state_distance`](crate::reference::state_distance).
    ///
    /// # Errors
    /// [`Device`](crate::StatesError::Device).
    pub fn state_distance(&self, pairs: &[[State; 2]]) -> Result<Vec<f32>> {
        self.answer(pairs.len(), |batch| self.record_state_distance(batch, pairs))
    }

    /// Distances of pairs of states in log-polar coordinates: see [`geodesic_distance`](crate::reference::geodesic_distance).
    ///
    /// # Errors
    /// [`Device`](crate::StatesError::Device).
    pub fn geodesic_distance(&self, pairs: &[[State; 2]]) -> Result<Vec<f32>> {
        self.answer(pairs.len(), |batch| self.record_geodesic_distance(batch, pairs))
    }

    /// Appends [`States::gradients`] to a batch.
    ///
    /// ```
    /// use sortie_states::{Interpolation, State, States};
    ///
    /// let device = sortie::Device::open()?;
    /// let states = States::new(&device)?;
    /// let (a, b) = (vec![State::from_byte(0x00)], vec![State::from_byte(0x44)]);
    /// let batch = device.batch();
    /// let gradients = states.record_gradients(&batch, &a);
    /// let between = states.record_interpolate(&batch, &[Interpolation { a, b, t: 0.25, slerp: true }])?;
    /// batch.submit()?; // one submission, two dispatches
    /// assert_eq!(between.wait()?, [State::from_byte(0x11)]);
    /// assert_eq!(gradients.wait()?.len(), 1);
    /// # Ok::<(), sortie_states::StatesError>(())
    /// ```
    #[track_caller]
    pub fn record_gradients(&self, batch: &Batch, states: &[State]) -> Reading<Gradient> {
        self.load_gradients(batch, states, states.len())
    }

    /// Appends [`States::interpolate`] to a batch.
    ///
    /// # Errors
    /// As [`States::interpolate`], but for what becomes of the batch.
    #[track_caller]
    pub fn record_interpolate(&self, batch: &Batch, requests: &[Interpolation]) -> Result<Reading<State>> {
        Ok(self.record_blends(batch, "interpolate", &blends(requests)?))
    }

    /// Appends [`States::sequence`] to a batch: all frames of the first request, then those of the next.
    ///
    /// # Errors
    /// As [`States::record_interpolate`].
    #[track_caller]
    pub fn record_sequence(&self, batch: &Batch, requests: &[Sequence]) -> Result<Reading<State>> {
        Ok(self.record_blends(batch, "sequence", &blends(requests)?))
    }

    /// Appends [`States::quadratic_bezier`] to a batch.
    ///
    /// # Errors
    /// As [`States::record_interpolate`].
    #[track_caller]
    pub fn record_quadratic_bezier(&self, batch: &Batch, requests: &[Bezier<3>]) -> Result<Reading<State>> {
        Ok(self.record_blends(batch, "quadratic Bézier", &blends(requests)?))
    }

    /// Appends [`States::cubic_bezier`] to a batch.
    ///
    /// # Errors
    /// As [`States::record_interpolate`].
    #[track_caller]
    pub fn record_cubic_bezier(&self, batch: &Batch, requests: &[Bezier<4>]) -> Result<Reading<State>> {
        Ok(self.record_blends(batch, "cubic Bézier", &blends(requests)?))
    }

    /// Appends [`States::state_distance`] to a batch.
    #[track_caller]
    pub fn record_state_distance(&self, batch: &Batch, pairs: &[[State; 2]]) -> Reading<f32> {
        self.load_distance(batch, Metric::State, pairs, pairs.len())
    }

    /// Appends [`States::geodesic_distance`] to a batch.
    #[track_caller]
    pub fn record_geodesic_distance(&self, batch: &Batch, pairs: &[[State; 2]]) -> Reading<f32> {
        self.load_distance(batch, Metric::Geodesic, pairs, pairs.len())
    }

    /// Gradients of the first `count` states; the rest is padding, in the answer too.
    #[track_caller]
    pub(crate) fn load_gradients(&self, batch: &Batch, states: &[State], count: usize) -> Reading<Gradient> {
        let (given, slopes) = staged(batch, states);
        let (words, pairs) = (given.reinterpret::<u32>(), slopes.reinterpret::<[f32; 2]>());
        if !states.is_empty() {
            batch.dispatch(&self.gradient, &[&words, &pairs], Grid::items(WORDS * count)).label("gradients");
        }
        batch.read(slopes)
    }

    /// Likewise distances.
    #[track_caller]
    pub(crate) fn load_distance(
        &self,
        batch: &Batch,
        metric: Metric,
        pairs: &[[State; 2]],
        count: usize,
    ) -> Reading<f32> {
        let label = ["state distance", "geodesic distance"][metric as usize];
        let (given, distances) = staged(batch, pairs);
        if !pairs.is_empty() {
            let kernel = &self.distance[metric as usize];
            batch.dispatch(kernel, &[&given, &distances], Grid::items(count)).label(label);
        }
        batch.read(distances)
    }

    /// Likewise states between others.
    #[track_caller]
    pub(crate) fn load_blends(&self, batch: &Batch, label: &str, all: &Blends, count: usize) -> Reading<State> {
        let (points, blends) = (batch.scratch(all.points.len()), batch.scratch(all.blends.len()));
        let states = batch.scratch(all.blends.len());
        if !all.blends.is_empty() {
            batch.write(points, &all.points);
            batch.write(blends, &all.blends);
            let grid = Grid::items(WORDS * count);
            let (points, states) = (points.reinterpret::<u32>(), states.reinterpret::<u32>());
            batch.dispatch(&self.blend, &[&points, &blends, &states], grid).label(label);
        }
        batch.read(states)
    }

    #[track_caller]
    fn record_blends(&self, batch: &Batch, label: &str, all: &Blends) -> Reading<State> {
        self.load_blends(batch, label, all, all.blends.len())
    }

    fn blended(&self, label: &str, all: &Blends) -> Result<Vec<State>> {
        self.answer(all.blends.len(), |batch| self.record_blends(batch, label, all))
    }

    /// One batch of its own; none for no answers.
    fn answer<T: Pod>(&self, len: usize, record: impl FnOnce(&Batch) -> Reading<T>) -> Result<Vec<T>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let batch = self.device.batch();
        let answers = record(&batch);
        batch.submit()?;
        Ok(answers.wait()?)
    }
}

/// Memory with these items, and room for one answer per item.
#[track_caller]
fn staged<T: Pod, R: Pod>(batch: &Batch, items: &[T]) -> (Slot<T>, Slot<R>) {
    let (given, answers) = (batch.scratch(items.len()), batch.scratch(items.len()));
    batch.write(given, items);
    (given, answers)
}

/// All requests of one call, in order.
fn blends(requests: &[impl Between]) -> Result<Blends> {
    let mut all = Blends::default();
    for (index, request) in requests.iter().enumerate() {
        request.add_to(&mut all, index)?;
    }
    Ok(all)
}

/// Pieces of these lengths.
fn cut(states: &[State], lengths: impl Iterator<Item = usize>) -> Vec<Vec<State>> {
    let mut rest = states;
    let mut next = |len| {
        let (piece, behind) = rest.split_at(len);
        rest = behind;
        piece.to_vec()
    };
    lengths.map(&mut next).collect()
}
