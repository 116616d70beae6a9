//! A kernel after lowering: code on scalar registers, and the tables needed to run it. Plain data between
//! [`lower`](crate::lower) and [`run`](crate::run).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    code::{Body, Builtin, Reg, Region},
    geometry::Geometry,
    shape::Shape,
};

/// Kernels with at least this many instructions share one copy of a function between calls.
pub(crate) const MIN_SHARED_CALLEE_SIZE: usize = 20_000;

/// Thresholds of optimisations that only pay for large kernels.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct LoweringOptions {
    /// Kernels with at least this many instructions share one copy of a function between calls.
    pub min_shared_callee_size: usize,
    /// Pack the lanes of a loop as soon as one has left.
    pub pack_always: bool,
}

impl Default for LoweringOptions {
    fn default() -> Self {
        Self { min_shared_callee_size: MIN_SHARED_CALLEE_SIZE, pack_always: false }
    }
}

/// What a program is made of.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) body: Body,
    /// Functions that several calls share, and their regions.
    pub(crate) shared: Vec<Body>,
    pub(crate) roots: Vec<Region>,
    /// By region.
    pub(crate) regions: Vec<RegionInfo>,
    /// All ones for lanes that exist.
    pub(crate) entry: Reg,
    /// All ones.
    pub(crate) ones: Reg,
    pub(crate) file: RegisterFile,
    pub(crate) counts: Vec<Count>,
    pub(crate) slots: Vec<ProgramBinding>,
    /// By slot: whether the entry point writes to it, whatever its declaration allows.
    pub(crate) written: Vec<bool>,
    /// By slot.
    pub(crate) owned: Vec<ElementOwnership>,
    pub(crate) geometry: Geometry,
    pub(crate) workgroup_words: u32,
    /// About how many instructions an invocation runs.
    pub(crate) weight: u32,
    /// Has a loop whose lanes may be packed.
    pub(crate) packs: bool,
    /// Whenever one has left.
    pub(crate) pack_always: bool,
    /// Has atomics of 64 bits.
    pub(crate) wide_atomics: bool,
}

/// All registers and what they contain at the start.
#[derive(Debug, Default)]
pub(crate) struct RegisterFile {
    pub(crate) registers: Vec<Register>,
    /// Slots of each shape.
    pub(crate) sizes: [u32; 4],
    pub(crate) constants: Vec<(Reg, u32)>,
    pub(crate) builtins: Vec<(Reg, Builtin)>,
    pub(crate) locals: Vec<Local>,
}

/// A number that no other kernel of this process has.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A region as it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionInfo {
    pub(crate) mask: Option<Reg>,
    pub(crate) shape: Shape,
}

/// The location of a register: a slot among those of its shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub(crate) shape: Shape,
    pub(crate) slot: u32,
}

/// A private array of an invocation: `words` adjacent registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) shape: Shape,
    pub(crate) first: u32,
    pub(crate) words: u32,
}

/// A runtime-sized array; the buffer's size determines how many elements it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) slot: u32,
    /// In bytes.
    pub(crate) offset: u32,
    pub(crate) stride: u32,
}

/// Whether invocations only access their own element of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementOwnership {
    Unused,
    No,
    /// `global_invocation_id.x` is the index of an element of `stride` words, or half words.
    Elements {
        stride: u32,
        half: bool,
    },
}

/// A buffer that a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramBinding {
    /// Its `@group`.
    pub group: u32,
    /// Its `@binding`.
    pub binding: u32,
    /// Whether it is `read_write` storage.
    pub writes: bool,
}
