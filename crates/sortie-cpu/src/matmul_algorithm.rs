//! Algorithms for large matrix products.

/// How large matrix products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatmulAlgorithm {
    /// The crate `gemm`.
    Gemm,
    /// The crate `matrixmultiply`, with strips of columns shared between threads.
    Strips,
    /// The crate `matrixmultiply`, called once: with its feature `threading` it uses several threads itself.
    Whole,
}

impl MatmulAlgorithm {
    /// All algorithms.
    pub const ALL: [Self; 3] = [Self::Gemm, Self::Strips, Self::Whole];

    /// Its name, as in the tuning file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Strips => "matrixmultiply strips",
            Self::Whole => "matrixmultiply",
        }
    }

    /// The algorithm with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|library| library.name() == name)
    }
}
