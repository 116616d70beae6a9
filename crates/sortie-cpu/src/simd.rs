//! Runs code with the widest instruction set of this machine.

/// Code that gains from wide vectors. It is compiled once for each instruction set.
pub(crate) trait Vectorize {
    fn work(self);
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Simd {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    wide: Option<pulp::x86::V3>,
}

impl Simd {
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
            wide: pulp::x86::V3::try_new(),
        }
    }

    #[inline(always)]
    pub(crate) fn run<W: Vectorize>(self, work: W) {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        if let Some(wide) = self.wide {
            struct Wide<W>(W);
            impl<W: Vectorize> pulp::NullaryFnOnce for Wide<W> {
                type Output = ();
                #[inline(always)]
                fn call(self) {
                    self.0.work();
                }
            }
            return wide.vectorize(Wide(work));
        }
        work.work();
    }
}
