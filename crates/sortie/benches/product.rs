//! What binds the generated matrix product: run-time checks, loads, or arithmetic.
//!
//! The same kernel with all checks, without some, without any; and without any and without its loads: an index, which
//! takes as long to compute, stands for what was at it.
//!
//! `cargo bench -p sortie --bench product [-- --quick] [--json]`

#![expect(unsafe_code, reason = "kernels are compiled without checks")]
#![expect(clippy::print_stderr, reason = "a missing device is named on stderr")]

use std::time::Duration;

use sortie::{Buffer, Device, DeviceOptions, Grid, Kernel, wgpu::ShaderRuntimeChecks};
use sortie_bench::{Args, Case, Clock, Contender, Cost, Outcome, Report, Rounds};
use sortie_plan::{
    Caps, ElementType, MatmulKernel,
    fuse::{Body, Expr, Head, KernelSource, Product, Program, ProgramBuffer},
};

const SIDE: u32 = 512;

/// The kernel of a product of two square matrices, as software drivers have it.
fn source() -> KernelSource {
    let product = Product::new(SIDE, SIDE, SIDE);
    let port = ProgramBuffer { element: ElementType::F32, len: SIDE * SIDE };
    let program = Program {
        head: Head::Product(product),
        tail: Body { steps: vec![Expr::Head(ElementType::F32)], stores: vec![0] },
        inputs: vec![port; 2],
        outputs: vec![port],
        scalars: 0,
    };
    program.source(&Caps { product: MatmulKernel::Wide, ..Caps::default() })
}

/// The same without the loads of a side.
fn without(text: &str, side: &str) -> String {
    let load = format!("= {side}[");
    let line = |line: &str| match (line.split_once(&load), line.rsplit_once(']')) {
        (Some((before, _)), Some((inside, _))) => {
            format!("{before}= vec4<f32>(f32({}));\n", &inside[before.len() + load.len()..])
        }
        _ => format!("{line}\n"),
    };
    let used = format!("    _ = &{side};\n    let row =");
    text.lines().map(line).collect::<String>().replacen("    let row =", &used, 1)
}

struct Work {
    device: Device,
    kernel: Kernel,
    operands: [Buffer<f32>; 3],
    source: KernelSource,
}

impl Work {
    fn new(device: &Device, text: &str, checks: ShaderRuntimeChecks) -> Outcome<Self> {
        let ones = || device.full((SIDE * SIDE) as usize, 1.0_f32);
        // SAFETY: generated kernels stay in bounds, their loops end, and they divide by constants.
        let kernel = unsafe { device.module_unchecked(text, checks)? }.only_kernel()?;
        Ok(Self { device: device.clone(), kernel, operands: [ones()?, ones()?, ones()?], source: source() })
    }

    /// CPU time in µs: that of all threads, because the drivers compute on the CPU.
    fn run(&self) -> Outcome<f64> {
        let cost = Cost::of(Clock::Process, || self.multiply())?;
        Ok(cost.cpu_us)
    }

    fn multiply(&self) -> sortie::Result<()> {
        let batch = self.device.batch();
        let [a, b, c] = self.operands.each_ref().map(Buffer::untyped);
        let words = bytemuck::cast_slice(&self.source.words);
        batch.dispatch(&self.kernel, &[&a, &b, &c], Grid::groups(self.source.grid)).raw_immediates(words);
        batch.submit()
    }
}

fn main() -> Outcome<()> {
    let args = Args::read(&[]);
    let budget = Duration::from_millis(if args.quick { 2_000 } else { 20_000 });
    let mut report = Report::new("product", args.json);
    for name in ["llvmpipe", "swiftshader"] {
        let Ok(device) =
            Device::open_with(DeviceOptions::default().with_device(name).with_compile_budget(Duration::from_secs(100)))
        else {
            eprintln!("there is no {name} here");
            continue;
        };
        let (all, none) = (ShaderRuntimeChecks::checked(), ShaderRuntimeChecks::unchecked());
        let text = source().text;
        let right_only = without(&text, "in0");
        let nothing_loaded = without(&right_only, "in1");
        let work = [
            ("checked", &text, all),
            ("unbounded-accesses", &text, ShaderRuntimeChecks { bounds_checks: false, ..all }),
            ("unbounded-loops", &text, ShaderRuntimeChecks { force_loop_bounding: false, ..all }),
            ("as-generated", &text, ShaderRuntimeChecks { int_div_checks: true, ..none }),
            ("unchecked", &text, none),
            ("right-side-loaded", &right_only, none),
            ("nothing-loaded", &nothing_loaded, none),
        ];
        let names = work.each_ref().map(|(name, ..)| *name);
        let work = work.map(|(_, text, checks)| Work::new(&device, text, checks));
        let work = work.into_iter().collect::<Outcome<Vec<_>>>()?;
        // The first round compiles.
        work.iter().try_for_each(|work| work.run().map(drop))?;
        let rounds = Rounds { min: 5, max: 200, budget };
        let samples = rounds.run(work.len(), |at, _| Ok([work[at].run()?]))?;
        let case = Case { device: name, case: "matmul", n: SIDE as usize, metrics: ["cpu_us_per_run"] };
        report.rows(&case, &Contender::all(&names), &samples);
    }
    Ok(())
}
