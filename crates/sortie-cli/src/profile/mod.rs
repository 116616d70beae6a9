//! `sortie profile`: what a kernel takes on a device.
//!
//! It runs a few times before it counts: the first run finds no plan and cold caches, which is seldom what somebody wants to know.

mod argument;
mod immediates;

use std::{error::Error, io::Write, path::PathBuf};

use sortie::{Batch, Bind, BindingInfo, Device, DeviceKind, DeviceOptions, Grid, Kernel, KernelOptions};

use self::{
    argument::{Argument, Given},
    immediates::Immediates,
};
use crate::{input, number, terminal, warm};

/// After these its cost is known well enough not to be cut without need.
const WARM_UP: usize = 3;

/// Run a kernel and print what it took.
#[derive(Debug, clap::Args)]
pub(crate) struct Profile {
    /// A part of the device's name, its index in `sortie devices`, or `cpu`
    #[arg(long)]
    device: Option<String>,
    /// WGSL with storage and uniform buffers
    #[arg(long, value_name = "KERNEL.wgsl")]
    kernel: PathBuf,
    /// How many invocations; also how many elements runtime-sized arrays have, unless a file or --len says otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
    /// The entry point, where the kernel has several
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// The value of an `override` constant, by name or by `@id`; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = warm::constant)]
    constant: Vec<(String, f64)>,
    /// What a buffer holds, from a file: .npy (C order, little-endian f4, i4 or u4) or .bin (its bytes). The buffer is named by its variable, its `@binding`, or GROUP.BINDING. Buffers without
    /// a file are made up: those that are only read have numbers that are the same in every run, the others zeros
    #[arg(long, value_name = "BUFFER=FILE", value_parser = argument::input)]
    input: Vec<(String, PathBuf)>,
    /// How many elements the runtime-sized array of a buffer has
    #[arg(long, value_name = "BUFFER=N", value_parser = argument::len)]
    len: Vec<(String, u64)>,
    /// The value of the kernel's `var<immediate>`: numbers of four bytes with commas between (7 is u32, -7 is i32, 7.0 is f32), or its bytes as 0x0700…
    #[arg(long, value_name = "VALUES")]
    immediates: Option<Immediates>,
    /// How many times it is dispatched, all in one batch
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    /// Also write a trace, which ui.perfetto.dev and chrome://tracing open
    #[arg(long, value_name = "OUT.json")]
    trace: Option<PathBuf>,
}

impl Profile {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        let source = input::source(&self.kernel)?;
        let device = Device::open_with(DeviceOptions { device: self.device.clone(), ..Default::default() })?;
        if device.info().kind == DeviceKind::Noop {
            return Err("the noop device runs nothing: there is nothing to time".into());
        }
        let options = KernelOptions { entry: self.entry.clone(), constants: self.constant.clone() };
        let kernel = device.kernel_with(&source, &options).map_err(|error| warm::in_file(&self.kernel, &error))?;
        let (takes, given) =
            (kernel.immediate_bytes(), self.immediates.as_ref().map_or(0, |given| given.bytes().len()));
        if takes != given && (takes == 0 || given == 0) {
            let kernel = terminal::name(&self.kernel);
            let takes = number::counted(takes, "byte");
            return Err(format!("{kernel} takes {takes} of immediates, but --immediates gives {given}").into());
        }
        let arguments = self.arguments(&device, &kernel)?;

        let told = |error: sortie::Error| warm::in_file(&self.kernel, &error);
        for _ in 0..WARM_UP {
            self.recorded(device.batch(), &kernel, &arguments).submit().map_err(told)?;
        }
        for argument in &arguments {
            argument.reset()?;
        }
        let mut batch = device.batch();
        let reading = batch.profile();
        self.recorded(batch, &kernel, &arguments).submit().map_err(told)?;
        let profile = reading.wait()?;

        writeln!(out, "{}: {}, {}", terminal::name(&self.kernel), kernel.entry(), self.extent(&kernel))?;
        for argument in &arguments {
            writeln!(out, "  {argument}")?;
        }
        writeln!(out, "{profile}")?;
        if let Some(path) = &self.trace {
            profile.write_trace(path)?;
            writeln!(out, "trace: {}", terminal::name(path))?;
        }
        Ok(())
    }

    fn recorded(&self, mut batch: Batch, kernel: &Kernel, arguments: &[Argument]) -> Batch {
        let bindings: Vec<&dyn Bind> = arguments.iter().map(|argument| argument.buffer() as &dyn Bind).collect();
        for _ in 0..self.repeat {
            let dispatch = batch.dispatch(kernel, &bindings, Grid::items(self.items as usize));
            if let Some(immediates) = &self.immediates {
                dispatch.raw_immediates(immediates.bytes());
            }
        }
        batch
    }

    fn arguments(&self, device: &Device, kernel: &Kernel) -> Result<Vec<Argument>, Box<dyn Error>> {
        let bindings = kernel.bindings();
        for (option, key) in self.keys() {
            if bindings.iter().filter(|binding| argument::is(binding, key, &bindings)).count() != 1 {
                return Err(format!("{option} {key}: {}", no_such(&self.kernel, &bindings)).into());
            }
        }
        let made = bindings.iter().map(|binding| {
            let of = |key: &str| argument::is(binding, key, &bindings);
            let given = Given {
                file: self.input.iter().find(|(key, _)| of(key)).map(|(_, path)| &**path),
                elements: self.len.iter().find(|(key, _)| of(key)).map(|(_, len)| *len),
                items: self.items,
            };
            Argument::new(device, binding, given)
        });
        made.collect()
    }

    /// All buffers that options name.
    fn keys(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let inputs = self.input.iter().map(|(key, _)| ("--input", &**key));
        inputs.chain(self.len.iter().map(|(key, _)| ("--len", &**key)))
    }

    fn extent(&self, kernel: &Kernel) -> String {
        let [width, height, depth] = kernel.workgroup_size();
        let groups = u64::from(self.items).div_ceil(u64::from(width.max(1)));
        let size = match (height, depth) {
            (1, 1) => number::whole(width),
            _ => format!("{width}×{height}×{depth}"),
        };
        let times = if self.repeat == 1 { "once".into() } else { format!("{} times", number::whole(self.repeat)) };
        let (items, groups) = (number::counted(self.items, "item"), number::counted(groups, "workgroup"));
        format!("{items} in {groups} of {size}, {times}")
    }
}

fn no_such(kernel: &std::path::Path, bindings: &[BindingInfo]) -> String {
    let kernel = terminal::name(kernel);
    if bindings.is_empty() {
        return format!("{kernel} takes no buffers");
    }
    let names: Vec<String> = bindings.iter().map(argument::name).collect();
    format!("that is none of the buffers of {kernel}, or several of them: {}", names.join(", "))
}
