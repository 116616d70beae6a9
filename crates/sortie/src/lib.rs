//! Many small GPU operations, one submission.
//!
//! A [`Batch`] records dispatches, copies, fills, writes, reads and tensor operations as plain data. `submit` plans them
//! and runs them as one submission. Dependencies are found in the WGSL, and an error names the line that recorded the
//! faulty operation.
//!
//! ```
//! use sortie::{Device, Grid};
//!
//! let device = Device::open()?;
//! let double = device.kernel("
//!     @group(0) @binding(0) var<storage, read> x: array<f32>;
//!     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
//!     @compute @workgroup_size(64)
//!     fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//!         if id.x < arrayLength(&x) { y[id.x] = 2.0 * x[id.x]; }
//!     }
//! ")?;
//! let x = device.upload(&[1.0_f32, 2.0, 3.0])?;
//! let y = device.zeros::<f32>(x.len())?;
//! let batch = device.batch();
//! batch.dispatch(&double, &[&x, &y], Grid::items(x.len()));
//! batch.dispatch(&double, &[&y, &x], Grid::items(x.len())).label("again");
//! let result = batch.read(&x);
//! batch.submit()?;
//! assert_eq!(result.wait()?, [4.0, 8.0, 12.0]);
//! # Ok::<(), sortie::Error>(())
//! ```
//!
//! # Overview
//!
//! | task | types | guide |
//! |---|---|---|
//! | run many ops as one submission | [`Batch`], [`Kernel`], [`Buffer`] | [`guide::batching`], [`guide::kernels`] |
//! | compute with tensors that fuse | [`Tensor`] | [`guide::tensors`] |
//! | run the same ops many times | [`Batch::freeze`], [`Replay`] | [`guide::replay`] |
//! | batch the requests of many callers | [`Batcher`] with [`Rows`](batcher::Rows), [`RowReplays`](batcher::RowReplays) or your own [`DeviceJob`](batcher::DeviceJob); [`Fleet`] for several devices | [`guide::batcher`] |
//! | find where the time goes | [`Batch::profile`], [`Device::watch`], [`Device::trace`], [`Device::metrics`] | [`guide::profiling`] |
//! | process data larger than memory | [`Stream`] | [`guide::streams`] |
//! | work inside an application that uses wgpu | [`Device::from_wgpu`], [`Batch::encode`], [`Device::import`] | [`guide::guests`] |
//! | handle errors | [`Error`], [`ErrorKind`] | [`guide::troubleshooting`] |
//!
//! Without a GPU, everything runs on the built-in CPU ([`Device::cpu`]).
//!
//! [`Batch::profile`] times each op:
//!
//! ```
//! # let device = sortie::Device::cpu()?;
//! let batch = device.batch();
//! let profile = batch.profile();
//! let x = batch.tensor_from(&[0.5_f32; 4096], [64, 64]);
//! let y = x.exp().relu().read(); // one kernel
//! batch.submit()?;
//!
//! let profile = profile.wait()?;
//! println!("{profile}"); // a table; `profile.write_trace("trace.json")` is for Perfetto
//! assert_eq!(profile.ops()[1].fused_with(), [2]);
//! # assert_eq!(y.wait()?.len(), 4096);
//! # Ok::<(), sortie::Error>(())
//! ```
//!
//! # Layout
//!
//! | module | noun |
//! |---|---|
//! | `device` | [`Device`] runs work; [`Buffer`] is memory that the user owns |
//! | `memory` | blocks of memory and their pool |
//! | `backend` | executes plans: wgpu (with native replays on Vulkan) and the built-in CPU |
//! | `kernel` | [`Kernel`]: validated WGSL and its interface |
//! | `batch` | [`Batch`], [`Grid`], [`Bind`], [`Slot`], [`Record`]: recording |
//! | `tensor` | [`Tensor`]: lazy operations, fused when planned |
//! | `plan` | plan cache, cuts by cost, plans with memory |
//! | `launch` | the path from a batch or a run of a replay to the submit queue |
//! | `replay` | [`Replay`], [`Run`], [`Input`], [`Output`]: a batch that runs many times |
//! | `policy` | [`SubmitPolicy`](policy::SubmitPolicy), [`Split`](policy::Split): how batches are split into submissions |
//! | `batcher` | [`Batcher`], [`DeviceJob`](batcher::DeviceJob), [`Fleet`]: batches of many callers' requests |
//! | `stream` | [`Stream`], [`Source`](stream::Source), [`Sink`](stream::Sink): data larger than memory, window by window |
//! | `tune` | [`Device::tune`], [`TuneReport`](tune::TuneReport): measuring a device |
//! | `tuning` | the tuning file: measured settings of a device |
//! | `finish` | [`Ticket`], [`Reading`]: completion and readback |
//! | `submit` | the submit queue and its threads |
//! | `error` | [`Error`] |
//! | `info` | [`DeviceInfo`](device::DeviceInfo), [`Limits`](device::Limits): name, kind and limits of a device |
//! | `options` | [`DeviceOptions`], [`TuningFile`](device::TuningFile), [`CacheDir`](device::CacheDir) |
//! | `lost` | whether the device is lost, and why |
//! | `exit` | devices while the process exits |
//! | [`guide`] | the guides |
//! | `clock` | wall clock and process clock |
//! | `file` | writing and reading the cache and tuning files |
//! | `profile` | [`Profile`](profile::Profile), [`Trace`](profile::Trace), [`Watch`](profile::Watch): time of each op |
//! | `metrics` | [`Metrics`](metrics::Metrics): counters and gauges of a device |
//!
//! Planning and the batcher are separate crates: `sortie-plan` and [`sortie-batcher`](sortie_batcher), neither of which
//! depends on wgpu.

// Checking that `Device` is `Send` recurses through wgpu's deeply nested types.
#![recursion_limit = "256"]

#[doc(no_inline)]
pub use {bytemuck, half, sortie_batcher, wgpu};

#[macro_use]
mod accessors;
mod backend;
pub mod batch;
pub mod batcher;
mod clock;
pub mod device;
mod error;
mod exit;
mod file;
mod finish;
pub mod guide;
mod info;
pub mod kernel;
mod launch;
mod lost;
mod memory;
pub mod metrics;
mod options;
mod plan;
pub mod policy;
pub mod profile;
mod replay;
pub mod stream;
mod submit;
pub mod tensor;
pub mod tune;
mod tuning;

#[doc(inline)]
pub use self::{
    batch::{Batch, Bind, Dispatch, Grid, Record, Slot},
    batcher::{BatchConfig, Batcher, Fleet, Job},
    device::{Buffer, Device, DeviceOptions, Slice},
    error::{Error, ErrorKind, Result},
    finish::{Reading, Ticket},
    kernel::Kernel,
    replay::{Input, Output, Replay, Run},
    stream::Stream,
    tensor::Tensor,
};
