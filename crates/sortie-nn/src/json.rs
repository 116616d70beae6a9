//! JSON files of bounded length.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
};

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Bytes of an index or a configuration. Those of the largest models have a few hundred kilobytes.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a JSON file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let io = |error| Error::file(path, error);
    let about = fs::metadata(path).map_err(io)?;
    if !about.is_file() {
        return Err(Error::format(path, "it is no file"));
    }
    if about.len() > MAX_BYTES {
        return Err(Error::format(path, format!("{} bytes; at most {MAX_BYTES} are expected", about.len())));
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(io)?.take(MAX_BYTES).read_to_end(&mut bytes).map_err(io)?;
    serde_json::from_slice(&bytes).map_err(|error| Error::format(path, format!("it is not as expected: {error}")))
}
