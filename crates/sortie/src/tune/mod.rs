//! What has been measured about a device, kept from one process to the next in the *tuning file*.
//!
//! The file is TOML, one table for each adapter and driver. It is only ever advice: one that is missing, broken or somebody else's changes
//! no result, and whatever it lacks is measured when it is first needed.

mod contest;
mod file;
mod findings;
mod products;

use std::{io, path::PathBuf, sync::OnceLock};

use etcetera::BaseStrategy;
use sortie_plan::ProductWay;

use self::file::File;
pub use self::findings::{Churn, Findings, Timing, Way, Work};
pub(crate) use self::products::product_way;
use crate::policy::SubmitPolicy;

/// Where a device keeps what is measured about it.
///
/// ```
/// use sortie::{Device, DeviceOptions, TuningFile};
///
/// // As in a test: nothing is measured, nothing read or written.
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
    /// Nowhere, and nothing is measured: what suits most devices of a kind is used.
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
    /// `None`: nothing is kept, and nothing measured.
    file: Option<File>,
    product: OnceLock<ProductWay>,
    /// How it is best given its work.
    policy: Option<SubmitPolicy>,
}

impl Tuning {
    /// What the file says about a device, by the names of its adapter and driver. What it says in part, or wrongly, it does not say.
    pub(crate) fn new(at: &TuningFile, adapter: &str, driver: &str) -> Self {
        let Some(file) = at.path().map(|path| File::new(path, format!("{adapter}, {driver}"))) else {
            return Self::off();
        };
        let known = file.get();
        let text = |key: &str| known.get(key).and_then(toml::Value::as_str);
        let product = text("product").and_then(ProductWay::named);
        let policy = text("split").zip(text("in_flight")).and_then(|(split, in_flight)| {
            let split = split.parse().inspect_err(|error| file.unusable(error)).ok()?;
            let in_flight = in_flight.parse().ok().filter(|count| *count > 0);
            let in_flight = in_flight.or_else(|| {
                file.unusable(&"`in_flight` is no number above 0");
                None
            })?;
            Some(SubmitPolicy { split, in_flight })
        });
        Self { file: Some(file), product: product.map_or_else(OnceLock::new, OnceLock::from), policy }
    }

    /// Nothing is known, and nothing is to be found out.
    pub(crate) fn off() -> Self {
        Self { file: None, product: OnceLock::new(), policy: None }
    }

    /// How the device is best given its work, as far as that has been measured.
    pub(crate) fn policy(&self) -> Option<SubmitPolicy> {
        self.policy
    }

    /// Writes that down. Returns where; `None` for an error that there is nowhere.
    fn keep(&self, policy: SubmitPolicy) -> Result<PathBuf, Option<io::Error>> {
        let file = self.file.as_ref().ok_or(None)?;
        file.set(&[("split", &policy.split.to_string()), ("in_flight", &policy.in_flight.to_string())])?;
        Ok(file.path().into())
    }
}
