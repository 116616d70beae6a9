//! WGSL compute kernels on the CPU: naga's IR, executed in lockstep over all lanes of a workgroup.
//!
//! The built-in CPU device of `sortie` runs kernels with this crate. It knows nothing about devices, batches or files:
//! a validated naga module goes in, and a [`Program`] comes out, which runs on memory given as 32-bit words. Nothing
//! here is `unsafe`. [`native`] has built-in operations as plain Rust.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use naga::valid::{Capabilities, ValidationFlags, Validator};
//! use sortie_cpu::{BoundMemory, DispatchArgs, Program, Stop, Threads};
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
//! let bound = &mut [BoundMemory::Read(&x), BoundMemory::Write(&mut y)];
//! let run = DispatchArgs { groups: [1, 1, 1], bound, immediates: &[] };
//! let canceled = AtomicBool::new(false);
//! square.run(run, &Threads::new(Some(1))?, Stop { canceled: &canceled, deadline: None }).expect("not stopped");
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
//! | `opcode`, `wide_opcode`, `math` | what each instruction computes; built-in functions |
//! | `simd`, `instruction_set` | AVX2 and AVX-512 where the machine has them |
//! | [`native`] | tensor operations in plain Rust; matrix products |
//! | `bound_memory`, `threads`, `stop`, `unsupported` | memory, threads and cancellation of a run; what is refused |
#![forbid(unsafe_code)]

mod bound_memory;
mod code;
mod compiled;
mod geometry;
mod instruction_set;
mod lanes;
mod lower;
mod math;
pub mod native;
mod opcode;
mod program;
mod run;
mod shape;
mod simd;
mod stop;
mod threads;
mod unsupported;
mod wide_opcode;

/// Invocations of a subgroup, those at the end of a workgroup excepted.
pub const SUBGROUP_SIZE: u32 = geometry::SUBGROUP_SIZE;

pub use self::{
    bound_memory::BoundMemory,
    compiled::{LoweringOptions, ProgramBinding},
    instruction_set::{InstructionSet, UnknownInstructionSet},
    program::Program,
    run::{Checks, DispatchArgs, RaceReport},
    stop::{Halted, Stop},
    threads::Threads,
    unsupported::Unsupported,
};
