//! A directory for one test and one driver.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sortie::{Device, DeviceOptions, device::CacheDir};

/// Gone at the end.
pub(crate) struct Place {
    directory: PathBuf,
    device: String,
}

impl Place {
    /// `device` is the whole name of one.
    pub(crate) fn new(name: &str, device: String) -> Self {
        let directory = std::env::temp_dir().join(format!("sortie-cache-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&directory));
        Self { directory, device }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn open(&self) -> Device {
        let cache = CacheDir::At(self.directory.clone());
        let options = DeviceOptions::default().with_device(self.device.clone()).with_cache(cache);
        Device::open_with(options).unwrap_or_else(|error| panic!("{}: {error}", self.device))
    }

    /// Writes the file by compiling something, and says where it is.
    pub(crate) fn fill(&self) -> PathBuf {
        let device = self.open();
        crate::use_kernel(&device, 1);
        device.cache_file().expect("Vulkan has a pipeline cache").to_owned()
    }

    /// How many bytes a device takes from the file.
    pub(crate) fn loaded(&self) -> u64 {
        self.open().metrics().cache_bytes_loaded
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.directory));
    }
}
