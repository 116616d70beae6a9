//! Where the choices of a program come from.

/// Makes the choices of a program.
pub trait Choose {
    /// A number below `n`, which is at least 1.
    fn below(&mut self, n: usize) -> usize;

    /// True once in `n` times.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }
}

impl Choose for fastrand::Rng {
    fn below(&mut self, n: usize) -> usize {
        self.usize(..n)
    }
}

/// Choices read from bytes; the first of each once they are used up.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Choose for Bytes<'_> {
    fn below(&mut self, n: usize) -> usize {
        let Some((two, rest)) = self.0.split_first_chunk() else { return 0 };
        self.0 = rest;
        usize::from(u16::from_le_bytes(*two)) % n
    }
}
