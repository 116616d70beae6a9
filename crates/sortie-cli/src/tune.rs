//! `sortie tune`: measures the best submit policy and matrix product of a device.

use std::{error::Error, io::Write, time::Duration};

use sortie::{Device, tune::TuneReport};

use crate::{device::DeviceArgs, progress, terminal};

/// Measure the best submit policy and matrix product of this device, and save them for programs that open it.
#[derive(Debug, clap::Args)]
pub(crate) struct Tune {
    #[command(flatten)]
    device: DeviceArgs,
    /// How long to measure; more is more reliable
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Do not write the tuning file
    #[arg(long)]
    dry_run: bool,
}

impl Tune {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        let options = self.device.options();
        let device = Device::open_with(options.clone())?;
        writeln!(out, "{}; current policy {}; products by {}", device.info(), device.policy(), device.product_way())?;
        drop(device);
        let bar = progress::bar(1000, "{bar:40} {percent:>3} % of {msg}").with_message(format!("{} s", self.seconds));
        let findings = TuneReport::measure(&options, Duration::from_secs(self.seconds), |done| {
            bar.set_position((done * 1000.0) as u64);
        })?;
        bar.finish_and_clear();
        writeln!(out, "{findings}")?;
        if self.dry_run {
            return Ok(());
        }
        writeln!(out, "Saved in {}", terminal::name(&findings.save()?))?;
        Ok(())
    }
}
