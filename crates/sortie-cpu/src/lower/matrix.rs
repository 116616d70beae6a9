//! Matrices, column by column.

use smallvec::SmallVec;

use super::{
    Lower, Value,
    types::{Kind, Ty},
};
use crate::code::{Binary, Reg, Unary};

impl Lower<'_> {
    /// The sum of products, from left to right.
    pub(super) fn dot(&mut self, kind: Kind, left: &[Reg], right: &[Reg]) -> Reg {
        let (add, multiply) = if kind.is_float() { (Binary::AddF, Binary::MulF) } else { (Binary::AddI, Binary::MulI) };
        let products = self.arithmetic(kind, left, right, multiply);
        let mut sum = products[0];
        for product in &products[1..] {
            sum = self.arithmetic(kind, &[sum], &[*product], add)[0];
        }
        sum
    }

    pub(super) fn matrix_product(&mut self, left_ty: Ty, left: &[Reg], right_ty: Ty, right: &[Reg]) -> Value {
        match (left_ty, right_ty) {
            (Ty::Matrix(_, rows, kind), Ty::Matrix(..) | Ty::Vector(..)) => {
                let inner = match left_ty {
                    Ty::Matrix(columns, ..) => columns as usize,
                    _ => unreachable!("a matrix"),
                };
                let mut product = Value::new();
                for column in right.chunks(inner) {
                    for row in 0..rows as usize {
                        let row: SmallVec<[Reg; 4]> =
                            (0..inner).map(|index| left[index * rows as usize + row]).collect();
                        product.push(self.dot(kind, &row, column));
                    }
                }
                product
            }
            (Ty::Vector(_, kind), Ty::Matrix(_, rows, _)) => {
                right.chunks(rows as usize).map(|column| self.dot(kind, left, column)).collect()
            }
            (Ty::Matrix(_, _, kind), _) | (_, Ty::Matrix(_, _, kind)) => {
                self.arithmetic(kind, left, right, Binary::MulF)
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
        let mut sum = None;
        for row in 0..size {
            let minor = self.minor(kind, size, matrix, 0, row);
            let product = self.arithmetic(kind, &[matrix[row]], &[minor], Binary::MulF)[0];
            sum = Some(match sum {
                None => product,
                Some(sum) => {
                    let f = if row % 2 == 0 { Binary::AddF } else { Binary::SubF };
                    self.arithmetic(kind, &[sum], &[product], f)[0]
                }
            });
        }
        sum.unwrap_or_else(|| unreachable!("at least two rows"))
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
                    minor = self.build.unary(Unary::NegF, minor);
                }
                result.extend(self.arithmetic(kind, &[minor], &[determinant], Binary::DivF));
            }
        }
        result
    }
}
