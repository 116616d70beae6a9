//! `sortie warm`: compiles kernels ahead of time, into the device's pipeline cache.
//!
//! The variant of a kernel for grids beyond the device's limit is not compiled: a program compiles it when it first
//! needs it.

use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sortie::{Device, Kernel};

use crate::{
    device::DeviceArgs,
    input,
    kernel::{constant, in_file, with_constants},
    number,
    progress::Progress,
    terminal,
};

/// Compile kernels into the device's pipeline cache, so that programs that use them start faster.
#[derive(Debug, clap::Args)]
pub(crate) struct Warm {
    #[command(flatten)]
    device: DeviceArgs,
    /// WGSL files
    #[arg(long, required = true, num_args = 1.., value_name = "KERNEL.wgsl")]
    kernel: Vec<PathBuf>,
    /// Only this entry point; may be repeated. Default: all of a file
    #[arg(long, value_name = "NAME")]
    entry: Vec<String>,
    /// The value of an `override` constant, by name or by `@id`, for every kernel. Use the program's values: another
    /// value is another kernel
    #[arg(long, value_name = "NAME=VALUE", value_parser = constant)]
    constant: Vec<(String, f64)>,
}

impl Warm {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        let device = Device::open_with(self.device.options())?;
        let file = device.cache_file().ok_or_else(|| nothing_to_warm(&device))?;
        // Saved before the work, so that a folder that cannot be written to is reported first.
        let before = device.save_cache()?;
        writeln!(out, "compiling for {}", device.info())?;
        let mut progress = Progress::new();
        let mut compiled = 0_u64;
        for path in &self.kernel {
            let source = input::source(path)?;
            for entry in self.entries(path, &source)? {
                let time = self.compile(&device, &source, &entry).map_err(|error| in_file(path, &error))?;
                writeln!(out, "{:>9.3} ms  {}: {entry}", time.as_secs_f64() * 1e3, terminal::name(path))?;
                compiled += 1;
                progress.tick(|| format!("{} compiled", number::counted(compiled, "kernel")));
            }
        }
        let after = device.save_cache()?;
        writeln!(
            out,
            "{} compiled; {} added, {after} in total, in {}",
            number::counted(compiled, "kernel"),
            number::counted(after.saturating_sub(before), "byte"),
            terminal::name(file)
        )?;
        if after == before {
            writeln!(
                out,
                "nothing was added: either the cache had everything, or this driver has no cache (lavapipe, SwiftShader)"
            )?;
        }
        Ok(())
    }

    /// The chosen entry points, else all of a file.
    fn entries(&self, path: &Path, source: &str) -> Result<Vec<String>, String> {
        if !self.entry.is_empty() {
            return Ok(self.entry.clone());
        }
        let entries = Kernel::entries(source).map_err(|error| in_file(path, &error))?;
        if entries.is_empty() {
            return Err(input::named(path, &"the module has no compute entry point"));
        }
        Ok(entries)
    }

    fn compile(&self, device: &Device, source: &str, entry: &str) -> sortie::Result<Duration> {
        let start = Instant::now();
        with_constants(device.module(source)?, &self.constant).kernel(entry)?;
        Ok(start.elapsed())
    }
}

fn nothing_to_warm(device: &Device) -> String {
    let why = if device.info().backend == "vulkan" {
        "its pipeline cache is off or has no folder (see SORTIE_CACHE)"
    } else {
        "only Vulkan devices have a pipeline cache"
    };
    format!("there is nothing to warm on {}: {why}", device.info())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_cache_is_reported() {
        let warm = Warm {
            device: DeviceArgs { device: Some("cpu".into()) },
            entry: Vec::new(),
            constant: Vec::new(),
            kernel: vec!["never opened.wgsl".into()],
        };
        let error = warm.run(&mut Vec::new()).expect_err("the CPU device has no cache").to_string();
        assert!(error.contains("sortie CPU") && error.contains("only Vulkan"), "{error}");
    }
}
