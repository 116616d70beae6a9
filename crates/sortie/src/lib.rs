//! Many small GPU operations, one submission.
//!
//! `sortie` takes many small GPU operations and runs them together: recorded as plain data, planned, submitted once. Dispatches, copies,
//! fills, writes and reads go into a [`Batch`]; what depends on what is read off the kernels; a mistake comes back with the line that
//! made it.
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
//! # What there is
//!
//! | to | use | guide |
//! |---|---|---|
//! | run many ops as one submission | [`Batch`], [`Kernel`], [`Buffer`] | [`guide::batching`], [`guide::kernels`] |
//! | compute with tensors that fuse | [`Tensor`] | [`guide::tensors`] |
//! | run the same ops over and over | [`Batch::freeze`], [`Replay`] | [`guide::replay`] |
//! | make batches of many callers' requests | [`Batcher`], with [`Rows`](batcher::Rows), [`RowReplays`](batcher::RowReplays) or a [`DeviceJob`](batcher::DeviceJob) of one's own; [`Fleet`] for several devices | [`guide::batcher`] |
//! | see where the time goes | [`Batch::profile`], [`Device::watch`], [`Device::trace`], [`Device::metrics`] | [`guide::profiling`] |
//! | work on more than fits into memory | [`Stream`] | [`guide::streams`] |
//! | be a guest of a program that has wgpu already | [`Device::from_wgpu`], [`Device::import`] | [`guide::guests`] |
//! | know what went wrong | [`Error`], [`ErrorKind`] | [`guide::troubleshooting`] |
//!
//! The [`guide`]s explain each of them. Where there is no GPU, all of it runs on the built-in CPU ([`Device::cpu`]).
//!
//! A batch is profiled op by op when it is asked for its profile:
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
//! | `device` | [`Device`]: where work runs; [`Buffer`], memory that the user owns |
//! | `memory` | blocks of memory, and the pool they come from |
//! | `backend` | what runs plans: wgpu (with native replays on Vulkan), and the built-in CPU |
//! | `kernel` | [`Kernel`]: validated WGSL and its interface |
//! | `batch` | [`Batch`], [`Grid`], [`Bind`], [`Slot`], [`Record`]: recording |
//! | `tensor` | [`Tensor`]: lazy operations, fused when planned |
//! | `plan` | plans found again, completed, cut by cost, given memory |
//! | `launch` | one path from a batch or a run of a replay to the submit queue |
//! | `replay` | [`Replay`], [`Run`], [`Input`], [`Output`]: a batch run over and over |
//! | `policy` | [`SubmitPolicy`](policy::SubmitPolicy), [`Split`](policy::Split): how batches are cut into submissions |
//! | `batcher` | [`Batcher`], [`DeviceJob`](batcher::DeviceJob), [`Fleet`]: requests of many callers become batches on devices |
//! | `stream` | [`Stream`], [`Source`](stream::Source), [`Sink`](stream::Sink): data larger than memory, window by window |
//! | `tune` | [`Device::tune`], [`TuneReport`](tune::TuneReport): measuring a device |
//! | `tuning` | what was measured, and its file |
//! | `finish` | [`Ticket`], [`Reading`]: how batches end, and the data that they read back |
//! | `submit` | the order in which a device is given its work, and the threads that do so |
//! | `error` | [`Error`] |
//! | `info` | [`DeviceInfo`](device::DeviceInfo), [`Limits`](device::Limits): what a device is |
//! | `options` | [`DeviceOptions`], [`TuningFile`](device::TuningFile), [`CacheDir`](device::CacheDir): how it is opened |
//! | `lost` | whether the device is lost, and why |
//! | `exit` | what happens to devices when the process exits |
//! | [`guide`] | the guides |
//! | `clock` | time |
//! | `file` | files that one process leaves for the next |
//! | `profile` | [`Profile`](profile::Profile), [`Trace`](profile::Trace), [`Watch`](profile::Watch): what batches took |
//! | `metrics` | [`Metrics`](metrics::Metrics): what a device has done |
//!
//! Planning and the batcher are crates of their own: `sortie-plan`, and [`sortie-batcher`](sortie_batcher), which knows nothing of devices.

// Whether a device may cross threads follows from wgpu's types, which nest deep.
#![recursion_limit = "256"]

#[doc(no_inline)]
pub use {bytemuck, half, sortie_batcher, wgpu};

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
