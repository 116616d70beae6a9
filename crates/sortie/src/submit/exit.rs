//! Leaving the process only when nothing is in flight.
//!
//! A driver whose library is being torn down by `exit` while one of its threads still runs a kernel, or while one of ours lets go of the
//! device, crashes the program after its last line. So a device registers a function with the C runtime that lets what is in
//! flight land, drops what is queued, and sees the threads off. The runtime calls such functions in reverse order, and what a driver registers for
//! itself it does when it is loaded or first used: every device registers anew when it has been opened, and when its first flight has landed.
//!
//! Invariant: a thread of ours that may touch a device is in [`THREADS`] until somebody has joined it.

use std::{
    cell::Cell,
    sync::{Arc, Weak},
    thread::{self, JoinHandle, ThreadId},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::Submitter;

/// A thread of a device.
struct Member {
    submitter: Weak<Submitter>,
    thread: JoinHandle<()>,
}

static THREADS: Mutex<Vec<Member>> = Mutex::new(Vec::new());

/// A kernel that hangs must not keep the process from ending.
const PATIENCE: Duration = Duration::from_secs(10);

/// Remembers a thread of a device.
pub(super) fn enlist(submitter: &Arc<Submitter>, thread: JoinHandle<()>) {
    register();
    let mut members = THREADS.lock();
    members.retain(|member| !member.thread.is_finished());
    members.push(Member { submitter: Arc::downgrade(submitter), thread });
}

/// Remembers a thread that is about to end, and lets go of a device when it does; the device has registered what waits for it.
pub(crate) fn see_off(thread: JoinHandle<()>) {
    let mut members = THREADS.lock();
    members.retain(|member| !member.thread.is_finished());
    members.push(Member { submitter: Weak::new(), thread });
}

/// Has the threads seen off before anything that was loaded or made until now goes.
#[expect(unsafe_code, reason = "the standard library has no way to run something when the process exits")]
pub(super) fn register() {
    unsafe extern "C" {
        fn atexit(run: extern "C" fn()) -> std::ffi::c_int;
    }
    // SAFETY: `atexit` is the C runtime's, which every native target that wgpu supports has, and `settle` is a function that lives as long as the
    // process and does not unwind: it neither indexes nor unwraps, and joins only finished threads.
    let refused = unsafe { atexit(settle) };
    if refused != 0 {
        tracing::warn!(
            "the C runtime takes no more exit functions: exiting with work in flight may crash in the driver"
        );
    }
}

extern "C" fn settle() {
    let members = std::mem::take(&mut *THREADS.lock());
    for submitter in members.iter().filter_map(|member| member.submitter.upgrade()) {
        submitter.abandon();
        // wgpu cannot be let go of here, where thread-locals are gone already: our threads do that, or nobody.
        std::mem::forget(submitter);
    }
    // A waker may call `exit` on one of our threads, which would then wait for itself.
    let others = members.into_iter().filter(|member| !is_current(&member.thread));
    let begin = Instant::now();
    for Member { thread, .. } in others {
        while !thread.is_finished() && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_micros(200));
        }
        if thread.is_finished() {
            drop(thread.join());
        }
    }
}

fn is_current(other: &JoinHandle<()>) -> bool {
    OWN.try_with(Cell::get).is_ok_and(|own| own == Some(other.thread().id()))
}

thread_local! {
    /// Set on our own threads.
    static OWN: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

/// Called by each of our threads when it starts.
pub(crate) fn begin() {
    OWN.set(Some(thread::current().id()));
}
