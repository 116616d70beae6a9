//! A summary of a batch's plan, before it runs.

use std::time::Duration;

use super::Batch;
use crate::error::{Error, Result};

/// The resources and the time that a batch will take.
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let batch = device.batch();
/// let x = batch.tensor_from(&[1.0_f32; 64], [8, 8]);
/// let y = x.exp().relu().read();
/// let plan = batch.plan()?;
/// assert_eq!((plan.dispatches(), plan.passes(), plan.submissions()), (1, 1, 1));
/// println!("about {:?} on the device", plan.estimate());
/// batch.submit()?;
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanSummary {
    peak_bytes: u64,
    dispatches: usize,
    passes: usize,
    submissions: usize,
    kernels: usize,
    estimate: Duration,
    longest: Duration,
    groups: usize,
}

impl PlanSummary {
    getters! { self:
        /// Bytes of memory that live only in the batch: scratch and intermediate tensors.
        peak_bytes: u64 = self.peak_bytes;

        /// Dispatches, after fusion.
        dispatches: usize = self.dispatches;

        /// Compute passes.
        passes: usize = self.passes;

        /// Submissions.
        submissions: usize = self.submissions;

        /// Estimated device time, from the measured times of earlier submissions; a guess for kernels that never ran.
        estimate: Duration = self.estimate;

        /// Estimated device time of the longest submission.
        longest: Duration = self.longest;

        /// Distinct kernels.
        kernels: usize = self.kernels;

        /// Groups of joined tensor operations: see [`Planning::join`](crate::device::Planning::join).
        groups: usize = self.groups;
    }
}

impl Batch {
    /// Plans the batch recorded so far and returns a summary. Submitting the batch then reuses the plan.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let batch = device.batch();
    /// let x = batch.tensor_from(&[1.0_f32; 1024], [1024]);
    /// let y = (2.0 * x.exp()).sqrt().read();
    /// let plan = batch.plan()?;
    /// assert_eq!(plan.dispatches(), 1); // fused
    /// assert_eq!(plan.peak_bytes(), 2 * 4096); // the input and the output
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// All mistakes made while recording, as from [`Batch::submit`].
    pub fn plan(&self) -> Result<PlanSummary> {
        let mut recorder = self.recorder();
        if let Some(mistakes) = Error::all(recorder.mistakes()) {
            return Err(mistakes);
        }
        let planned = self.core.plan(&recorder.recording)?.plan.clone();
        drop(recorder);
        let mut state = self.state.borrow_mut();
        let recorder = state.recorder.take().unwrap_or_else(|| unreachable!("submit takes the batch"));
        let cuts = state.cuts(&self.core, &planned, &recorder.resources);
        state.recorder = Some(recorder);
        drop(state);
        let (planned, costs) = (cuts.planned(&planned), &self.core.costs);
        let plan = &planned.plan;
        let native = |kernel| planned.tensors.as_ref().is_some_and(|tensors| tensors.is_native(kernel));
        let mut kernels = plan.pipelines.clone();
        kernels.retain(|(kernel, _)| !native(*kernel));
        kernels.dedup_by_key(|(kernel, _)| *kernel);
        let fills = plan.num_dispatches() > plan.dispatches.len();
        Ok(PlanSummary {
            peak_bytes: plan.peak_bytes(),
            dispatches: plan.num_dispatches(),
            passes: plan.passes(&cuts.list),
            submissions: cuts.list.len(),
            kernels: kernels.len() + usize::from(fills),
            estimate: cuts.estimates(costs).map(Duration::from_nanos).sum(),
            longest: cuts.estimates(costs).map(Duration::from_nanos).max().unwrap_or_default(),
            groups: planned.joined_groups(),
        })
    }
}
