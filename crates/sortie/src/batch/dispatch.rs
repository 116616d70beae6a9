//! Dispatches: bindings checked against the kernel's interface, grids folded, immediates kept.

use std::panic::Location;

use bytemuck::NoUninit;
use smallvec::SmallVec;
use sortie_plan::{Access, GRID_BLOCK, Mode, Op, OpGrid, OpKind, SlotId, Span, fold};

use super::{
    Batch, Bind, BindTarget, OpRecorder,
    bind::TargetKind,
    grid::{self, Grid, GridSize},
    sharing::{shares_memory, sharing},
    transfer::foreign,
};
use crate::{
    error::{CallSite, Error, ErrorKind, Result},
    info::Limits,
    kernel::{Binding, BindingKind, HostType, Interface, Kernel},
    memory::{ElementRange, Usage},
};

/// A recorded dispatch, to which immediates and a label can be added. Dropping it changes nothing.
///
/// ```
/// use sortie::Grid;
/// # let device = sortie::Device::cpu()?;
/// let scale = device.kernel("
///     var<immediate> by: f32;
///     @group(0) @binding(0) var<storage, read_write> x: array<f32>;
///     @compute @workgroup_size(64) fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
///         if id.x < arrayLength(&x) { x[id.x] *= by; }
///     }
/// ")?;
/// let x = device.upload(&[1.0_f32, 2.0, 3.0])?;
/// let batch = device.batch();
/// batch.dispatch(&scale, &[&x], Grid::items(3)).immediates(&10.0_f32).label("tenfold").flops(3);
/// batch.submit()?;
/// assert_eq!(x.download()?, [10.0, 20.0, 30.0]);
/// # Ok::<(), sortie::Error>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("Dispatch {{ op: {op}, .. }}")]
pub struct Dispatch<'a> {
    batch: &'a Batch,
    /// Its index in the recording.
    op: usize,
    /// Bytes of immediates it takes: with and without trailing padding. `Some((0, 0))`: none.
    takes: Option<(u32, u32)>,
}

impl Batch {
    /// Records a dispatch: `kernel` over `grid`, with `bindings` in the order of the kernel's `@group` and `@binding`
    /// numbers, or by name, in any order. Leave out bindings that the source declares but [the entry point does not
    /// use](Kernel#which-bindings-it-takes). A number as the grid is a number of items, as [`Grid::items`].
    ///
    /// The elements of a buffer fit those of the kernel's array: `f32` fits `array<f32>`, `[f32; 4]` fits
    /// `array<vec4<f32>>` and `array<vec3<f32>>` (WGSL pads a `vec3` to 16 bytes), a structure fits by its size. Other
    /// types are a mistake; [`Buffer::reinterpret`](crate::Buffer::reinterpret) views memory as another type. Bindings
    /// that are not arrays, or have members before the array, are checked by their length alone.
    ///
    /// ```
    /// # let device = sortie::Device::cpu()?;
    /// let add = device.kernel("
    ///     @group(0) @binding(0) var<storage, read> step: array<u32>;
    ///     @group(0) @binding(1) var<storage, read_write> total: array<u32>;
    ///     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    ///         if id.x < arrayLength(&total) { total[id.x] += step[id.x]; }
    ///     }
    /// ")?;
    /// let (step, total) = (device.upload(&[1_u32, 2, 3])?, device.zeros::<u32>(3)?);
    /// let batch = device.batch();
    /// batch.dispatch(&add, &[&step, &total], 3);
    /// batch.dispatch(&add, &[&("total", &total), &("step", &step)], 3);
    /// batch.submit()?;
    /// assert_eq!(total.download()?, [2, 4, 6]);
    ///
    /// let floats = device.zeros::<f32>(3)?;
    /// let batch = device.batch();
    /// batch.dispatch(&add, &[&step, &floats], 3);
    /// let error = batch.submit().unwrap_err().to_string();
    /// assert!(error.contains("`total` is an array that `u32` fits, not `f32`"), "{error}");
    /// # Ok::<(), sortie::Error>(())
    /// ```
    ///
    /// Reads and writes are derived from the kernel's source, so later ops wait for it only when they must.
    #[track_caller]
    pub fn dispatch<'g>(&self, kernel: &Kernel, bindings: &[&dyn Bind], grid: impl Into<Grid<'g>>) -> Dispatch<'_> {
        self.dispatch_at(kernel, bindings, &grid.into(), Location::caller())
    }

    fn dispatch_at(&self, kernel: &Kernel, bindings: &[&dyn Bind], grid: &Grid<'_>, at: CallSite) -> Dispatch<'_> {
        let mut recorder = self.op_recorder();
        match recorder.dispatch(kernel, bindings, grid, at) {
            Ok(op) => {
                let takes = kernel.interface().immediates.as_ref().map_or((0, 0), |own| (own.size, own.end));
                if takes.0 > 0 {
                    recorder.recorder.expect_immediates(op);
                }
                Dispatch { batch: self, op, takes: Some(takes) }
            }
            Err(error) => {
                let op = recorder.recorder.refuse(error, at);
                Dispatch { batch: self, op, takes: None }
            }
        }
    }
}

impl OpRecorder<'_> {
    #[inline]
    fn dispatch(&mut self, kernel: &Kernel, bindings: &[&dyn Bind], grid: &Grid<'_>, at: CallSite) -> Result<usize> {
        if kernel.device_id() != self.core.id {
            return Err(foreign("the kernel", "device"));
        }
        let interface = kernel.interface();
        if bindings.len() != interface.bindings.len() {
            return Err(wrong_count(kernel, bindings.len()));
        }
        let first = self.recorder.recording.accesses.len();
        let mut nothing = false;
        // After a mistake, earlier bindings stay behind unused: the batch is refused anyway.
        let mut all_taken = interface.bindings.iter();
        for bound in bindings {
            // Both lists are equally long. Stepping through one by hand is cheaper than `zip`, which multiplies.
            let Some(takes) = all_taken.next() else { break };
            let place = bound.place();
            if place.name.is_some() {
                return self.dispatch_by_name(kernel, bindings, grid, at);
            }
            if !self.bind(takes, &place) {
                self.unbound(takes, &place, grid)?;
                nothing = true;
            }
        }
        let limits = self.core.limits();
        let grid = match &grid.0 {
            GridSize::Indirect(place) => {
                self.indirect(place)?;
                OpGrid::Indirect
            }
            direct => groups(direct, kernel.workgroup_size(), limits.groups)?,
        };
        if let OpGrid::Wrapped { .. } = grid {
            kernel.check_hidden(limits)?;
            self.recorder.reserve_params(GRID_BLOCK, 1, limits)?;
        }
        let recorder = &mut *self.recorder;
        let form;
        let kernel = match shares_memory(&recorder.recording.accesses[first..]) {
            false => kernel,
            true => {
                form = sharing(kernel, bindings, &recorder.recording.accesses[first..])?;
                &form
            }
        };
        // With a binding missing, accesses and bindings would no longer correspond.
        let accesses = if nothing { Span::EMPTY } else { Span::new(first..recorder.recording.accesses.len()) };
        let immediates = match &interface.immediates {
            None => Span::EMPTY,
            Some(own) => {
                let start = recorder.resources.immediates.len();
                recorder.resources.immediates.resize(start + own.size as usize, 0);
                Span::new(start..start + own.size as usize)
            }
        };
        let hidden_immediates = kernel.hidden_immediates();
        if hidden_immediates > 0 {
            recorder.reserve_params(hidden_immediates.into(), 1, limits)?;
        }
        let kind = OpKind::Dispatch { kernel: recorder.kernel(kernel), grid, immediates, hidden_immediates };
        Ok(recorder.push(Op { kind, accesses }, at))
    }

    /// Records a dispatch with a binding that has a name. Then all must have names.
    #[cold]
    fn dispatch_by_name(
        &mut self,
        kernel: &Kernel,
        bindings: &[&dyn Bind],
        grid: &Grid<'_>,
        at: CallSite,
    ) -> Result<usize> {
        let ordered = by_name(kernel, bindings)?;
        let ordered: SmallVec<[&dyn Bind; 8]> = ordered.iter().map(|bound| bound as &dyn Bind).collect();
        self.dispatch(kernel, &ordered, grid, at)
    }

    /// Records the access of a binding, if the place fits it. `misfit` finds the reason why it does not.
    #[inline]
    fn bind(&mut self, takes: &Binding, place: &BindTarget<'_>) -> bool {
        let Some((start, bytes)) = fitting(self.core.limits(), takes, place) else { return false };
        let Some(slot) = self.slot(place.of, takes) else { return false };
        let mode = match takes.kind {
            BindingKind::Storage { writes: true } => Mode::ReadWrite,
            BindingKind::Storage { writes: false } | BindingKind::Uniform => Mode::Read,
        };
        self.recorder.access(Access { slot, mode, start, end: start + bytes });
        true
    }

    /// A grid of zero touches no memory, so empty bindings are allowed. All other mistakes still count.
    #[cold]
    fn unbound(&mut self, takes: &Binding, place: &BindTarget<'_>, grid: &Grid<'_>) -> Result<()> {
        if grid.is_zero() && self.is_empty(place) { Ok(()) } else { Err(self.misfit(takes, place)) }
    }

    /// The slot of a place, if it belongs to this batch and allows the binding's usage.
    #[inline]
    fn slot(&mut self, of: TargetKind<'_>, takes: &Binding) -> Option<SlotId> {
        match of {
            TargetKind::Block { block: Some(block), device } if device == self.core.id => {
                block.allows(needed(takes)).then(|| self.recorder.slot(block))
            }
            TargetKind::Slot { batch, index } if batch == self.batch => Some(SlotId(index)),
            TargetKind::Block { .. } | TargetKind::Slot { .. } => None,
        }
    }

    /// Whether a place is valid and has no elements.
    fn is_empty(&mut self, place: &BindTarget<'_>) -> bool {
        place.elements.exact() == 0 && matches!(self.slot_range("", place, Usage::Storage), Ok(None))
    }

    fn indirect(&mut self, place: &BindTarget<'_>) -> Result<()> {
        let slot_range = self.slot_range("the indirect grid", place, Usage::Indirect)?;
        let slot_range = slot_range.filter(|slot_range| slot_range.end - slot_range.start >= 12).ok_or_else(|| {
            Error::new(
                ErrorKind::Grid,
                format!("an indirect grid needs 12 bytes (three u32), not {}", place.elements.exact()),
            )
        })?;
        self.recorder.access(Access {
            slot: slot_range.slot,
            mode: Mode::Read,
            start: slot_range.start,
            end: slot_range.start + 12,
        });
        Ok(())
    }

    /// Why a place does not fit a binding.
    #[cold]
    fn misfit(&mut self, takes: &Binding, place: &BindTarget<'_>) -> Error {
        let limits = *self.core.limits();
        let what = describe(takes);
        let bindings = |message: String| Error::new(ErrorKind::Bindings, format!("{what}{message}"));
        let exact = place.elements.exact();
        if !place.elements.fits()
            && let Err(mistake) = place.elements.bytes()
        {
            return Error::new(mistake.kind(), format!("{what}: {mistake}"));
        }
        if let Err(error) = self.slot_range(&what, place, needed(takes)) {
            return error;
        }
        if exact == 0 {
            return bindings(" cannot be bound to a buffer of length 0".into());
        }
        if let Some(array) = &takes.array
            && !array.takes(place.elements.size, place.numbers)
        {
            let given = HostType(place.numbers, place.elements.size);
            return bindings(format!(
                " is an array that {array} fits, not {given}; `reinterpret` views memory as another type"
            ));
        }
        if exact < takes.min_bytes {
            return bindings(format!(" takes at least {} bytes, not {exact}", takes.min_bytes));
        }
        if !exact.is_multiple_of(4) && !may_end_anywhere(takes) {
            return bindings(format!(" is bound to {exact} bytes, which are not a multiple of 4"));
        }
        let (start, align) = (place.elements.offset(), u64::from(limits.slice_alignment));
        if !start.is_multiple_of(align) {
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
}

fn needed(takes: &Binding) -> Usage {
    match takes.kind {
        BindingKind::Storage { .. } => Usage::Storage,
        BindingKind::Uniform => Usage::Uniform,
    }
}

/// Whether a binding ends with an array whose elements are whole words. As in WebGPU, bytes after the last whole
/// element are ignored.
#[inline]
fn may_end_anywhere(takes: &Binding) -> bool {
    takes.tail.as_ref().is_some_and(|tail| tail.stride & 3 == 0)
}

/// The first byte that a binding takes of a place and their number, if length, offset and type suit it. Alignments are
/// powers of two, so no division is needed.
#[inline]
fn fitting(limits: &Limits, takes: &Binding, place: &BindTarget<'_>) -> Option<(u64, u64)> {
    let ElementRange { start, end, len, size } = place.elements;
    // Bytes that exist do not overflow. Those of a slot that was refused may, in a batch that does not run.
    let bytes = |elements: usize| (elements as u64).wrapping_mul(size as u64);
    let (offset, exact) = (bytes(start), bytes(end.wrapping_sub(start)));
    let (bytes, most) = match takes.kind {
        // Without a partial word at its end.
        BindingKind::Storage { .. } => (exact & !3, limits.binding_bytes),
        // Uniform bindings are short: only the declared size is bound.
        BindingKind::Uniform => (takes.min_bytes.next_multiple_of(4), limits.uniform_bytes),
    };
    let inside = start < end && end <= len && exact >= takes.min_bytes && bytes <= most;
    let aligned = offset & (u64::from(limits.slice_alignment) - 1) == 0;
    let whole = exact & 3 == 0 || may_end_anywhere(takes);
    let typed = takes.array.as_ref().is_none_or(|array| array.takes(size, place.numbers));
    (inside && aligned && whole && typed).then_some((offset, bytes))
}

/// The groups of a direct grid, to be folded if they exceed the device's limit.
#[inline]
fn groups(size: &GridSize<'_>, workgroup: [u32; 3], most: u32) -> Result<OpGrid> {
    // Most grids: nothing to fold, and far from the largest ids.
    if let Some(groups) = grid::small(size, workgroup, most) {
        return Ok(OpGrid::Direct(groups));
    }
    let groups = grid::groups(size, workgroup)?;
    let narrow = groups.map(|groups| u32::try_from(groups).ok());
    match narrow {
        [Some(x), Some(y), Some(z)] if x <= most && y <= most && z <= most => Ok(OpGrid::Direct([x, y, z])),
        [Some(x), Some(y), Some(z)] if fold(groups, most).is_some() => {
            Ok(OpGrid::Wrapped { groups: [x, y, z], share: Span::EMPTY })
        }
        _ => {
            let total = groups.iter().fold(1_u64, |product, groups| product.saturating_mul(*groups));
            let limit = u64::from(most).saturating_pow(3).min(u64::from(u32::MAX));
            Err(Error::too_large("groups in a grid", total, limit))
        }
    }
}

#[cold]
fn mixed() -> Error {
    let message = "some bindings have names and others do not: give all of them names, or none";
    Error::new(ErrorKind::Bindings, message)
}

/// The bindings in the kernel's order, found by their names.
#[cold]
fn by_name<'a>(kernel: &Kernel, bindings: &[&'a dyn Bind]) -> Result<SmallVec<[Nameless<'a>; 8]>> {
    let interface = kernel.interface();
    let wrong = |message: String| Error::new(ErrorKind::Bindings, message);
    let names =
        || interface.bindings.iter().map(|binding| format!("`{}`", binding.name)).collect::<Vec<_>>().join(", ");
    for (at, bound) in bindings.iter().enumerate() {
        let Some(name) = bound.place().name else { return Err(mixed()) };
        if !interface.bindings.iter().any(|binding| binding.name == name) {
            return Err(wrong(format!("kernel {:?} has no binding `{name}`; it has {}", interface.entry, names())));
        }
        if bindings[..at].iter().any(|other| other.place().name == Some(name)) {
            return Err(wrong(format!("the binding `{name}` is given twice")));
        }
    }
    // As many different names as there are bindings, all of them known.
    let named = |takes: &Binding| bindings.iter().find(|bound| bound.place().name == Some(takes.name.as_str()));
    Ok(interface.bindings.iter().filter_map(named).map(|bound| Nameless(*bound)).collect())
}

/// A binding whose name has been used.
struct Nameless<'a>(&'a dyn Bind);

impl Bind for Nameless<'_> {
    fn place(&self) -> BindTarget<'_> {
        BindTarget { name: None, ..self.0.place() }
    }
}

#[cold]
fn wrong_count(kernel: &Kernel, given: usize) -> Error {
    let Interface { entry, bindings, unused, .. } = kernel.interface();
    let names: Vec<_> = bindings.iter().map(describe).collect();
    let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    let takes = format!("{} binding{}{names}", bindings.len(), if bindings.len() == 1 { "" } else { "s" });
    let unused: Vec<_> = unused.iter().map(|name| format!("`{name}`")).collect();
    let unused = if unused.is_empty() { String::new() } else { format!("; it does not use {}", unused.join(", ")) };
    Error::new(ErrorKind::Bindings, format!("kernel {entry:?} takes {takes}, not {given}{unused}"))
}

pub(super) fn describe(binding: &Binding) -> String {
    format!("@group({}) @binding({}) `{}`", binding.group, binding.binding, binding.name)
}

impl Dispatch<'_> {
    /// Sets the value of the kernel's `var<immediate>`. Trailing padding may be omitted.
    pub fn immediates<T: NoUninit>(self, value: &T) -> Self {
        self.raw_immediates(bytemuck::bytes_of(value))
    }

    /// As [`Dispatch::immediates`], for raw bytes.
    pub fn raw_immediates(self, bytes: &[u8]) -> Self {
        // A refused dispatch already has its mistake.
        let Some((size, end)) = self.takes else { return self };
        let mut batch_recorder = self.batch.recorder();
        let recorder = &mut *batch_recorder;
        recorder.got_immediates(self.op);
        if size > 0 && (bytes.len() == size as usize || bytes.len() == end as usize) {
            let start = recorder.recording.ops[self.op].immediates().start as usize;
            recorder.resources.immediates[start..start + bytes.len()].copy_from_slice(bytes);
        } else {
            let uses = if size > 0 { format!("takes {size} bytes of") } else { "uses no".into() };
            let message = format!("the kernel {uses} immediates, but {} bytes were given", bytes.len());
            recorder.mistake(self.op, Error::new(ErrorKind::Bindings, message));
        }
        drop(batch_recorder);
        self
    }

    /// Declares its floating-point operations, for the GFLOP/s of a [profile](crate::profile::Profile). They cannot be derived
    /// from WGSL.
    pub fn flops(self, flops: u64) -> Self {
        self.batch.recorder().resources.names.set_flops(self.op, flops);
        self
    }

    /// Names the dispatch in errors and profiles.
    pub fn label(self, label: &str) -> Self {
        self.batch.recorder().resources.names.label(self.op, label);
        self
    }
}
