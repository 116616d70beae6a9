//! The harness of all benches and of `peers/`: contenders take turns in one process, and every figure is compared with
//! a baseline that ran in the same round.
//!
//! | module | noun |
//! |---|---|
//! | [`args`] | [`Args`]: the command line |
//! | [`rounds`] | [`Rounds`]: how long contenders take turns; [`Samples`]: what they took |
//! | [`cost`] | [`Cost`]: CPU time, wall time and allocations of a call |
//! | [`allocator`] | [`CountingAllocator`] |
//! | [`stats`] | [`median`], [`quantile`] |
//! | [`report`] | [`Report`]: the table, or with `--json` one object per line |
//!
//! A bench should have a control: a contender that is the same as its baseline and must read 1.0×.
//!
//! ```
//! use sortie_bench::{Case, Contender, Report, Rounds};
//!
//! let contenders = [Contender::new("sum", 0), Contender::new("sum-again", 0)];
//! let samples = Rounds::new(3).run(contenders.len(), |_contender, _round| {
//!     let start = std::time::Instant::now();
//!     std::hint::black_box((0..1000u64).sum::<u64>());
//!     Ok([start.elapsed().as_secs_f64() * 1e6])
//! })?;
//! let case = Case { device: "this CPU", case: "sum", n: 1000, metrics: ["us_per_run"] };
//! Report::new("example", false).rows(&case, &contenders, &samples);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod allocator;
pub mod args;
pub mod cost;
pub mod report;
pub mod rounds;
pub mod stats;

pub use self::{
    allocator::{CountingAllocator, allocations},
    args::Args,
    cost::{Clock, Cost, cpu_time},
    report::{Case, Contender, Report},
    rounds::{Rounds, Samples},
    stats::{median, quantile},
};

/// Errors of a bench end the process with their message.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
