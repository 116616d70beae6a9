//! Vectors of floats of the widest instruction set of this machine, for code that names each of them.
//!
//! Matrix products keep blocks of sums in registers. The compiler does not find that by itself in plain loops, so these
//! are written with vectors. Invariant: a multiply-add rounds once wherever the machine has the instruction.

#![expect(clippy::inline_always, reason = "the code must land in the caller's target-feature context")]

use pulp::bytemuck::Pod;

use crate::InstructionSet;

/// An instruction set.
pub(super) trait Vectors: Copy + Send + Sync {
    /// `LANES` floats.
    type Floats: Pod + Send + Sync;
    /// As many 16-bit words.
    type Halves: Pod + Send + Sync;
    const LANES: usize;
    /// Rows whose sums, three vectors each, fit into the registers.
    const ROWS: usize;

    fn splat(self, x: f32) -> Self::Floats;

    /// a · b + c
    fn fused(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;

    /// The floats of halves.
    fn widen_f16(self, halves: Self::Halves) -> Self::Floats;
}

/// Work that is compiled once for each instruction set.
pub(super) trait Task {
    fn run<V: Vectors>(self, vectors: V);
}

/// The build of a task that runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Build {
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    Portable,
}

impl Build {
    /// For the instruction set in use.
    pub(super) fn new() -> Self {
        Self::up_to(InstructionSet::current())
    }

    /// Floats of a vector.
    pub(super) fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => 16,
            _ => 8,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn up_to(set: InstructionSet) -> Self {
        let narrower = || match set {
            InstructionSet::Baseline => Self::Portable,
            _ => pulp::x86::V3::try_new().map_or(Self::Portable, Self::Avx2),
        };
        let widest = if set == InstructionSet::Avx512 { pulp::x86::V4::try_new() } else { None };
        widest.map_or_else(narrower, Self::Avx512)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn up_to(_: InstructionSet) -> Self {
        Self::Portable
    }

    #[inline(always)]
    pub(super) fn run<T: Task>(self, task: T) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => simd.vectorize(Call { task, simd }),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => simd.vectorize(Call { task, simd }),
            Self::Portable => task.run(Portable),
        }
    }
}

/// A task with its instruction set, as `pulp` calls it.
#[cfg(target_arch = "x86_64")]
struct Call<T, V> {
    task: T,
    simd: V,
}

#[cfg(target_arch = "x86_64")]
impl<T: Task, V: Vectors> pulp::NullaryFnOnce for Call<T, V> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.task.run(self.simd);
    }
}

#[cfg(target_arch = "x86_64")]
impl Vectors for pulp::x86::V4 {
    type Floats = pulp::f32x16;
    type Halves = pulp::u16x16;
    const LANES: usize = 16;
    const ROWS: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Floats {
        pulp::cast(self.avx512f._mm512_set1_ps(x))
    }

    #[inline(always)]
    fn fused(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        pulp::cast(self.avx512f._mm512_fmadd_ps(pulp::cast(a), pulp::cast(b), pulp::cast(c)))
    }

    #[inline(always)]
    fn widen_f16(self, halves: Self::Halves) -> Self::Floats {
        pulp::cast(self.avx512f._mm512_cvtph_ps(pulp::cast(halves)))
    }
}

#[cfg(target_arch = "x86_64")]
impl Vectors for pulp::x86::V3 {
    type Floats = pulp::f32x8;
    type Halves = [u16; 8];
    const LANES: usize = 8;
    const ROWS: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Floats {
        pulp::cast(self.avx._mm256_set1_ps(x))
    }

    #[inline(always)]
    fn fused(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        pulp::cast(self.fma._mm256_fmadd_ps(pulp::cast(a), pulp::cast(b), pulp::cast(c)))
    }

    #[inline(always)]
    fn widen_f16(self, halves: Self::Halves) -> Self::Floats {
        pulp::cast(widened_f16(halves))
    }
}

/// Arrays. The compiler makes vectors of them where the target has any.
#[derive(Clone, Copy, Debug)]
struct Portable;

/// Without the instruction, a fused multiply-add is a call of a function.
const FUSED: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

impl Vectors for Portable {
    type Floats = [f32; 8];
    type Halves = [u16; 8];
    const LANES: usize = 8;
    const ROWS: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Floats {
        [x; 8]
    }

    #[inline(always)]
    fn fused(self, a: Self::Floats, b: Self::Floats, mut c: Self::Floats) -> Self::Floats {
        for ((c, a), b) in c.iter_mut().zip(a).zip(b) {
            *c = if FUSED { a.mul_add(b, *c) } else { a * b + *c };
        }
        c
    }

    #[inline(always)]
    fn widen_f16(self, halves: Self::Halves) -> Self::Floats {
        widened_f16(halves)
    }
}

/// Moves the exponent and fraction into place, then scales: exact for subnormal halves, too.
#[inline(always)]
fn widened_f16(halves: [u16; 8]) -> [f32; 8] {
    halves.map(|half| {
        let size = f32::from_bits(u32::from(half & 0x7fff) << 13);
        let finite = (size * f32::from_bits(0x7780_0000)).to_bits();
        let special = size.to_bits() | 0x7f80_0000;
        let sized = if half & 0x7c00 == 0x7c00 { special } else { finite };
        f32::from_bits(sized | u32::from(half & 0x8000) << 16)
    })
}
