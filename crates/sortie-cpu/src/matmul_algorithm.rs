//! The libraries that multiply large matrices.

/// What computes a large product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatmulAlgorithm {
    /// `gemm`.
    Gemm,
    /// `matrixmultiply`, strips of columns shared between threads.
    Strips,
    /// `matrixmultiply`, in one piece: built with its feature `threading` it shares the work itself.
    Whole,
}

impl MatmulAlgorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gemm, Self::Strips, Self::Whole];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Strips => "matrixmultiply strips",
            Self::Whole => "matrixmultiply",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|library| library.name() == name)
    }
}
