//! Matrices, column by column.

use super::{
    Lower, Value,
    types::{Kind, Ty},
};
use crate::{code::Reg, opcode::Opcode};

impl Lower<'_> {
    /// The sum of products, from left to right.
    pub(super) fn dot(&mut self, kind: Kind, left: &[Reg], right: &[Reg]) -> Reg {
        let (add, multiply) = if kind.is_float() { (Opcode::AddF, Opcode::MulF) } else { (Opcode::AddI, Opcode::MulI) };
        let products = self.arithmetic(kind, left, right, multiply);
        products[1..].iter().fold(products[0], |sum, product| self.arithmetic(kind, &[sum], &[*product], add)[0])
    }

    pub(super) fn matrix_product(&mut self, left_ty: Ty, left: &[Reg], right_ty: Ty, right: &[Reg]) -> Value {
        match (left_ty, right_ty) {
            (Ty::Matrix(columns, rows, kind), Ty::Matrix(..) | Ty::Vector(..)) => {
                let mut product = Value::new();
                let rows_of_left = Self::transpose(columns as usize, rows as usize, left);
                for column in right.chunks(columns as usize) {
                    let rows = rows_of_left.chunks(columns as usize);
                    product.extend(rows.map(|row| self.dot(kind, row, column)));
                }
                product
            }
            (Ty::Vector(_, kind), Ty::Matrix(_, rows, _)) => {
                right.chunks(rows as usize).map(|column| self.dot(kind, left, column)).collect()
            }
            (Ty::Matrix(_, _, kind), _) | (_, Ty::Matrix(_, _, kind)) => {
                self.arithmetic(kind, left, right, Opcode::MulF)
            }
            _ => unreachable!("one of them is a matrix"),
        }
    }

    pub(super) fn transpose(columns: usize, rows: usize, matrix: &[Reg]) -> Value {
        (0..rows).flat_map(|row| (0..columns).map(move |column| matrix[column * rows + row])).collect()
    }

    /// By expansion along the first column.
    pub(super) fn determinant(&mut self, kind: Kind, size: usize, matrix: &[Reg]) -> Reg {
        if size == 1 {
            return matrix[0];
        }
        let product = |lower: &mut Self, row: usize| {
            let minor = lower.minor(kind, size, matrix, 0, row);
            lower.arithmetic(kind, &[matrix[row]], &[minor], Opcode::MulF)
        };
        let mut sum = product(self, 0);
        for row in 1..size {
            let f = if row % 2 == 0 { Opcode::AddF } else { Opcode::SubF };
            let product = product(self, row);
            sum = self.arithmetic(kind, &sum, &product, f);
        }
        sum[0]
    }

    /// The determinant without one column and one row.
    fn minor(&mut self, kind: Kind, size: usize, matrix: &[Reg], column: usize, row: usize) -> Reg {
        let rest: Value = (0..size)
            .filter(|other| *other != column)
            .flat_map(|other| {
                (0..size).filter(move |index| *index != row).map(move |index| matrix[other * size + index])
            })
            .collect();
        self.determinant(kind, size - 1, &rest)
    }

    /// The adjugate over the determinant.
    pub(super) fn inverse(&mut self, kind: Kind, size: usize, matrix: &[Reg]) -> Value {
        let determinant = self.determinant(kind, size, matrix);
        let mut result = Value::new();
        for column in 0..size {
            for row in 0..size {
                let mut minor = self.minor(kind, size, matrix, row, column);
                if (row + column) % 2 == 1 {
                    minor = self.build.unary(Opcode::NegF, minor);
                }
                result.extend(self.arithmetic(kind, &[minor], &[determinant], Opcode::DivF));
            }
        }
        result
    }
}
