//! Returns unused heap memory to the operating system.

/// Returns free heap memory to the system. glibc keeps an arena per thread, and opening and closing a device leaves
/// free pieces in all of them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "glibc is called directly")]
pub(crate) fn give_back() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    // SAFETY: glibc allows `malloc_trim` at any time from any thread.
    unsafe { malloc_trim(0) };
}

/// Other C runtimes are not known to need it.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back() {}
