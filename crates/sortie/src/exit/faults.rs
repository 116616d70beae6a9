//! Threads that fault inside a driver while the process exits.
//!
//! glibc runs a library's destructors in reverse order of registration. A library that is being loaded, or that makes a static at its first use, registers them after our exit function, so they may
//! run while another thread is inside that library. That thread then reads freed memory. It has nothing left to do: it sleeps, and the process ends with the status that it was given.
//!
//! Invariant: handlers are installed only once the process exits. A fault of the exiting thread, or of a thread that is not inside a call of this crate, goes to the handler that was there before.
#![expect(unsafe_code, reason = "the standard library has no signal handlers")]

use std::{ffi::c_int, mem::MaybeUninit, ptr, sync::OnceLock};

/// Signals of an access to memory that is not there.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

struct Installed {
    /// The thread that exits.
    exiting: libc::pthread_t,
    /// The handlers that were there before, in the order of [`SIGNALS`].
    before: [libc::sigaction; 2],
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

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
    // SAFETY: `sigaction` without a new action writes the current one to the valid pointer; all zeros is a valid value of it should that fail.
    unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

fn install(signal: c_int) {
    // SAFETY: all zeros is a valid `sigaction`, with an empty mask. The handler has the signature that `SA_SIGINFO` asks for, lives as long as the process, and calls only what is safe in a signal handler:
    // it reads thread-locals without destructors and a `OnceLock` that is set, then calls `pause` or `sigaction`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

extern "C" fn on_fault(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some(installed) = INSTALLED.get() else { return };
    if super::may_be_inside() && this_thread() != installed.exiting {
        loop {
            // SAFETY: `pause` takes no arguments and may be called in a signal handler.
            unsafe { libc::pause() };
        }
    }
    let before = SIGNALS.iter().position(|own| *own == signal).map(|index| &installed.before[index]);
    if let Some(before) = before {
        // SAFETY: the action was read from `sigaction`. The instruction that faulted runs again, and faults to the handler that was there before.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
}
