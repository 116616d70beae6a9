//! Requests of many callers become batches.
//!
//! Some work costs little more for a hundred inputs than for one: a GPU that is launched, a model that is run, a query that is sent. A [`Batcher`] takes requests from any number of threads and tasks, runs
//! them together as a [`Job`], and gives each caller its own answer. The queue is bounded; requests have deadlines and priorities; a request that fails its batch fails alone; batches can be sized by a
//! target for the time of answers. It knows nothing of GPUs: `sortie` puts its devices behind it.
//!
//! ```
//! use sortie_batcher::{BatchConfig, Batcher, batch_fn};
//!
//! // What is run for many requests at once: here a plain function, on two threads.
//! let squares = batch_fn(|numbers: &[u64]| numbers.iter().map(|x| x * x).collect());
//! let batcher = Batcher::new([(), ()], squares, BatchConfig::default())?;
//! // Callers: clone the batcher, and `.await` the answer or wait for it.
//! assert_eq!(batcher.call_blocking(12)?, 144);
//! # Ok::<(), sortie_batcher::Error>(())
//! ```
//!
//! A job of one's own implements [`Job`]: what one worker keeps (a connection, a session), and [`start`](Job::start), which starts a batch and returns a future of its answers.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | `batcher`, `response` | [`Batcher`], the handle that callers clone; [`ResponseFuture`], an answer to come; [`CallOptions`] |
//! | `job`, `batch_fn` | [`Job`], what is run; [`batch_fn`], a function as one |
//! | [`queue`], [`scheduler`], [`service_fit`], [`linger`], [`isolate`] | the rules: pure functions of what is queued, what was measured and what time it is. A simulation can use them with a clock of its own |
//! | `state`, `reply` | what callers and workers share, behind locks |
//! | `worker`, `in_flight`, `requests` | [`Worker`]: takes a batch, starts it, polls it, answers |
//! | `driver`, `clock` | [`Driver`] and [`Threads`]: what calls [`Worker::step`]; [`Clock`]: time |
//! | `config`, `metrics`, `error` | [`BatchConfig`], [`BatchMetrics`], [`Error`] |

mod batch_fn;
mod batcher;
mod clock;
mod config;
mod driver;
mod error;
mod handle;
mod in_flight;
pub mod isolate;
mod job;
pub mod linger;
mod metrics;
pub mod queue;
mod reply;
mod requests;
mod response;
pub mod scheduler;
pub mod service_fit;
mod state;
mod sync;
mod worker;

pub use self::{
    batch_fn::{BatchFn, batch_fn},
    batcher::{Batcher, IntoWorkers},
    clock::Clock,
    config::{BatchConfig, BatchSizing, Overload},
    driver::{Driver, Threads},
    error::{Error, ErrorKind},
    isolate::Stage,
    job::{IntoAnswers, Job},
    metrics::{BatchMetrics, Percentiles},
    queue::{FlushReason, Priority},
    response::{CallOptions, ResponseFuture},
    scheduler::WorkerMetrics,
    service_fit::ServiceTime,
    state::Action,
    worker::Worker,
};

/// The program in the README, which runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    mod reply;
}
