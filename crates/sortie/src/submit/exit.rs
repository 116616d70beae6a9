//! Leaving the process only when nothing is in flight.
//!
//! A driver whose library is being torn down by `exit` while one of its threads still runs a kernel, or while one of ours lets go of the
//! device, crashes the program after its last line. So the first device registers a function with the C runtime that lets what is in
//! flight land, drops what is queued, and sees the threads off.
//!
//! Invariant: a thread of ours that may touch a device is in [`THREADS`] until somebody has joined it.

use std::{
    sync::{Arc, Once, Weak},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::Submitter;

/// The threads of one device.
struct Crew {
    submitter: Weak<Submitter>,
    threads: Vec<JoinHandle<()>>,
}

static THREADS: Mutex<Vec<Crew>> = Mutex::new(Vec::new());

/// A kernel that hangs must not keep the process from ending.
const PATIENCE: Duration = Duration::from_secs(10);

/// Remembers the threads of a device.
pub(super) fn enlist(submitter: &Arc<Submitter>, threads: Vec<JoinHandle<()>>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(register);
    let mut crews = THREADS.lock();
    crews.retain(|crew| !crew.threads.iter().all(JoinHandle::is_finished));
    crews.push(Crew { submitter: Arc::downgrade(submitter), threads });
}

/// The threads of a device, for its owner to join.
pub(super) fn dismiss(submitter: &Submitter) -> Vec<JoinHandle<()>> {
    let mut crews = THREADS.lock();
    let own = crews.iter().position(|crew| std::ptr::eq(crew.submitter.as_ptr(), submitter));
    own.map(|index| crews.swap_remove(index).threads).unwrap_or_default()
}

#[expect(unsafe_code, reason = "the standard library has no way to run something when the process exits")]
fn register() {
    unsafe extern "C" {
        fn atexit(run: extern "C" fn()) -> std::ffi::c_int;
    }
    // SAFETY: `atexit` is the C runtime's, on every platform that std supports, and `settle` is a function that lives as long as the
    // process and does not unwind: it neither indexes nor unwraps, and joins only finished threads.
    let refused = unsafe { atexit(settle) };
    if refused != 0 {
        tracing::warn!(
            "the C runtime takes no more exit functions: exiting with work in flight may crash in the driver"
        );
    }
}

extern "C" fn settle() {
    let crews = std::mem::take(&mut *THREADS.lock());
    for submitter in crews.iter().filter_map(|crew| crew.submitter.upgrade()) {
        submitter.abandon();
        // wgpu cannot be let go of here, where thread-locals are gone already: our threads do that, or nobody.
        std::mem::forget(submitter);
    }
    let begin = Instant::now();
    for thread in crews.into_iter().flat_map(|crew| crew.threads) {
        while !thread.is_finished() && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_micros(200));
        }
        if thread.is_finished() {
            drop(thread.join());
        }
    }
}
