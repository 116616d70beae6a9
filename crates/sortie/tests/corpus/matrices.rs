//! Matrices of all nine shapes, in memory with their own alignment, and determinants.

use crate::{
    case::Case,
    dice::Dice,
    tolerance::abs,
    word::Word,
};

const SHAPE: &str = include_str!("kernels/matrices.wgsl");
const DETERMINANTS: &str = include_str!("kernels/determinants.wgsl");
const LEN: usize = 23;

/// Columns of rows.
type Matrix = Vec<Vec<f64>>;

/// What lies in memory: each column takes the room of a vec2 or a vec4.
#[derive(Default)]
struct Layout(Vec<Word>);

impl Layout {
    fn align(&mut self, words: usize) {
        self.0.resize(self.0.len().next_multiple_of(words), Word::Any);
    }

    fn vector(&mut self, vector: &[f64]) {
        self.align(if vector.len() == 2 { 2 } else { 4 });
        self.0.extend(vector.iter().map(|value| Word::from(*value)));
    }

    fn matrix(&mut self, matrix: &Matrix) {
        for column in matrix {
            self.vector(column);
        }
        self.align(if matrix[0].len() == 2 { 2 } else { 4 });
    }

    /// As data, with something in the padding that would be noticed.
    fn data(&self) -> Vec<f32> {
        self.0.iter().map(|word| if let Word::Float(value) = word { *value as f32 } else { 1e30 }).collect()
    }
}

fn matrix(dice: &mut Dice, columns: usize, rows: usize) -> Matrix {
    (0..columns).map(|_| vector(dice, rows)).collect()
}

fn vector(dice: &mut Dice, len: usize) -> Vec<f64> {
    (0..len).map(|_| f64::from(dice.float(-4.0, 4.0))).collect()
}

fn multiply(m: &Matrix, v: &[f64]) -> Vec<f64> {
    (0..m[0].len()).map(|row| m.iter().zip(v).map(|(column, v)| column[row] * v).sum()).collect()
}

fn shape(columns: usize, rows: usize) -> Case {
    const NAMES: [[&str; 3]; 3] =
        [["mat2x2", "mat2x3", "mat2x4"], ["mat3x2", "mat3x3", "mat3x4"], ["mat4x2", "mat4x3", "mat4x4"]];
    let other = 2 + (columns + rows) % 3;
    let mut dice = Dice::new((columns * 10 + rows) as u64);
    let mut input = Layout::default();
    let [mut product, mut turned, mut sums, mut right, mut left] = std::array::from_fn(|_| Layout::default());
    let mut picked = Vec::new();
    for index in 0..LEN {
        let (m, n) = (matrix(&mut dice, columns, rows), matrix(&mut dice, other, columns));
        let (v, u, s) = (vector(&mut dice, columns), vector(&mut dice, rows), f64::from(dice.float(-2.0, 2.0)));
        // The widest member aligns the struct.
        let widest = if columns == 2 && rows == 2 { 2 } else { 4 };
        input.align(widest);
        input.matrix(&m);
        input.matrix(&n);
        input.vector(&v);
        input.vector(&u);
        input.0.push(Word::from(s));
        input.align(widest);
        product.matrix(&n.iter().map(|column| multiply(&m, column)).collect());
        turned.matrix(&(0..rows).map(|row| m.iter().map(|column| column[row]).collect()).collect());
        sums.matrix(&m.iter().map(|column| column.iter().map(|x| x * (2.0 * s - 1.0)).collect()).collect());
        right.vector(&multiply(&m, &v));
        left.vector(&m.iter().map(|column| column.iter().zip(&u).map(|(x, u)| x * u).sum()).collect::<Vec<_>>());
        let (here, next) = (index % columns, (index + 1) % columns);
        // There are at least two columns, so the one that is doubled is another one.
        picked.push(m[here][index % rows] + 1.0 + m[next][1] + m[here][1]);
    }
    right.align(if rows == 2 { 2 } else { 4 });
    left.align(if columns == 2 { 2 } else { 4 });
    let source = [("COLUMNS", columns), ("ROWS", rows), ("OTHER", other)]
        .into_iter()
        .fold(SHAPE.to_owned(), |source, (name, number)| source.replace(name, &number.to_string()));
    let mut case = Case::new(NAMES[columns - 2][rows - 2], source).entry("shape").items([LEN as u32, 1, 1]).input(&input.data());
    for after in [product.0, turned.0, sums.0, right.0, left.0, picked.into_iter().map(Word::from).collect()] {
        case = case.output(after).within(abs(2e-5, "up to four rounded products in any order, each below 16"));
    }
    case
}

/// By the first column.
fn determinant(m: &Matrix) -> f64 {
    if m.len() == 1 {
        return m[0][0];
    }
    let minor = |row: usize| -> Matrix {
        let others = m[1..].iter();
        others.map(|column| [&column[..row], &column[row + 1..]].concat()).collect()
    };
    (0..m.len()).map(|row| if row % 2 == 0 { m[0][row] } else { -m[0][row] } * determinant(&minor(row))).sum()
}

fn determinants() -> Case {
    let mut dice = Dice::new(60);
    let matrices: Vec<Matrix> = (0..LEN).map(|_| matrix(&mut dice, 4, 4)).collect();
    let cut = |m: &Matrix, size: usize| -> Matrix { m[..size].iter().map(|column| column[..size].to_vec()).collect() };
    let expected: Vec<f64> = matrices
        .iter()
        .flat_map(|m| {
            let last = vec![m[2][..2].to_vec(), m[3][2..].to_vec()];
            [determinant(m), determinant(&cut(m, 3)), determinant(&cut(m, 2)), 4.0 * determinant(&last)]
        })
        .collect();
    let mut input = Layout::default();
    for m in &matrices {
        input.matrix(m);
    }
    Case::new("determinants", DETERMINANTS)
        .items([LEN as u32, 1, 1])
        .input(&input.data())
        .output(expected)
        .within(abs(1e-3, "24 rounded products of four, each below 256, in any order"))
}

pub(crate) fn cases() -> Vec<Case> {
    let shapes = (2..5).flat_map(|columns| (2..5).map(move |rows| shape(columns, rows)));
    shapes.chain([determinants()]).collect()
}
