//! The registers of one rectangle of lanes, and their layout.

use std::cell::RefCell;

use super::straight::ActiveBlocks;
use crate::{
    code::Builtin,
    compiled::Compiled,
    geometry::{Geometry, Rectangle, RectangleLayout},
    lanes::{BLOCK, Block, BlockLayout, BlockRange},
    shape::Shape,
};

/// The registers of a rectangle and their layout. A thread keeps frames from one dispatch to the next.
#[derive(Debug)]
pub(crate) struct Frame {
    program: u64,
    layout: (u32, u32),
    pub(crate) blocks: Vec<Block>,
    pub(crate) places: Vec<BlockLayout>,
    pub(crate) locals: Vec<(BlockLayout, u32)>,
    pub(crate) full: [[BlockRange; 1]; 4],
    pub(crate) each_row: Vec<BlockRange>,
    pub(crate) summaries: Vec<ActiveBlocks>,
    pub(crate) workgroup: Vec<u32>,
    /// Blocks of a row, and rows.
    pub(crate) columns: u32,
    pub(crate) rows: u32,
    /// Lanes and rows that exist, as the entry mask and the first summary have it.
    exist: Option<(u32, u32)>,
}

/// Frames that a thread keeps, and their blocks in total: 8 MiB.
const MAX_KEPT_FRAMES: usize = 16;
const MAX_KEPT_BLOCKS: usize = 8 << 20 >> 6;

thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

impl Frame {
    /// The frame of a program: one kept from an earlier dispatch, or a new one.
    pub(crate) fn take(code: &Compiled, layout: &RectangleLayout) -> Self {
        let kept = FRAMES.with_borrow_mut(|frames| {
            let found = frames
                .iter()
                .rposition(|frame| frame.program == code.id && frame.layout == (layout.width, layout.rows))?;
            Some(frames.remove(found))
        });
        kept.unwrap_or_else(|| Self::new(code, layout))
    }

    /// Keeps the frame for the next dispatch.
    pub(crate) fn give_back(self) {
        FRAMES.with_borrow_mut(|frames| {
            frames.push(self);
            let mut blocks: usize = frames.iter().map(|frame| frame.blocks.len()).sum();
            while frames.len() > MAX_KEPT_FRAMES || (blocks > MAX_KEPT_BLOCKS && !frames.is_empty()) {
                blocks -= frames.remove(0).blocks.len();
            }
        });
    }

    pub(crate) fn new(code: &Compiled, layout: &RectangleLayout) -> Self {
        let columns = layout.width.div_ceil(BLOCK as u32);
        let rows = layout.rows;
        let sizes = [1, columns, rows, columns * rows];
        let mut bases = [0; 4];
        let mut total = 0;
        for class in 0..4 {
            bases[class] = total;
            total += sizes[class] * code.file.sizes[class];
        }
        let place = |shape: Shape, slot: u32| {
            let class = shape.class();
            let (step, across, down) = [(0, 0, 0), (1, 1, 0), (1, 0, 1), (1, 1, columns)][class];
            #[expect(clippy::cast_possible_truncation, reason = "0 to 3")]
            let kind = class as u8;
            BlockLayout { base: bases[class] + slot * sizes[class], step, across, down, class: kind }
        };
        let mut frame = Self {
            program: code.id,
            layout: (layout.width, layout.rows),
            blocks: vec![Block::ZERO; total as usize],
            places: code.file.registers.iter().map(|register| place(register.shape, register.slot)).collect(),
            locals: code
                .file
                .locals
                .iter()
                .map(|local| (place(local.shape, local.first), sizes[local.shape.class()]))
                .collect(),
            full: sizes.map(|len| [BlockRange { y: 0, x: 0, len }]),
            each_row: (0..rows).map(|y| BlockRange { y, x: 0, len: 1 }).collect(),
            summaries: vec![ActiveBlocks::default(); code.regions.len()],
            workgroup: Vec::new(),
            columns,
            rows,
            exist: None,
        };
        let copies = match code.geometry.mode {
            crate::geometry::Mode::Groups { .. } => rows,
            _ => 1,
        };
        frame.workgroup = vec![0; (code.workgroup_words * copies) as usize];
        for (reg, value) in &code.file.constants {
            frame.blocks[frame.places[reg.0 as usize].base as usize] = Block::splat(*value);
        }
        frame
    }

    /// Fills in what depends on the rectangle.
    pub(crate) fn start(&mut self, code: &Compiled, set: &Rectangle, groups: [u32; 3]) {
        let fresh = self.exist.is_none();
        let changed = self.exist != Some((set.width, set.rows));
        for (reg, builtin) in &code.file.builtins {
            let again = match builtin {
                Builtin::Entry => changed,
                // Other registers are reused within a rectangle; only the entry mask stays allocated.
                _ => true,
            };
            if again || fresh {
                self.fill(&code.geometry, *builtin, self.places[reg.0 as usize], set, groups);
            }
        }
        if changed {
            let summary = &mut self.summaries[0];
            summary.clear();
            for y in 0..set.rows {
                for x in 0..set.width.div_ceil(BLOCK as u32) {
                    summary.push(y, x, self.columns);
                }
            }
            summary.all = true;
            self.exist = Some((set.width, set.rows));
        }
        self.workgroup.fill(0);
    }

    fn fill(&mut self, geometry: &Geometry, builtin: Builtin, place: BlockLayout, set: &Rectangle, groups: [u32; 3]) {
        let step = geometry.linear(builtin).and_then(|(lane, group)| geometry.step(lane, group));
        let ramp: [u32; BLOCK] = std::array::from_fn(|lane| step.unwrap_or(0).wrapping_mul(lane as u32));
        let rows = if place.down == 0 { 1 } else { self.rows };
        let columns = if place.across == 0 { 1 } else { self.columns };
        if builtin == Builtin::Entry {
            for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                let exist = set.width.saturating_sub(x * BLOCK as u32) as usize;
                let block = &mut self.blocks[place.at(y, x)];
                *block = Block::ZERO;
                block.0.iter_mut().take(exist).for_each(|lane| *lane = u32::MAX);
            }
            return;
        }
        for y in 0..rows {
            if place.across == 0 {
                self.blocks[place.at(y, 0)] = Block::splat(geometry.value(builtin, set, groups, 0, y));
                continue;
            }
            let start = geometry.value(builtin, set, groups, 0, y);
            for x in 0..columns {
                let first = x * BLOCK as u32;
                let block = &mut self.blocks[place.at(y, x)];
                match step {
                    Some(step) => {
                        std::hint::black_box(());
                        let start = start.wrapping_add(step.wrapping_mul(first));
                        block.0.iter_mut().zip(ramp).for_each(|(value, ramp)| *value = ramp.wrapping_add(start));
                    }
                    None => {
                        for (lane, value) in (first..).zip(&mut block.0) {
                            *value = geometry.value(builtin, set, groups, lane, y);
                        }
                    }
                }
            }
        }
    }
}
