//! Guides, chapter by chapter. Their programs run as doctests.

#[doc = include_str!("../guides/batcher.md")]
pub mod batcher {}
#[doc = include_str!("../guides/batching.md")]
pub mod batching {}
#[doc = include_str!("../guides/guests.md")]
pub mod guests {}
#[doc = include_str!("../guides/kernels.md")]
pub mod kernels {}
#[doc = include_str!("../guides/profiling.md")]
pub mod profiling {}
#[doc = include_str!("../guides/replay.md")]
pub mod replay {}
#[doc = include_str!("../guides/streams.md")]
pub mod streams {}
#[doc = include_str!("../guides/tensors.md")]
pub mod tensors {}
#[doc = include_str!("../guides/troubleshooting.md")]
pub mod troubleshooting {}
