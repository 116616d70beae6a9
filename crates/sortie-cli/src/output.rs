//! Output files.
//!
//! Invariant: an output file appears only when it is complete. It is written under a temporary name beside its own,
//! then renamed. Ctrl-C removes the temporary file too.

use std::{
    fs::{self, File},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

use crate::{input, interrupt};

/// A file that gets its name when it is kept. Dropped before that, it is removed.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: NamedTempFile<File>,
    path: PathBuf,
}

impl OutputFile {
    pub(crate) fn create(path: &Path) -> Result<Self, String> {
        let name = path.file_name().ok_or_else(|| input::named(path, &"it has no file name"))?;
        let mut builder = tempfile::Builder::new();
        let (prefix, folder) = (format!(".{}.", name.to_string_lossy()), path.parent().unwrap_or(Path::new("")));
        // Not `tempfile_in`: the file gets the permissions of any new file. The error's own text has the temporary
        // name.
        let file = builder.prefix(&prefix).suffix(".part").make_in(folder, |path| File::create_new(path));
        let file = file.map_err(|error| input::named(path, &error.kind()))?;
        interrupt::remove_on_interrupt(file.path());
        Ok(Self { file, path: path.into() })
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.write_all(bytes).map_err(|error| input::named(&self.path, &error))
    }

    /// Replaces the first bytes.
    pub(crate) fn put_at_start(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sought = self.file.as_file_mut().seek(SeekFrom::Start(0));
        sought.and_then(|_| self.file.write_all(bytes)).map_err(|error| input::named(&self.path, &error))
    }

    /// Gives the file its name, and replaces a file that had it.
    pub(crate) fn keep(self) -> Result<(), String> {
        // Closed first: some systems cannot rename open files.
        let renamed = self.file.into_temp_path().persist(&self.path);
        renamed.map_err(|error| input::named(&self.path, &error.error))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Refuses an output that would replace one of the files that are read.
pub(crate) fn refuse_overwriting<'a>(
    output: &Path,
    read: impl IntoIterator<Item = (&'static str, &'a Path)>,
    option: &str,
) -> Result<(), String> {
    let same = |path: &Path| {
        path == output
            || fs::canonicalize(output).is_ok_and(|output| fs::canonicalize(path).is_ok_and(|path| path == output))
    };
    match read.into_iter().find(|(_, path)| same(path)) {
        Some((read, path)) => Err(format!("{option} is {read}: {}", crate::terminal::name(path))),
        None => Ok(()),
    }
}
