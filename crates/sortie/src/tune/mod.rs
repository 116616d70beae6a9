//! What has been measured about a device, kept from one process to the next in the *tuning file*.
//!
//! The file is TOML, one table for each adapter and driver. It is only ever advice: one that is missing, broken or somebody else's changes
//! no result, and whatever it lacks is measured when it is first needed.

mod file;
mod products;

use std::{path::PathBuf, sync::OnceLock};

use etcetera::BaseStrategy;
use sortie_plan::ProductWay;

use self::file::File;
pub(crate) use self::products::product_way;

/// Where a device keeps what is measured about it.
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
}

impl Tuning {
    /// What the file says about a device, by the names of its adapter and driver.
    pub(crate) fn new(at: &TuningFile, adapter: &str, driver: &str) -> Self {
        let file = at.path().map(|path| File::new(path, format!("{adapter}, {driver}")));
        let known = file.as_ref().and_then(|file| file.get("product")).and_then(|name| ProductWay::named(&name));
        Self { file, product: known.map_or_else(OnceLock::new, OnceLock::from) }
    }

    /// Nothing is known, and nothing is to be found out.
    pub(crate) fn off() -> Self {
        Self { file: None, product: OnceLock::new() }
    }
}
