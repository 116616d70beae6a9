//! What has been measured about a device, kept from one process to the next in the *tuning file*.
//!
//! The file is TOML, one table for each adapter and driver. A missing, broken or unrelated file changes no result:
//! missing entries have defaults for the kind of device.
//!
//! Measuring is the layer `tune`, above batches. Invariant: this module measures nothing, and the file is written only by
//! [`File::save`].

mod file;
mod product_way;

use std::{
    fmt::Display,
    sync::atomic::{AtomicUsize, Ordering},
};

use sortie_plan::MatmulKernel;

use self::product_way::default_way;
pub(crate) use self::{file::File, product_way::fits};
use crate::{info::DeviceInfo, options::TuningFile, policy::SubmitPolicy};

/// The tuning of one device.
#[derive(Debug)]
pub(crate) struct Tuning {
    /// `None`: nothing is read or saved.
    pub(crate) file: Option<File>,
    /// The kernels for large matrix products, by index in [`MatmulKernel::ALL`].
    way: AtomicUsize,
    /// The library for them on the built-in CPU, if the file names one.
    pub(crate) library: Option<String>,
    /// The measured submit policy.
    pub(crate) policy: Option<SubmitPolicy>,
}

impl Tuning {
    /// Reads a device's entries from the file, by the names of its adapter and driver. Incomplete or invalid entries
    /// are ignored.
    pub(crate) fn new(at: &TuningFile, info: &DeviceInfo) -> Self {
        let file = at.path().map(|path| File::new(path, format!("{}, {}", info.name, info.driver)));
        let known = file.as_ref().map(File::get).unwrap_or_default();
        let text = |key: &str| known.get(key).and_then(toml::Value::as_str);
        let unusable = |error: &dyn Display| {
            if let Some(file) = &file {
                file.unusable(error);
            }
        };
        let policy = text("split").zip(text("in_flight")).and_then(|(split, in_flight)| {
            let split = split.parse().inspect_err(|error| unusable(error)).ok()?;
            let in_flight = in_flight.parse().ok().filter(|count| *count > 0);
            let in_flight = in_flight.or_else(|| {
                unusable(&"`in_flight` is no number above 0");
                None
            })?;
            Some(SubmitPolicy { split, in_flight })
        });
        let way = text("product").and_then(MatmulKernel::named).filter(|way| fits(*way, &info.limits));
        let way = AtomicUsize::new(way.unwrap_or_else(|| default_way(info)) as usize);
        let library = text("product").map(str::to_owned);
        Self { file, way, library, policy }
    }

    /// The kernels for large matrix products.
    pub(crate) fn product_way(&self) -> MatmulKernel {
        MatmulKernel::ALL[self.way.load(Ordering::Relaxed)]
    }

    pub(crate) fn set_product_way(&self, way: MatmulKernel) {
        self.way.store(way as usize, Ordering::Relaxed);
    }
}
