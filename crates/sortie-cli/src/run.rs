//! `sortie run`: a kernel run once, with any number of buffers, and the buffers kept in files.

use std::{error::Error, io::Write, path::PathBuf};

use crate::{
    arguments::{Arguments, buffer_file},
    array,
    output::{OutputFile, refuse_overwriting},
    terminal,
};

/// Run a kernel on data from files or on generated data, and keep its buffers in files.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    arguments: Arguments,
    /// Keeps a buffer in a file after the run, as .npy or .bin; may be repeated. The file appears only when it is
    /// complete
    #[arg(long, required = true, value_name = "BUFFER=FILE", value_parser = buffer_file)]
    output: Vec<(String, PathBuf)>,
}

impl Run {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        let inputs = || self.arguments.input.iter().map(|(_, path)| ("--input", &**path));
        for (at, (_, path)) in self.output.iter().enumerate() {
            let earlier = self.output[..at].iter().map(|(_, path)| ("another --output", &**path));
            let read = inputs().chain([("--kernel", &*self.arguments.kernel.path)]).chain(earlier);
            refuse_overwriting(path, read, "--output")?;
        }
        let call = self.arguments.open()?;
        // Before the run, so that a mistake in an output is reported first.
        let mut outputs = Vec::new();
        for (key, path) in &self.output {
            let buffer = call.buffer("--output", key)?;
            let mut file = OutputFile::create(path)?;
            if array::is_npy(path)? {
                file.put(&buffer.array()?.header())?;
            }
            outputs.push((buffer, path, file));
        }
        call.submit(call.device.batch())?;
        for (buffer, _, file) in &mut outputs {
            file.put(&buffer.download()?)?;
        }
        call.describe(out)?;
        for (buffer, path, file) in outputs {
            file.keep()?;
            writeln!(out, "{} kept in {}", buffer.name(), terminal::name(path))?;
        }
        Ok(())
    }
}
