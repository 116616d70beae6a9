//! Copies, fills, writes and reads.

use std::panic::Location;

use sortie_plan::{Access, Caps, Mode, Op, OpKind, SlotId, Span};

use super::{
    Batch, OpRecorder, Typed,
    bind::{BindTarget, TargetKind},
};
use crate::{
    error::{CallSite, Error, ErrorKind, Result},
    finish::Reading,
    memory::{Usage, index},
};

/// A byte range of a slot of this batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotRange {
    pub(super) slot: SlotId,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl SlotRange {
    fn access(self, mode: Mode) -> Access {
        Access { slot: self.slot, mode, start: self.start, end: self.end }
    }
}

/// Offsets into a batch's data are 32 bits wide.
const MAX_DATA_BYTES: u64 = u32::MAX as u64;

impl Batch {
    /// Copies memory to other memory of the same length. Both may be slices of one buffer, even overlapping ones.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1_u32, 2, 3, 4])?;
    /// let batch = device.batch();
    /// batch.copy(x.slice(..2), x.slice(2..));
    /// batch.submit()?;
    /// assert_eq!(x.download()?, [1, 2, 1, 2]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn copy<A: Typed, B: Typed<Item = A::Item>>(&self, from: A, to: B) {
        let at = Location::caller();
        self.record_op(at, |recorder| recorder.copy(&from.place(), &to.place(), at));
    }

    /// Sets every element to `value`.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1_u32, 2, 3, 4])?;
    /// let batch = device.batch();
    /// batch.fill(x.slice(1..), 9);
    /// batch.submit()?;
    /// assert_eq!(x.download()?, [1, 9, 9, 9]);
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn fill<B: Typed>(&self, to: B, value: B::Item) {
        let at = Location::caller();
        self.record_op(at, |recorder| recorder.fill(&to.place(), bytemuck::bytes_of(&value), at));
    }

    /// Overwrites memory with `data` of the same length, in order with the ops around it.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1_u32, 2, 3, 4])?;
    /// let batch = device.batch();
    /// batch.write(&x, &[5; 4]);
    /// let first = batch.read(&x);
    /// batch.write(&x, &[6; 4]); // the data is copied now, and written when the op runs
    /// batch.submit()?;
    /// assert_eq!((first.wait()?, x.download()?), (vec![5; 4], vec![6; 4]));
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn write<B: Typed>(&self, to: B, data: &[B::Item]) {
        let at = Location::caller();
        self.record_op(at, |recorder| recorder.write(&to.place(), bytemuck::cast_slice(data), at));
    }

    /// Reads the elements as they are at this point of the batch. The data is available when the batch has completed.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let x = device.upload(&[1_u32, 2, 3, 4])?;
    /// let batch = device.batch();
    /// let before = batch.read(&x);
    /// batch.fill(&x, 0);
    /// let after = batch.read(x.slice(..1));
    /// batch.submit()?;
    /// assert_eq!((before.wait()?, after.wait()?), (vec![1, 2, 3, 4], vec![0]));
    /// # Ok::<(), sortie::Error>(())
    /// ```
    #[track_caller]
    pub fn read<B: Typed>(&self, from: B) -> Reading<B::Item> {
        let at = Location::caller();
        let place = from.place();
        let mut start = 0;
        self.record_op(at, |recorder| {
            start = recorder.read(&place, at)?;
            Ok(())
        });
        Reading::new(self.completion(), self.readback(), start, place.elements.exact())
    }
}

impl OpRecorder<'_> {
    fn copy(&mut self, from: &BindTarget<'_>, to: &BindTarget<'_>, at: CallSite) -> Result<()> {
        if from.elements.exact() != to.elements.exact() && from.elements.fits() && to.elements.fits() {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("copy: {} bytes into {}", from.elements.exact(), to.elements.exact()),
            ));
        }
        let from = self.slot_range("the source of the copy", from, Usage::CopyFrom)?;
        let to = self.slot_range("the destination of the copy", to, Usage::CopyTo)?;
        match (from, to) {
            (Some(from), Some(to)) if from.slot == to.slot && !self.core.abilities.copies_within => {
                // wgpu copies only between two different buffers.
                let bytes = from.end - from.start;
                let slot = self.recorder.scratch(bytes);
                let between = SlotRange { slot, start: 0, end: bytes };
                self.transfer(OpKind::Copy, &[from.access(Mode::Read), between.access(Mode::Write)], at);
                let op = self.op(OpKind::Copy, &[between.access(Mode::Read), to.access(Mode::Write)]);
                // The second op of one call.
                self.recorder.push_further(op, at);
            }
            (Some(from), Some(to)) => {
                self.transfer(OpKind::Copy, &[from.access(Mode::Read), to.access(Mode::Write)], at);
            }
            _ => self.transfer(OpKind::Copy, &[], at),
        }
        Ok(())
    }

    fn write(&mut self, to: &BindTarget<'_>, data: &[u8], at: CallSite) -> Result<()> {
        if data.len() as u64 != to.elements.exact() && to.elements.fits() {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("write: {} bytes into {}", data.len(), to.elements.exact()),
            ));
        }
        let Some(to) = self.slot_range("write", to, Usage::CopyTo)? else {
            self.transfer(OpKind::Write { data: Span::EMPTY }, &[], at);
            return Ok(());
        };
        let data = self.data(data.len() as u64, |uploads| uploads.extend_from_slice(data))?;
        self.transfer(OpKind::Write { data }, &[to.access(Mode::Write)], at);
        Ok(())
    }

    fn read(&mut self, from: &BindTarget<'_>, at: CallSite) -> Result<u64> {
        let Some(from) = self.slot_range("read", from, Usage::CopyFrom)? else {
            self.transfer(OpKind::Read { to: Span::EMPTY }, &[], at);
            return Ok(0);
        };
        // Mapped ranges start at multiples of 8.
        let start = self.recorder.resources.read_bytes.next_multiple_of(8);
        let end = start + (from.end - from.start);
        let most = self.most_staged();
        if end > most {
            return Err(Error::too_large("read: bytes read by one batch", end, most));
        }
        self.recorder.resources.read_bytes = end;
        self.transfer(OpKind::Read { to: span(start, end) }, &[from.access(Mode::Read)], at);
        Ok(start)
    }

    /// A fill is recorded as its pattern. If the device cannot write the pattern, the fill becomes a write of all
    /// bytes.
    fn fill(&mut self, to: &BindTarget<'_>, value: &[u8], at: CallSite) -> Result<()> {
        let (zero, abilities) = (value.iter().all(|byte| *byte == 0), self.core.abilities);
        let bytes = value.len() * repeats(value);
        let chunk = self.fill_chunk(bytes);
        let by_pattern = !zero && bytes <= abilities.fill_pattern_bytes && may_bind(to) && chunk > 0;
        let needed = if by_pattern { Usage::Storage } else { Usage::CopyTo };
        let Some(slot_range) = self.slot_range("fill", to, needed)? else {
            self.transfer(OpKind::Fill { pattern: Span::EMPTY, hidden_immediates: 0 }, &[], at);
            return Ok(());
        };
        let kind = if zero {
            OpKind::Fill { pattern: Span::EMPTY, hidden_immediates: 0 }
        } else if by_pattern {
            let hidden_immediates = abilities.fill_hidden_immediates;
            let chunks = (slot_range.end - slot_range.start).div_ceil(chunk);
            self.recorder.reserve_params(hidden_immediates.into(), chunks, self.core.limits())?;
            OpKind::Fill { pattern: self.pattern(value)?, hidden_immediates }
        } else {
            // The element size does not suit the fill kernel, or kernels may not bind the imported buffer.
            let bytes = to.elements.exact();
            let all = value.iter().copied().cycle().zip(0..bytes).map(|(byte, _)| byte);
            OpKind::Write { data: self.data(bytes, |uploads| uploads.extend(all))? }
        };
        self.transfer(kind, &[slot_range.access(Mode::Write)], at);
        Ok(())
    }

    /// Bytes filled by one dispatch.
    fn fill_chunk(&self, pattern_bytes: usize) -> u64 {
        let caps = Caps {
            params_align: self.core.limits().slice_alignment,
            fill_binding_bytes: self.core.abilities.fill_binding_bytes,
            ..Caps::default()
        };
        caps.fill_chunk(u32::try_from(pattern_bytes).unwrap_or(u32::MAX))
    }

    /// A value repeated to whole words, in the arena of immediates.
    fn pattern(&mut self, value: &[u8]) -> Result<Span> {
        let arena = &mut self.recorder.resources.immediates;
        let start = arena.len();
        let end = (start + repeats(value) * value.len()) as u64;
        if end > MAX_DATA_BYTES {
            return Err(Error::too_large("fill: bytes of immediates and patterns in one batch", end, MAX_DATA_BYTES));
        }
        (0..repeats(value)).for_each(|_| arena.extend_from_slice(value));
        Ok(Span::new(start..arena.len()))
    }

    /// Appends data to the upload arena, padded to 4 bytes.
    fn data(&mut self, bytes: u64, fill: impl FnOnce(&mut Vec<u8>)) -> Result<Span> {
        let most = self.most_staged();
        let uploads = &mut self.recorder.resources.uploads;
        let start = uploads.len();
        let end = start as u64 + bytes.next_multiple_of(4);
        if end > most {
            return Err(Error::too_large("bytes written by one batch", end, most));
        }
        Error::reserve(uploads, index(bytes) + 3)?;
        fill(uploads);
        uploads.resize(uploads.len().next_multiple_of(4), 0);
        Ok(Span::new(start..uploads.len()))
    }

    /// Maximum bytes that one batch writes or reads: all of them are staged in one buffer.
    fn most_staged(&self) -> u64 {
        MAX_DATA_BYTES.min(self.core.limits().buffer_bytes)
    }

    fn transfer(&mut self, kind: OpKind, accesses: &[Access], at: CallSite) {
        let op = self.op(kind, accesses);
        self.recorder.push(op, at);
    }

    fn op(&mut self, kind: OpKind, accesses: &[Access]) -> Op {
        let first = self.recorder.recording.accesses.len();
        accesses.iter().for_each(|access| self.recorder.access(*access));
        Op { kind, accesses: Span::new(first..first + accesses.len()) }
    }

    /// The slot range of a place in this batch; `None` if it has no bytes.
    #[inline]
    pub(super) fn slot_range(
        &mut self,
        what: &str,
        place: &BindTarget<'_>,
        needed: Usage,
    ) -> Result<Option<SlotRange>> {
        let bytes = place.elements.bytes()?;
        let slot = match place.of {
            TargetKind::Block { block, device } if device == self.core.id => match block {
                Some(block) if !bytes.is_empty() => {
                    if !block.allows(needed) {
                        return Err(unusable(what, needed));
                    }
                    self.recorder.slot(block)
                }
                _ => return Ok(None),
            },
            TargetKind::Block { .. } => return Err(foreign(&format!("{what}: the buffer"), "device")),
            TargetKind::Slot { batch, .. } if batch != self.batch => {
                return Err(late(what));
            }
            TargetKind::Slot { .. } if bytes.is_empty() => return Ok(None),
            TargetKind::Slot { index, .. } => SlotId(index),
        };
        Ok(Some(SlotRange { slot, start: bytes.start, end: bytes.end }))
    }
}

#[cold]
fn unusable(what: &str, needed: Usage) -> Error {
    Error::new(ErrorKind::Bindings, format!("{what}: the imported buffer was made without the usage {needed}"))
}

#[cold]
pub(super) fn foreign(what: &str, of: &str) -> Error {
    Error::new(ErrorKind::Bindings, format!("{what} belongs to another {of}"))
}

/// A slot of another batch, or of one that has been submitted.
#[cold]
fn late(what: &str) -> Error {
    let message = format!(
        "{what}: the slot or tensor belongs to another batch; it is valid until its batch is submitted: copy it into a \
         buffer there, and use the buffer here"
    );
    Error::new(ErrorKind::Bindings, message)
}

/// Whether a kernel may bind it: an imported buffer may lack the usage flag.
fn may_bind(place: &BindTarget<'_>) -> bool {
    match place.of {
        TargetKind::Block { block: Some(block), .. } => block.allows(Usage::Storage),
        TargetKind::Block { block: None, .. } | TargetKind::Slot { .. } => true,
    }
}

/// How often a value repeats until its end is word-aligned.
fn repeats(value: &[u8]) -> usize {
    match value.len() % 4 {
        0 => 1,
        2 => 2,
        _ => 4,
    }
}

fn span(start: u64, end: u64) -> Span {
    let narrow = |at: u64| usize::try_from(at).unwrap_or_else(|_| unreachable!("checked against MAX_DATA_BYTES"));
    Span::new(narrow(start)..narrow(end))
}
