//! Requests of many callers become batches on devices.
//!
//! The batcher itself is the crate `sortie-batcher`, which does not know devices. This module adds jobs that record
//! batches ([`DeviceJob`]), their adapter to the crate's `Job` ([`OnDevice`]), several devices ([`Fleet`]), and jobs for
//! rows ([`Rows`], [`RowReplays`]) and for sequences of varying length ([`Sequences`]).

mod device_job;
mod error;
mod fleet;
mod replay_cache;
mod replays;
mod rows;
mod sequences;
mod widths;
mod worker;

pub use sortie_batcher::{
    Action, BatchConfig, BatchFn, BatchMetrics, BatchSizing, Batcher, CallOptions, Driver, FlushReason, IntoAnswers,
    IntoWorkers, Job, Overload, Percentiles, Priority, RequestFuture, ResponseFuture, ServiceTime, Stage, Threads,
    Worker, WorkerMetrics, batch_fn,
};

pub use self::{
    device_job::{Answers, DeviceJob},
    fleet::Fleet,
    replays::RowReplays,
    rows::Rows,
    sequences::Sequences,
    worker::{DeviceAnswers, DeviceRun, DeviceWorker, OnDevice},
};
