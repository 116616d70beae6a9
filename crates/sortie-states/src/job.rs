//! The operations on states as a job.

use sortie::{Answers, Batch, Device, DeviceJob};

use crate::{answer::Answer, ask::Ask, error::StatesError, load::Load, states::States};

/// What a [`Batcher`](sortie::Batcher) runs to answer requests of every kind; [`BatchedStates`](crate::BatchedStates) is one with typed methods.
///
/// Kinds do not matter to who shares a batch: it is one upload and one read (a staging buffer each), and one submission of at most four dispatches side
/// by side: gradients, all that lies between states, and the two distances. A row is a state of the answer, or a distance; a request with more rows than a batch
/// may have is cut, and its answer put together again. One without rows needs no device. One that makes no sense fails, by itself, with
/// [`Input`](sortie::ErrorKind::Input).
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device};
/// use sortie_states::{Ask, State, StatesJob};
///
/// let batcher = Batcher::new(&Device::cpu()?, StatesJob, BatchConfig::latency())?;
/// let (a, b) = (State::from_byte(0x00), State::from_byte(0x40));
/// // Requests of two kinds, in one batch if they come together.
/// let gradients = batcher.call(Ask::gradients(vec![a, b])).send();
/// let distances = batcher.call(Ask::state_distance(vec![[a, b]])).send();
/// gradients.wait()?;
/// distances.wait()?;
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StatesJob;

/// What the job keeps on a device: kernels, and room for what a batch brings.
#[derive(Debug)]
pub struct Ready {
    states: States,
    load: Load,
}

impl DeviceJob for StatesJob {
    type Input = Ask;
    type Output = Answer;
    type Ready = Ready;

    fn prepare(&self, device: &Device) -> sortie::Result<Ready> {
        match States::new(device) {
            Ok(states) => Ok(Ready { states, load: Load::default() }),
            Err(StatesError::Device(error)) => Err(error),
            Err(error) => unreachable!("nothing was asked for: {error}"),
        }
    }

    fn rows(&self, ask: &Ask) -> usize {
        ask.rows()
    }

    fn check(&self, ask: &Ask) -> sortie::Result<()> {
        ask.check()
    }

    fn answer_immediately(&self, ask: &Ask) -> Option<Answer> {
        (ask.rows() == 0).then(|| ask.nothing())
    }

    fn split(&self, ask: Ask, rows: usize) -> Vec<Ask> {
        ask.split(rows)
    }

    fn join(&self, parts: Vec<Answer>) -> Answer {
        Answer::join(parts)
    }

    fn record(&self, ready: &mut Ready, batch: &mut Batch, asks: &[Ask]) -> sortie::Result<Answers<Answer>> {
        let Ready { states, load } = ready;
        let landing = load.record(states, batch, asks)?;
        Ok(Box::new(move || landing.answers()))
    }
}
