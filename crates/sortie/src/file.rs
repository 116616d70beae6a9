//! Files that one process writes for the next: the tuning file and the pipeline cache.
//!
//! Their paths may hold anything, also a FIFO or a device. Invariants: reading never blocks and is bounded. A file is
//! replaced in one step, through a temporary file that is always new.

use std::{
    collections::hash_map::RandomState,
    fs::{self, Metadata, OpenOptions},
    hash::{BuildHasher, Hasher},
    io::{self, Read, Write},
    path::Path,
};

/// Reads a regular file of at most `most` bytes whose metadata passes `check`.
///
/// The opened file is checked, so the file cannot be exchanged between check and read.
pub(crate) fn read(path: &Path, most: u64, check: impl FnOnce(&Metadata) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let file = not_blocking().read(true).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "it is not a regular file"));
    }
    check(&metadata)?;
    let mut bytes = Vec::new();
    // One byte more than allowed: the file may grow while it is read.
    if metadata.len() <= most {
        file.take(most + 1).read_to_end(&mut bytes)?;
    }
    if metadata.len().max(bytes.len() as u64) > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

/// Whether an error of [`read`] means that the path is not a regular file, and must be left alone.
pub(crate) fn is_no_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// Replaces the file at a path in one step, so that no reader sees half of it. A symbolic link is replaced, not
/// followed.
pub(crate) fn replace(path: &Path, access: FileAccess, parts: &[&[u8]]) -> io::Result<()> {
    // Random, because a process id may be reused while the file of a crashed process still exists.
    let beside = path.with_extension(format!("{:016x}.tmp", RandomState::new().build_hasher().finish()));
    let mut file = fresh(access).open(&beside)?;
    let written = parts.iter().try_for_each(|part| file.write_all(part)).and_then(|()| file.sync_all());
    // Closed first: some systems cannot rename an open file.
    drop(file);
    let written = written.and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        drop(fs::remove_file(&beside));
    }
    written
}

/// The permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// Readable by its user only.
    Private,
    /// The default permissions.
    Usual,
}

/// Opening a FIFO for reading waits for a writer unless `O_NONBLOCK` is set.
#[cfg(unix)]
fn not_blocking() -> OpenOptions {
    use rustix::fs::OFlags;
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    options
}

#[cfg(not(unix))]
fn not_blocking() -> OpenOptions {
    OpenOptions::new()
}

/// Options that fail if the path exists, even as a symbolic link.
fn fresh(access: FileAccess) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        if access == FileAccess::Private {
            options.mode(0o600);
        }
    }
    #[cfg(not(unix))]
    let _ = access;
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("sortie-file-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir(&folder).expect("a folder");
        folder
    }

    fn any(path: &Path, most: u64) -> io::Result<Vec<u8>> {
        read(path, most, |_| Ok(()))
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_left() {
        let folder = folder("written");
        let path = folder.join("a.toml");
        assert_eq!(any(&path, 8).expect_err("nothing").kind(), io::ErrorKind::NotFound);
        for text in [&b"one"[..], b"another"] {
            replace(&path, FileAccess::Usual, &[&text[..1], &text[1..]]).expect("a file");
            assert_eq!(any(&path, 8).expect("the file"), text);
        }
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn a_file_over_the_limit_is_refused_and_one_at_the_limit_read() {
        let folder = folder("limit");
        let path = folder.join("a");
        fs::write(&path, [7; 8]).expect("a file");
        assert_eq!(any(&path, 8).expect("at the limit"), [7; 8]);
        assert_eq!(any(&path, 7).expect_err("over it").kind(), io::ErrorKind::FileTooLarge);
        // Sparse, and larger than memory.
        fs::File::options().write(true).open(&path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
        assert_eq!(any(&path, 8).expect_err("over it").kind(), io::ErrorKind::FileTooLarge);
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn a_folder_is_refused_and_left_alone() {
        let folder = folder("folder");
        let path = folder.join("a");
        fs::create_dir(&path).expect("a folder");
        assert!(any(&path, 8).is_err());
        assert!(replace(&path, FileAccess::Private, &[b"text"]).is_err());
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "the temporary file is gone");
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    #[cfg(unix)]
    fn a_fifo_does_not_block_and_a_device_is_not_read() {
        let folder = folder("fifo");
        let path = folder.join("a");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo is there");
        assert!(made.success());
        for path in [&*path, Path::new("/dev/zero"), &folder] {
            let error = any(path, 8).expect_err("not a file");
            assert!(is_no_file(&error), "{error}");
        }
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    #[cfg(unix)]
    fn a_symbolic_link_is_replaced_and_what_it_points_to_untouched() {
        let folder = folder("link");
        let (link, target) = (folder.join("a"), folder.join("b"));
        fs::write(&target, "precious").expect("a file");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        replace(&link, FileAccess::Private, &[b"text"]).expect("a file");
        assert_eq!(fs::read_to_string(&target).expect("the target"), "precious");
        let metadata = fs::symlink_metadata(&link).expect("the file");
        assert!(metadata.is_file());
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&metadata) & 0o777, 0o600);
        assert!(fresh(FileAccess::Usual).open(&link).is_err(), "only a new name will do");
        std::os::unix::fs::symlink(folder.join("nothing"), folder.join("dangling")).expect("a link");
        assert!(fresh(FileAccess::Usual).open(folder.join("dangling")).is_err());
        assert!(!folder.join("nothing").exists());
        fs::remove_dir_all(folder).expect("it is ours");
    }
}
