//! A batcher as a `tower` service.

use std::task::{Context, Poll};

use tower_service::Service;

use crate::{batcher::Batcher, call::RequestFuture, job::Job};

/// A batcher is a service: it goes under `tower`'s layers, and into servers that take one. Needs the feature `tower`.
///
/// It is always ready until it is closed. A full queue is not reported here: by its
/// [`Overload`](crate::Overload), the future waits for room or fails with
/// [`Overloaded`](crate::ErrorKind::Overloaded).
///
/// ```
/// use sortie_batcher::{BatchConfig, Batcher, batch_fn};
/// use tower_service::Service;
///
/// async fn ask<S: Service<f32>>(service: &mut S, input: f32) -> Result<S::Response, S::Error> {
///     std::future::poll_fn(|cx| service.poll_ready(cx)).await?;
///     service.call(input).await
/// }
///
/// let halve = batch_fn(|numbers: &[f32]| numbers.iter().map(|x| 0.5 * x).collect());
/// let mut batcher = Batcher::new([()], halve, BatchConfig::default())?;
/// # tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(async {
/// assert_eq!(ask(&mut batcher, 3.0).await?, 1.5);
/// # Ok::<(), sortie_batcher::Error>(())
/// # })?;
/// # Ok::<(), sortie_batcher::Error>(())
/// ```
impl<J: Job> Service<J::Input> for Batcher<J> {
    type Response = J::Output;
    type Error = J::Error;
    type Future = RequestFuture<J>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), J::Error>> {
        Poll::Ready(self.closed().map_or(Ok(()), Err))
    }

    fn call(&mut self, input: J::Input) -> RequestFuture<J> {
        Batcher::call(self, input)
    }
}
