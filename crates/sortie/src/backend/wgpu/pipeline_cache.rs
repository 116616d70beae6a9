//! Keeps compiled pipelines between processes, if the backend can: the driver's own cache, and its file.
//!
//! The cache only saves time. A file that is missing, broken or written by another user changes no result. If it cannot
//! be written, a warning is logged and nothing else happens.
//!
//! Invariant, if the file can be written: once [`FIRST`] pipelines have been compiled, the file has more than half of
//! them; when the device has been dropped, all.
//!
//! Of several processes that write the file the last one wins; each also writes what it has loaded. Pipelines of
//! foreign devices and of native replays are not in it.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

use super::{
    Gpu,
    cache_file::{CacheFile, FileContent},
};
use crate::{
    metrics::{AtomicCounter, Counters},
    options::CacheDir,
};

/// Part of the key, although wgpu checks its own data too.
const WGPU: &str = "30";

/// Fewer pipelines are written only when the device is dropped.
const FIRST: u64 = 8;

/// The compiled pipelines of one device, in the driver and in the file.
#[derive(Debug)]
pub(crate) struct PipelineCache {
    pub(super) raw: wgpu::PipelineCache,
    pub(super) file: CacheFile,
    compiled: AtomicU64,
    saved: Mutex<Saved>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Saved {
    /// The number of pipelines compiled until then.
    compiled: u64,
    /// Bytes of the driver's data then; `None` before the file has usable data. Drivers only add, so an equal size
    /// means equal data.
    bytes: Option<usize>,
    /// Writing failed, and a warning was logged.
    failed: bool,
}

impl PipelineCache {
    /// `None` if the device has no cache, or there is no folder for it.
    pub(super) fn open(gpu: &Gpu, at: &CacheDir, counters: Arc<Counters>) -> Option<Self> {
        if !gpu.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let file = CacheFile::new(at.folder()?, key(&gpu.adapter_info())?);
        let found = file.read();
        // The warning is logged already, so it is not tried again.
        let failed = found == FileContent::Obstacle;
        let data = if let FileContent::Data(data) = found { Some(data) } else { None };
        let scopes = gpu.scopes();
        let raw = create(gpu, data.as_deref());
        if let Err(error) = scopes.pop(|| "the pipeline cache".into(), 0) {
            tracing::warn!(target: "sortie", path = %file.path.display(), %error, "there is no pipeline cache");
            return None;
        }
        counters.cache_bytes_loaded.add(data.as_ref().map_or(0, |data| data.len() as u64));
        // The driver's size, not the file's: SwiftShader adds its own header to the data each time.
        let bytes = data.and_then(|_| raw.get_data()).map(|data| data.len());
        let saved = Saved { compiled: 0, bytes, failed };
        Some(Self { raw, file, compiled: AtomicU64::new(0), saved: Mutex::new(saved), counters })
    }

    /// Counts a compiled pipeline.
    pub(crate) fn count(&self) {
        self.compiled.add(1);
    }

    /// Writes the file when the number of compiled pipelines has doubled since the last write. That is rare, and yet a
    /// process that just exits has saved most of them.
    pub(crate) fn save_if_due(&self) {
        // Another thread is writing.
        let Some(mut saved) = self.saved.try_lock() else { return };
        if self.compiled.load(Ordering::Relaxed) >= FIRST.max(2 * saved.compiled) {
            self.save_what_is_new(&mut saved);
        }
    }

    /// Writes the file unconditionally and returns the number of bytes from the driver.
    pub(super) fn save(&self) -> io::Result<u64> {
        let mut saved = self.saved.lock();
        let compiled = self.compiled.load(Ordering::Relaxed);
        let data = self.raw.get_data().ok_or_else(|| io::Error::other("the driver returned no data"))?;
        self.file.write(&data)?;
        self.note(&mut saved, compiled, &data);
        Ok(data.len() as u64)
    }

    fn save_what_is_new(&self, saved: &mut Saved) {
        // Read before the data is taken: pipelines compiled meanwhile may or may not be in it.
        let compiled = self.compiled.load(Ordering::Relaxed);
        if saved.failed || compiled == saved.compiled {
            return;
        }
        // A lost device returns no data.
        let Some(data) = self.raw.get_data() else { return };
        if saved.bytes == Some(data.len()) {
            saved.compiled = compiled;
            return;
        }
        match self.file.write(&data) {
            Ok(()) => self.note(saved, compiled, &data),
            Err(error) => {
                saved.failed = true;
                tracing::warn!(target: "sortie", path = %self.file.path.display(), %error, "the pipeline cache cannot be written");
            }
        }
    }

    fn note(&self, saved: &mut Saved, compiled: u64, data: &[u8]) {
        *saved = Saved { compiled, bytes: Some(data.len()), failed: false };
        self.counters.cache_bytes_saved.add(data.len() as u64);
    }
}

impl Drop for PipelineCache {
    fn drop(&mut self) {
        let mut saved = self.saved.lock();
        self.save_what_is_new(&mut saved);
    }
}

#[expect(unsafe_code, reason = "wgpu cannot know whether the bytes of a cache are what it once gave away")]
fn create(gpu: &Gpu, data: Option<&[u8]>) -> wgpu::PipelineCache {
    // With `fallback`, wgpu replaces data of another driver with an empty cache.
    let descriptor = wgpu::PipelineCacheDescriptor { label: Some("sortie"), data, fallback: true };
    // SAFETY: the data must come from `PipelineCache::get_data`. `CacheFile` returns only data that its `write` got
    // under the same key, complete, from a file and folder that only this user can write to. All data that is written
    // comes from `get_data`.
    unsafe { gpu.create_pipeline_cache(&descriptor) }
}

/// Everything that compiled pipelines depend on; `None` for a backend without a cache.
fn key(info: &wgpu::AdapterInfo) -> Option<String> {
    let adapter = wgpu::util::pipeline_cache_key(info)?;
    let wgpu::AdapterInfo { name, driver, driver_info, .. } = info;
    Some(format!("{adapter}\n{name}\n{driver}\n{driver_info}\nwgpu {WGPU}\nsortie {}", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_in_the_key_is_wgpus() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("the workspace's manifest");
        assert!(manifest.contains(&format!("\nwgpu = {{ version = \"{WGPU}.")));
    }
}
