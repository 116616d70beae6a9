//! A file that is there only once it is whole.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{input, terminal};

/// A file under another name beside its own, which it gets when it is kept. Dropped before that, it is gone.
#[derive(Debug)]
pub(crate) struct Draft {
    /// `None` once it has been kept.
    file: Option<File>,
    path: PathBuf,
    name: PathBuf,
}

impl Draft {
    pub(crate) fn beside(name: &Path) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| input::named(name, error);
        let last = name.file_name().ok_or_else(|| told(&"it has no name"))?.to_string_lossy();
        let path = name.with_file_name(format!(".{last}.{}.part", std::process::id()));
        let file = File::create_new(&path).map_err(|error| told(&error))?;
        Ok(Self { file: Some(file), path, name: name.into() })
    }

    /// Gives it its name. A file that had it is replaced.
    pub(crate) fn keep(mut self) -> Result<(), String> {
        // Closed first: not every system renames what is open.
        drop(self.file.take());
        fs::rename(&self.path, &self.name).map_err(|error| {
            drop(fs::remove_file(&self.path));
            format!("{}: {error}", terminal::name(&self.name))
        })
    }

    fn file(&mut self) -> &mut File {
        self.file.as_mut().unwrap_or_else(|| unreachable!("keep takes the draft"))
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Of a failure there is already something to tell.
            drop(fs::remove_file(&self.path));
        }
    }
}
