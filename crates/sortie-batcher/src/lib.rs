//! Batches requests from many callers.
//!
//! Some work costs little more for a hundred inputs than for one: launching a GPU, running a model, sending a query. A
//! [`Batcher`] takes requests from any number of threads and tasks, runs them together as a [`Job`], and returns each
//! caller its own answer. The queue is bounded; requests have deadlines and priorities; a request that makes its batch
//! fail fails alone; batches can be sized by a latency target. It knows nothing of GPUs: `sortie` uses it with devices
//! as workers.
//!
//! ```
//! use sortie_batcher::{BatchConfig, Batcher, batch_fn};
//!
//! // The job, run for many requests at once: here a plain function, on two threads.
//! let squares = batch_fn(|numbers: &[u64]| numbers.iter().map(|x| x * x).collect());
//! let batcher = Batcher::new([(), ()], squares, BatchConfig::default())?;
//! // Callers clone the batcher, and `.await` the answer or block for it.
//! assert_eq!(batcher.call_blocking(12)?, 144);
//! # Ok::<(), sortie_batcher::Error>(())
//! ```
//!
//! For other work implement [`Job`]: the state of a worker (a connection, a session), and [`start`](Job::start), which
//! starts a batch and returns a future of its answers.
//!
//! # Layout
//!
//! | module | what |
//! |---|---|
//! | `batcher`, `call`, `response` | [`Batcher`], the handle that callers clone; [`RequestFuture`], a request; [`CallOptions`]; [`ResponseFuture`], the answer to a sent request |
//! | `tower` | [`Batcher`] as a `tower` service, with the feature `tower` |
//! | `job`, `batch_fn` | [`Job`], the work; [`batch_fn`], a function as a job |
//! | [`queue`], [`scheduler`], [`service_fit`], [`linger`], [`lone`], [`isolate`] | the rules: pure functions of the queue, the measurements and the time. A simulation can use them with its own clock |
//! | `state`, `caller`, `handle`, `reply`, `sync` | state shared by callers and workers, behind locks |
//! | `worker`, `worker_core`, `parked`, `in_flight`, `requests` | [`Worker`]: takes a batch, starts it, polls it, answers; lent to callers while it sleeps |
//! | `driver`, `clock` | [`Driver`] and [`Threads`], which call [`Worker::step`]; [`Clock`] |
//! | `config`, `metrics`, `error` | [`BatchConfig`], [`BatchMetrics`], [`Error`] |

mod batch_fn;
mod batcher;
mod call;
mod caller;
mod clock;
mod config;
mod driver;
mod error;
mod handle;
mod in_flight;
pub mod isolate;
mod job;
pub mod linger;
pub mod lone;
mod metrics;
mod parked;
pub mod queue;
mod reply;
mod requests;
mod response;
pub mod scheduler;
pub mod service_fit;
mod state;
mod sync;
#[cfg(feature = "tower")]
mod tower;
mod worker;
mod worker_core;

pub use self::{
    batch_fn::{BatchFn, batch_fn},
    batcher::{Batcher, IntoWorkers},
    call::{CallOptions, RequestFuture},
    clock::Clock,
    config::{BatchConfig, BatchSizing, Overload},
    driver::{Driver, Threads},
    error::{Error, ErrorKind},
    isolate::Stage,
    job::{IntoAnswers, Job},
    metrics::{BatchMetrics, Percentiles},
    queue::{FlushReason, Priority},
    response::ResponseFuture,
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
