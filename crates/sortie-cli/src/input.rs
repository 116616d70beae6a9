//! Input files, opened and read within bounds.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
};

use crate::{size, terminal};

/// Bounds memory. The library has its own limit of 1 MiB, and its error is better.
const MAX_SOURCE_BYTES: u64 = 16 << 20;

/// The text of a kernel. It may come through a pipe.
pub(crate) fn source(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SOURCE_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| named(path, &error))?;
    if text.len() as u64 > MAX_SOURCE_BYTES {
        return Err(named(path, &format!("it has more than {} and cannot be a kernel", size::shown(MAX_SOURCE_BYTES))));
    }
    Ok(text)
}

/// A regular file and its length.
pub(crate) fn data(path: &Path) -> Result<(File, u64), String> {
    // Checked before it is opened, because opening a FIFO waits for a writer, and again afterwards, because the path
    // may have changed.
    let about = fs::metadata(path).map_err(|error| named(path, &error))?;
    let file = if about.is_file() { Some(File::open(path).map_err(|error| named(path, &error))?) } else { None };
    let about = file.as_ref().map_or(Ok(about), File::metadata).map_err(|error| named(path, &error))?;
    match file.filter(|_| about.is_file()) {
        Some(file) => Ok((file, about.len())),
        None => Err(named(path, &"it is not a regular file")),
    }
}

/// A message with the file's name in front.
pub(crate) fn named(path: &Path, what: &dyn std::fmt::Display) -> String {
    format!("{}: {what}", terminal::name(path))
}
