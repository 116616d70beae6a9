//! WGSL compute kernels on the CPU: naga's IR, executed in lockstep over all lanes of a workgroup.
//!
//! This is what the built-in CPU device of `sortie` runs kernels with. It knows nothing of devices, batches or files: a validated module of naga's goes in, and a
//! [`Program`] comes out that runs on memory given to it as words. There is no `unsafe` but for one call of `gemm`. [`native`] has what needs no kernel.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use naga::valid::{Capabilities, ValidationFlags, Validator};
//! use sortie_cpu::{Bound, Program, Run, Stop, Threads};
//!
//! let module = naga::front::wgsl::parse_str("
//!     @group(0) @binding(0) var<storage, read> x: array<u32>;
//!     @group(0) @binding(1) var<storage, read_write> y: array<u32>;
//!     @compute @workgroup_size(64) fn square(@builtin(global_invocation_id) id: vec3<u32>) {
//!         if id.x < arrayLength(&x) { y[id.x] = x[id.x] * x[id.x]; }
//!     }
//! ")?;
//! let info = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module)?;
//! let square = Program::new(&module, &info, "square")?;
//!
//! let (x, mut y) = ([1, 2, 3], [0; 3]);
//! let run = Run { groups: [1, 1, 1], bound: &mut [Bound::Read(&x), Bound::Write(&mut y)], immediates: &[] };
//! let canceled = AtomicBool::new(false);
//! square.run(run, &Threads::new(Some(1))?, Stop { canceled: &canceled, deadline: None }).expect("nobody stops it");
//! assert_eq!(y, [1, 4, 9]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//!
//! | module | noun |
//! |---|---|
//! | `program` | [`Program`]: a kernel made ready to run |
//! | `lower` | naga's IR to code |
//! | `code`, `compiled` | the instruction set; a kernel after lowering |
//! | `shape`, `geometry`, `lanes` | how a register varies over lanes; how workgroups become rectangles of lanes; blocks of 16 lanes |
//! | `run` | a dispatch: rectangles of lanes, on one thread or several; race checks ([`Program::check`]) |
//! | `eval`, `math`, `simd` | what each instruction computes; built-in functions; AVX2 where the machine has it |
//! | [`native`], `library` | tensor operations in plain Rust, matrix products by `gemm` or `matrixmultiply` |
//! | `bound`, `threads`, `stop`, `unsupported` | memory, threads and cancellation of a run; what is refused |
#![deny(unsafe_code)]

mod bound;
mod code;
mod compiled;
mod eval;
mod geometry;
mod lanes;
mod library;
mod lower;
mod math;
pub mod native;
mod program;
mod run;
mod shape;
mod simd;
mod stop;
mod threads;
mod unsupported;

pub use self::{
    bound::Bound,
    compiled::{Slot, Tuning},
    library::Library,
    program::Program,
    run::{Checks, Finding, Run},
    stop::{Halt, Stop},
    threads::Threads,
    unsupported::Unsupported,
};
