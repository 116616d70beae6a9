//! The instruction sets that code is compiled for, and the one in use.

use std::{env, fmt, sync::OnceLock};

/// An instruction set that this crate's loops are compiled for. Chosen at run time: the widest that the machine has,
/// unless the environment variable `SORTIE_CPU_ISA` names a narrower one. It is read once per process.
///
/// ```
/// use sortie_cpu::InstructionSet;
/// assert!(InstructionSet::current() <= InstructionSet::of_machine());
/// assert_eq!(InstructionSet::Avx2.name(), "avx2");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionSet {
    /// The one that this program was compiled for.
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, CD, DQ and VL.
    Avx512,
}

/// `SORTIE_CPU_ISA` names no instruction set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownInstructionSet(pub String);

impl InstructionSet {
    /// The narrowest first.
    pub const ALL: [Self; 3] = [Self::Baseline, Self::Avx2, Self::Avx512];

    /// Its name in `SORTIE_CPU_ISA`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The widest of this machine.
    #[must_use]
    pub fn of_machine() -> Self {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        {
            if pulp::x86::V4::is_available() {
                return Self::Avx512;
            }
            if pulp::x86::V3::is_available() {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    /// The widest that `SORTIE_CPU_ISA` allows; all of them if it is not set.
    ///
    /// # Errors
    /// It names none.
    pub fn allowed() -> Result<Self, UnknownInstructionSet> {
        let Some(name) = env::var_os("SORTIE_CPU_ISA").filter(|name| !name.is_empty()) else { return Ok(Self::Avx512) };
        let known = Self::ALL.into_iter().find(|set| name == set.name());
        known.ok_or_else(|| UnknownInstructionSet(name.to_string_lossy().into_owned()))
    }

    /// The one in use. An unknown name in `SORTIE_CPU_ISA` caps nothing; opening a device refuses it.
    #[must_use]
    pub fn current() -> Self {
        static CURRENT: OnceLock<InstructionSet> = OnceLock::new();
        *CURRENT.get_or_init(|| Self::of_machine().min(Self::allowed().unwrap_or(Self::Avx512)))
    }
}

impl fmt::Display for UnknownInstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = InstructionSet::ALL.map(InstructionSet::name).join(", ");
        write!(f, "SORTIE_CPU_ISA is {:?}; it may be {known}", self.0)
    }
}

impl std::error::Error for UnknownInstructionSet {}
