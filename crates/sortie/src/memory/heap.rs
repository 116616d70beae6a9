//! Memory that the C runtime keeps although nothing uses it.

/// Gives free memory of the process back to the system. glibc keeps a heap for each of many threads, and a device that is opened and closed leaves pieces in all of them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc is called directly")]
pub(crate) fn give_back() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // SAFETY: glibc's own, which may be called at any time from any thread.
    unsafe { malloc_trim(0) };
}

/// Other C runtimes are not known to need it.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}
