//! Loads and stores.

use std::cell::Cell;

use super::{
    straight::Lanes,
    view::{View, Word, Words},
};
use crate::{
    code::{Access, Atomic, Limit, Reg, Root},
    geometry::Mode,
    lanes::{BLOCK, Block, BlockLayout, BlockRange, First},
    shape::Shape,
};

/// An index that is out of bounds whatever the limit.
const OUT_OF_BOUNDS: u32 = u32::MAX;

/// The indices and bases of one block of lanes.
pub(super) struct Indices {
    /// The sum of the folded indices, per lane.
    base: Option<[u32; BLOCK]>,
    index: Index,
}

enum Index {
    /// No index: all lanes access the same element.
    None,
    /// Grows by the same step from lane to lane.
    Linear(u32, u32),
    Each([u32; BLOCK]),
}

impl Index {
    #[inline(always)]
    fn of(&self, lane: usize) -> u32 {
        match self {
            Self::None => 0,
            Self::Linear(first, step) => first.wrapping_add(step.wrapping_mul(lane as u32)),
            Self::Each(all) => all[lane],
        }
    }
}

/// Bounds of an access, the same for all lanes.
pub(super) struct Bounds {
    limit: u32,
    stride: u32,
    offset: u32,
}

impl Lanes<'_, '_> {
    pub(super) fn bounds(&self, access: &Access) -> Bounds {
        let term = access.address.terms.first();
        let limit = self.limit(term.map_or(Limit::None, |term| term.limit));
        Bounds { limit, stride: term.map_or(0, |term| term.stride), offset: access.address.offset }
    }

    #[inline(always)]
    pub(super) fn indices(&self, access: &Access, y: u32, x: u32) -> Indices {
        let block = |place: BlockLayout| self.file[place.at(y, x)].get().0;
        let index = match (access.address.terms.first(), access.address.linear.filter(|_| !self.packed)) {
            (None, _) => Index::None,
            (Some(term), Some(step)) => {
                // From this block: blocks without an active lane are not computed.
                Index::Linear(self.file[self.place(term.index).at(y, x)].first(), step)
            }
            (Some(term), None) => Index::Each(block(self.place(term.index))),
        };
        Indices { base: access.address.base.map(|base| block(self.place(base))), index }
    }

    /// The participating lanes, one bit each.
    #[inline(always)]
    pub(super) fn active(&self, access: &Access, y: u32, x: u32) -> u32 {
        self.active_lanes(access.mask, x, y)
    }

    /// The lanes of a block that exist and that a mask selects, one bit each.
    #[inline(always)]
    pub(super) fn active_lanes(&self, mask: Option<Reg>, x: u32, y: u32) -> u32 {
        let left = self.width.saturating_sub(x * BLOCK as u32).min(BLOCK as u32);
        let exist = if self.packed { 0xffff } else { ((1_u64 << left) - 1) as u32 };
        match mask.filter(|_| !self.summary.all) {
            Some(mask) => exist & self.file[self.place(mask).at(y, x)].get().bits(),
            None => exist,
        }
    }

    /// Blocks of a result of this shape.
    #[inline(always)]
    fn blocks_of(&self, shape: Shape) -> &[BlockRange] {
        match shape {
            Shape::LANE => &self.summary.grid,
            Shape::COLUMN => &self.full[1],
            Shape::ROW => self.each_row,
            _ => &self.full[0],
        }
    }

    /// Performs an action on the memory of a root.
    #[inline(always)]
    pub(super) fn with_memory(&self, root: Root, action: Action<'_>) {
        match root {
            Root::Buffer(slot) => match self.views[slot as usize] {
                View::Read(words) => self.act(action, Words { words, start: 0 }),
                View::Own { words, start, .. } => self.act(action, Words { words, start: start as usize }),
                View::Shared(words) => self.act(action, Words { words, start: 0 }),
            },
            Root::Immediate => self.act(action, Words { words: self.immediates, start: 0 }),
            Root::Workgroup => self.act(action, Words { words: self.workgroup, start: 0 }),
            Root::Local(_) => unreachable!("local arrays are registers"),
        }
    }

    #[inline(always)]
    fn act<W: Word>(&self, action: Action<'_>, words: Words<'_, W>) {
        match action {
            Action::Load(access) => self.load_words(access, words),
            Action::Store(access) => self.store_words(access, words),
            Action::Update(atomic) => self.atomic_words(atomic, words),
        }
    }

    /// Where the workgroup memory of a row starts.
    #[inline(always)]
    pub(super) fn row_offset(&self, root: Root, y: u32) -> u32 {
        match (root, self.code.geometry.mode) {
            (Root::Workgroup, Mode::Groups { .. }) => y * self.code.workgroup_words,
            _ => 0,
        }
    }

    #[inline(always)]
    pub(super) fn load(&self, access: &Access) {
        if let Root::Local(local) = access.address.root {
            return self.load_local(access, local);
        }
        self.with_memory(access.address.root, Action::Load(access));
    }

    #[inline(always)]
    fn load_words<W: Word>(&self, access: &Access, words: Words<'_, W>) {
        let bounds = self.bounds(access);
        let root = access.address.root;
        if !access.shape.has_x() {
            let rows = if access.shape.is_uniform() { 1 } else { self.rows };
            return self.load_rows(access, words, &bounds, rows);
        }
        for range in self.blocks_of(access.shape) {
            let row = self.row_offset(root, range.y);
            if self.load_range(access, words, &bounds, row, *range) {
                continue;
            }
            for x in range.x..range.x + range.len {
                let indices = self.indices(access, range.y, x);
                self.load_block(access, words, &bounds, &indices, row, range.y, x);
            }
        }
    }

    /// The address of the first element of a range of blocks, if its elements are adjacent words and all in bounds.
    #[inline(always)]
    fn run_of_words(&self, access: &Access, bounds: &Bounds, row: u32, range: BlockRange) -> Option<usize> {
        if self.packed
            || access.address.linear != Some(1)
            || bounds.stride != 1
            || access.address.half
            || access.parts.len() != 1
        {
            return None;
        }
        let start = |reg| self.file[self.place(reg).at(range.y, range.x)].first();
        let first = start(access.address.terms[0].index);
        // Linear in the index, so everything else is the same along the row.
        let base = match access.address.base {
            Some(base) if self.place(base).across != 0 => return None,
            base => base.map_or(0, start),
        };
        let end = u64::from(first) + u64::from(range.len) * BLOCK as u64;
        let at = u64::from(first) + u64::from(base) + u64::from(bounds.offset) + u64::from(row);
        (base != OUT_OF_BOUNDS && end <= u64::from(bounds.limit))
            .then_some(at as usize + access.parts[0].offset as usize)
    }

    #[inline(always)]
    fn load_range<W: Word>(
        &self,
        access: &Access,
        words: Words<'_, W>,
        bounds: &Bounds,
        row: u32,
        range: BlockRange,
    ) -> bool {
        let Some(mut at) = self.run_of_words(access, bounds, row, range) else { return false };
        let to = self.place(access.parts[0].reg).at(range.y, range.x);
        for block in &self.file[to..to + range.len as usize] {
            let Some(values) = words.array::<BLOCK>(at) else { return false };
            block.set(Block(values));
            at += BLOCK;
        }
        true
    }

    /// Stores the leading blocks of a range whose lanes are all active. Returns how many.
    #[inline(always)]
    fn store_range<W: Word>(
        &self,
        access: &Access,
        words: Words<'_, W>,
        bounds: &Bounds,
        row: u32,
        range: BlockRange,
    ) -> u32 {
        if !(self.summary.all || access.mask.is_none()) {
            return 0;
        }
        let whole = (self.width / BLOCK as u32).saturating_sub(range.x).min(range.len);
        let range = BlockRange { len: whole, ..range };
        let Some(mut at) = self.run_of_words(access, bounds, row, range) else { return 0 };
        let place = self.place(access.parts[0].reg);
        for x in 0..whole {
            let values = self.file[place.at(range.y, range.x + x)].get();
            if !words.put_array(at, &values.0) {
                return x;
            }
            at += BLOCK;
        }
        whole
    }

    /// The parts of the address that are the same for all lanes of a row, or for all lanes.
    #[inline(always)]
    fn load_rows<W: Word>(&self, access: &Access, words: Words<'_, W>, bounds: &Bounds, rows: u32) {
        let index = access.address.terms.first().map(|term| self.place(term.index));
        let base = access.address.base.map(|base| self.place(base));
        let first = |place: Option<BlockLayout>, y: u32| match place {
            Some(place) => self.file[(place.base + y * place.down) as usize].first(),
            None => 0,
        };
        let (half, root) = (access.address.half, access.address.root);
        if let ([part], false) = (access.parts.as_slice(), half) {
            let to = self.place(part.reg);
            let offset = u64::from(bounds.offset) + u64::from(part.offset);
            for y in 0..rows {
                let (index, base) = (first(index, y), first(base, y));
                let at = u64::from(index) * u64::from(bounds.stride)
                    + u64::from(base)
                    + offset
                    + u64::from(self.row_offset(root, y));
                let fits = (index < bounds.limit) & (base != OUT_OF_BOUNDS);
                let value = if fits { words.get(at as usize).unwrap_or(0) } else { 0 };
                self.file[(to.base + y * to.down) as usize].set(Block::splat(value));
            }
            return;
        }
        for y in 0..rows {
            let address = place_of(bounds, first(index, y), first(base, y), self.row_offset(root, y));
            for part in &access.parts {
                let value = address.and_then(|at| fetch(words, half, at + part.offset as usize)).unwrap_or(0);
                self.file[self.place(part.reg).at(y, 0)].set(Block::splat(value));
            }
        }
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "all of one indices")]
    fn load_block<W: Word>(
        &self,
        access: &Access,
        words: Words<'_, W>,
        bounds: &Bounds,
        indices: &Indices,
        row: u32,
        y: u32,
        x: u32,
    ) {
        if let (Some(first), [part]) =
            (contiguous(bounds, indices, access.address.half, 1, row), access.parts.as_slice())
            && let Some(values) = words.array::<BLOCK>(first + part.offset as usize)
        {
            self.file[self.place(part.reg).at(y, x)].set(Block(values));
            return;
        }
        if consecutive(access) {
            let done = match access.parts.len() {
                2 => self.load_records::<W, 2, 32>(access, words, contiguous(bounds, indices, false, 2, row), y, x),
                3 => self.load_records::<W, 3, 48>(access, words, contiguous(bounds, indices, false, 3, row), y, x),
                4 => self.load_records::<W, 4, 64>(access, words, contiguous(bounds, indices, false, 4, row), y, x),
                _ => false,
            };
            if done {
                return;
            }
        }
        if !access.address.half && self.gather(access, words, bounds, indices, row, y, x) {
            return;
        }
        let mut addresses = [None; BLOCK];
        for (lane, at) in addresses.iter_mut().enumerate() {
            *at = address(bounds, indices, lane, row);
        }
        for part in &access.parts {
            let mut block = Block::ZERO;
            for (value, at) in block.0.iter_mut().zip(&addresses) {
                *value = at.and_then(|at| fetch(words, access.address.half, at + part.offset as usize)).unwrap_or(0);
            }
            self.file[self.place(part.reg).at(y, x)].set(block);
        }
    }

    /// Loads words from sixteen addresses, which are computed without branches. Returns whether there are that many.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "as load_block")]
    fn gather<W: Word>(
        &self,
        access: &Access,
        words: Words<'_, W>,
        bounds: &Bounds,
        indices: &Indices,
        row: u32,
        y: u32,
        x: u32,
    ) -> bool {
        let Index::Each(index) = &indices.index else { return false };
        let base = indices.base.unwrap_or([0; BLOCK]);
        let first = bounds.offset + row;
        let mut addresses = [0_u32; BLOCK];
        for lane in 0..BLOCK {
            let out = (index[lane] >= bounds.limit) | (base[lane] == OUT_OF_BOUNDS);
            // In bounds, it is less than the size of the memory: nothing wraps.
            let at = index[lane].wrapping_mul(bounds.stride).wrapping_add(base[lane]).wrapping_add(first);
            addresses[lane] = if out { u32::MAX } else { at };
        }
        if consecutive(access) {
            match access.parts.len() {
                2 => return self.gather_records::<W, 2>(access, words, &addresses, y, x),
                3 => return self.gather_records::<W, 3>(access, words, &addresses, y, x),
                4 => return self.gather_records::<W, 4>(access, words, &addresses, y, x),
                _ => {}
            }
        }
        for part in &access.parts {
            let mut block = Block::ZERO;
            for (value, at) in block.0.iter_mut().zip(&addresses) {
                *value = words.get(*at as usize + part.offset as usize).unwrap_or(0);
            }
            self.file[self.place(part.reg).at(y, x)].set(block);
        }
        true
    }

    /// Loads sixteen records of `N` words. Bounds are checked once for each.
    #[inline(always)]
    fn gather_records<W: Word, const N: usize>(
        &self,
        access: &Access,
        words: Words<'_, W>,
        addresses: &[u32; BLOCK],
        y: u32,
        x: u32,
    ) -> bool {
        let mut blocks = [Block::ZERO; N];
        for (lane, at) in addresses.iter().enumerate() {
            let at = *at as usize;
            let record = words.array::<N>(at);
            let record = record.unwrap_or_else(|| std::array::from_fn(|number| words.get(at + number).unwrap_or(0)));
            for number in 0..N {
                blocks[number].0[lane] = record[number];
            }
        }
        for (block, part) in blocks.iter().zip(&access.parts) {
            self.file[self.place(part.reg).at(y, x)].set(*block);
        }
        true
    }

    /// Loads sixteen adjacent records of `N` words; `M` is sixteen times `N`.
    #[inline(always)]
    fn load_records<W: Word, const N: usize, const M: usize>(
        &self,
        access: &Access,
        words: Words<'_, W>,
        first: Option<usize>,
        y: u32,
        x: u32,
    ) -> bool {
        let Some(values) = first.and_then(|first| words.array::<M>(first)) else { return false };
        for (number, part) in access.parts.iter().enumerate() {
            let mut block = Block::ZERO;
            for lane in 0..BLOCK {
                block.0[lane] = values[lane * N + number];
            }
            self.file[self.place(part.reg).at(y, x)].set(block);
        }
        true
    }

    #[inline(always)]
    pub(super) fn store(&self, access: &Access) {
        if let Root::Local(local) = access.address.root {
            return self.store_local(access, local);
        }
        self.with_memory(access.address.root, Action::Store(access));
    }

    #[inline(always)]
    fn store_words<W: Word>(&self, access: &Access, words: Words<'_, W>) {
        let bounds = self.bounds(access);
        let root = access.address.root;
        for range in &self.summary.grid {
            let row = self.row_offset(root, range.y);
            let done = self.store_range(access, words, &bounds, row, *range);
            for x in range.x + done..range.x + range.len {
                let active = self.active(access, range.y, x);
                if active == 0 {
                    continue;
                }
                let indices = self.indices(access, range.y, x);
                let value = |number: usize| self.file[self.place(access.parts[number].reg).at(range.y, x)].get();
                if active == 0xffff {
                    if let (Some(first), [part]) =
                        (contiguous(&bounds, &indices, access.address.half, 1, row), access.parts.as_slice())
                        && words.put_array(first + part.offset as usize, &value(0).0)
                    {
                        continue;
                    }
                    if consecutive(access) {
                        let done = match access.parts.len() {
                            2 => store_records::<W, 2, 32>(words, contiguous(&bounds, &indices, false, 2, row), value),
                            3 => store_records::<W, 3, 48>(words, contiguous(&bounds, &indices, false, 3, row), value),
                            4 => store_records::<W, 4, 64>(words, contiguous(&bounds, &indices, false, 4, row), value),
                            _ => false,
                        };
                        if done {
                            continue;
                        }
                    }
                }
                // Lane by lane, so that if several lanes write the same address, the last one wins with all parts.
                for lane in (0..BLOCK).filter(|lane| active >> lane & 1 == 1) {
                    let Some(at) = address(&bounds, &indices, lane, row) else { continue };
                    for (number, part) in access.parts.iter().enumerate() {
                        keep(words, access.address.half, at + part.offset as usize, value(number).0[lane]);
                    }
                }
            }
        }
    }

    /// The block of one word of a local array, for the lanes at `(y, x)`.
    #[inline(always)]
    fn local_block(&self, local: u32, word: u32, y: u32, x: u32) -> &Cell<Block> {
        let (place, size) = self.locals[local as usize];
        &self.file[place.at(y, x) + (word * size) as usize]
    }

    fn load_local(&self, access: &Access, local: u32) {
        let bounds = self.bounds(access);
        let words = self.code.file.locals[local as usize].words;
        let whole = !self.varies(access);
        for range in self.blocks_of(access.shape) {
            for x in range.x..range.x + range.len {
                let indices = self.indices(access, range.y, x);
                for part in &access.parts {
                    let word = |lane| {
                        address(&bounds, &indices, lane, 0).map(|at| at as u32 + part.offset).filter(|at| *at < words)
                    };
                    let block = if whole {
                        word(0).map_or(Block::ZERO, |word| self.local_block(local, word, range.y, x).get())
                    } else {
                        let mut block = Block::ZERO;
                        for lane in 0..BLOCK {
                            if let Some(word) = word(lane) {
                                block.0[lane] = self.local_block(local, word, range.y, x).get().0[lane];
                            }
                        }
                        block
                    };
                    self.file[self.place(part.reg).at(range.y, x)].set(block);
                }
            }
        }
    }

    fn store_local(&self, access: &Access, local: u32) {
        let bounds = self.bounds(access);
        let words = self.code.file.locals[local as usize].words;
        let shape = self.code.file.locals[local as usize].shape;
        let whole = !self.varies(access);
        for range in self.blocks_of(shape) {
            for x in range.x..range.x + range.len {
                let indices = self.indices(access, range.y, x);
                let mask = match access.mask.filter(|_| !self.summary.all) {
                    Some(mask) => self.file[self.place(mask).at(range.y, x)].get(),
                    None => Block::splat(u32::MAX),
                };
                for part in &access.parts {
                    let word = |lane| {
                        address(&bounds, &indices, lane, 0).map(|at| at as u32 + part.offset).filter(|at| *at < words)
                    };
                    let value = self.file[self.place(part.reg).at(range.y, x)].get();
                    if whole {
                        let Some(word) = word(0) else { continue };
                        let cell = self.local_block(local, word, range.y, x);
                        let mut block = cell.get();
                        for lane in 0..BLOCK {
                            block.0[lane] = (value.0[lane] & mask.0[lane]) | (block.0[lane] & !mask.0[lane]);
                        }
                        cell.set(block);
                        continue;
                    }
                    for lane in (0..BLOCK).filter(|lane| mask.0[*lane] != 0) {
                        let Some(word) = word(lane) else { continue };
                        let cell = self.local_block(local, word, range.y, x);
                        let mut block = cell.get();
                        block.0[lane] = value.0[lane];
                        cell.set(block);
                    }
                }
            }
        }
    }

    /// Whether lanes of a row access different elements.
    fn varies(&self, access: &Access) -> bool {
        let lanes = |reg| self.place(reg).across != 0;
        access.address.terms.iter().any(|term| lanes(term.index)) || access.address.base.is_some_and(lanes)
    }

    /// Visits the addresses of all active lanes; slow, used for checks only.
    pub(super) fn addresses(&self, access: &Access, mut visit: impl FnMut(u32, u32, Option<usize>)) {
        let bounds = self.bounds(access);
        for range in &self.summary.grid {
            let row = self.row_offset(access.address.root, range.y);
            for x in range.x..range.x + range.len {
                let mut active = self.active(access, range.y, x);
                if let Some(guard) = access.guard {
                    let bits = self.file[self.place(guard.cond).at(range.y, x)].get().bits();
                    active &= if guard.wanted { bits } else { !bits };
                }
                let indices = self.indices(access, range.y, x);
                for lane in (0..BLOCK).filter(|lane| active >> lane & 1 == 1) {
                    visit(range.y, x * BLOCK as u32 + lane as u32, address(&bounds, &indices, lane, row));
                }
            }
        }
    }
}

/// How an instruction accesses memory.
#[derive(Clone, Copy)]
pub(super) enum Action<'l> {
    Load(&'l Access),
    Store(&'l Access),
    Update(&'l Atomic),
}

/// The address of a lane, in units; `None` out of bounds.
#[inline(always)]
pub(super) fn address(bounds: &Bounds, indices: &Indices, lane: usize, row: u32) -> Option<usize> {
    place_of(bounds, indices.index.of(lane), indices.base.as_ref().map_or(0, |base| base[lane]), row)
}

#[inline(always)]
fn place_of(bounds: &Bounds, index: u32, base: u32, row: u32) -> Option<usize> {
    let fits = index < bounds.limit && base != OUT_OF_BOUNDS;
    let at = u64::from(index) * u64::from(bounds.stride) + u64::from(base) + u64::from(bounds.offset) + u64::from(row);
    fits.then_some(at as usize)
}

/// The address of the first of sixteen adjacent elements of `words` words, if all are in bounds.
#[inline(always)]
fn contiguous(bounds: &Bounds, indices: &Indices, half: bool, words: u32, row: u32) -> Option<usize> {
    let Index::Linear(first, 1) = indices.index else { return None };
    let base = match &indices.base {
        None => 0,
        Some(base) if base.iter().all(|other| *other == base[0]) => base[0],
        Some(_) => return None,
    };
    let fits = !half
        && bounds.stride == words
        && base != OUT_OF_BOUNDS
        && u64::from(first) + BLOCK as u64 <= u64::from(bounds.limit);
    let at = u64::from(first) * u64::from(words) + u64::from(base) + u64::from(bounds.offset) + u64::from(row);
    fits.then_some(at as usize)
}

/// Parts that fill a record from its start to its end.
#[inline(always)]
fn consecutive(access: &Access) -> bool {
    !access.address.half && access.parts.iter().zip(0..).all(|(part, number)| part.offset == number)
}

#[inline(always)]
fn store_records<W: Word, const N: usize, const M: usize>(
    words: Words<'_, W>,
    first: Option<usize>,
    value: impl Fn(usize) -> Block,
) -> bool {
    let Some(first) = first else { return false };
    let mut values = [0; M];
    for number in 0..N {
        let block = value(number);
        for lane in 0..BLOCK {
            values[lane * N + number] = block.0[lane];
        }
    }
    words.put_array(first, &values)
}

/// A word, or half of one.
#[inline(always)]
fn fetch<W: Word>(words: Words<'_, W>, half: bool, at: usize) -> Option<u32> {
    if half { Some(words.get(at / 2)? >> (at % 2 * 16) & 0xffff) } else { words.get(at) }
}

#[inline(always)]
fn keep<W: Word>(words: Words<'_, W>, half: bool, at: usize, value: u32) {
    if half {
        let shift = at % 2 * 16;
        words.update(at / 2, |old| (old & !(0xffff << shift)) | (value & 0xffff) << shift);
    } else {
        words.put(at, value);
    }
}
