//! A kernel made ready to run.

use crate::{
    Bound, Halt, Stop, Threads, Unsupported,
    code::{Body, Reg, Region},
    lower::{self, Builtin},
    run,
    shape::Shape,
};

pub(crate) use crate::geometry::Geometry;

/// A kernel made ready: types resolved, expressions ordered, registers assigned. Running it only runs it.
#[derive(Debug)]
pub struct Program {
    pub(crate) code: Code,
    pub(crate) id: u64,
}

/// When means that only pay for large kernels are used.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// From this many instructions on, calls share their callees.
    pub share_from: usize,
    /// Lanes of a loop are packed whenever one has left.
    pub pack_always: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { share_from: lower::SHARE_FROM, pack_always: false }
    }
}

/// What a program is made of.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) body: Body,
    /// Functions that several calls share, and their regions.
    pub(crate) shared: Vec<Body>,
    pub(crate) roots: Vec<Region>,
    /// By region.
    pub(crate) zones: Vec<Zone>,
    /// All ones for lanes that exist.
    pub(crate) entry: Reg,
    /// All ones.
    pub(crate) ones: Reg,
    pub(crate) registers: Vec<Register>,
    /// Places of each shape.
    pub(crate) sizes: [u32; 4],
    pub(crate) constants: Vec<(Reg, u32)>,
    pub(crate) builtins: Vec<(Reg, Builtin)>,
    pub(crate) locals: Vec<Local>,
    pub(crate) counts: Vec<Count>,
    pub(crate) slots: Vec<Slot>,
    /// By slot.
    pub(crate) owned: Vec<Owned>,
    pub(crate) geometry: Geometry,
    pub(crate) workgroup_words: u32,
    /// About how many instructions an invocation runs.
    pub(crate) weight: u32,
    /// Has a loop whose lanes may be packed.
    pub(crate) packs: bool,
    /// Whenever one has left.
    pub(crate) pack_always: bool,
}

/// A region as it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zone {
    pub(crate) mask: Option<Reg>,
    pub(crate) shape: Shape,
}

/// Where a register lives: a place among those of its shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Register {
    pub(crate) shape: Shape,
    pub(crate) slot: u32,
}

/// An array of the invocation's own: as many places, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) shape: Shape,
    pub(crate) first: u32,
    pub(crate) words: u32,
}

/// A runtime-sized array: how many elements it has follows from the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) slot: u32,
    /// In bytes.
    pub(crate) offset: u32,
    pub(crate) stride: u32,
}

/// Whether invocations only touch their own element of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    Unused,
    No,
    /// `global_invocation_id.x` is the index; so many words, or half words, each.
    Elements {
        stride: u32,
        half: bool,
    },
}

/// A buffer that a program binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its `@group`.
    pub group: u32,
    /// Its `@binding`.
    pub binding: u32,
    /// Whether it is `read_write` storage.
    pub writes: bool,
}

/// One use of a program.
#[derive(Debug)]
pub struct Run<'a, 'b> {
    /// Workgroups in each dimension; any number.
    pub groups: [u32; 3],
    /// One for each of [`Program::slots`].
    pub bound: &'b mut [Bound<'a>],
    /// The words of its `var<immediate>`.
    pub immediates: &'b [u32],
}

/// What [`Program::check`] reports beyond conflicting access, divergent barriers and out-of-bounds access, which it always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Reads of workgroup memory that no invocation has written. It starts as zeros, so that is no mistake in WGSL.
    pub unwritten: bool,
}

/// Something that [`Program::check`] found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What, with the invocations that took part.
    pub message: String,
    /// Where in the source.
    pub span: naga::Span,
}

impl Program {
    /// Prepares an entry point of a validated module whose overrides are resolved.
    ///
    /// # Errors
    /// The first construct that is not covered.
    pub fn new(module: &naga::Module, info: &naga::valid::ModuleInfo, entry: &str) -> Result<Self, Unsupported> {
        Self::new_tuned(module, info, entry, Tuning::default())
    }

    /// As [`Program::new`], for tests, whose kernels are small.
    ///
    /// # Errors
    /// The first construct that is not covered.
    #[doc(hidden)]
    pub fn new_tuned(
        module: &naga::Module,
        info: &naga::valid::ModuleInfo,
        entry: &str,
        tuning: Tuning,
    ) -> Result<Self, Unsupported> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let code = lower::lower(module, info, entry, tuning)?;
        Ok(Self { code, id: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) })
    }

    /// The buffers it binds, by group, then binding: every one that the entry point uses.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.code.slots
    }

    /// Invocations of a workgroup in each dimension.
    #[must_use]
    pub fn workgroup_size(&self) -> [u32; 3] {
        self.code.geometry.workgroup
    }

    /// Whether its workgroups may wait for each other: they then run one at a time on each thread, and start in order.
    #[doc(hidden)]
    #[must_use]
    pub fn waits(&self) -> bool {
        self.code.geometry.alone
    }

    /// Runs it on the calling thread, with the help of `threads` where that pays.
    ///
    /// # Errors
    /// When it was stopped.
    pub fn run(&self, run: Run<'_, '_>, threads: &Threads, stop: Stop<'_>) -> Result<(), Halt> {
        run::run(self, run, threads, stop)
    }

    /// Runs it on the calling thread alone, slowly, and says what is wrong with it (the first of each kind and place).
    ///
    /// # Errors
    /// When it was stopped.
    pub fn check(&self, run: Run<'_, '_>, checks: Checks, stop: Stop<'_>) -> Result<Vec<Finding>, Halt> {
        run::check(self, run, checks, stop)
    }
}
