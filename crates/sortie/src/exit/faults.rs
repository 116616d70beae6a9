//! Handles threads that fault inside a driver while the process exits.
//!
//! glibc runs a library's destructors in reverse order of registration. A library that is being loaded, or that creates
//! a static at its first use, registers them after our exit function. So they may run while another thread is inside
//! that library, and that thread then reads freed memory. Its work no longer matters: it sleeps, and the process ends
//! with its given status. The thread may hold a lock that the rest of the exit needs, for example the dynamic linker's.
//! So after a timeout it ends the process itself.
//!
//! Invariant: handlers are installed only when the process exits. A fault of the exiting thread, or of a thread outside
//! this crate's calls, goes to the previous handler.
#![expect(unsafe_code, reason = "the standard library has neither signal handlers nor exit functions")]

use std::{
    ffi::{c_int, c_void},
    mem::MaybeUninit,
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

/// Signals of invalid memory accesses.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// How long an exit may take when a thread has faulted: slightly longer than our exit function waits.
const PATIENCE: Duration = super::PATIENCE.saturating_add(Duration::from_millis(250));

struct Installed {
    /// The thread that exits.
    exiting: libc::pthread_t,
    /// The previous handlers, in the order of [`SIGNALS`].
    before: [libc::sigaction; 2],
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// The exit status of the process: a failure until it is known.
static STATUS: AtomicI32 = AtomicI32::new(libc::EXIT_FAILURE);

/// Makes glibc call [`settle`](super::settle) at exit, before every function registered so far. False if it refuses.
pub(super) fn at_exit() -> bool {
    unsafe extern "C" {
        fn on_exit(run: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }
    extern "C" fn run(status: c_int, _argument: *mut c_void) {
        STATUS.store(status, Ordering::SeqCst);
        super::settle();
    }
    // SAFETY: `run` lives as long as the process and does not unwind: it neither indexes nor unwraps, and joins only
    // finished threads. It does not use its argument.
    unsafe { on_exit(run, ptr::null_mut()) == 0 }
}

/// From now on a thread that faults inside a driver sleeps.
pub(super) fn park_threads_inside_drivers() {
    INSTALLED.get_or_init(|| Installed { exiting: this_thread(), before: SIGNALS.map(current) });
    SIGNALS.into_iter().for_each(install);
}

fn this_thread() -> libc::pthread_t {
    // SAFETY: `pthread_self` takes no arguments and may be called in a signal handler.
    unsafe { libc::pthread_self() }
}

fn current(signal: c_int) -> libc::sigaction {
    let mut action = MaybeUninit::zeroed();
    // SAFETY: `sigaction` without a new action writes the current one to the valid pointer. If it fails, all zeros is a
    // valid value.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

fn install(signal: c_int) {
    // SAFETY: all zeros is a valid `sigaction`, with an empty mask. The handler has the signature that `SA_SIGINFO`
    // requires, lives as long as the process, and is async-signal-safe: it uses atomics, thread-locals without
    // destructors and a `OnceLock` that is set, reads the clock, and calls `nanosleep`, `_exit` or `sigaction`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    let Some(installed) = INSTALLED.get() else { return };
    if super::may_be_inside() && this_thread() != installed.exiting {
        super::never_leaves();
        sleep_until_the_process_ends();
    }
    let before = SIGNALS.iter().position(|own| *own == signal).map(|index| &installed.before[index]);
    if let Some(before) = before {
        // SAFETY: the action was read from `sigaction`. The faulting instruction runs again, and faults to the previous
        // handler.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
}

fn sleep_until_the_process_ends() -> ! {
    while super::BEGIN.get().is_some_and(|begin| begin.elapsed() < PATIENCE) {
        let time = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        // SAFETY: the pointers are valid or null, and `nanosleep` may be called in a signal handler.
        unsafe { libc::nanosleep(&raw const time, ptr::null_mut()) };
    }
    // SAFETY: ends the process at once, and may be called in a signal handler.
    unsafe { libc::_exit(STATUS.load(Ordering::SeqCst)) }
}
