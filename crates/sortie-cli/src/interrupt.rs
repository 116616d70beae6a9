//! Ctrl-C: temporary files are removed, then the process ends.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, Once, PoisonError},
};

/// As a shell reports a process that ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static HANDLER: Once = Once::new();

/// Removes this file if the process is interrupted.
pub(crate) fn remove_on_interrupt(path: &Path) {
    FILES.lock().unwrap_or_else(PoisonError::into_inner).push(path.into());
    HANDLER.call_once(|| {
        // Without a handler Ctrl-C ends the process too; only the temporary file stays.
        drop(ctrlc::set_handler(|| {
            // Files that got their name, or are gone, are not there any more.
            FILES.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|path| drop(fs::remove_file(path)));
            std::process::exit(INTERRUPTED);
        }));
    });
}
