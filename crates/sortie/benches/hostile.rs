//! What hostile kernel sources cost a compiler, and how they end.
//!
//! ```sh
//! cargo bench -p sortie --bench hostile                             # the table, for every device there is
//! cargo bench -p sortie --bench hostile -- --quick --json           # the known cases only, one JSON object a line
//! cargo bench -p sortie --bench hostile -- --only ifs --size 5000   # one family at another size
//! ```
//!
//! Each source is compiled in a process of its own. CPU time and peak memory are those of the process, and include
//! opening the device (the row `nothing`). The system ends a process that takes more than 60 s of CPU time or 8 GiB of
//! address space.

#![expect(clippy::print_stdout, reason = "a bench prints its table")]
#![expect(unsafe_code, reason = "the standard library cannot measure or limit a child process")]

#[path = "../tests/hostile/sources.rs"]
mod sources;

use std::{
    env,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use sortie::{
    Bind, Buffer, Device, DeviceOptions, Grid, Kernel,
    device::{CacheDir, DeviceKind},
    kernel::BindingInfo,
};

use sortie_bench::Args;

use sources::{FAMILIES, Family, START};

/// CPU time of one process, in seconds.
const MAX_CPU_SECONDS: u64 = 60;
/// Address space of one process, in bytes.
const MAX_ADDRESS_SPACE: u64 = 8 << 30;

const DEVICES: [&str; 3] = ["cpu", "llvmpipe", "swiftshader"];

/// The cases of `--quick`: those that were known before there were limits.
const KNOWN: [&str; 9] = [
    "doubling_constants",
    "doubling_structs",
    "doubling_calls",
    "doubling_statement_calls",
    "temporary_array",
    "statements",
    "ifs",
    "ifs_with_stores",
    "early_returns",
];

fn main() -> ExitCode {
    let args = Args::read(&["--size=", "--device=", "--child="]);
    let only = args.value("--only");
    if let Some(device) = args.value("--child") {
        let (Some(family), Some(size)) = (only, args.value("--size")) else { return ExitCode::FAILURE };
        child(device, family, size.parse().unwrap_or(0));
        return ExitCode::SUCCESS;
    }
    let families = FAMILIES
        .iter()
        .filter(|family| args.selects(family.name) && (only.is_some() || !args.quick || KNOWN.contains(&family.name)));
    let devices: Vec<&str> = DEVICES.into_iter().filter(|name| args.matches("--device", name)).collect();
    if !args.json {
        println!(
            "| source | size | bytes | device | CPU time | peak memory | outcome |\n|---|---:|---:|---|---:|---:|---|"
        );
    }
    let nothing = Family { name: "nothing", compiles: &[0], refused: &[], make: |_| String::new() };
    for family in std::iter::once(&nothing).filter(|_| only.is_none()).chain(families) {
        let sizes = args.list("--size");
        for size in sizes.unwrap_or_else(|| family.compiles.iter().chain(family.refused).copied().collect()) {
            for device in &devices {
                let bytes = (family.make)(size).len();
                let Some(run) = Run::of(device, family.name, size) else { continue };
                let (name, seconds, mib, outcome) = (family.name, run.cpu.as_secs_f64(), run.kib >> 10, &run.outcome);
                if args.json {
                    let outcome = serde_json::Value::from(outcome.as_str());
                    println!(
                        "{{\"source\":\"{name}\",\"size\":{size},\"bytes\":{bytes},\"device\":\"{device}\",\
                         \"cpu_s\":{seconds:.3},\"peak_kib\":{},\"outcome\":{outcome}}}",
                        run.kib
                    );
                } else {
                    println!("| `{name}` | {size} | {bytes} | {device} | {seconds:.2} s | {mib} MiB | {outcome} |");
                }
            }
        }
    }
    ExitCode::SUCCESS
}

/// Compiles one source and prints how that ended.
fn child(device: &str, family: &str, size: usize) {
    limit();
    // The limits are tested here, not the budget.
    let options =
        DeviceOptions::default().with_device(device).with_cache(CacheDir::Off).with_compile_budget(Duration::MAX);
    let device = match Device::open_with(options) {
        Ok(device) => device,
        Err(error) => return println!("no device: {error}"),
    };
    let Some(family) = FAMILIES.iter().find(|other| other.name == family) else { return println!("compiled") };
    let first_line = |error: &sortie::Error| {
        let message = error.to_string();
        message.lines().next().unwrap_or_default().chars().take(160).collect::<String>()
    };
    match compile(&device, family, size) {
        Err(error) => println!("refused: {}", first_line(&error)),
        Ok(kernel) => match run(&device, &kernel) {
            Ok(()) => println!("compiled"),
            Err(error) => println!("compiled, but not run: {}", first_line(&error)),
        },
    }
}

fn compile(device: &Device, family: &Family, size: usize) -> sortie::Result<Kernel> {
    // Some drivers compile when a kernel first runs. It runs, but not for long.
    let source = match device.info().kind {
        DeviceKind::Cpu => (family.make)(size),
        _ => (family.make)(size).replace(START, "if arrayLength(&o) < 64u { return; }"),
    };
    match family.name {
        "entry_points" => device.module(&source)?.kernel("main"),
        _ => device.kernel(&source),
    }
}

/// Runs one workgroup, which returns at once.
fn run(device: &Device, kernel: &Kernel) -> sortie::Result<()> {
    if device.info().kind == DeviceKind::Cpu {
        return Ok(());
    }
    let buffer = |info: &BindingInfo| device.zeros::<u32>(usize::try_from(info.least_bytes / 4).unwrap_or(usize::MAX));
    let buffers = kernel.bindings().iter().map(buffer).collect::<sortie::Result<Vec<_>>>()?;
    let untyped: Vec<_> = buffers.iter().map(Buffer::untyped).collect();
    let bound: Vec<&dyn Bind> = untyped.iter().map(|memory| memory as &dyn Bind).collect();
    let batch = device.batch();
    batch.dispatch(kernel, &bound, Grid::groups([1, 1, 1]));
    batch.submit()?;
    Ok(())
}

struct Run {
    cpu: Duration,
    kib: u64,
    outcome: String,
}

impl Run {
    /// `None` when there is no such device.
    fn of(device: &str, family: &str, size: usize) -> Option<Self> {
        let program = env::current_exe().ok()?;
        let child = Command::new(program)
            .args(["--child", device, "--only", family, "--size", &size.to_string()])
            .env("MESA_SHADER_CACHE_DISABLE", "true")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let pid = libc::pid_t::try_from(child.id()).ok()?;
        let mut output = String::new();
        if let Some(mut pipe) = child.stdout {
            let _ = std::io::Read::read_to_string(&mut pipe, &mut output);
        }
        let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: no other code waits for this child; both pointers are to locals that outlive the call.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, usage.as_mut_ptr()) };
        if waited != pid || output.starts_with("no device") {
            return None;
        }
        // SAFETY: zeroes are a valid `rusage`, and `wait4` has filled it.
        let usage = unsafe { usage.assume_init() };
        let time = |time: libc::timeval| {
            Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
                + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
        };
        let outcome = match libc::WIFSIGNALED(status) {
            true => format!("killed by signal {}", libc::WTERMSIG(status)),
            false => output.lines().next().unwrap_or("no answer").to_owned(),
        };
        Some(Self {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
            outcome,
        })
    }
}

fn limit() {
    for (resource, limit) in [(libc::RLIMIT_CPU, MAX_CPU_SECONDS), (libc::RLIMIT_AS, MAX_ADDRESS_SPACE)] {
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
        // SAFETY: the pointer is to a local that outlives the call.
        unsafe { libc::setrlimit(resource, &raw const limit) };
    }
}
