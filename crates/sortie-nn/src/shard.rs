//! One safetensors file: a length, a JSON header, and the tensors.
//!
//! Files are untrusted. Invariant: after [`Shard::open`] every tensor lies within the file, none overlap, and each has
//! as many bytes as its type and shape say. Memory is bounded by the length of the header, which is within the file.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};

use crate::error::{Error, Result};

/// The format's own limit.
const MAX_HEADER: u64 = 100_000_000;
/// Bytes of the length before the header.
const LENGTH: u64 = 8;

/// One file of tensors.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) path: PathBuf,
    header: Metadata,
    /// Where the tensors start.
    start: u64,
}

/// Where a tensor is in a file.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// The first byte, from the start of the file.
    start: u64,
    /// Number of bytes.
    bytes: u64,
}

impl Shard {
    /// Reads and checks the header.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let io = |error| Error::file(path, error);
        let wrong = |reason: String| Error::format(path, format!("it is no valid safetensors file: {reason}"));
        let mut file = File::open(path).map_err(io)?;
        let all = file.metadata().map_err(io)?;
        if !all.is_file() {
            return Err(Error::format(path, "it is no file"));
        }
        let all = all.len();
        let mut length = [0; LENGTH as usize];
        if all < LENGTH {
            return Err(wrong(format!("{all} bytes are not even the length of a header")));
        }
        file.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER || length > all - LENGTH {
            return Err(wrong(format!("a header of {length} bytes, in a file of {all}")));
        }
        let mut header = Vec::new();
        file.take(length).read_to_end(&mut header).map_err(io)?;
        let header: Metadata = serde_json::from_slice(&header).map_err(|error| wrong(error.to_string()))?;
        let start = LENGTH + length;
        let promised = start.saturating_add(header.data_len() as u64);
        if promised != all {
            return Err(wrong(format!("its header describes a file of {promised} bytes, but it has {all}")));
        }
        Ok(Self { path: path.into(), header, start })
    }

    /// Its tensors by name.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (String, Stored)> + '_ {
        let stored = |info: &TensorInfo| {
            let (from, to) = info.data_offsets;
            let (start, bytes) = (self.start + from as u64, (to - from) as u64);
            Stored { dtype: info.dtype, shape: info.shape.clone(), start, bytes }
        };
        self.header.tensors().into_iter().map(move |(name, info)| (name, stored(info)))
    }

    /// Reads a tensor, in pieces of at most `piece` bytes.
    pub(crate) fn read(&self, stored: &Stored, piece: usize, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let io = |error| Error::file(&self.path, error);
        let mut file = File::open(&self.path).map_err(io)?;
        file.seek(SeekFrom::Start(stored.start)).map_err(io)?;
        let mut rest = stored.bytes;
        let mut bytes = vec![0; piece.min(usize::try_from(rest).unwrap_or(piece))];
        while rest > 0 {
            let len = usize::try_from(rest).unwrap_or(piece).min(piece);
            file.read_exact(&mut bytes[..len]).map_err(io)?;
            each(&bytes[..len])?;
            rest -= len as u64;
        }
        Ok(())
    }
}
