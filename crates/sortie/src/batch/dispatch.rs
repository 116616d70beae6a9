//! Dispatches: bindings checked against the kernel's interface, grids folded, immediates kept.

use std::panic::Location;

use bytemuck::NoUninit;
use sortie_plan::{Access, Lane, Mode, Op, OpKind, Span};

use super::{
    Batch, Bind,
    bind::Of,
    grid::{self, Grid, Size},
    tape::Tape,
    transfer::{Spot, foreign},
};
use crate::{
    error::{Error, ErrorKind, Result},
    kernel::{Binding, BindingKind, GRID_BLOCK, Kernel, fold},
    memory::Use,
};

/// A dispatch just recorded, to be given immediates and a label. Dropping it changes nothing.
pub struct Dispatch<'a> {
    batch: &'a mut Batch,
    /// Its index in the recording.
    op: usize,
    /// Bytes of immediates it takes: with trailing padding, and without.
    takes: Option<(usize, usize)>,
}

impl Batch {
    /// Records a dispatch: `kernel` over `grid`, with `bindings` in the order of the kernel's `@group` and `@binding` numbers.
    ///
    /// What reads and what writes is read off the kernel, so that later ops wait for it exactly when they must.
    #[track_caller]
    pub fn dispatch(&mut self, kernel: &Kernel, bindings: &[&dyn Bind], grid: Grid<'_>) -> Dispatch<'_> {
        let at = Location::caller();
        let interface = kernel.interface();
        let takes = interface.immediates.as_ref().map(|own| (own.size as usize, own.end as usize));
        match self.try_dispatch(kernel, bindings, &grid, at) {
            Ok(op) => {
                if takes.is_some() {
                    let tape = self.tape();
                    tape.notes[op].owes = true;
                    tape.owed += 1;
                }
                Dispatch { batch: self, op, takes }
            }
            Err(error) => {
                let op = self.refuse(error, at);
                Dispatch { batch: self, op, takes: None }
            }
        }
    }

    #[inline]
    fn try_dispatch(
        &mut self,
        kernel: &Kernel,
        bindings: &[&dyn Bind],
        grid: &Grid<'_>,
        at: &'static Location<'static>,
    ) -> Result<usize> {
        if kernel.device_id() != self.shared.id() {
            return Err(foreign("the kernel", "device"));
        }
        let interface = kernel.interface();
        if bindings.len() != interface.bindings.len() {
            return Err(wrong_count(kernel, bindings.len()));
        }
        let first = self.tape().recording.accesses.len();
        // On a mistake, what was bound before it stays behind unused: the batch is refused anyway.
        self.bind_all(kernel, bindings, grid)?;
        let (groups, wrapped, indirect) = self.groups(kernel, grid)?;
        let tape = self.tape();
        let data = match &interface.immediates {
            None => Span::default(),
            Some(own) => {
                let start = tape.payload.immediates.len();
                tape.payload.immediates.resize(start + own.size as usize, 0);
                Span::new(start..start + own.size as usize)
            }
        };
        let op = Op {
            kind: OpKind::Dispatch,
            lane: Lane::Compute,
            kernel: tape.kernel(kernel),
            accesses: Span::new(first..tape.recording.accesses.len()),
            grid: groups,
            indirect,
            data,
            params: [kernel.hidden_immediates(), if wrapped { GRID_BLOCK as u32 } else { 0 }],
        };
        Ok(tape.push(op, at))
    }

    /// Records the accesses of all bindings and of an indirect grid.
    #[inline]
    fn bind_all(&mut self, kernel: &Kernel, bindings: &[&dyn Bind], grid: &Grid<'_>) -> Result<()> {
        let first = self.tape().recording.accesses.len();
        for (takes, bound) in kernel.interface().bindings.iter().zip(bindings) {
            let access = self.bind(takes, *bound)?;
            self.tape().access(access);
        }
        if let Size::Indirect(place) = &grid.0 {
            let spot = self.spot("the indirect grid", place, Use::Indirect)?;
            let spot = spot.filter(|spot| spot.end - spot.start >= 12).ok_or_else(|| {
                Error::new(ErrorKind::Grid, format!("an indirect grid needs 12 bytes (three u32), not {}", place.exact))
            })?;
            self.tape().access(Access { slot: spot.slot, mode: Mode::Read, start: spot.start, end: spot.start + 12 });
        }
        let accesses = &self.tape().recording.accesses[first..];
        match aliased(accesses) {
            None => Ok(()),
            Some((one, other)) => Err(aliasing(kernel, one, other)),
        }
    }

    #[inline]
    fn bind(&mut self, takes: &Binding, bound: &dyn Bind) -> Result<Access> {
        let place = bound.place();
        let (usage, mode) = match takes.kind {
            BindingKind::Storage { writes: false } => (Use::Storage, Mode::Read),
            BindingKind::Storage { writes: true } => (Use::Storage, Mode::ReadWrite),
            BindingKind::Uniform => (Use::Uniform, Mode::Read),
        };
        // The common case first, without building names for errors that do not happen.
        let fits = place.mistake.is_none() && self.fits(takes, &place.bytes, place.exact);
        if !fits {
            return Err(self.misfit(takes, &place));
        }
        let spot = self
            .spot("", &place, usage)
            .map_err(|error| Error::new(error.kind().clone(), format!("{}{error}", describe(takes))))?;
        let Some(Spot { slot, start, end }) = spot else { return Err(self.misfit(takes, &place)) };
        let end = match takes.kind {
            BindingKind::Storage { .. } => end,
            // Uniform bindings are short; only what the kernel declares is bound.
            BindingKind::Uniform => start + takes.min_bytes.next_multiple_of(4),
        };
        Ok(Access { slot, mode, start, end })
    }

    #[inline]
    fn fits(&self, takes: &Binding, bytes: &std::ops::Range<u64>, exact: u64) -> bool {
        let limits = self.shared.limits();
        let most = match takes.kind {
            BindingKind::Storage { .. } => exact <= limits.binding_bytes,
            BindingKind::Uniform => takes.min_bytes <= limits.uniform_bytes,
        };
        most && exact > 0
            && exact >= takes.min_bytes
            && exact % 4 == 0
            && takes.tail.as_ref().is_none_or(|tail| (exact - tail.offset) % tail.stride == 0)
            && bytes.start % u64::from(limits.slice_alignment) == 0
    }

    /// Why a place does not fit a binding.
    #[cold]
    fn misfit(&self, takes: &Binding, place: &super::Place<'_>) -> Error {
        let what = describe(takes);
        if let Some(mistake) = &place.mistake {
            return Error::new(mistake.kind().clone(), format!("{what}: {mistake}"));
        }
        let limits = self.shared.limits();
        let (exact, start) = (place.exact, place.bytes.start);
        let bindings = |message: String| Error::new(ErrorKind::Bindings, format!("{what}{message}"));
        match place.of {
            Of::Block { device, .. } if device != self.shared.id() => return foreign(&what, "device"),
            Of::Slot { batch, .. } if batch != self.id => return foreign(&what, "batch"),
            Of::Block { .. } | Of::Slot { .. } => {}
        }
        if exact == 0 {
            return bindings(" cannot be bound to a buffer of length 0".into());
        }
        if exact < takes.min_bytes {
            return bindings(format!(" takes at least {} bytes, not {exact}", takes.min_bytes));
        }
        if let Some(tail) = takes.tail.as_ref().filter(|tail| (exact - tail.offset) % tail.stride != 0) {
            let before = if tail.offset > 0 { format!(" after the first {}", tail.offset) } else { String::new() };
            return bindings(format!(
                " is an array with a stride of {} bytes{before}, and {exact} bytes are not a multiple",
                tail.stride
            ));
        }
        if exact % 4 != 0 {
            return bindings(format!(" is bound to {exact} bytes, which are not a multiple of 4"));
        }
        let align = u64::from(limits.slice_alignment);
        if start % align != 0 {
            return bindings(format!(
                " starts at byte {start}, but this device binds slices at multiples of {align} bytes"
            ));
        }
        match takes.kind {
            BindingKind::Storage { .. } => {
                Error::too_large(format!("{what}: bytes of one binding"), exact, limits.binding_bytes)
            }
            BindingKind::Uniform => {
                Error::too_large(format!("{what}: bytes of a uniform"), takes.min_bytes, limits.uniform_bytes)
            }
        }
    }

    /// (groups, whether they must be folded, whether they are on the device)
    #[inline]
    fn groups(&mut self, kernel: &Kernel, grid: &Grid<'_>) -> Result<([u32; 3], bool, bool)> {
        if let Size::Indirect(_) = grid.0 {
            return Ok(([0; 3], false, true));
        }
        let groups = grid::groups(&grid.0, kernel.workgroup_size())?;
        let most = self.shared.limits().groups;
        let direct = groups.map(|groups| u32::try_from(groups).ok().filter(|groups| *groups <= most));
        if let [Some(x), Some(y), Some(z)] = direct {
            return Ok(([x, y, z], false, false));
        }
        let total = groups.iter().fold(1_u64, |product, groups| product.saturating_mul(*groups));
        match (fold(groups, most), groups.map(u32::try_from)) {
            (Some(_), [Ok(x), Ok(y), Ok(z)]) => Ok(([x, y, z], true, false)),
            _ => Err(Error::too_large("groups in a grid", total, u64::from(u32::MAX))),
        }
    }
}

/// Two accesses of one dispatch that wgpu refuses: one buffer, at least one write, and not two writes to separate parts.
fn aliased(accesses: &[Access]) -> Option<(usize, usize)> {
    for (index, one) in accesses.iter().enumerate() {
        for (other_index, other) in accesses.iter().enumerate().skip(index + 1) {
            if one.slot != other.slot || (one.mode == Mode::Read && other.mode == Mode::Read) {
                continue;
            }
            let both_write = one.mode != Mode::Read && other.mode != Mode::Read;
            let apart = one.end <= other.start || other.end <= one.start;
            if !(both_write && apart) {
                return Some((index, other_index));
            }
        }
    }
    None
}

#[cold]
fn aliasing(kernel: &Kernel, one: usize, other: usize) -> Error {
    let name = |index: usize| kernel.interface().bindings.get(index).map_or("the indirect grid".into(), describe);
    let message = format!(
        "{} and {} are bound to one buffer and at least one of them writes it: a kernel cannot read and write one buffer through two bindings",
        name(one),
        name(other)
    );
    Error::new(ErrorKind::Bindings, message)
}

#[cold]
fn wrong_count(kernel: &Kernel, given: usize) -> Error {
    let bindings = &kernel.interface().bindings;
    let names: Vec<_> = bindings.iter().map(describe).collect();
    let takes = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    let message =
        format!("kernel {:?} takes {} bindings{takes}, but {given} were given", kernel.entry(), bindings.len());
    Error::new(ErrorKind::Bindings, message)
}

fn describe(binding: &Binding) -> String {
    format!("@group({}) @binding({}) `{}`", binding.group, binding.binding, binding.name)
}

/// Turns immediates that never came into mistakes.
pub(super) fn settle(tape: &mut Tape) {
    if tape.owed == 0 {
        return;
    }
    for op in 0..tape.notes.len() {
        if tape.notes[op].owes {
            let size = tape.recording.ops[op].data.len;
            let message = format!("the kernel takes {size} bytes of immediates, but none were given");
            tape.mistake(op, Error::new(ErrorKind::Bindings, message));
        }
    }
}

impl Dispatch<'_> {
    /// Gives the kernel's `var<immediate>` its value. Trailing padding may be left out.
    pub fn immediates<T: NoUninit>(self, value: &T) -> Self {
        let bytes = bytemuck::bytes_of(value);
        let tape = self.batch.tape();
        match self.takes {
            Some((size, end)) if bytes.len() == size || bytes.len() == end => {
                let start = tape.recording.ops[self.op].data.start as usize;
                tape.payload.immediates[start..start + bytes.len()].copy_from_slice(bytes);
                if std::mem::take(&mut tape.notes[self.op].owes) {
                    tape.owed -= 1;
                }
            }
            Some((size, _)) => {
                let message = format!("the kernel takes {size} bytes of immediates, but {} were given", bytes.len());
                tape.mistake(self.op, Error::new(ErrorKind::Bindings, message));
                if std::mem::take(&mut tape.notes[self.op].owes) {
                    tape.owed -= 1;
                }
            }
            // A refused dispatch has its mistake already.
            None if tape.refused(self.op) => {}
            None => {
                let message = format!("the kernel takes no immediates, but {} bytes were given", bytes.len());
                tape.mistake(self.op, Error::new(ErrorKind::Bindings, message));
            }
        }
        self
    }

    /// Names the dispatch in errors and profiles.
    pub fn label(self, label: &str) -> Self {
        self.batch.tape().label(self.op, label);
        self
    }
}

impl std::fmt::Debug for Dispatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatch").field("op", &self.op).finish_non_exhaustive()
    }
}
