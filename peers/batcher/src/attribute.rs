//! batched: an attribute that makes a function of one request out of a function of many.
//!
//! The crate `batched` re-exports the attribute and has a module for spans, with two features of nightly for links between them. Here the attribute is
//! used as it is, and the module is [`tracing`], without links; all else is what the attribute generates. Its limit has to be a literal, and its
//! batcher is a static one.

use std::sync::{Arc, PoisonError, RwLock};

use batched_derive::batched;

use crate::blocking::Blocking;
use crate::callers::Service;
use crate::device::Device;

/// What the generated code wants of the crate.
pub(crate) mod tracing {
    pub(crate) use ::tracing::{Instrument, Span, info_span};

    /// Spans that could be linked.
    pub(crate) trait TracingSpan {
        /// Does nothing, as when the crate's feature for it is off.
        fn link_span(&mut self, _: &Span) {}
    }

    impl TracingSpan for Span {}
}

static DEVICE: RwLock<Option<Arc<Device>>> = RwLock::new(None);

/// Its function for a limit.
pub(crate) enum Batched {
    /// Of 256.
    Small,
    /// Of 1,024.
    Large,
}

impl Batched {
    /// None for a limit that there is no function for.
    pub(crate) fn new(device: Arc<Device>, limit: usize) -> Option<Self> {
        *DEVICE.write().unwrap_or_else(PoisonError::into_inner) = Some(device);
        match limit {
            256 => Some(Self::Small),
            1024 => Some(Self::Large),
            _ => None,
        }
    }
}

impl Service for Batched {
    async fn call(&self, input: u64) -> Result<u64, String> {
        match self {
            Self::Small => small(input).await,
            Self::Large => large(input).await,
        }
    }
}

#[batched(window = 0, limit = 256)]
async fn small(rows: Vec<u64>) -> Result<Vec<u64>, String> {
    forward(rows).await
}

#[batched(window = 0, limit = 1024)]
async fn large(rows: Vec<u64>) -> Result<Vec<u64>, String> {
    forward(rows).await
}

async fn forward(rows: Vec<u64>) -> Result<Vec<u64>, String> {
    let device = DEVICE.read().unwrap_or_else(PoisonError::into_inner).clone();
    Blocking::InPlace.run(&device.ok_or("no device")?, rows).await
}
