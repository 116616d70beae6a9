//! The file that keeps compiled pipelines between processes: its path, its format, and the checks before it is used.
//!
//! A driver trusts these bytes. So file and folder are accessible to their user only, and the file contains a key and a
//! hash of its data:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 4 | [`FORMAT`]; all numbers are little-endian |
//! | 4 | length of the key |
//! | … | the key: adapter, driver, versions |
//! | 8 | length of the data |
//! | 16 | FNV-1a, 128 bits, of the data |
//! | … | the data |
//!
//! Invariant: data that is read was written by this user, completely, with the same key.

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, Metadata},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::file::{self, FileAccess};

const MAGIC: [u8; 8] = *b"sortiepl";

/// Incremented when the layout changes.
const FORMAT: u32 = 1;

/// Drivers only add to their data. If it grows past this, the file is removed instead of written, and the next process
/// starts with an empty cache.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Every driver and every version has its own file, and most of those are never used again.
const MAX_FILES: usize = 16;

/// The content of a file's path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileContent {
    Data(Vec<u8>),
    /// No usable file: one is to be written.
    Nothing,
    /// Not a regular file (a folder, a FIFO, …): left alone.
    Obstacle,
}

/// The file of one key.
#[derive(Debug)]
pub(super) struct CacheFile {
    folder: PathBuf,
    pub(super) path: PathBuf,
    key: String,
}

impl CacheFile {
    pub(super) fn new(folder: PathBuf, key: String) -> Self {
        let path = folder.join(format!("{:032x}.bin", hash(key.as_bytes())));
        Self { folder, path, key }
    }

    /// The data that was written last. A missing or invalid file is not an error.
    pub(super) fn read(&self) -> FileContent {
        match self.try_read() {
            Ok(data) => FileContent::Data(data),
            Err(error) if error.kind() == io::ErrorKind::NotFound => FileContent::Nothing,
            Err(error) => {
                // Once per process: a service that opens devices all day must not fill its log.
                static SAID: AtomicBool = AtomicBool::new(false);
                if !SAID.swap(true, Ordering::Relaxed) {
                    tracing::warn!(target: "sortie", path = %self.path.display(), %error, "the pipeline cache is ignored");
                }
                if file::is_no_file(&error) { FileContent::Obstacle } else { FileContent::Nothing }
            }
        }
    }

    /// Writes in one step, so that no reader sees half a file. If there are several writers, the last one wins.
    pub(super) fn write(&self, data: &[u8]) -> io::Result<()> {
        if data.len() as u64 > MAX_FILE_BYTES {
            drop(fs::remove_file(&self.path));
            return Err(io::Error::other(format!("{} bytes are over the limit of {MAX_FILE_BYTES}", data.len())));
        }
        private_folder().create(&self.folder)?;
        check_private(&fs::metadata(&self.folder)?, "its folder")?;
        file::replace(&self.path, FileAccess::Private, &[&self.head(data), data])?;
        self.tidy()
    }

    fn try_read(&self) -> io::Result<Vec<u8>> {
        check_private(&fs::metadata(&self.folder)?, "its folder")?;
        let most = MAX_FILE_BYTES + self.head(&[]).len() as u64;
        self.decode(file::read(&self.path, most, |metadata| check_private(metadata, "it"))?)
    }

    fn decode(&self, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let own = self.head(&[]);
        let (head, data) = bytes.split_at_checked(own.len()).ok_or_else(|| broken("it ends too early"))?;
        // Everything but the length and the hash of the data.
        let fixed = own.len() - 24;
        if head[..fixed] != own[..fixed] {
            return Err(broken("it was made by another version, or with another device or driver"));
        }
        if *head != self.head(data)[..] {
            return Err(broken("its contents have changed since it was written"));
        }
        bytes.drain(..own.len());
        Ok(bytes)
    }

    /// The header before the data.
    fn head(&self, data: &[u8]) -> Vec<u8> {
        let key_bytes = u32::try_from(self.key.len()).unwrap_or_else(|_| unreachable!("a key is a few names"));
        [
            &MAGIC[..],
            &FORMAT.to_le_bytes(),
            &key_bytes.to_le_bytes(),
            self.key.as_bytes(),
            &(data.len() as u64).to_le_bytes(),
            &hash(data).to_le_bytes(),
        ]
        .concat()
    }

    /// Removes the least recently written files beyond [`MAX_FILES`].
    fn tidy(&self) -> io::Result<()> {
        let ours =
            |path: &Path| path.extension().and_then(OsStr::to_str).is_some_and(|end| ["bin", "tmp"].contains(&end));
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            // A file that is gone was removed by another process.
            if ours(&path)
                && let Ok(written) = fs::metadata(&path).and_then(|metadata| metadata.modified())
            {
                files.push((written, path));
            }
        }
        files.sort_unstable();
        let excess = files.len().saturating_sub(MAX_FILES);
        files[..excess].iter().for_each(|(_, path)| drop(fs::remove_file(path)));
        Ok(())
    }
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// 128-bit FNV-1a. It detects accidental damage. Permissions protect against manipulation.
fn hash(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(unix)]
fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700);
    builder
}

/// An error if another user may have written it.
#[cfg(unix)]
fn check_private(metadata: &Metadata, what: &str) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let denied = |why| Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{what} {why}")));
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return denied("belongs to another user");
    }
    if metadata.mode() & 0o022 != 0 {
        return denied("may be written by other users");
    }
    Ok(())
}

#[cfg(not(unix))]
fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    builder
}

/// On other systems, files in a user's folders inherit the user's permissions.
#[cfg(not(unix))]
fn check_private(_: &Metadata, _: &str) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(key: &str) -> CacheFile {
        CacheFile::new("folder".into(), key.into())
    }

    fn whole(file: &CacheFile, data: &[u8]) -> Vec<u8> {
        [file.head(data), data.to_vec()].concat()
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // From the test vectors of its authors.
        assert_eq!(hash(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(hash(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        for data in [&b""[..], b"x", &[0; 1000]] {
            let file = file("a key");
            assert_eq!(file.decode(whole(&file, data)).expect("whole"), data);
        }
    }

    #[test]
    fn every_flipped_bit_and_every_missing_or_added_byte_is_noticed() {
        let file = file("a key");
        let good = whole(&file, b"pipelines");
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(file.decode(bad).is_err(), "bit {bit}");
        }
        for length in 0..good.len() {
            assert!(file.decode(good[..length].to_vec()).is_err(), "{length} bytes");
        }
        assert!(file.decode([&good[..], b"x"].concat()).is_err());
    }

    #[test]
    fn of_several_writers_one_is_read_whole_at_any_time() {
        let folder = std::env::temp_dir().join(format!("sortie-cache-file-{}", std::process::id()));
        let file = CacheFile::new(folder.clone(), "a key".into());
        assert_eq!(file.read(), FileContent::Nothing);
        let contents = [1_u8, 2, 3].map(|byte| vec![byte; 100_000 * usize::from(byte)]);
        file.write(&contents[0]).expect("a file");
        std::thread::scope(|scope| {
            for data in &contents {
                scope.spawn(|| (0..10).for_each(|_| file.write(data).expect("a file")));
            }
            for _ in 0..30 {
                assert!(matches!(file.read(), FileContent::Data(data) if contents.contains(&data)));
            }
        });
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
        fs::remove_dir_all(folder).expect("it is ours");
    }

    #[test]
    fn what_belongs_to_another_key_is_not_read() {
        let (own, others) = (file("a key"), ["a kez", "a ke", "a key "].map(file));
        for other in others {
            assert_ne!(own.path, other.path);
            assert!(own.decode(whole(&other, b"pipelines")).is_err());
        }
    }
}
