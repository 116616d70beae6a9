//! Guides, chapter by chapter. Their programs run as doctests.

#[doc = include_str!("../../../docs/guides/batcher.md")]
pub mod batcher {}
#[doc = include_str!("../../../docs/guides/batching.md")]
pub mod batching {}
#[doc = include_str!("../../../docs/guides/profiling.md")]
pub mod profiling {}
#[doc = include_str!("../../../docs/guides/replay.md")]
pub mod replay {}
#[doc = include_str!("../../../docs/guides/troubleshooting.md")]
pub mod troubleshooting {}
