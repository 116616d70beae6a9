//! A function as a job.

use std::{
    fmt,
    future::{Ready, ready},
    marker::PhantomData,
};

use crate::{error::Error, job::Job};

/// A [`Job`] made by [`batch_fn`].
pub struct BatchFn<F, I, O> {
    function: F,
    types: PhantomData<fn(I) -> O>,
}

/// A job that calls a function on the worker's thread, with all inputs of a batch. It returns one output per input, in
/// their order.
///
/// ```
/// use sortie_batcher::{BatchConfig, Batcher, batch_fn};
///
/// let lengths = batch_fn(|words: &[&'static str]| words.iter().map(|word| word.len()).collect());
/// let batcher = Batcher::new([(), ()], lengths, BatchConfig::default())?; // two threads
/// assert_eq!(batcher.call_blocking("seven")?, 5);
/// # Ok::<(), sortie_batcher::Error>(())
/// ```
pub fn batch_fn<I, O, F>(function: F) -> BatchFn<F, I, O>
where
    F: Fn(&[I]) -> Vec<O> + Send + Sync + 'static,
    I: Send + 'static,
    O: Send + 'static,
{
    BatchFn { function, types: PhantomData }
}

impl<I, O, F> Job for BatchFn<F, I, O>
where
    F: Fn(&[I]) -> Vec<O> + Send + Sync + 'static,
    I: Send + 'static,
    O: Send + 'static,
{
    type Input = I;
    type Output = O;
    type Worker = ();
    type Answers = Vec<Result<O, Error>>;
    type Running = Ready<Result<Self::Answers, Error>>;
    type Error = Error;

    fn start(&self, (): &mut (), inputs: &mut [I]) -> Result<Self::Running, Error> {
        Ok(ready(Ok((self.function)(inputs).into_iter().map(Ok).collect())))
    }
}

impl<F, I, O> fmt::Debug for BatchFn<F, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchFn").finish_non_exhaustive()
    }
}
