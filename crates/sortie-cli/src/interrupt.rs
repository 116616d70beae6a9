//! Ctrl-C: temporary files are removed, then the process ends.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, Once, PoisonError},
    thread,
};

use tokio::runtime::Builder;

/// As a shell reports a process that ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static WAITING: Once = Once::new();

/// Removes this file if the process is interrupted.
pub(crate) fn remove_on_interrupt(path: &Path) {
    FILES.lock().unwrap_or_else(PoisonError::into_inner).push(path.into());
    WAITING.call_once(|| {
        // Without this thread Ctrl-C ends the process too; only the temporary file stays.
        drop(thread::Builder::new().name("sortie-interrupt".into()).spawn(wait));
    });
}

fn wait() -> io::Result<()> {
    Builder::new_current_thread().enable_io().build()?.block_on(tokio::signal::ctrl_c())?;
    // Files that have their name, or are gone, are not there any more.
    FILES.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|path| drop(fs::remove_file(path)));
    std::process::exit(INTERRUPTED)
}
