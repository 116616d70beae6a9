//! Lets the process exit only when no thread is inside a driver.
//!
//! If `exit` tears down a driver's library while a thread still uses it, the program crashes after its last line. So
//! this crate registers an exit function with the C runtime. It cancels queued work, lets submissions in flight finish,
//! ends the device threads, and waits until the application's threads have returned from their calls into this crate.
//! From then on a thread that calls into this crate sleeps until the process ends.
//!
//! The runtime calls exit functions in reverse order of registration, and a driver registers its own when it is loaded
//! or first used. So ours is registered again before and after drivers are loaded, when a device has been opened, and
//! when its first submission is done. It is also registered repeatedly while a driver may be registering its own,
//! because another thread may exit at that moment. A function that is registered during the exit is called next. If
//! `exit` is called on the main thread, glibc first drops that thread's locals. One of ours waits there, so nothing of
//! a driver is torn down earlier. A gap remains: another thread may exit in the milliseconds in which a driver is
//! loaded, before our function is registered again. The driver's own destructors then run first, and a thread inside it
//! may fault. Once our function has been called, a faulting thread sleeps until the process ends ([`faults`]).
//!
//! Invariant: each of our threads that may touch a device is in [`THREADS`] until it has been joined. Threads of the
//! application inside a call are counted in [`INSIDE`].

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod faults;

use std::{
    cell::Cell,
    ops::Deref,
    sync::{
        OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle, ThreadId},
    time::Duration,
};

use parking_lot::Mutex;

use crate::clock::Instant;

/// Ends its threads when the process exits.
pub(crate) trait Quit: Send + Sync {
    /// Starts no more work, cancels running work where possible, and makes the threads end. Never waits.
    fn quit(&self);
}

/// A thread that may use a driver.
struct Member {
    owner: Option<Weak<dyn Quit>>,
    thread: JoinHandle<()>,
}

static THREADS: Mutex<Vec<Member>> = Mutex::new(Vec::new());
/// Threads that are inside calls which may reach a driver.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// Set when the process exits, and never reset.
static EXITING: AtomicBool = AtomicBool::new(false);
/// When the exit began.
static BEGIN: OnceLock<Instant> = OnceLock::new();
/// Threads that sleep because the process exits.
static ASLEEP: Mutex<Vec<ThreadId>> = Mutex::new(Vec::new());

/// Longest wait: a kernel that hangs must not keep the process from exiting.
const PATIENCE: Duration = Duration::from_millis(1500);

thread_local! {
    /// Set on our own threads.
    static OWN: Cell<Option<ThreadId>> = const { Cell::new(None) };
    /// Nesting depth of this thread's calls.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// This thread may use drivers while the process exits: it finishes work in flight, or runs the exit itself.
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

/// Whether the process is exiting.
pub(crate) fn exiting() -> bool {
    EXITING.load(Ordering::SeqCst)
}

/// Called by each of our threads when it starts.
pub(crate) fn begin() {
    OWN.set(Some(thread::current().id()));
}

/// As [`begin`], for threads that finish work in flight when the process exits.
pub(crate) fn begin_exempt() {
    begin();
    EXEMPT.set(true);
}

/// While this lives, the calling thread is inside a call that may reach a driver.
#[derive(Debug)]
pub(crate) struct Inside(());

/// Enters a call that may reach a driver. Once the process exits this does not return. The caller holds no lock.
pub(crate) fn enter() -> Inside {
    let depth = DEPTH.get();
    DEPTH.set(depth + 1);
    if depth == 0 {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        if exiting() && !EXEMPT.get() {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
            ASLEEP.lock().push(thread::current().id());
            loop {
                thread::park();
            }
        }
    }
    Inside(())
}

impl Drop for Inside {
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Drops a value that involves a driver while the thread counts as inside.
#[derive(Debug)]
pub(crate) struct Guarded<T>(Option<T>);

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> Deref for Guarded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap_or_else(|| unreachable!("taken only in drop"))
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let _inside = enter();
        drop(self.0.take());
    }
}

/// The first field of a struct. If `true`, the struct's fields are dropped while the thread counts as inside.
#[derive(Debug)]
pub(crate) struct EnterOnDrop(pub(crate) bool);

/// The last field of that struct.
#[derive(Debug)]
pub(crate) struct LeaveOnDrop(pub(crate) bool);

impl Drop for EnterOnDrop {
    fn drop(&mut self) {
        if self.0 {
            std::mem::forget(enter());
        }
    }
}

impl Drop for LeaveOnDrop {
    fn drop(&mut self) {
        if self.0 {
            drop(Inside(()));
        }
    }
}

/// Registers a thread and the object that ends it.
pub(crate) fn register(owner: Weak<dyn Quit>, thread: JoinHandle<()>) {
    run_at_exit();
    remember(Member { owner: Some(owner), thread });
}

/// Registers a thread that is about to end and drops a device when it does. The device's own threads are already
/// registered.
pub(crate) fn register_ending(thread: JoinHandle<()>) {
    remember(Member { owner: None, thread });
}

fn remember(member: Member) {
    let mut members = THREADS.lock();
    members.retain(|member| !member.thread.is_finished());
    members.push(member);
}

/// Makes the exit wait before anything that was loaded or created until now is torn down. The number of registrations
/// is bounded: drivers register when they are loaded and first used, not each time that a device is opened.
pub(crate) fn run_at_exit() {
    const MAX_REGISTRATIONS: usize = 1000;
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    if COUNT.fetch_add(1, Ordering::Relaxed) < MAX_REGISTRATIONS && !at_exit() {
        tracing::warn!(
            "the C runtime takes no more exit functions: exiting with work in flight may crash in the driver"
        );
    }
}

/// While this lives, a driver may be loaded or used for the first time, so the exit function is registered repeatedly.
#[derive(Debug)]
pub(crate) struct Loading(());

/// The number of live [`Loading`] values.
static LOADING: AtomicUsize = AtomicUsize::new(0);

impl Loading {
    pub(crate) fn begin() -> Self {
        LOADING.fetch_add(1, Ordering::SeqCst);
        keep_registering();
        Self(())
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        LOADING.fetch_sub(1, Ordering::SeqCst);
    }
}

fn keep_registering() {
    /// Two seconds, and 640 KB of the C runtime's memory.
    const MAX_REGISTRATIONS: usize = 20_000;
    const INTERVAL: Duration = Duration::from_micros(100);
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static RUNNING: AtomicBool = AtomicBool::new(false);
    if COUNT.load(Ordering::Relaxed) >= MAX_REGISTRATIONS || RUNNING.swap(true, Ordering::SeqCst) {
        return;
    }
    let run = || {
        while LOADING.load(Ordering::SeqCst) > 0
            && COUNT.fetch_add(1, Ordering::Relaxed) < MAX_REGISTRATIONS
            && at_exit()
        {
            thread::sleep(INTERVAL);
        }
        RUNNING.store(false, Ordering::SeqCst);
    };
    if thread::Builder::new().name("sortie-exit".into()).spawn(run).is_err() {
        RUNNING.store(false, Ordering::SeqCst);
    }
}

/// Makes the C runtime call [`settle`] at exit, before every function registered so far. False if it refuses.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use self::faults::at_exit;

/// Makes the C runtime call [`settle`] at exit, before every function registered so far. False if it refuses.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
#[expect(unsafe_code, reason = "the standard library has no way to run something when the process exits")]
fn at_exit() -> bool {
    unsafe extern "C" {
        fn atexit(run: extern "C" fn()) -> std::ffi::c_int;
    }
    // SAFETY: `atexit` is a function of the C runtime, which every native target of wgpu has. `settle` lives as long as
    // the process and does not unwind: it neither indexes nor unwraps, and joins only finished threads.
    unsafe { atexit(settle) == 0 }
}

/// Waits in a thread-local of the main thread, which is dropped when that thread exits.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod main_thread {
    struct AtExit;

    impl Drop for AtExit {
        fn drop(&mut self) {
            super::settle();
        }
    }

    thread_local! {
        static AT_EXIT: AtExit = const { AtExit };
    }

    /// Called on the main thread before `main`.
    #[used]
    #[expect(unsafe_code, reason = "only code that runs before `main` is sure to run on the main thread")]
    // SAFETY: the section holds pointers to functions of this type. The C runtime calls them once it is initialized.
    #[unsafe(link_section = ".init_array")]
    static AT_START: extern "C" fn() = {
        extern "C" fn at_start() {
            AT_EXIT.with(|_| ());
        }
        at_start
    };
}

extern "C" fn settle() {
    let begin = BEGIN.get_or_init(Instant::now);
    // First: a thread inside a driver whose destructors have run can fault at any moment.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    faults::park_threads_inside_drivers();
    EXEMPT.set(true);
    EXITING.store(true, Ordering::SeqCst);
    let members = std::mem::take(&mut *THREADS.lock());
    for owner in members.iter().filter_map(|member| member.owner.as_ref()?.upgrade()) {
        owner.quit();
        // wgpu objects cannot be dropped here, because thread-locals are gone already. Our threads drop them, or they
        // leak.
        std::mem::forget(owner);
    }
    let wait = |over: &dyn Fn() -> bool| {
        while !over() && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_micros(200));
        }
    };
    // A waker may call `exit` inside a call into this crate, or on one of our threads, which would then wait for
    // itself.
    let own = usize::from(DEPTH.get() > 0);
    wait(&|| INSIDE.load(Ordering::SeqCst) <= own);
    for Member { thread, .. } in members.into_iter().filter(|member| !is_current(&member.thread)) {
        wait(&|| thread.is_finished() || ASLEEP.lock().contains(&thread.thread().id()));
        if thread.is_finished() {
            drop(thread.join());
        }
    }
}

/// Whether the calling thread may be inside a driver.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn may_be_inside() -> bool {
    DEPTH.get() > 0 || OWN.get().is_some()
}

/// The calling thread will never return from its call: the exit does not wait for it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn never_leaves() {
    if DEPTH.get() > 0 {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether this is one of our threads, which others wait for.
pub(crate) fn is_own() -> bool {
    OWN.get().is_some()
}

fn is_current(other: &JoinHandle<()>) -> bool {
    OWN.get() == Some(other.thread().id())
}
