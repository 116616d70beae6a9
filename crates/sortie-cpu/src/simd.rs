//! Runs code with the widest instruction set of this machine that it gains from.
//!
//! Invariant: results do not depend on the instruction set. Code is written for a fixed number of lanes and never
//! fuses a multiplication with an addition, so every build of it computes the same bits.

use crate::instruction_set::InstructionSet;

/// Code that gains from wide vectors. It is compiled once for each instruction set.
pub(crate) trait Vectorize {
    fn work(self);
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Simd {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    wide: Option<pulp::x86::V3>,
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    widest: Option<pulp::x86::V4>,
}

impl Simd {
    /// Up to AVX2: the loops of the interpreter are slower with AVX-512.
    pub(crate) fn new() -> Self {
        Self::up_to(InstructionSet::Avx2)
    }

    /// Up to AVX-512.
    pub(crate) fn widest() -> Self {
        Self::up_to(InstructionSet::Avx512)
    }

    /// Up to an instruction set, or to the one in use if that is narrower.
    pub(crate) fn up_to(most: InstructionSet) -> Self {
        let set = most.min(InstructionSet::current());
        Self {
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            wide: if set >= InstructionSet::Avx2 { pulp::x86::V3::try_new() } else { None },
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            widest: if set >= InstructionSet::Avx512 { pulp::x86::V4::try_new() } else { None },
        }
    }

    #[inline(always)]
    pub(crate) fn run<W: Vectorize>(self, work: W) {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        if let Some(wide) = self.wide {
            return wide.vectorize(Work(work));
        }
        work.work();
    }

    /// As [`run`](Self::run), also compiled for AVX-512.
    #[inline(always)]
    pub(crate) fn run_widest<W: Vectorize>(self, work: W) {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        if let Some(widest) = self.widest {
            return widest.vectorize(Work(work));
        }
        self.run(work);
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
struct Work<W>(W);

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
impl<W: Vectorize> pulp::NullaryFnOnce for Work<W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.work();
    }
}
