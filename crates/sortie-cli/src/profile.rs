//! `sortie profile`: how long a kernel takes on a device.
//!
//! The kernel runs a few times before it is measured: the first runs plan, compile and find cold caches.

use std::{error::Error, io::Write, path::PathBuf};

use crate::{arguments::Arguments, terminal};

/// After these runs the kernel's cost is known, so that its batch is split only if necessary.
const WARM_UP_RUNS: usize = 3;

/// Run a kernel on data from files or on generated data, and print its profile.
#[derive(Debug, clap::Args)]
pub(crate) struct Profile {
    #[command(flatten)]
    arguments: Arguments,
    /// Also write a trace for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "OUT.json")]
    trace: Option<PathBuf>,
}

impl Profile {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        let call = self.arguments.open()?;
        for _ in 0..WARM_UP_RUNS {
            call.submit(call.device.batch())?;
        }
        for buffer in &call.buffers {
            buffer.reset()?;
        }
        let batch = call.device.batch();
        let reading = batch.profile();
        call.submit(batch)?;
        let profile = reading.wait()?;
        call.describe(out)?;
        writeln!(out, "{profile}")?;
        if let Some(path) = &self.trace {
            profile.write_trace(path)?;
            writeln!(out, "trace: {}", terminal::name(path))?;
        }
        Ok(())
    }
}
