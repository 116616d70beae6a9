//! The thread of a device that records native replays again. It runs only while there are jobs.
//!
//! Bound: one thread per device, and at most one queued job per replay (see `replay/rerecord.rs`).

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use parking_lot::Mutex;

use crate::exit::{begin, register_ending};

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs one after the other on a background thread.
#[derive(Default, derive_more::Debug)]
#[debug("ReplayThread {{ jobs: {}, .. }}", self.state.lock().jobs.len())]
pub(crate) struct ReplayThread {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Whether the thread runs. It checks for more jobs before it ends.
    running: bool,
}

impl ReplayThread {
    /// Queues a job. It is dropped if the thread cannot be started.
    pub(crate) fn push(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.jobs.push_back(Box::new(job));
        if std::mem::replace(&mut state.running, true) {
            return;
        }
        drop(state);
        let core = self.state.clone();
        let started = thread::Builder::new().name("sortie-record".into()).spawn(move || {
            begin();
            while let Some(job) = next(&core) {
                // A panic in our own code: the replay stays as it is.
                drop(catch_unwind(AssertUnwindSafe(job)));
            }
        });
        match started {
            Ok(thread) => register_ending(thread),
            Err(error) => {
                tracing::warn!(target: "sortie", %error, "the thread sortie-record did not start");
                let mut state = self.state.lock();
                state.running = false;
                let jobs = std::mem::take(&mut state.jobs);
                drop(state);
                drop(jobs);
            }
        }
    }
}

/// The next job. If there is none, the thread ends.
fn next(state: &Mutex<State>) -> Option<Job> {
    let mut state = state.lock();
    let job = state.jobs.pop_front();
    state.running = job.is_some();
    job
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_run_in_order_after_a_panic_too() {
        let replay_thread = ReplayThread::default();
        let (send, receive) = mpsc::channel();
        for number in 0..10 {
            let send = send.clone();
            replay_thread.push(move || {
                assert_ne!(number, 3, "a defect");
                send.send(number).expect("the test listens");
            });
        }
        drop(send);
        assert_eq!(receive.into_iter().collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    }
}
