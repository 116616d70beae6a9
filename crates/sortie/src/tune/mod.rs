//! What has been measured about a device, kept from one process to the next in the *tuning file*.
//!
//! The file is TOML, one table for each adapter and driver. It is only ever advice: one that is missing, broken or for another device changes no
//! result, and for whatever it lacks there is a default for the kind of device.
//!
//! Invariant: nothing is measured and nothing is written but by [`Device::tune`](crate::Device::tune), [`Findings::measure`] and what they return.

mod contest;
mod file;
mod findings;
mod products;

use std::{
    fmt::Display,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use etcetera::BaseStrategy;
use sortie_plan::ProductWay;

use self::file::File;
pub use self::findings::{Churn, Findings, Timing, Way, Work};
pub use self::products::{ProductFindings, ProductTiming};
use crate::{device::DeviceInfo, policy::SubmitPolicy};

/// Where a device finds what was measured about it. It is read when a device is opened, and written only by [`ProductFindings::save`] and [`Findings::save`].
///
/// ```
/// use sortie::{Device, DeviceOptions, TuningFile};
///
/// // As in a test: nothing is read.
/// let device = Device::cpu_with(DeviceOptions { tuning: TuningFile::Off, ..Default::default() })?;
/// # let _ = device;
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TuningFile {
    /// Where `SORTIE_TUNING` says (a path, or `off`), else `sortie/tuning.toml` in the user's configuration directory.
    #[default]
    Usual,
    /// Here.
    At(PathBuf),
    /// Nowhere, and nothing can be saved: what suits most devices of a kind is used.
    Off,
}

impl TuningFile {
    fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Usual => match std::env::var_os("SORTIE_TUNING") {
                Some(off) if off == "off" => None,
                Some(path) if !path.is_empty() => Some(path.into()),
                _ => Some(etcetera::choose_base_strategy().ok()?.config_dir().join("sortie").join("tuning.toml")),
            },
            Self::At(path) => Some(path.clone()),
            Self::Off => None,
        }
    }
}

/// What is known about one device.
#[derive(Debug)]
pub(crate) struct Tuning {
    /// `None`: nothing is read or saved.
    file: Option<File>,
    /// The kernels that compute large products, by their index in [`ProductWay::ALL`].
    way: AtomicUsize,
    /// The library that computes them on the built-in CPU, if the file names one.
    library: Option<String>,
    /// How it is best given its work.
    policy: Option<SubmitPolicy>,
}

impl Tuning {
    /// What the file says about a device, by the names of its adapter and driver. What it says in part, or wrongly, it does not say.
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
        let way = text("product").and_then(ProductWay::named).filter(|way| products::runs(*way, &info.limits));
        let way = AtomicUsize::new(way.unwrap_or_else(|| products::default_way(info)) as usize);
        let library = text("product").map(str::to_owned);
        Self { file, way, library, policy }
    }

    /// How the device is best given its work, as far as that has been measured.
    pub(crate) fn policy(&self) -> Option<SubmitPolicy> {
        self.policy
    }

    /// The library that the file names for large products.
    pub(crate) fn library(&self) -> Option<&str> {
        self.library.as_deref()
    }

    /// The kernels that compute large products.
    pub(crate) fn product_way(&self) -> ProductWay {
        ProductWay::ALL[self.way.load(Ordering::Relaxed)]
    }

    fn set_product_way(&self, way: ProductWay) {
        self.way.store(way as usize, Ordering::Relaxed);
    }
}
