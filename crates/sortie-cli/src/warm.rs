//! `sortie warm`: kernels compiled ahead of time, into the device's pipeline cache.
//!
//! What is compiled is what a dispatch uses; the variant for grids past the device's limit is compiled when one is first asked for.

use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sortie::{Device, DeviceOptions, Kernel, KernelOptions};

use crate::{input, number, progress::Progress, terminal};

/// Compile kernels into the device's pipeline cache, so that the programs which use them start faster.
#[derive(Debug, clap::Args)]
pub(crate) struct Warm {
    /// A part of the device's name, or its index in `sortie devices`
    #[arg(long)]
    device: Option<String>,
    /// Only this entry point; may be given several times. All of a file when not given
    #[arg(long, value_name = "NAME")]
    entry: Vec<String>,
    /// The value of an `override` constant, by name or by `@id`, as the program will give it: another value is another kernel. It is given to every kernel
    #[arg(long, value_name = "NAME=VALUE", value_parser = constant)]
    constant: Vec<(String, f64)>,
    /// Files of WGSL
    #[arg(required = true, value_name = "KERNEL.wgsl")]
    kernels: Vec<PathBuf>,
}

impl Warm {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        let device = Device::open_with(DeviceOptions { device: self.device.clone(), ..Default::default() })?;
        let file = device.cache_file().ok_or_else(|| nothing_to_warm(&device))?;
        // First, because a folder that cannot be written to is better known before the work than after.
        let before = device.save_cache()?;
        writeln!(out, "compiling for {}", device.info())?;
        let mut progress = Progress::new();
        let mut compiled = 0_u64;
        for path in &self.kernels {
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
            "{} compiled; {} more, {after} in all, in {}",
            number::counted(compiled, "kernel"),
            number::counted(after.saturating_sub(before), "byte"),
            terminal::name(file)
        )?;
        if after == before {
            writeln!(
                out,
                "nothing was added: the cache had it all, or this driver keeps none, like lavapipe and SwiftShader"
            )?;
        }
        Ok(())
    }

    /// Those asked for, else all of a file.
    fn entries(&self, path: &Path, source: &str) -> Result<Vec<String>, String> {
        if !self.entry.is_empty() {
            return Ok(self.entry.clone());
        }
        let entries = Kernel::entries(source).map_err(|error| in_file(path, &error))?;
        if entries.is_empty() {
            return Err(format!("{}: the module has no compute entry point", terminal::name(path)));
        }
        Ok(entries)
    }

    fn compile(&self, device: &Device, source: &str, entry: &str) -> sortie::Result<Duration> {
        let options = KernelOptions { entry: Some(entry.into()), constants: self.constant.clone() };
        let start = Instant::now();
        device.kernel_with(source, &options)?;
        Ok(start.elapsed())
    }
}

fn nothing_to_warm(device: &Device) -> String {
    let why = if device.info().backend == "vulkan" {
        "its pipeline cache is off, or has nowhere to be: see SORTIE_CACHE"
    } else {
        "only Vulkan devices have a pipeline cache"
    };
    format!("there is nothing to warm on {}: {why}", device.info())
}

/// The error as the author of a kernel wants it: with the kernel's file and line, not ours.
pub(crate) fn in_file(path: &Path, error: &sortie::Error) -> String {
    let text = error.to_string();
    let ours = error.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
    let text = text.strip_suffix(&ours).unwrap_or(&text).trim_end_matches(['\n', ' ', ';', ',']);
    // naga knows no file and writes this in its place.
    format!("{0}: {1}", terminal::name(path), text.replace("┌─ wgsl:", &format!("┌─ {}:", terminal::name(path))))
}

pub(crate) fn constant(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("it is given as NAME=VALUE")?;
    let value = match value.trim() {
        "true" => 1.0,
        "false" => 0.0,
        number => number.parse().map_err(|_| format!("{number:?} is not a number, true or false"))?,
    };
    Ok((name.trim().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_a_name_and_a_number() {
        assert_eq!(constant("width=128"), Ok(("width".into(), 128.0)));
        assert_eq!(constant("0 = -1.5e3"), Ok(("0".into(), -1500.0)));
        assert_eq!(constant("fast=true"), Ok(("fast".into(), 1.0)));
        assert!(constant("width").is_err() && constant("width=wide").is_err());
    }

    #[test]
    fn a_mistake_in_a_kernel_is_shown_with_its_file_line_and_column() {
        let error = Kernel::entries("\n  fn main() { let x: u32 = 1.5; }").expect_err("no such number");
        let text = in_file(Path::new("dir/a.wgsl"), &error);
        assert!(text.starts_with("dir/a.wgsl: ") && text.contains(" dir/a.wgsl:2:"), "{text}");
        assert!(!text.contains("warm.rs"), "{text}");
    }

    #[test]
    fn a_device_without_a_cache_is_told_as_such() {
        let warm = Warm {
            device: Some("cpu".into()),
            entry: Vec::new(),
            constant: Vec::new(),
            kernels: vec!["not looked for.wgsl".into()],
        };
        let error = warm.run(&mut Vec::new()).expect_err("the CPU keeps nothing").to_string();
        assert!(error.contains("sortie CPU") && error.contains("only Vulkan"), "{error}");
    }
}
