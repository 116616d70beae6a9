//! Products of matrices, which the host computes without a kernel.

use smallvec::SmallVec;
use sortie_cpu::{
    Bound,
    native::{Matmul, matmul},
};
use sortie_plan::{
    Access, Op,
    fuse::{Head, Product},
};

use super::{memory::Loan, work::Running};

impl Running<'_> {
    pub(super) fn product(&mut self, op: &Op, accesses: &[Access]) {
        let sheet = self.sheet;
        let programs = sheet.planned.tensors.as_ref().map_or(&[][..], |tensors| &tensors.programs);
        let Some(Head::Product(of)) = programs.get(op.kernel as usize).map(|program| &program.head) else {
            unreachable!("only products are left to the host")
        };
        let last = accesses.len() - 1;
        let mut loans: SmallVec<[Loan; 4]> = accesses
            .iter()
            .enumerate()
            .map(|(slot, access)| Loan { place: self.memory.place(access), writes: slot == last, slot })
            .collect();
        let mut bound = self.memory.lend(&mut loans);
        let [left, right, product] = &mut bound[..] else { unreachable!("two sides and a product") };
        let (Bound::Read(left), Bound::Read(right), Bound::Write(product)) = (left, right, product) else {
            unreachable!("sides are read, the product is written")
        };
        let Product { m, k, n, batch, .. } = *of;
        let [m, k, n, batch] = [m, k, n, batch].map(|length| length as usize);
        let shape = Matmul { m, k, n, transpose_a: of.transposed[0], transpose_b: of.transposed[1] };
        let (left, right): (&[f32], &[f32]) = (bytemuck::cast_slice(left), bytemuck::cast_slice(right));
        let product: &mut [f32] = bytemuck::cast_slice_mut(product);
        let part = |shared: bool, size: usize, number: usize| {
            if shared { 0..size } else { number * size..(number + 1) * size }
        };
        for number in 0..batch {
            let left = &left[part(of.shared[0], m * k, number)];
            let right = &right[part(of.shared[1], k * n, number)];
            let product = &mut product[number * m * n..(number + 1) * m * n];
            let outcome = matmul(shape, left, right, product, &sheet.workers.threads);
            debug_assert!(outcome.is_ok(), "lengths follow from the shapes");
        }
    }
}
