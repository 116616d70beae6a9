//! Measures the fastest way to multiply large matrices on a device, for [`Device::tune`].

use std::{fmt, path::PathBuf, time::Duration};

use sortie_plan::{
    Caps, ElementType, MatmulKernel,
    fuse::{Body, Expr, Head, KernelSource, Product, Program, ProgramBuffer},
};

use super::rounds::{in_turn, median_time, timed};
use crate::{
    batch::Grid,
    clock::Instant,
    device::{Buffer, Device},
    error::{Error, ErrorKind, Result},
    info::DeviceKind,
    kernel::Kernel,
    policy::Split,
    tuning::{File, fits},
};

/// The side of the matrices that are multiplied.
const SIDE: usize = 256;
const ROUNDS: usize = 5;

/// Times of each way to multiply large matrices on a device, measured by [`Device::tune`].
///
/// ```
/// # let device = sortie::Device::cpu()?;
/// let products = device.tune()?;
/// println!("{products}");
/// assert!(products.timings().iter().any(|timing| timing.way == products.fastest()));
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MatmulReport {
    pub(super) file: Option<File>,
    timings: Vec<MatmulTiming>,
}

/// One way to multiply large matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatmulTiming {
    /// Its name: a kind of kernel (`blocks`, `wide`, `tiles`), or `native` on the built-in CPU.
    pub way: &'static str,
    /// Median time of a 256 × 256 matrix product, from recording to completion.
    pub time: Duration,
}

impl Device {
    /// Measures the fastest way to multiply large matrices on this device, and uses it from the next submission on.
    ///
    /// The ways are kernels, which are compiled and run six times each; the built-in CPU has one way. This waits for
    /// the device, for milliseconds to seconds: call it while nothing else runs. Replays keep the kernels that they
    /// were frozen with.
    ///
    /// Nothing else measures. Without it, and without a [tuning file](crate::device::TuningFile), a device uses the default of
    /// its kind: tiles in workgroup memory on hardware, wide blocks in registers on software drivers. No file is written before [`MatmulReport::save`]; `sortie tune` does both.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let products = device.tune()?; // used from now on
    /// # if false {
    /// products.save()?; // and by devices that are opened later
    /// # }
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for the noop device, which runs nothing; else as [`Device::kernel`] and
    /// [`Batch::submit`](crate::Batch::submit).
    pub fn tune(&self) -> Result<MatmulReport> {
        if self.info().kind == DeviceKind::Noop {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the noop device runs nothing: there is nothing to measure",
            ));
        }
        let tuning = &self.core.tuning;
        let native = self.core.caps().native_programs;
        let times = if native { time_native(self) } else { time_kernels(self) }?;
        let timings = times.into_iter().map(|(way, time)| MatmulTiming { way, time }).collect();
        let report = MatmulReport { file: tuning.file.clone(), timings };
        if let Some(way) = MatmulKernel::named(report.fastest()) {
            tuning.set_product_way(way);
        }
        Ok(report)
    }

    /// The name of the [`MatmulTiming::way`] used for large matrices: the default of its kind, or from the tuning file,
    /// or from [`Device::tune`].
    ///
    /// ```
    /// use sortie::{Device, DeviceOptions, device::TuningFile};
    ///
    /// let device = Device::cpu_with(DeviceOptions::default().with_tuning(TuningFile::Off))?;
    /// assert_eq!(device.product_way(), "native");
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[must_use]
    pub fn product_way(&self) -> &'static str {
        if self.core.caps().native_programs { NATIVE } else { self.core.tuning.product_way().name() }
    }
}

impl MatmulReport {
    getters! { self:
        /// The way that the device uses from now on.
        fastest: &'static str = self.timings.iter().min_by_key(|timing| timing.time).map_or("", |timing| timing.way);

        /// All measured ways.
        timings: &[MatmulTiming] = &self.timings;
    }

    /// Writes the fastest way to the tuning file, for devices opened later. Returns the file's path.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if the tuning file is off, or cannot be written.
    pub fn save(&self) -> Result<PathBuf> {
        File::save(self.file.as_ref(), &[self.line()])
    }

    /// Its line of the tuning file.
    pub(super) fn line(&self) -> (&'static str, &'static str) {
        ("product", self.fastest())
    }
}

impl fmt::Display for MatmulReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for MatmulTiming { way, time } in &self.timings {
            let name = format!("{SIDE}×{SIDE}×{SIDE}, {way}");
            writeln!(f, "{name:<40} {:>14}", format!("{:.3} ms", time.as_secs_f64() * 1e3))?;
        }
        write!(f, "Products of large matrices: {}", self.fastest())
    }
}

#[cfg(test)]
impl MatmulReport {
    /// For a device without a tuning file.
    pub(super) fn of(timings: Vec<MatmulTiming>) -> Self {
        Self { file: None, timings }
    }
}

/// The way of the built-in CPU.
const NATIVE: &str = "native";

/// Runs the product of the built-in CPU. Returns its median time.
fn time_native(device: &Device) -> Result<Vec<(&'static str, Duration)>> {
    let ones = device.upload(&vec![1.0_f32; SIDE * SIDE])?;
    let result = device.zeros::<f32>(SIDE * SIDE)?;
    let run = |_| {
        let batch = device.batch();
        let side = batch.tensor(&ones, [SIDE, SIDE]);
        side.matmul(side).store(&result);
        batch.submit()
    };
    // The first run packs the right side.
    run(0)?;
    let times = in_turn(1, ROUNDS..=ROUNDS, Instant::now(), |at| timed(|| run(at)))?;
    Ok(times.iter().map(|times| (NATIVE, median_time(times))).collect())
}

/// A kernel of one way.
struct Contender {
    way: MatmulKernel,
    kernel: Kernel,
    source: KernelSource,
}

/// Runs the kernels of all ways in turn. Returns the median time of each.
fn time_kernels(device: &Device) -> Result<Vec<(&'static str, Duration)>> {
    let ones = device.upload(&vec![1.0_f32; SIDE * SIDE])?;
    let result = device.zeros::<f32>(SIDE * SIDE)?;
    let ways = MatmulKernel::ALL.into_iter().filter(|way| fits(*way, &device.info().limits));
    let contenders = ways.map(|way| Contender::new(device, way)).collect::<Result<Vec<_>>>()?;
    let run = |at: usize| contenders[at].run(device, &ones, &result);
    // The first round compiles.
    (0..contenders.len()).try_for_each(run)?;
    let times = in_turn(contenders.len(), ROUNDS..=ROUNDS, Instant::now(), |at| timed(|| run(at)))?;
    Ok(contenders.iter().zip(&times).map(|(contender, times)| (contender.way.name(), median_time(times))).collect())
}

impl Contender {
    fn new(device: &Device, way: MatmulKernel) -> Result<Self> {
        let side = SIDE as u32;
        let product = Product::new(side, side, side);
        let port = ProgramBuffer { element: ElementType::F32, len: side * side };
        let program = Program {
            head: Head::Product(product),
            tail: Body { steps: vec![Expr::Head(ElementType::F32)], stores: vec![0] },
            inputs: vec![port; 2],
            outputs: vec![port],
            scalars: 0,
        };
        let source = program.source(&Caps { product: way, ..Caps::default() });
        Ok(Self { way, kernel: device.core.kernels.generated(&source.text)?, source })
    }

    fn run(&self, device: &Device, ones: &Buffer<f32>, result: &Buffer<f32>) -> Result<()> {
        let batch = device.batch();
        batch.split_by(Split::Never);
        let grid = Grid::groups(self.source.grid);
        batch
            .dispatch(&self.kernel, &[ones, ones, result], grid)
            .raw_immediates(bytemuck::cast_slice(&self.source.words));
        batch.submit()
    }
}
