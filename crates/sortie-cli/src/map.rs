//! `sortie map`: a file through a kernel into another, window by window.
//!
//! The file is read into one window that is used again and again, not mapped: pages of a mapped file count as memory of the process for as long as the system likes.

use std::{
    error::Error,
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use indicatif::{ProgressBar, ProgressStyle};
use sortie::{Device, DeviceKind, DeviceOptions, KernelOptions, Progress, Sink, Source, Stream};

use crate::{
    array::{Array, Kind},
    draft::Draft,
    input::{self, named},
    number,
    size::{self, Row},
    terminal, warm,
};

/// Run a file through a kernel, window by window, into another file.
#[derive(Debug, clap::Args)]
pub(crate) struct Map {
    /// A part of the device's name, its index in `sortie devices`, or `cpu`
    #[arg(long)]
    device: Option<String>,
    /// WGSL with two storage bindings, of which it reads the first and writes the second; or one, which it changes in place. It runs one invocation for each row
    #[arg(long, value_name = "KERNEL.wgsl")]
    kernel: PathBuf,
    /// The entry point, where the kernel has several
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// The value of an `override` constant, by name or by `@id`; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = warm::constant)]
    constant: Vec<(String, f64)>,
    /// What is read: .npy (C order, little-endian f4, i4 or u4), or .bin (elements of four bytes, little-endian, and nothing else)
    #[arg(long = "in", value_name = "DATA.npy|.bin")]
    input: PathBuf,
    /// What is written, in the same formats. It is there when all of it is, and not before
    #[arg(long = "out", value_name = "OUT.npy|.bin")]
    output: PathBuf,
    /// What the elements of a .bin are: f32, i32 or u32
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<Kind>,
    /// What the kernel makes of them; the same type if not given
    #[arg(long, value_name = "TYPE")]
    out_type: Option<Kind>,
    /// Elements of a row, and of what comes out of one if that is another number
    #[arg(long, value_name = "IN[:OUT]", default_value = "1")]
    row: Row,
    /// Bytes of the input in one window; memory grows with this, not with the file
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size::bytes)]
    window: usize,
    /// How many windows may be under way
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    in_flight: u8,
}

impl Map {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        self.refuse_overwriting()?;
        let (mut file, array) = self.open()?;
        let result = self.result(&array)?;
        let source = input::source(&self.kernel)?;
        let device = Device::open_with(DeviceOptions { device: self.device.clone(), ..Default::default() })?;
        if device.info().kind == DeviceKind::Noop {
            return Err("the noop device runs nothing: there is nothing to write".into());
        }
        let options = KernelOptions { entry: self.entry.clone(), constants: self.constant.clone() };
        let kernel = device.kernel_with(&source, &options).map_err(|error| warm::in_file(&self.kernel, &error))?;

        let mut draft = Draft::beside(&self.output)?;
        if is_npy(&self.output)? {
            draft.write_all(&result.header()).map_err(|error| named(&self.output, &error))?;
        }
        file.seek(SeekFrom::Start(array.start)).map_err(|error| named(&self.input, &error))?;
        let bar = bar(array.elements() * 4);
        // What the four bytes of an element mean is between the kernel and the files.
        let stream = Stream::<u32, u32>::kernel(&device, &kernel)
            .rows([self.row.width, self.row.out])
            .window(self.window)
            .in_flight(self.in_flight.into())
            .on_progress(|progress| bar.set_position(progress.bytes_in));
        let done = stream.run(Source::reader(file).of_len(array.elements()), Sink::writer(&mut draft));
        bar.finish_and_clear();
        let done = done.map_err(|error| self.explained(error))?;
        if done.elements_in != array.elements() {
            let (found, said) = (done.elements_in, array.elements());
            let said = number::counted(said, "element");
            return Err(format!("{}: it had {said} and now has {found}", terminal::name(&self.input)).into());
        }
        draft.keep()?;
        writeln!(out, "{}", told(&done, &device))?;
        Ok(())
    }

    /// The input, and what it says that it is.
    fn open(&self) -> Result<(File, Array), Box<dyn Error>> {
        let (mut file, bytes) = input::data(&self.input)?;
        let array = if is_npy(&self.input)? {
            Array::read(&mut file, bytes)
        } else {
            Array::plain(self.kind.unwrap_or(Kind::F32), bytes)
        };
        let array = array.map_err(|error| format!("{}: {error}", terminal::name(&self.input)))?;
        if let Some(kind) = self.kind.filter(|kind| *kind != array.kind) {
            return Err(
                format!("{}: it has elements of type {}, not {kind}", terminal::name(&self.input), array.kind).into()
            );
        }
        Ok((file, array))
    }

    /// What will be written.
    fn result(&self, array: &Array) -> Result<Array, String> {
        let Row { width, out } = self.row;
        let (elements, kind) = (array.elements(), self.out_type.unwrap_or(array.kind));
        if !elements.is_multiple_of(width as u64) {
            let input = terminal::name(&self.input);
            let elements = number::counted(elements, "element");
            return Err(format!("{input}: {elements}, which is no whole number of rows of {width}"));
        }
        let rows = elements / width as u64;
        let shape = match out {
            out if out == width => array.shape.clone(),
            1 => vec![rows],
            out => vec![rows, out as u64],
        };
        let fits = rows.checked_mul(out as u64).and_then(|elements| elements.checked_mul(4));
        fits.ok_or_else(|| format!("{rows} rows of {out} elements are more than a file can have"))?;
        Ok(Array { kind, shape, start: 0 })
    }

    /// Files that would be gone when this is done.
    fn refuse_overwriting(&self) -> Result<(), Box<dyn Error>> {
        is_npy(&self.output)?;
        for (read, option) in [(&self.input, "--in"), (&self.kernel, "--kernel")] {
            let same = fs::canonicalize(&self.output)
                .is_ok_and(|output| fs::canonicalize(read).is_ok_and(|read| read == output));
            if same || *read == self.output {
                return Err(format!("--out is {option}: {}", terminal::name(read)).into());
            }
        }
        Ok(())
    }

    /// An error of the library in terms of the command.
    fn explained(&self, error: sortie::Error) -> Box<dyn Error> {
        match error.kind() {
            sortie::ErrorKind::Source => format!("{}: {}", terminal::name(&self.input), chain(&error)).into(),
            sortie::ErrorKind::Sink => format!("{}: {}", terminal::name(&self.output), chain(&error)).into(),
            sortie::ErrorKind::Bindings => warm::in_file(&self.kernel, &error).into(),
            _ => error.into(),
        }
    }
}

fn chain(error: &sortie::Error) -> String {
    let cause = Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}

/// Whether it is .npy; anything but that and .bin is an error.
fn is_npy(path: &Path) -> Result<bool, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => Ok(true),
        Some("bin") => Ok(false),
        _ => Err(format!("{}: only .npy and .bin are known", terminal::name(path))),
    }
}

fn bar(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} % of {total_bytes}, {bytes_per_sec}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style)
}

/// What it came to, in one line.
fn told(done: &Progress, device: &Device) -> String {
    let memory = peak_bytes().map(|bytes| format!("; at most {} of memory", size::shown(bytes))).unwrap_or_default();
    format!(
        "{} in {} on {}: {} in and {} out in {:.2} s, {:.2} GiB/s{memory}",
        number::counted(done.elements_in, "element"),
        number::counted(done.windows, "window"),
        device.info(),
        size::shown(done.bytes_in),
        size::shown(done.bytes_out),
        done.elapsed.as_secs_f64(),
        done.bytes_per_second() / f64::from(1 << 30),
    )
}

/// The most memory that this process has had, where the system says so.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"))?;
    Some(kib.trim().parse::<u64>().ok()? * 1024)
}
