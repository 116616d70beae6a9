//! `sortie map`: runs a file through a kernel into another file, window by window.
//!
//! The file is read into one window that is reused, not mapped: the system decides how long pages of a mapped file
//! count as memory of the process.

use std::{
    error::Error,
    fs::{self, File},
    io::{Seek, SeekFrom, Write},
    path::PathBuf,
};

use sortie::{
    Device, Kernel, Stream,
    kernel::Scalar,
    stream::{Progress, Sink, Source},
    tensor::Element,
};

use crate::{
    array::{self, Array},
    error::chain,
    input::{self, named},
    kernel::KernelArgs,
    number,
    output::{OutputFile, refuse_overwriting},
    progress,
    size::{self, RowWidths},
};

/// Run a file through a kernel, window by window, into another file.
#[derive(Debug, clap::Args)]
pub(crate) struct Map {
    #[command(flatten)]
    kernel: KernelArgs,
    /// The input: .npy (C order, little-endian f4, i4 or u4) or .bin (little-endian elements of four bytes and nothing
    /// else)
    #[arg(long = "in", value_name = "DATA.npy|.bin")]
    input: PathBuf,
    /// The output, in the same formats. The file appears only when it is complete
    #[arg(long = "out", value_name = "OUT.npy|.bin")]
    output: PathBuf,
    /// The type of a .bin's elements: f32, i32 or u32
    #[arg(long = "type", value_name = "TYPE", value_parser = array::scalar)]
    scalar: Option<Scalar>,
    /// The type of the output's elements; that of the input if not given
    #[arg(long, value_name = "TYPE", value_parser = array::scalar)]
    out_type: Option<Scalar>,
    /// Elements of a row, and of the row that the kernel makes of it if that differs
    #[arg(long, value_name = "IN[:OUT]", default_value = "1")]
    row: RowWidths,
    /// Size of a window, like 64MiB or 1MB; memory grows with this, not with the file
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = size::bytes)]
    window: usize,
    /// How many windows may be in flight
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=64))]
    in_flight: u8,
}

/// What a stream runs on.
struct Run<'a> {
    device: &'a Device,
    kernel: &'a Kernel,
    file: File,
    output: &'a mut OutputFile,
    /// Of the file.
    elements: u64,
}

impl Map {
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
        array::is_npy(&self.output)?;
        refuse_overwriting(&self.output, [("--in", &*self.input), ("--kernel", &*self.kernel.path)], "--out")?;
        let (mut file, array) = self.open()?;
        let result = self.result(&array)?;
        let (device, kernel) = self.kernel.open()?;

        let mut output = OutputFile::create(&self.output)?;
        if array::is_npy(&self.output)? {
            output.put(&result.header())?;
        }
        file.seek(SeekFrom::Start(array.start)).map_err(|error| named(&self.input, &error))?;
        let run = Run { device: &device, kernel: &kernel, file, output: &mut output, elements: array.elements() };
        // Files have no other types than these three.
        let done = match array.scalar {
            Scalar::F32 => self.stream_from::<f32>(result.scalar, run),
            Scalar::I32 => self.stream_from::<i32>(result.scalar, run),
            _ => self.stream_from::<u32>(result.scalar, run),
        };
        let done = done.map_err(|error| self.explained(error))?;
        if done.elements_in != array.elements() {
            let before = number::counted(array.elements(), "element");
            return Err(named(&self.input, &format!("it had {before} and now has {}", done.elements_in)).into());
        }
        output.keep()?;
        writeln!(out, "{}", summary(&done, &device))?;
        Ok(())
    }

    fn stream_from<T: Element>(&self, output: Scalar, run: Run<'_>) -> sortie::Result<Progress> {
        match output {
            Scalar::F32 => self.stream::<T, f32>(run),
            Scalar::I32 => self.stream::<T, i32>(run),
            _ => self.stream::<T, u32>(run),
        }
    }

    fn stream<T: Element, U: Element>(&self, run: Run<'_>) -> sortie::Result<Progress> {
        let Run { device, kernel, file, output, elements } = run;
        let template = "{bar:40} {percent:>3} % of {total_bytes}, {bytes_per_sec}, {eta} left";
        let bar = progress::bar(elements * 4, template);
        let stream = Stream::<T, U>::kernel(device, kernel)
            .rows([self.row.input, self.row.output])
            .window(self.window)
            .in_flight(self.in_flight.into())
            .on_progress(|progress| bar.set_position(progress.bytes_in));
        let done = stream.run(Source::reader(file).of_len(elements), Sink::writer(output));
        bar.finish_and_clear();
        done
    }

    /// The input and its header.
    fn open(&self) -> Result<(File, Array), Box<dyn Error>> {
        let (mut file, bytes) = input::data(&self.input)?;
        let array = if array::is_npy(&self.input)? {
            Array::read(&mut file, bytes)
        } else {
            Array::plain(self.scalar.unwrap_or(Scalar::F32), bytes)
        };
        let array = array.map_err(|error| named(&self.input, &error))?;
        if let Some(scalar) = self.scalar.filter(|scalar| *scalar != array.scalar) {
            return Err(named(&self.input, &format!("its elements are {}, not {scalar}", array.scalar)).into());
        }
        Ok((file, array))
    }

    /// The output's type and shape.
    fn result(&self, array: &Array) -> Result<Array, String> {
        let RowWidths { input, output } = self.row;
        let (elements, scalar) = (array.elements(), self.out_type.unwrap_or(array.scalar));
        if !elements.is_multiple_of(input as u64) {
            let elements = number::counted(elements, "element");
            return Err(named(&self.input, &format!("{elements} are not a whole number of rows of {input}")));
        }
        let rows = elements / input as u64;
        let shape = match output {
            output if output == input => array.shape.clone(),
            1 => vec![rows],
            output => vec![rows, output as u64],
        };
        let fits = rows.checked_mul(output as u64).and_then(|elements| elements.checked_mul(4));
        fits.ok_or_else(|| format!("{rows} rows of {output} elements are larger than any file"))?;
        Ok(Array { scalar, shape, start: 0 })
    }

    /// An error of the library, with the file that it is about.
    fn explained(&self, error: sortie::Error) -> Box<dyn Error> {
        match error.kind() {
            sortie::ErrorKind::Source => named(&self.input, &chain(&error)).into(),
            sortie::ErrorKind::Sink => named(&self.output, &chain(&error)).into(),
            sortie::ErrorKind::Bindings => self.kernel.explain(&error).into(),
            _ => error.into(),
        }
    }
}

/// The result in one line.
fn summary(done: &Progress, device: &Device) -> String {
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

/// The process's peak memory, if the system knows it.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"))?;
    Some(kib.trim().parse::<u64>().ok()? * 1024)
}
