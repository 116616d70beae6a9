//! The kernel that a verb runs.

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use sortie::{Device, Kernel, kernel::Module};

use crate::{device::DeviceArgs, input, terminal};

/// The options that name one kernel and the device it runs on, the same for all verbs.
#[derive(Debug, clap::Args)]
pub(crate) struct KernelArgs {
    #[command(flatten)]
    device: DeviceArgs,
    /// A WGSL file
    #[arg(long = "kernel", value_name = "KERNEL.wgsl")]
    pub(crate) path: PathBuf,
    /// The entry point, if the file has several
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// The value of an `override` constant, by name or by `@id`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = constant)]
    constant: Vec<(String, f64)>,
}

impl KernelArgs {
    pub(crate) fn open(&self) -> Result<(Device, Kernel), Box<dyn Error>> {
        let source = input::source(&self.path)?;
        let device = self.device.open()?;
        let module = device.module(&source).map_err(|error| self.explain(&error))?;
        let module = with_constants(module, &self.constant);
        let kernel = match &self.entry {
            Some(entry) => module.kernel(entry),
            None => module.only_kernel(),
        };
        let kernel = kernel.map_err(|error| self.explain(&error))?;
        Ok((device, kernel))
    }

    pub(crate) fn explain(&self, error: &sortie::Error) -> String {
        in_file(&self.path, error)
    }
}

/// The module with these values for its `override` constants.
pub(crate) fn with_constants(module: Module, constants: &[(String, f64)]) -> Module {
    constants.iter().fold(module, |module, (name, value)| module.with(name, *value))
}

/// The error for the author of a kernel: with the file and line of the kernel, not of this program.
pub(crate) fn in_file(path: &Path, error: &sortie::Error) -> String {
    let text = error.to_string();
    let ours = error.location().map(|at| format!("{}:{}", at.file(), at.line())).unwrap_or_default();
    let text = text.strip_suffix(&ours).unwrap_or(&text).trim_end_matches(['\n', ' ', ';', ',']);
    // naga does not know the file and writes this in its place.
    format!("{0}: {1}", terminal::name(path), text.replace("┌─ wgsl:", &format!("┌─ {}:", terminal::name(path))))
}

pub(crate) fn constant(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("a constant is NAME=VALUE")?;
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
        assert!(!text.contains("kernel.rs"), "{text}");
    }
}
