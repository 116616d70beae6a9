//! Tensor programs in plain Rust: products of matrices, reductions, normalized rows, and chains of elementwise steps.
//!
//! Elementwise steps run block by block, so intermediate results stay in the cache.

mod chain;
mod loads;
mod matrices;
mod pieces;
mod product;
mod reduce;
mod registers;
mod rows;
mod steps;

use sortie_cpu::{BoundMemory, Halted, Stop, Threads};
use sortie_plan::fuse::{Head, Program};

pub(crate) use self::product::PanelKey;
use self::{chain::Chain, product::ProductCode, reduce::Reduction, rows::Rows};
use super::kernel::SlotBinding;
use crate::kernel::Interface;

/// Operations that take about as long as a workgroup of a kernel.
const GROUP: u64 = 1024;

/// A tensor program that the host computes without WGSL.
#[derive(Debug)]
pub(crate) struct Native {
    code: Code,
    slots: Vec<SlotBinding>,
}

#[derive(Debug)]
enum Code {
    /// Products of matrices, with elementwise steps after them.
    Product(ProductCode),
    /// A reduction, with elementwise steps before and after it.
    Reduce(Reduction),
    /// Normalized rows, with elementwise steps before and after.
    Rows(Rows),
    /// Elementwise steps.
    Chain(Chain),
}

impl Native {
    pub(super) fn of(program: &Program) -> Self {
        let code = match &program.head {
            Head::None => Code::Chain(Chain::new(program)),
            Head::Product(of) => Code::Product(ProductCode::new(program, *of)),
            Head::Reduce(reduce, body) => Code::Reduce(Reduction::new(program, reduce, body)),
            Head::Rows { f, row, scalar, body } => Code::Rows(Rows::new(program, *f, *row, *scalar, body)),
        };
        let (inputs, outputs) = (program.inputs.len(), program.outputs.len());
        let slots = (0..inputs + outputs).map(|binding| SlotBinding { binding, writes: binding >= inputs }).collect();
        Self { code, slots }
    }

    /// Inputs, then outputs.
    #[inline]
    pub(super) fn slots(&self) -> &[SlotBinding] {
        &self.slots
    }

    pub(super) fn interface(&self) -> Interface {
        Interface::native("tensor operation", self.slots.iter().map(|slot| slot.writes))
    }

    /// Its work in workgroups.
    pub(super) fn grid(&self) -> [u32; 3] {
        grid(self.work())
    }

    /// Multiplications, or elements times steps.
    fn work(&self) -> u64 {
        match &self.code {
            Code::Product(product) => product.work(),
            Code::Reduce(reduction) => reduction.work(),
            Code::Rows(rows) => rows.work(),
            Code::Chain(chain) => chain.work(),
        }
    }

    /// The input that could be read from panels, if it is kept in them.
    #[inline]
    pub(super) fn panels(&self, scalars: &[u32]) -> Option<(usize, PanelKey)> {
        match &self.code {
            Code::Product(product) => product.panels(scalars),
            Code::Reduce(_) | Code::Rows(_) | Code::Chain(_) => None,
        }
    }

    /// Computes all outputs. `bound`: the inputs, then the outputs. `packed`: the input that could be read from
    /// [panels](Self::panels), in panels.
    pub(crate) fn run(
        &self,
        bound: &mut [BoundMemory<'_>],
        packed: Option<&[u32]>,
        scalars: &[u32],
        threads: &Threads,
        stop: Stop<'_>,
    ) -> Result<(), Halted> {
        match &self.code {
            Code::Product(product) => product.run(bound, packed, scalars, threads, stop),
            Code::Reduce(reduction) => reduction.run(bound, scalars, threads, stop),
            Code::Rows(rows) => rows.run(bound, scalars, threads, stop),
            Code::Chain(chain) => chain.run(bound, scalars, threads, stop),
        }
    }
}

/// Work in workgroups, at least one: a dispatch of zero workgroups does nothing.
fn grid(work: u64) -> [u32; 3] {
    let groups = (work / GROUP).max(1);
    let rows = (groups >> 32) + 1;
    [groups / rows, rows, 1].map(|groups| u32::try_from(groups).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::grid;

    #[test]
    fn a_grid_has_a_workgroup_for_1024_computations_and_never_none() {
        assert_eq!([0, 1023, 2048, 1 << 41].map(grid), [[1; 3], [1; 3], [2, 1, 1], [1 << 31, 1, 1]]);
        let [x, y, z] = grid(u64::MAX).map(u64::from);
        assert!(u64::MAX / 1024 - x * y * z < y, "{x} {y} {z}");
    }
}
