//! Tensor operations over sequences of varying length, as a job.

use std::sync::Arc;

use super::{
    device_job::{Answers, DeviceJob},
    replay_cache::ReplayCache,
};
use crate::{
    batch::Batch,
    device::Device,
    error::{Error, Result},
    finish::{Reading, Ticket},
    replay::{Input, Output},
    tensor::{Element, Tensor},
};

/// Lengths up to eight times this are rounded up to a multiple of it.
const STEP: usize = 8;

/// Tensor operations over sequences of varying length, as a [`DeviceJob`]: texts as tokens, signals, histories.
///
/// A request is one sequence. It is padded with zeros to a length that depends on its own alone, its bucket: up to 64 a
/// multiple of 8, beyond a multiple of an eighth of the next power of two, so padding is at most a quarter of a long
/// sequence. Sequences of one bucket share batches, which have exactly as many rows as sequences. So a sequence is
/// computed with the same length whatever shares its batch, and a short one is never padded to a long one.
///
/// Rows in [`BatchConfig`](super::BatchConfig) and in metrics are positions: a sequence counts as the length of its
/// bucket. A batch of long sequences has fewer of them and takes about as long as one of short ones, so that short ones
/// that come later do not wait longer for it.
///
/// A shape that comes again is frozen as a [`Replay`](crate::Replay). The replays used least recently are dropped beyond
/// 128, or 256 MiB.
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device, batcher::Sequences};
///
/// // Means of sequences: one number each. The first function creates what the operations need on a device.
/// let means = Sequences::<f32, f32>::new(1, |_| Ok(()), |(), x, lengths| x.sum(&[1]) / lengths.cast());
/// let batcher = Batcher::new(&Device::cpu()?, means, BatchConfig::default())?;
/// let (short, long) = (batcher.call(vec![1.0, 2.0]).send(), batcher.call(vec![3.0; 100]).send());
/// assert_eq!((short.wait()?, long.wait()?), (vec![1.5], vec![3.0]));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Sequences {{ width: {width}, max_length: {max_length}, .. }}")]
pub struct Sequences<T: Element, U: Element> {
    width: usize,
    max_length: usize,
    check: Check<T>,
    make: Maker<T, U>,
}

/// Checks a sequence.
type Check<T> = Box<dyn Fn(&[T]) -> Result<()> + Send + Sync>;

/// Creates the recording function for a device.
type Maker<T, U> = Box<dyn Fn(&Device) -> Result<OpRecorder<T, U>> + Send + Sync>;

/// Records the operations on padded sequences and their lengths.
type OpRecorder<T, U> = Box<dyn for<'b> Fn(Tensor<'b, T>, Tensor<'b, u32>) -> Tensor<'b, U> + Send>;

/// The state on a device: the recording function, and the replays made so far, by rows and bucket.
#[derive(derive_more::Debug)]
#[debug("SequenceReplays {{ {frozen:?} }}")]
pub struct SequenceReplays<T: Element, U: Element> {
    record: OpRecorder<T, U>,
    frozen: ReplayCache<(usize, usize), Ports<T, U>>,
}

/// Sequences, their lengths and their answers.
type Ports<T, U> = (Input<T>, Input<u32>, Output<U>);

impl<T: Element, U: Element> Sequences<T, U> {
    /// Takes the number of elements of an answer, a function that creates the state on a device (its weights), and one
    /// that records the operations. That one gets the state, the sequences of shape `[rows, length]`, and their own
    /// lengths of shape `[rows]`; it must return `rows` answers.
    #[must_use]
    pub fn new<S: Send + 'static>(
        width: usize,
        prepare: impl Fn(&Device) -> Result<S> + Send + Sync + 'static,
        record: impl for<'b> Fn(&S, Tensor<'b, T>, Tensor<'b, u32>) -> Tensor<'b, U> + Send + Sync + 'static,
    ) -> Self {
        let record = Arc::new(record);
        let make = move |device: &Device| {
            let (state, record) = (prepare(device)?, record.clone());
            let record: OpRecorder<T, U> = Box::new(move |x, lengths| {
                let (rows, y) = (lengths.len(), record(&state, x, lengths));
                if y.len() != rows * width {
                    let message =
                        format!("{rows} sequences have answers of shape {:?}, not of {width} each", y.shape());
                    y.batch().mistake(message);
                }
                y
            });
            Ok(record)
        };
        Self { width, max_length: 1 << 16, check: Box::new(|_| Ok(())), make: Box::new(make) }
    }

    /// Sets the length beyond which sequences are refused, and to which no sequence is padded beyond; by default 65,536.
    #[must_use]
    pub fn with_max_length(mut self, max_length: usize) -> Self {
        self.max_length = max_length;
        self
    }

    /// Sets a check of each sequence, which runs on its caller's thread.
    #[must_use]
    pub fn with_check(mut self, check: impl Fn(&[T]) -> Result<()> + Send + Sync + 'static) -> Self {
        self.check = Box::new(check);
        self
    }

    /// The length that a sequence is padded to.
    fn bucket(&self, length: usize) -> usize {
        let step = (length.next_power_of_two() / 8).max(STEP);
        length.next_multiple_of(step).min(self.max_length)
    }

    /// All sequences of a batch, padded, their lengths, and the length of their bucket.
    fn gather(&self, inputs: &[Vec<T>]) -> (Vec<T>, Vec<u32>, usize) {
        let length = self.bucket(inputs.first().map_or(0, Vec::len));
        let mut all = Vec::with_capacity(inputs.len() * length);
        for (row, input) in inputs.iter().enumerate() {
            all.extend_from_slice(input);
            all.resize((row + 1) * length, T::zeroed());
        }
        (all, inputs.iter().map(|input| input.len() as u32).collect(), length)
    }

    fn answers(&self, y: Reading<U>) -> Answers<Vec<U>>
    where
        U: Send,
    {
        let width = self.width;
        Box::new(move || Ok(y.wait()?.chunks(width.max(1)).map(|row| Ok(row.to_vec())).collect()))
    }
}

impl<T: Element + Send, U: Element + Send> DeviceJob for Sequences<T, U> {
    type Input = Vec<T>;
    type Output = Vec<U>;
    type Ready = SequenceReplays<T, U>;

    fn prepare(&self, device: &Device) -> Result<Self::Ready> {
        Ok(SequenceReplays { record: (self.make)(device)?, frozen: ReplayCache::new() })
    }

    fn rows(&self, input: &Vec<T>) -> usize {
        self.bucket(input.len())
    }

    fn key(&self, input: &Vec<T>) -> u64 {
        self.bucket(input.len()) as u64
    }

    fn check(&self, input: &Vec<T>) -> Result<()> {
        let (length, most) = (input.len(), self.max_length);
        if length == 0 || length > most {
            return Err(Error::input(format!("a sequence of {length} elements; 1 to {most} are possible")));
        }
        (self.check)(input)
    }

    fn start(
        &self,
        replays: &mut Self::Ready,
        device: &Device,
        inputs: &[Vec<T>],
    ) -> Result<(Ticket, Answers<Vec<U>>)> {
        let (all, own_lengths, length) = self.gather(inputs);
        let rows = inputs.len();
        let SequenceReplays { record, frozen } = replays;
        let found = frozen.get(device, (rows, length), |batch| {
            let (x, sequences) = batch.input::<T>([rows, length]);
            let (of_rows, lengths) = batch.input::<u32>([rows]);
            (x, of_rows, record(sequences, lengths).output())
        })?;
        let Some((replay, (x, lengths, y))) = found else {
            let batch = device.batch();
            let answers = self.record(replays, &batch, inputs)?;
            return Ok((batch.submit_async()?, answers));
        };
        let mut run = replay.run();
        run.write(x, &all);
        run.write(lengths, &own_lengths);
        let y = run.read(y);
        Ok((run.submit_async()?, self.answers(y)))
    }

    /// Without a replay.
    fn record(&self, replays: &mut Self::Ready, batch: &Batch, inputs: &[Vec<T>]) -> Result<Answers<Vec<U>>> {
        let (all, lengths, length) = self.gather(inputs);
        let x = batch.tensor_from(&all, [inputs.len(), length]);
        let lengths = batch.tensor_from(&lengths, [inputs.len()]);
        Ok(self.answers((replays.record)(x, lengths).read()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_little_longer_than_its_sequences() {
        let job = Sequences::<u32, f32>::new(1, |_| Ok(()), |(), x, _| x.cast::<f32>().sum(&[1])).with_max_length(509);
        let mut buckets: Vec<usize> = (1..=509).map(|length| job.bucket(length)).collect();
        assert!(
            buckets.iter().zip(1..).all(|(bucket, length)| *bucket >= length && *bucket - length < (length / 4).max(8))
        );
        assert!(buckets.is_sorted());
        buckets.dedup();
        assert_eq!((buckets.len(), buckets.last()), (20, Some(&509)));
    }

    #[test]
    fn replay_and_recording_answer_alike_and_rows_are_exact() {
        let device = Device::cpu().expect("a device");
        let job = Sequences::<f32, f32>::new(
            2,
            |_| Ok(()),
            |(), x, lengths| {
                let sums = x.sum(&[1]).reshape([lengths.len(), 1]);
                let padded = x.batch().tensor_from(&[x.shape()[1] as f32], [1, 1]).broadcast([lengths.len(), 1]);
                sums.concat(&[padded], 1)
            },
        );
        let mut ready = job.prepare(&device).expect("ready");
        let inputs: Vec<Vec<f32>> = (17..=20).map(|length| vec![1.0; length]).collect();
        for time in 0..3 {
            let (ticket, answers) = job.start(&mut ready, &device, &inputs).expect("started");
            ticket.wait().expect("it runs");
            let answers: Vec<_> = answers().expect("answers").into_iter().map(|row| row.expect("an answer")).collect();
            assert_eq!(answers, [[17.0, 24.0], [18.0, 24.0], [19.0, 24.0], [20.0, 24.0]], "time {time}");
        }
    }

    #[test]
    fn answers_of_another_width_are_a_mistake() {
        let device = Device::cpu().expect("a device");
        let job = Sequences::<f32, f32>::new(3, |_| Ok(()), |(), x, _| x.sum(&[1]));
        let mut ready = job.prepare(&device).expect("ready");
        let error = job.start(&mut ready, &device, &[vec![1.0; 5]]).map(drop).expect_err("one number each");
        assert!(error.to_string().contains("not of 3 each"), "{error}");
    }
}
