//! The options that `run` and `profile` share: a kernel, its grid, and what its buffers hold.

mod buffer;
mod immediates;

use std::{
    error::Error,
    io::Write,
    path::{Path, PathBuf},
};

use sortie::{Batch, Bind, Device, Grid, Kernel, kernel::BindingInfo};

pub(crate) use self::buffer::BufferArgument;
use self::{buffer::is_named, immediates::Immediates};
use crate::{array, kernel::KernelArgs, number, terminal};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    /// Number of invocations, and of elements of runtime-sized arrays unless a file or --len gives another
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
    /// Fills a buffer from a file: .npy (C order, little-endian f4, i4 or u4) or .bin (its bytes). A buffer is named by
    /// its variable, its `@binding`, or GROUP.BINDING. Without a file, buffers that are only read get generated
    /// numbers, the same in every run; the others get zeros
    #[arg(long, value_name = "BUFFER=FILE", value_parser = buffer_file)]
    pub(crate) input: Vec<(String, PathBuf)>,
    /// Number of elements of a buffer's runtime-sized array
    #[arg(long, value_name = "BUFFER=N", value_parser = buffer_len)]
    len: Vec<(String, u64)>,
    /// The value of the kernel's `var<immediate>`: four-byte numbers with commas between (7 is u32, -7 is i32, 7.0 is
    /// f32), or bytes as 0x0700…
    #[arg(long, value_name = "VALUES")]
    immediates: Option<Immediates>,
    /// Number of dispatches, all in one batch
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
}

impl Arguments {
    /// Opens the device, compiles the kernel and fills its buffers.
    pub(crate) fn open(&self) -> Result<Call<'_>, Box<dyn Error>> {
        let (device, kernel) = self.kernel.open()?;
        let takes = kernel.immediate_bytes();
        let given = self.immediates.as_ref().map_or(0, |immediates| immediates.bytes().len());
        if takes != given && (takes == 0 || given == 0) {
            let (kernel, takes) = (terminal::name(&self.kernel.path), number::counted(takes, "byte"));
            return Err(format!("{kernel} takes {takes} of immediates, but --immediates gives {given}").into());
        }
        let bindings = kernel.bindings();
        let find = |option: &str, key: &str| self.find(option, key, &bindings);
        let (mut files, mut lens) = (vec![None; bindings.len()], vec![None; bindings.len()]);
        for (key, path) in &self.input {
            files[find("--input", key)?] = Some(&**path);
        }
        for (key, len) in &self.len {
            lens[find("--len", key)?] = Some(*len);
        }
        let buffers = bindings.iter().zip(files).zip(lens);
        let buffers =
            buffers.map(|((binding, file), len)| BufferArgument::new(&device, binding, file, len, self.items));
        Ok(Call { arguments: self, buffers: buffers.collect::<Result<_, _>>()?, device, kernel })
    }

    /// The index of the buffer that an option names.
    fn find(&self, option: &str, key: &str, bindings: &[BindingInfo]) -> Result<usize, String> {
        let mut named = (0..bindings.len()).filter(|at| is_named(&bindings[*at], key, bindings));
        if let (Some(at), None) = (named.next(), named.next()) {
            return Ok(at);
        }
        let kernel = terminal::name(&self.kernel.path);
        let names = bindings.iter().map(buffer::name).collect::<Vec<_>>().join(", ");
        Err(match &*names {
            "" => format!("{option} {key}: {kernel} takes no buffers"),
            _ => format!("{option} {key}: this must name exactly one buffer of {kernel}, which has {names}"),
        })
    }
}

/// A kernel with all its buffers.
pub(crate) struct Call<'a> {
    arguments: &'a Arguments,
    pub(crate) device: Device,
    kernel: Kernel,
    pub(crate) buffers: Vec<BufferArgument>,
}

impl Call<'_> {
    /// The buffer that an option names.
    pub(crate) fn buffer(&self, option: &str, key: &str) -> Result<&BufferArgument, String> {
        Ok(&self.buffers[self.arguments.find(option, key, &self.kernel.bindings())?])
    }

    /// Records all dispatches into `batch` and submits it.
    pub(crate) fn submit(&self, batch: Batch) -> Result<(), String> {
        let untyped: Vec<_> = self.buffers.iter().map(|buffer| buffer.buffer().untyped()).collect();
        let bindings: Vec<&dyn Bind> = untyped.iter().map(|buffer| buffer as &dyn Bind).collect();
        for _ in 0..self.arguments.repeat {
            let dispatch = batch.dispatch(&self.kernel, &bindings, Grid::items(self.arguments.items as usize));
            if let Some(immediates) = &self.arguments.immediates {
                dispatch.raw_immediates(immediates.bytes());
            }
        }
        batch.submit().map_err(|error| self.arguments.kernel.explain(&error))
    }

    /// One line for the dispatch, one for each buffer.
    pub(crate) fn describe(&self, out: &mut impl Write) -> std::io::Result<()> {
        let [width, height, depth] = self.kernel.workgroup_size();
        let Arguments { kernel, items, repeat, .. } = self.arguments;
        let size = match (height, depth) {
            (1, 1) => number::whole(width),
            _ => format!("{width}×{height}×{depth}"),
        };
        let groups = number::counted(u64::from(*items).div_ceil(u64::from(width.max(1))), "workgroup");
        let times = if *repeat == 1 { "once".into() } else { format!("{} times", number::whole(*repeat)) };
        let (path, entry, items) = (terminal::name(&kernel.path), self.kernel.entry(), number::counted(*items, "item"));
        writeln!(out, "{path}: {entry}, {items} in {groups} of {size}, {times}")?;
        self.buffers.iter().try_for_each(|buffer| writeln!(out, "  {buffer}"))
    }
}

pub(crate) fn buffer_file(text: &str) -> Result<(String, PathBuf), String> {
    let (key, path) = text.split_once('=').ok_or("it is given as BUFFER=FILE")?;
    array::is_npy(Path::new(path))?;
    Ok((key.trim().into(), path.into()))
}

fn buffer_len(text: &str) -> Result<(String, u64), String> {
    let (key, len) = text.split_once('=').ok_or("it is given as BUFFER=N")?;
    let len = len.trim().parse().ok().filter(|len| *len > 0);
    Ok((key.trim().into(), len.ok_or("N is a number of elements, at least 1")?))
}
