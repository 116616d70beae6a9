//! The operations on states as a job.

use sortie::{
    Batch, Device,
    batcher::{Answers, DeviceJob},
};

use crate::{
    answer::Answer, error::StatesError, staged_inputs::StagedInputs, states::States, states_request::StatesRequest,
};

/// The job that answers requests of every kind; [`BatchedStates`](crate::BatchedStates) is its
/// [`Batcher`](sortie::Batcher) with typed methods.
///
/// Requests of all kinds share a batch: one upload and one read (a staging buffer each), and one submission of at most
/// four independent dispatches: gradients, states between others, and the two distances. A row is a state of the answer,
/// or a distance. A request with more rows than a batch may have is split, and its answer joined again. A request without
/// rows needs no device. An invalid request fails with [`Input`](sortie::ErrorKind::Input); the others of its batch do
/// not.
///
/// ```
/// use sortie::{BatchConfig, Batcher, Device};
/// use sortie_states::{StatesRequest, State, StatesJob};
///
/// let batcher = Batcher::new(&Device::cpu()?, StatesJob, BatchConfig::latency())?;
/// let (a, b) = (State::from_byte(0x00), State::from_byte(0x40));
/// // Requests of two kinds, which may share a batch.
/// let gradients = batcher.call(StatesRequest::gradients(vec![a, b])).send();
/// let distances = batcher.call(StatesRequest::state_distance(vec![[a, b]])).send();
/// gradients.wait()?;
/// distances.wait()?;
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct StatesJob;

/// Worker state of the job on one device: kernels, and memory for the inputs of a batch.
#[derive(Debug)]
pub struct StatesWorker {
    states: States,
    inputs: StagedInputs,
}

impl DeviceJob for StatesJob {
    type Input = StatesRequest;
    type Output = Answer;
    type Ready = StatesWorker;

    fn prepare(&self, device: &Device) -> sortie::Result<StatesWorker> {
        match States::new(device) {
            Ok(states) => Ok(StatesWorker { states, inputs: StagedInputs::default() }),
            Err(StatesError::Device(error)) => Err(error),
            Err(error) => unreachable!("no request was made: {error}"),
        }
    }

    fn rows(&self, request: &StatesRequest) -> usize {
        request.rows()
    }

    fn check(&self, request: &StatesRequest) -> sortie::Result<()> {
        request.check()
    }

    fn answer_immediately(&self, request: &StatesRequest) -> Option<Answer> {
        (request.rows() == 0).then(|| request.empty_answer())
    }

    fn split(&self, request: StatesRequest, rows: usize) -> Vec<StatesRequest> {
        request.split(rows)
    }

    fn join(&self, parts: Vec<Answer>) -> Answer {
        Answer::join(parts)
    }

    fn record(
        &self,
        worker: &mut StatesWorker,
        batch: &Batch,
        requests: &[StatesRequest],
    ) -> sortie::Result<Answers<Answer>> {
        let pending = worker.inputs.record(&worker.states, batch, requests)?;
        Ok(Box::new(move || pending.answers()))
    }
}
