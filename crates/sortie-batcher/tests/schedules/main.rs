//! Workers and callers of a batcher under `shuttle`, which runs them in thousands of random schedules.
//!
//! The files are compiled here as they stand, with shuttle's locks in the place of `parking_lot`'s. A lost wake-up is a deadlock, which shuttle reports with the schedule that led to it.

#[path = "../../src"]
#[expect(dead_code, unreachable_pub, reason = "only some of it is needed here")]
mod batcher {
    pub(crate) mod caller;
    pub(crate) mod config;
    pub(crate) mod error;
    pub(crate) mod in_flight;
    pub(crate) mod isolate;
    pub(crate) mod job;
    pub(crate) mod linger;
    pub(crate) mod lone;
    pub(crate) mod metrics;
    pub(crate) mod parked;
    pub(crate) mod queue;
    pub(crate) mod reply;
    pub(crate) mod requests;
    pub(crate) mod scheduler;
    pub(crate) mod service_fit;
    pub(crate) mod state;
    pub(crate) mod worker;
    pub(crate) mod worker_core;
}

mod clock;
mod device;
mod lending;
mod scenarios;
#[expect(dead_code, reason = "the schedules of `sortie` use all of it")]
mod sync;

// Where these files expect them.
use self::batcher::{
    caller, config, error, in_flight, isolate, job, linger, lone, metrics, parked, queue, reply, requests, scheduler,
    service_fit, state, worker, worker_core,
};

use shuttle::{Config, Runner, scheduler::RandomScheduler};

/// Runs a scenario in many schedules: the same ones every time, twenty times as many with `SORTIE_CASES=full`.
fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let full = std::env::var("SORTIE_CASES").is_ok_and(|cases| cases == "full");
    let scheduler = RandomScheduler::new_from_seed(0x50_4f_52_54, if full { 20_000 } else { 1_000 });
    Runner::new(scheduler, Config::default()).run(scenario);
}
