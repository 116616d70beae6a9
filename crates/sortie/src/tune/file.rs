//! The tuning file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use toml::{Table, Value};

const HEADING: &str =
    "# What sortie has measured about devices. Delete it, or a part of it, to have that measured again.\n\n";

/// The table of one device in a file.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    device: String,
}

impl File {
    pub(super) fn new(path: PathBuf, device: String) -> Self {
        Self { path, device }
    }

    /// What the file says about the device.
    pub(super) fn get(&self) -> Table {
        match read(&self.path).remove(&self.device) {
            Some(Value::Table(own)) => own,
            _ => Table::new(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes lines, and leaves the others as they are.
    pub(super) fn set(&self, lines: &[(&str, &str)]) -> io::Result<()> {
        // Of several devices of a process one after the other: each keeps what the others wrote.
        static WRITING: Mutex<()> = Mutex::new(());
        let _turn = WRITING.lock();
        let mut table = read(&self.path);
        let own = table.entry(self.device.clone()).or_insert_with(|| Value::Table(Table::new()));
        if !own.is_table() {
            *own = Value::Table(Table::new());
        }
        if let Value::Table(own) = own {
            own.extend(lines.iter().map(|(key, value)| ((*key).into(), (*value).into())));
        }
        write(&self.path, &table)
    }

    /// Says, once, that the file is not as it should be.
    pub(super) fn unusable(&self, error: &dyn std::fmt::Display) {
        unusable(&self.path, error);
    }
}

/// An empty table for a file that is not there or broken.
fn read(path: &Path) -> Table {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Table::new(),
        Err(error) => return unusable(path, &error),
    };
    text.parse().unwrap_or_else(|error: toml::de::Error| unusable(path, &error.message()))
}

/// Says so, once.
fn unusable(path: &Path, error: &dyn std::fmt::Display) -> Table {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        tracing::warn!(path = %path.display(), %error, "the tuning file is ignored");
    }
    Table::new()
}

/// In one step, so that nobody reads half a file.
fn write(path: &Path, table: &Table) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&beside, format!("{HEADING}{table}"))?;
    fs::rename(&beside, path)
}
