//! A dispatch: rectangles of lanes, one after the other or spread over threads.
//!
//! On one thread all memory is plain. On several threads, a buffer of which every invocation accesses only its own
//! element is divided into slices, one for each range of rectangles; every other buffer that is written is accessed by
//! relaxed atomics.
//!
//! Workgroups that may wait for each other start in the order of their numbers: each thread takes the next when it has
//! finished its own, and runs it at once. So a workgroup only waits for workgroups that have started, and no thread
//! waits for a later workgroup.

mod atomic;
mod check;
mod frame;
mod memory;
mod pack;
mod straight;
mod subgroup;
mod view;
mod walk;
mod wide;

use std::{
    cell::Cell,
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use smallvec::SmallVec;
use zerocopy::{FromBytes, IntoBytes};

use self::{check::Checker, frame::Frame, straight::RectangleState, view::View, walk::Walker};
use crate::{
    BoundMemory, Halted, Stop, Threads,
    compiled::{Compiled, ElementOwnership},
    geometry::{Mode, RectangleLayout},
    simd::Simd,
};

/// Loop iterations between two checks of [`Stop`].
const CHECK_INTERVAL: u32 = 64;

/// Loop iterations between two attempts to pack lanes.
const PACK_INTERVAL: u32 = 8;

/// Dispatches with at least this much work (blocks times instructions) wake other threads: about 20 µs.
const MIN_SHARED_WORK: u64 = 6_000;

/// Bytes of registers per rectangle: they should stay in the first-level cache.
const MAX_REGISTER_BYTES: u32 = 24 << 10;

type Views<'a> = SmallVec<[View<'a>; 8]>;

/// Arguments of one dispatch.
#[derive(Debug)]
pub struct DispatchArgs<'a, 'b> {
    /// Workgroups in each dimension; there is no limit.
    pub groups: [u32; 3],
    /// Memory for each of [`Program::bindings`](crate::Program::bindings).
    pub bound: &'b mut [BoundMemory<'a>],
    /// The words of its `var<immediate>`.
    pub immediates: &'b [u32],
}

/// Optional checks of [`Program::check`](crate::Program::check). Conflicting access, divergent barriers and
/// out-of-bounds access are always reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Report reads of workgroup memory that no invocation has written. WGSL allows them: workgroup memory starts as
    /// zeros.
    pub unwritten: bool,
}

/// A mistake found by [`Program::check`](crate::Program::check).
#[derive(Clone, Debug)]
pub struct RaceReport {
    /// Description, with the invocations involved.
    pub message: String,
    /// Location in the source.
    pub span: naga::Span,
}

pub(crate) fn run(code: &Compiled, run: DispatchArgs<'_, '_>, threads: &Threads, stop: Stop<'_>) -> Result<(), Halted> {
    stop.check()?;
    let DispatchArgs { groups, bound, immediates } = run;
    if groups.contains(&0) {
        return Ok(());
    }
    let lanes = lanes(code);
    let [width, height] = code.geometry.extent();
    let invocations = u128::from(width * height) * groups.iter().map(|count| u128::from(*count)).product::<u128>();
    let work = u64::try_from(invocations / 16 * u128::from(code.weight) + u128::from(code.weight)).unwrap_or(u64::MAX);
    // Atomics of two words are not atomic between threads.
    let pool = threads.pool().filter(|_| work >= MIN_SHARED_WORK && !code.wide_atomics);
    let Some(pool) = pool else {
        let layout = code.geometry.layout(groups, lanes);
        let views: Views<'_> = bound.iter_mut().map(alone).collect();
        let sets = Rectangles { code, layout, groups, immediates, stop, check: None, yields: false };
        return sets.run(&views, 0..layout_sets(&layout));
    };
    // Enough rectangles to keep all threads busy, each large enough to be worth a thread.
    let share = u32::try_from(invocations / (threads.count() as u128 * 4)).unwrap_or(u32::MAX);
    let layout = code.geometry.layout(groups, lanes.min(share.max(256)));
    let in_order = code.geometry.alone;
    let sets = Rectangles { code, layout, groups, immediates, stop, check: None, yields: in_order };
    let total = layout_sets(&layout);
    // In order, a part holds only a thread's views: rectangles are assigned as threads take them.
    let chunks = total.min(threads.count() as u64 * if in_order { 1 } else { 4 });
    if chunks < 2 {
        let views: Views<'_> = bound.iter_mut().map(alone).collect();
        return sets.run(&views, 0..total);
    }

    let in_line = layout.rows == 1 && matches!(code.geometry.mode, Mode::Columns { .. }) && groups[1..] == [1, 1];
    let mut parts: Vec<(std::ops::Range<u64>, SmallVec<[ThreadPart<'_>; 8]>)> =
        (0..chunks).map(|chunk| (total * chunk / chunks..total * (chunk + 1) / chunks, SmallVec::new())).collect();
    for (slot, (bound, owned)) in bound.iter_mut().zip(&code.owned).enumerate() {
        // Two threads must not share a word: with half words, pieces have to have an even number of them.
        let cuts_words =
            matches!(owned, ElementOwnership::Elements { stride, half: true } if layout.width % 2 * (stride % 2) != 0);
        let own = if in_line && !cuts_words { *owned } else { ElementOwnership::No };
        match (bound, own, code.written[slot]) {
            (BoundMemory::Read(words), ..) => parts.iter_mut().for_each(|(_, part)| part.push(ThreadPart::Read(words))),
            (BoundMemory::Shared(words), ..) => {
                parts.iter_mut().for_each(|(_, part)| part.push(ThreadPart::Shared(words)));
            }
            // Plain loads, which atomics would prevent from becoming SIMD.
            (BoundMemory::Write(words), _, false) => {
                let words: &[u32] = words;
                parts.iter_mut().for_each(|(_, part)| part.push(ThreadPart::Read(words)));
            }
            (BoundMemory::Write(words), ElementOwnership::Elements { stride, half }, true) => {
                let total = u32::try_from(words.len()).unwrap_or(u32::MAX);
                let mut rest: &mut [u32] = words;
                let mut start = 0_usize;
                for (sets, part) in &mut parts {
                    let lanes = sets.end * u64::from(layout.width);
                    let end = lanes * u64::from(stride) / if half { 2 } else { 1 };
                    let len = usize::try_from(end).unwrap_or(usize::MAX).saturating_sub(start).min(rest.len());
                    let (mine, others) = std::mem::take(&mut rest).split_at_mut(len);
                    part.push(ThreadPart::Own { words: mine, start: u32::try_from(start).unwrap_or(u32::MAX), total });
                    rest = others;
                    start += len;
                }
            }
            (BoundMemory::Write(words), ElementOwnership::No | ElementOwnership::Unused, true) => {
                let words = share_words(words);
                parts.iter_mut().for_each(|(_, part)| part.push(ThreadPart::Shared(words)));
            }
        }
    }
    let parts: Vec<_> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
    let next = AtomicU64::new(0);
    let started = AtomicU64::new(0);
    let start_next = || Some(started.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < total);
    let halted = Mutex::new(None);
    let worker = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = usize::try_from(number).ok().and_then(|number| parts.get(number)) else { return };
            let Some((range, mut part)) = part.lock().ok().and_then(|mut part| part.take()) else { return };
            let views: Views<'_> = part.iter_mut().map(ThreadPart::view).collect();
            let ran = match in_order {
                true => sets.run(&views, std::iter::from_fn(start_next)),
                false => sets.run(&views, range),
            };
            if let Err(halt) = ran {
                if let Ok(mut halted) = halted.lock() {
                    *halted = Some(halt);
                }
                return;
            }
        }
    };
    Threads::share(pool, threads.count().min(parts.len()), worker);
    match halted.into_inner() {
        Ok(None) => Ok(()),
        Ok(Some(halt)) => Err(halt),
        Err(_) => unreachable!("nothing panics while it is held"),
    }
}

/// Runs with all checks, one workgroup at a time.
pub(crate) fn check(
    code: &Compiled,
    run: DispatchArgs<'_, '_>,
    checks: Checks,
    stop: Stop<'_>,
) -> Result<Vec<RaceReport>, Halted> {
    let DispatchArgs { groups, bound, immediates } = run;
    if groups.contains(&0) {
        return Ok(Vec::new());
    }
    let layout = code.geometry.layout(groups, 1);
    let views: Views<'_> = bound.iter_mut().map(alone).collect();
    let checker = Checker::new(code, checks);
    let sets = Rectangles { code, layout, groups, immediates, stop, check: Some(&checker), yields: false };
    sets.run(&views, 0..layout_sets(&layout))?;
    Ok(checker.findings())
}

/// The number of lanes of a rectangle.
fn lanes(code: &Compiled) -> u32 {
    let words: u32 = code.file.locals.iter().map(|local| local.words).sum();
    let wide = code.file.sizes[3].saturating_sub(words).max(1) * 4;
    // Long arrays are touched sparsely: they need not all be in the cache.
    // Packed lanes use less of it over time.
    let cache = if code.packs { 4 * MAX_REGISTER_BYTES } else { MAX_REGISTER_BYTES };
    let lanes = (cache / wide).min((4 << 20) / (words.max(1) * 4));
    lanes.clamp(64, 4096)
}

fn layout_sets(layout: &RectangleLayout) -> u64 {
    // Three axes of 2³² each overflow, and would run forever.
    layout.sets.iter().fold(1, |product: u64, count| product.saturating_mul(u64::from(*count)))
}

/// A buffer on one thread.
fn alone<'v>(bound: &'v mut BoundMemory<'_>) -> View<'v> {
    match bound {
        BoundMemory::Read(words) => View::Read(words),
        BoundMemory::Shared(words) => View::Shared(words),
        BoundMemory::Write(words) => {
            let total = u32::try_from(words.len()).unwrap_or(u32::MAX);
            View::Own { words: Cell::from_mut(&mut **words).as_slice_of_cells(), start: 0, total }
        }
    }
}

/// A buffer on several threads.
fn share_words(words: &mut [u32]) -> &[AtomicU32] {
    match <[AtomicU32]>::mut_from_bytes(words.as_mut_bytes()) {
        Ok(words) => words,
        Err(_) => unreachable!("same size and alignment"),
    }
}

/// A thread's part of a buffer.
enum ThreadPart<'v> {
    Read(&'v [u32]),
    Own { words: &'v mut [u32], start: u32, total: u32 },
    Shared(&'v [AtomicU32]),
}

impl ThreadPart<'_> {
    fn view(&mut self) -> View<'_> {
        match self {
            Self::Read(words) => View::Read(words),
            Self::Shared(words) => View::Shared(words),
            Self::Own { words, start, total } => {
                View::Own { words: Cell::from_mut(&mut **words).as_slice_of_cells(), start: *start, total: *total }
            }
        }
    }
}

/// The rectangles of a dispatch.
#[derive(Clone, Copy)]
struct Rectangles<'a> {
    code: &'a Compiled,
    layout: RectangleLayout,
    groups: [u32; 3],
    immediates: &'a [u32],
    stop: Stop<'a>,
    check: Option<&'a Checker>,
    /// A loop may wait for another thread, so yield now and then.
    yields: bool,
}

impl Rectangles<'_> {
    fn run(&self, views: &[View<'_>], numbers: impl Iterator<Item = u64>) -> Result<(), Halted> {
        let code = self.code;
        let counts: SmallVec<[u32; 8]> = code
            .counts
            .iter()
            .map(|count| {
                let bytes = u64::from(views[count.slot as usize].len()) * 4;
                let elements = bytes.saturating_sub(u64::from(count.offset)) / u64::from(count.stride.max(1));
                u32::try_from(elements).unwrap_or(u32::MAX)
            })
            .collect();
        let simd = Simd::new();
        let mut frame = Frame::take(self.code, &self.layout);
        let mut result = Ok(());
        for (ran, number) in numbers.enumerate() {
            let Some(set) = code.geometry.set(&self.layout, self.groups, number) else { break };
            if ran % 64 == 63 {
                result = self.stop.check();
                if result.is_err() {
                    break;
                }
            }
            frame.start(code, &set, self.groups);
            if let Some(check) = self.check {
                check.workgroup();
            }
            let rectangle = RectangleState {
                code,
                file: Cell::from_mut(&mut frame.blocks[..]).as_slice_of_cells(),
                places: &frame.places,
                locals: &frame.locals,
                full: &frame.full,
                each_row: &frame.each_row,
                views,
                counts: &counts,
                immediates: self.immediates,
                workgroup: Cell::from_mut(&mut frame.workgroup[..]).as_slice_of_cells(),
                width: set.width,
                columns: frame.columns,
                rows: frame.rows,
                check: self.check,
            };
            let walk = Walker {
                rectangle: &rectangle,
                summaries: &mut frame.summaries,
                simd,
                stop: self.stop,
                until_check: CHECK_INTERVAL,
                yields: self.yields,
                packed: false,
            };
            result = walk.run();
            if result.is_err() {
                break;
            }
        }
        frame.give_back();
        result
    }
}
