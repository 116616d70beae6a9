//! The tuning file.

use std::{
    fmt::Display,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use toml::{Table, Value};

use crate::{
    error::{Error, ErrorKind, Result, printable},
    file::{self, FileAccess},
};

const HEADING: &str = "# Measurements of `sortie tune`. Defaults replace missing entries.\n\n";

/// A device takes about a hundred bytes. A larger file is not a tuning file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The table of one device in a file.
#[derive(Clone, Debug)]
pub(crate) struct File {
    path: PathBuf,
    device: String,
}

impl File {
    pub(super) fn new(path: PathBuf, device: String) -> Self {
        Self { path, device }
    }

    /// The device's table in the file.
    pub(super) fn get(&self) -> Table {
        let mut table = read(&self.path).unwrap_or_else(|error| {
            self.unusable(&error);
            Table::new()
        });
        match table.remove(&self.device) {
            Some(Value::Table(own)) => own,
            _ => Table::new(),
        }
    }

    /// Writes lines to the file, if there is one, and returns its path.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if there is none, or it cannot be written.
    pub(crate) fn save(file: Option<&Self>, lines: &[(&str, &str)]) -> Result<PathBuf> {
        let saved = match file {
            Some(file) => file.set(lines).map(|()| file.path.clone()),
            None => Err(io::Error::other("it is switched off")),
        };
        saved.map_err(|error| {
            Error::new(ErrorKind::Unsupported, format!("the tuning file cannot be written: {error}")).caused_by(error)
        })
    }

    /// Writes lines and keeps the others. A file that is not a tuning file, by its size or its kind, is not changed.
    fn set(&self, lines: &[(&str, &str)]) -> io::Result<()> {
        // Devices of one process write one after the other, so none overwrites the lines of another.
        static WRITING: Mutex<()> = Mutex::new(());
        let _turn = WRITING.lock();
        let mut table = read(&self.path)?;
        let own = table.entry(self.device.clone()).or_insert_with(|| Value::Table(Table::new()));
        if !own.is_table() {
            *own = Value::Table(Table::new());
        }
        if let Value::Table(own) = own {
            own.extend(lines.iter().map(|(key, value)| ((*key).into(), (*value).into())));
        }
        write(&self.path, &table)
    }

    /// Warns that the file is invalid.
    pub(super) fn unusable(&self, error: &dyn Display) {
        warn(&self.path, error);
    }
}

/// An empty table if the file is missing or broken.
fn read(path: &Path) -> io::Result<Table> {
    let bytes = match file::read(path, MAX_FILE_BYTES, |_| Ok(())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Table::new()),
        bytes => bytes?,
    };
    let broken = |error: &dyn Display| {
        warn(path, error);
        Table::new()
    };
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text.parse().unwrap_or_else(|error: toml::de::Error| broken(&error.message())),
        Err(error) => broken(&error),
    })
}

/// Warns once per process: a service that keeps opening devices must not fill its log.
fn warn(path: &Path, error: &dyn Display) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        // The error may quote the file.
        let error = printable(error.to_string());
        tracing::warn!(target: "sortie", path = %path.display(), %error, "the tuning file is ignored");
    }
}

fn write(path: &Path, table: &Table) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    file::replace(path, FileAccess::Usual, &[HEADING.as_bytes(), table.to_string().as_bytes()])
}
