//! A program that exits with work in flight crashed in the driver: its library was torn down while a kernel ran, or while our own thread
//! let go of the device.

use std::{process::Command, sync::OnceLock};

use sortie::{Device, DeviceOptions, Grid, Result, Ticket, device::DeviceInfo};

/// Names the driver to the child process.
const DRIVER: &str = "SORTIE_TEST_EXIT_ON";

const SLOW: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        var value = id.x;
        for (var i = 0u; i < 6000u; i++) { value = value * 1664525u + 1013904223u; }
        x[id.x] = value;
    }
";

/// Runs a test of this file as a program of its own, several times, on each driver there is.
fn ends_well(test: &str) {
    for driver in ["llvmpipe", "swiftshader"] {
        let is_there = |info: &DeviceInfo| info.backend == "vulkan" && info.name.to_lowercase().contains(driver);
        if !Device::list().iter().any(is_there) {
            assert!(std::env::var_os("SORTIE_REQUIRE_GPU").is_none(), "{driver} does not open");
            continue;
        }
        let program = std::env::current_exe().expect("this program");
        for round in 0..15 {
            let mut child = Command::new(&program);
            child.args(["--exact", test, "--nocapture"]).env(DRIVER, driver);
            let output = child.output().expect("the child runs");
            assert!(output.status.success(), "round {round} on {driver}: {:?}", output.status);
        }
    }
}

#[test]
fn exiting_with_work_in_flight_does_not_crash() {
    ends_well("exit::leaves_work_in_flight");
}

/// The built-in CPU loads no driver: what it asked of the C runtime at exit came after what a driver loaded later had asked.
#[test]
fn exiting_after_the_built_in_cpu_was_opened_first_does_not_crash() {
    ends_well("exit::opens_a_driver_late");
}

/// A child: does nothing unless it was asked to.
#[test]
fn opens_a_driver_late() -> Result<()> {
    let Ok(driver) = std::env::var(DRIVER) else { return Ok(()) };
    let cpu = Device::cpu()?;
    drop(cpu.upload(&[1_u32])?.download()?);
    let device = Device::open_with(DeviceOptions::default().with_device(driver))?;
    let slow = device.kernel(SLOW)?;
    let busy = device.zeros::<u32>(1 << 10)?;
    let batch = device.batch();
    batch.dispatch(&slow, &[&busy], Grid::items(1 << 10));
    batch.submit()
}

/// The process waited ten seconds for a kernel of the built-in CPU that hangs.
#[test]
fn a_kernel_of_the_built_in_cpu_that_hangs_is_canceled_at_exit() {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "exit::leaves_a_hung_kernel", "--nocapture"]).env(DRIVER, "cpu");
    let output = child.output().expect("the child runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("the kernel has ended: true"), "{:?}: {said}", output.status);
}

/// A child: does nothing unless it was asked to.
#[test]
fn leaves_a_hung_kernel() -> Result<()> {
    static TICKET: OnceLock<Ticket> = OnceLock::new();
    extern "C" fn report() {
        super::drivers::say(&format!("the kernel has ended: {}", TICKET.get().is_some_and(Ticket::is_ready)));
    }
    if std::env::var_os(DRIVER).is_none() {
        return Ok(());
    }
    // Registered before the device registers anything, so called after that.
    #[expect(unsafe_code, reason = "the standard library has no way to run something when the process exits")]
    // SAFETY: a function of this program, which does not unwind.
    unsafe {
        libc::atexit(report);
    }
    let device = Device::cpu()?;
    let endless = device.kernel(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(1) fn main() { loop { x[0] += 1u; if x[0] == 0u { x[1] = 1u; } } }",
    )?;
    let x = device.zeros::<u32>(2)?;
    let batch = device.batch();
    batch.dispatch(&endless, &[&x], Grid::groups([1, 1, 1]));
    TICKET.get_or_init(|| batch.submit_async().expect("it is handed over"));
    while device.metrics().in_flight == 0 {
        std::thread::yield_now();
    }
    Ok(())
}

/// A thread other than the main one that exited while a driver was loaded ran the driver's destructors under another thread, which then faulted.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn a_thread_of_ours_that_faults_while_the_process_exits_does_not_end_it() {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "exit::faults_at_exit", "--nocapture"]).env(DRIVER, "cpu");
    let output = child.output().expect("the child runs");
    assert!(output.status.success(), "{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// A child: does nothing unless it was asked to. A callback on a thread of the library faults once the library's exit function has run; the process then waits until that thread sleeps.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
#[expect(unsafe_code, reason = "faults on purpose, and looks at signal handlers")]
fn faults_at_exit() -> Result<()> {
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};
    /// Set after the exit function of the library has run.
    static OVER: AtomicBool = AtomicBool::new(false);
    /// The thread that is about to fault, or -1 where nothing would catch that.
    static FAULTS: AtomicI32 = AtomicI32::new(0);
    fn handler() -> usize {
        let mut action = std::mem::MaybeUninit::zeroed();
        // SAFETY: without a new action `sigaction` only writes the current one to a valid pointer, and all zeros is one.
        unsafe {
            libc::sigaction(libc::SIGSEGV, std::ptr::null(), action.as_mut_ptr());
            let action: libc::sigaction = action.assume_init();
            action.sa_sigaction
        }
    }
    extern "C" fn after_the_library() {
        OVER.store(true, SeqCst);
        let thread = loop {
            match FAULTS.load(SeqCst) {
                0 => std::thread::yield_now(),
                thread => break thread,
            }
        };
        let sleeps = || {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
        };
        if thread < 0 {
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(7) }
        }
        while !sleeps() {
            std::thread::yield_now();
        }
    }
    if std::env::var_os(DRIVER).is_none() {
        return Ok(());
    }
    // SAFETY: a function of this program, which does not unwind. Registered before the library registers anything, so called after that.
    unsafe { libc::atexit(after_the_library) };
    let before = handler();
    let device = Device::cpu()?;
    let x = device.zeros::<f32>(1)?;
    let (started, begun) = std::sync::mpsc::channel();
    let _watch = device.watch(move |_| {
        started.send(()).unwrap_or_default();
        while !OVER.load(SeqCst) {
            std::thread::yield_now();
        }
        // SAFETY: takes no arguments.
        let thread = unsafe { libc::gettid() };
        FAULTS.store(if handler() == before { -1 } else { thread }, SeqCst);
        // SAFETY: not sound, on purpose: the page at this address is never mapped.
        unsafe { std::ptr::without_provenance::<u32>(64).read_volatile() };
    })?;
    let batch = device.batch();
    batch.fill(&x, 1.0);
    batch.submit()?;
    begun.recv().expect("the callback runs");
    std::process::exit(0);
}

/// Exiting while another thread opened a device, or was inside `submit`, crashed in the driver.
#[test]
fn exiting_while_another_thread_uses_a_driver_does_not_crash() {
    ends_well("exit::leaves_threads_at_work");
}

/// A child: does nothing unless it was asked to.
#[test]
fn leaves_threads_at_work() -> Result<()> {
    let Ok(driver) = std::env::var(DRIVER) else { return Ok(()) };
    let options = DeviceOptions::default().with_device(driver);
    let device = Device::open_with(options.clone())?;
    let slow = device.kernel(SLOW)?;
    let (started, at_work) = std::sync::mpsc::channel();
    for number in 0..4 {
        let (device, slow, options, started) = (device.clone(), slow.clone(), options.clone(), started.clone());
        std::thread::spawn(move || -> Result<()> {
            let x = device.zeros::<u32>(1 << 8)?;
            started.send(()).expect("the main thread listens");
            loop {
                if number == 0 {
                    Device::open_with(options.clone())?;
                }
                let batch = device.batch();
                batch.dispatch(&slow, &[&x], Grid::items(1 << 8));
                batch.submit()?;
            }
        });
    }
    (0..4).for_each(|_| at_work.recv().expect("the thread has started"));
    Ok(())
}

/// The child: does nothing unless it was asked to.
#[test]
fn leaves_work_in_flight() -> Result<()> {
    let Ok(driver) = std::env::var(DRIVER) else { return Ok(()) };
    let device = Device::open_with(DeviceOptions::default().with_device(driver))?;
    let slow = device.kernel(SLOW)?;
    let busy = device.zeros::<u32>(1 << 14)?;
    for _ in 0..3 {
        let batch = device.batch();
        batch.dispatch(&slow, &[&busy], Grid::items(1 << 14));
        drop(batch.submit_async()?);
    }
    Ok(())
}
