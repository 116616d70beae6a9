//! The submitter of a device, of whichever backend it is, until backends own theirs.
//!
//! Commands that are not of the device's backend are an error of ours: they fail in their turn, as all that cannot be encoded does.

use std::sync::Arc;

use crate::{
    backend::{cpu::CpuQueue, wgpu::WgpuQueue},
    encode::{Commands, Encoded, Route},
    error::{Error, Result},
    finish::{Completion, Landing, PendingReadback},
    launch::{HandOver, Outbound},
    memory::Block,
    submit::{DeviceQueue, Flight, Hold, Submitter},
};

#[derive(Debug)]
pub(crate) enum Submitters {
    Wgpu(Arc<Submitter<WgpuQueue>>),
    Cpu(Arc<Submitter<CpuQueue>>),
}

impl Submitters {
    /// Begins to hand over a batch.
    pub(crate) fn hand_over<'a>(&'a self, route: &'a Route, hold: Hold) -> Departure<'a> {
        match self {
            Self::Wgpu(submitter) => Departure::Wgpu(HandOver::new(submitter, route, hold)),
            Self::Cpu(submitter) => Departure::Cpu(HandOver::new(submitter, route, hold)),
        }
    }

    /// Hands over a batch that was encoded. Never waits for the device.
    pub(crate) fn send(&self, outbound: Outbound<Commands>) {
        match self {
            Self::Wgpu(submitter) => outbound.send(submitter, Commands::into_wgpu),
            Self::Cpu(submitter) => outbound.send(submitter, Commands::into_cpu),
        }
    }

    /// Submits a batch that was encoded, and waits.
    pub(crate) fn finish(&self, outbound: Outbound<Commands>, completion: &Completion) -> Result<()> {
        match self {
            Self::Wgpu(submitter) => outbound.finish(submitter, completion, Commands::into_wgpu),
            Self::Cpu(submitter) => outbound.finish(submitter, completion, Commands::into_cpu),
        }
    }

    /// Submits commands that are a batch of their own, and waits.
    pub(crate) fn run(&self, commands: Commands, hold: Hold) -> Result<()> {
        match self {
            Self::Wgpu(submitter) => submitter.run(Flight::whole(commands.into_wgpu()?, hold)),
            Self::Cpu(submitter) => submitter.run(Flight::whole(commands.into_cpu()?, hold)),
        }
    }

    /// See [`Submitter::flush`].
    pub(crate) fn flush(&self) {
        match self {
            Self::Wgpu(submitter) => submitter.flush(),
            Self::Cpu(submitter) => submitter.flush(),
        }
    }

    /// See [`Submitter::staged_bytes`].
    pub(crate) fn staged_bytes(&self) -> u64 {
        match self {
            Self::Wgpu(submitter) => submitter.staged_bytes(),
            Self::Cpu(submitter) => submitter.staged_bytes(),
        }
    }

    /// See [`Submitter::close`].
    pub(crate) fn close(&self) {
        match self {
            Self::Wgpu(submitter) => submitter.close(),
            Self::Cpu(submitter) => submitter.close(),
        }
    }

    pub(crate) fn wgpu(&self) -> Option<&Submitter<WgpuQueue>> {
        match self {
            Self::Wgpu(submitter) => Some(submitter),
            Self::Cpu(_) => None,
        }
    }

    /// See [`WgpuQueue::has_timeline`].
    pub(crate) fn has_timeline(&self) -> bool {
        self.wgpu().is_some_and(|submitter| submitter.device().has_timeline())
    }

    /// See [`WgpuQueue::share`].
    pub(crate) fn share_queue(&self) {
        if let Some(submitter) = self.wgpu() {
            submitter.device().share();
        }
    }

    /// See [`Submitter::store`].
    pub(crate) fn store(&self, block: &Arc<Block>, start: u64, data: &[u8], whole: bool) -> Result<()> {
        match self {
            Self::Wgpu(_) => Err(Error::internal("a write of another backend; please report it")),
            Self::Cpu(submitter) => submitter.store(block, start, data, whole),
        }
    }
}

/// A batch that is being encoded.
pub(crate) enum Departure<'a> {
    Wgpu(HandOver<'a, WgpuQueue>),
    Cpu(HandOver<'a, CpuQueue>),
}

impl Departure<'_> {
    /// See [`HandOver::leave`].
    pub(crate) fn leave(&mut self, commands: Commands, blocks: impl FnOnce() -> Vec<Option<Arc<Block>>>) {
        match self {
            Self::Wgpu(hand_over) => hand_over.leave(commands.into_wgpu(), blocks),
            Self::Cpu(hand_over) => hand_over.leave(commands.into_cpu(), blocks),
        }
    }

    /// See [`HandOver::finish`].
    pub(crate) fn finish(
        self,
        encoded: Result<Encoded>,
        landing: Option<&Arc<Landing>>,
        blocks: impl FnOnce() -> Vec<Option<Arc<Block>>>,
    ) -> Result<Outbound<Commands>> {
        match self {
            Self::Wgpu(hand_over) => {
                let encoded = last::<WgpuQueue>(encoded, Commands::into_wgpu);
                Ok(hand_over.finish(encoded, landing, blocks)?.map(Commands::Wgpu))
            }
            Self::Cpu(hand_over) => {
                let encoded = last::<CpuQueue>(encoded, Commands::into_cpu);
                Ok(hand_over.finish(encoded, landing, blocks)?.map(Commands::Cpu))
            }
        }
    }
}

type Last<Q> = Option<(<Q as DeviceQueue>::Commands, Option<Arc<dyn PendingReadback>>)>;

/// The last submission of a batch, and what it reads back.
fn last<Q: DeviceQueue>(encoded: Result<Encoded>, into: fn(Commands) -> Result<Q::Commands>) -> Result<Last<Q>> {
    let Encoded { commands, returning } = encoded?;
    commands.map(|commands| Ok((into(commands)?, returning))).transpose()
}
