//! `sortie tune`: how the device at hand is best given its work, and how it multiplies matrices.

use std::{error::Error, io::Write, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use sortie::{Device, DeviceOptions, TuneReport};

use crate::terminal;

/// Measure how this device is best given its work and how it multiplies matrices, and keep that for programs that open it.
#[derive(Debug, clap::Args)]
pub(crate) struct Tune {
    /// A part of the device's name, its index in `sortie devices`, or `cpu`
    #[arg(long)]
    device: Option<String>,
    /// For how long to measure; more is surer
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Do not write the tuning file
    #[arg(long)]
    dry_run: bool,
}

impl Tune {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        let options = DeviceOptions { device: self.device.clone(), ..Default::default() };
        let device = Device::open_with(options.clone())?;
        writeln!(out, "{}; so far {}; products by {}", device.info(), device.policy(), device.product_way())?;
        drop(device);
        let style = ProgressStyle::with_template("{bar:40} {percent:>3} % of {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(1000).with_style(style).with_message(format!("{} s", self.seconds));
        let findings = TuneReport::measure(&options, Duration::from_secs(self.seconds), |done| {
            bar.set_position((done * 1000.0) as u64);
        })?;
        bar.finish_and_clear();
        writeln!(out, "{findings}")?;
        if self.dry_run {
            return Ok(());
        }
        writeln!(out, "Kept in {}", terminal::name(&findings.save()?))?;
        Ok(())
    }
}
