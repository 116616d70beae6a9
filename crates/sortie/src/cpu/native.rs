//! Generated kernels that the host computes without a kernel.

use smallvec::SmallVec;
use sortie_cpu::Stop;
use sortie_plan::{
    Access, Dispatch,
    fuse::{Head, Product, Program},
};

use super::{chain::Chain, dispatch::halted, memory::Loan, product::multiply, work::Running};
use crate::error::Result;

/// What stands for a program on the host.
#[derive(Debug)]
pub(crate) enum Native {
    /// Products of matrices.
    Product(Product),
    /// Elementwise steps.
    Chain(Chain),
}

impl Native {
    /// `None` when it has to be a kernel.
    pub(crate) fn of(program: &Program) -> Option<Self> {
        match &program.head {
            Head::None => Some(Self::Chain(Chain::new(program))),
            Head::Product(of) => Some(Self::Product(*of)),
            Head::Fold(..) | Head::Rows { .. } => None,
        }
    }

    /// Multiplications, or elements times steps.
    pub(crate) fn work(&self) -> u64 {
        match self {
            Self::Product(of) => [of.m, of.k, of.n, of.batch].into_iter().map(u64::from).product(),
            Self::Chain(chain) => chain.work(),
        }
    }

    /// How many of its accesses are read; those after them are written.
    fn inputs(&self) -> usize {
        match self {
            Self::Product(_) => 2,
            Self::Chain(chain) => chain.inputs(),
        }
    }
}

impl Running<'_> {
    pub(super) fn native(&mut self, dispatch: &Dispatch, accesses: &[Access]) -> Result<()> {
        let (sheet, placed) = (self.sheet, self.placed);
        let Some(tensors) = &placed.planned.tensors else { unreachable!("tensor operations have been lowered") };
        let number = dispatch.kernel.0 as usize - placed.planned.recording.kernels.len();
        let (native, scalars) = tensors.native(number, dispatch.immediates, &placed.payload.immediates);
        let reads = native.inputs();
        let mut loans: SmallVec<[Loan; 8]> = accesses
            .iter()
            .enumerate()
            .map(|(slot, access)| Loan { place: self.memory.place(access), writes: slot >= reads, slot })
            .collect();
        let mut bound = self.memory.lend(&mut loans);
        let workers = &sheet.workers;
        let stop = Stop { canceled: self.canceled, deadline: workers.deadline() };
        let outcome = match native {
            Native::Product(of) => multiply(of, &mut bound, workers, stop),
            Native::Chain(chain) => chain.run(&mut bound, &scalars, &workers.threads, stop),
        };
        outcome.map_err(|halt| halted(halt, "of a tensor operation", workers))
    }
}
