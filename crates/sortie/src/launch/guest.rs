//! Encodes a batch into an encoder of the application, which submits it.
//!
//! Invariant: such a batch claims no memory. Only the application knows which other batches it runs before.

use std::sync::Arc;

use super::{Executor, Launch, RunSource, attribute, hand_over::count, refuse};
use crate::{
    error::Result,
    finish::PendingReadback,
    metrics::AtomicCounter,
    profile::{Log, StageKind},
    submit::{ReadySubmission, Submission},
};

/// What encoding returns: something of the backend's own, and the readback. `None`: there is nothing to do.
type Encoded<T> = Option<(T, Option<Arc<dyn PendingReadback>>)>;

/// Checks a batch and encodes it with `encode`. Returns its submission, which the backend completes once the application
/// has submitted it. `None` if there is nothing to do: then the batch is done.
pub(crate) fn encode<E: Executor, T>(
    executor: &E,
    mut launch: Launch<'_>,
    encode: impl FnOnce(&mut Launch<'_>) -> Result<Encoded<T>>,
) -> Result<Option<(Submission, T)>> {
    let (submitter, completion) = (executor.submitter(), launch.completion);
    let counters = &submitter.counters;
    let encoded = match encode_now(&mut launch, encode) {
        Ok(encoded) => encoded,
        Err(error) => {
            let error = attribute(error, &launch.resources().blocks, |error| executor.explain(error), launch.at);
            return Err(refuse(error, completion, counters));
        }
    };
    completion.submitted();
    // It cannot be canceled: the commands are in the application's encoder.
    completion.begin();
    counters.batches.add(1);
    let Some((of_backend, pending)) = encoded else {
        completion.finish(Ok(()));
        counters.publish();
        return Ok(None);
    };
    count(counters, launch.cuts);
    counters.publish();
    let mut batch = launch.batch();
    if let RunSource::Batch(resources, _) = &mut launch.source {
        batch.hold(std::mem::take(&mut resources.blocks));
    }
    if let Some((pending, readback)) = pending.zip(launch.readback) {
        batch.set_readback(pending, readback.clone());
    }
    let mut submission = ReadySubmission::whole((), batch).submission;
    submission.order = submitter.next_order();
    Ok(Some((submission, of_backend)))
}

fn encode_now<T>(
    launch: &mut Launch<'_>,
    encode: impl FnOnce(&mut Launch<'_>) -> Result<Encoded<T>>,
) -> Result<Encoded<T>> {
    launch.check_poison()?;
    let log = launch.log().cloned();
    Log::time(log.as_deref(), StageKind::Encode, || {
        let ops = launch.planned.recording.ops.len();
        let _span = tracing::debug_span!(target: "sortie", "encode", ops, submissions = 0).entered();
        if let RunSource::Batch(resources, _) = &mut launch.source {
            launch.planned.complete(resources);
        }
        launch.describe();
        encode(launch)
    })
}
