//! Input files, opened and read within bounds.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
};

use crate::{size, terminal};

/// The library takes 1 MiB; this only keeps memory bounded, so that it is the library that says so.
const MOST_SOURCE: u64 = 16 << 20;

/// The text of a kernel. It may come through a pipe.
pub(crate) fn source(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MOST_SOURCE + 1).read_to_string(&mut text));
    read.map_err(|error| named(path, &error))?;
    if text.len() as u64 > MOST_SOURCE {
        return Err(named(path, &format!("it has more than {}, and is no kernel", size::shown(MOST_SOURCE))));
    }
    Ok(text)
}

/// A file of data, and its length. It must have one.
pub(crate) fn data(path: &Path) -> Result<(File, u64), String> {
    // Asked before it is opened, because opening a FIFO waits for whatever writes to it; and of what was opened, because that is what counts.
    let about = fs::metadata(path).map_err(|error| named(path, &error))?;
    let file = if about.is_file() { Some(File::open(path).map_err(|error| named(path, &error))?) } else { None };
    let about = file.as_ref().map_or(Ok(about), File::metadata).map_err(|error| named(path, &error))?;
    match file.filter(|_| about.is_file()) {
        Some(file) => Ok((file, about.len())),
        None => Err(named(path, &"it is no file, and has no length")),
    }
}

/// A message about a file.
pub(crate) fn named(path: &Path, what: &dyn std::fmt::Display) -> String {
    format!("{}: {what}", terminal::name(path))
}
