//! A debugging check: the first run of a replay is compared with the same work run as a batch.

use std::sync::Arc;

use super::{ReplayInner, Run};
use crate::{
    device::Buffer,
    error::{CallSite, Error, Result},
    memory::Usage,
    plan::RunArgs,
};

/// The buffers that a run writes, with their expected contents.
pub(super) struct ReplayCheck {
    left: Vec<(Buffer<u32>, Vec<u32>)>,
}

impl ReplayCheck {
    /// Encodes and runs the same work, keeps the results and restores the buffers. `None` if the check is off, or a run
    /// was compared already.
    pub(super) fn of(run: &Run, here: CallSite) -> Result<Option<Self>> {
        let parts = &run.parts;
        if !parts.core.options.check_replays || parts.first.set(()).is_err() {
            return Ok(None);
        }
        let buffers = written(parts);
        let before = buffers.iter().map(Buffer::download).collect::<Result<Vec<_>>>()?;
        let mut twin = Run::new(parts.clone());
        twin.run_args = RunArgs { data: run.run_args.data.clone(), encoded: true, ..RunArgs::default() };
        twin.given.clone_from(&run.given);
        twin.launch(here, true)?;
        let after = buffers.iter().map(Buffer::download).collect::<Result<Vec<_>>>()?;
        buffers.iter().zip(&before).try_for_each(|(buffer, data)| buffer.write(data))?;
        Ok(Some(Self { left: buffers.into_iter().zip(after).collect() }))
    }

    /// Compares after the run is done.
    pub(super) fn compare(&self, here: CallSite) -> Result<()> {
        for (number, (buffer, expected)) in self.left.iter().enumerate() {
            let found = buffer.download()?;
            let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) else { continue };
            let message = format!(
                "the first run of a replay left {:#010x} at byte {} of the {}. memory that it writes, where a live run left {:#010x}: does it depend on \
                 what is not restored between them?",
                found[at],
                at * 4,
                number + 1,
                expected[at]
            );
            return Err(Error::internal(message).at(here));
        }
        Ok(())
    }
}

/// All memory that a run writes, as far as it can be read and restored.
fn written(parts: &Arc<ReplayInner>) -> Vec<Buffer<u32>> {
    let frozen = parts.frozen();
    let mut slots: Vec<_> =
        frozen.planned.touches.iter().filter(|touch| touch.writes).map(|touch| touch.slot.0).collect();
    slots.sort_unstable();
    slots.dedup();
    let blocks = slots.iter().filter_map(|slot| frozen.resources.blocks[*slot as usize].clone());
    let open = blocks.filter(|block| block.allows(Usage::CopyFrom) && block.allows(Usage::CopyTo));
    open.map(|block| Buffer::of(&parts.core, block)).collect()
}
