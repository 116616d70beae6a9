//! The dimensions of a reduction's elements as matrices: the innermost two, for each index of the others.

/// Dimensions of which some are reduced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matrices {
    /// Rows are reduced, else columns.
    pub(super) by_rows: bool,
    /// Length of the innermost dimension.
    pub(super) inner: usize,
    /// Length of the dimension around it, which is reduced if the innermost is not.
    pub(super) other: usize,
    /// Lengths and strides of the dimensions around both, the outermost first: the kept ones and the reduced ones.
    kept: Vec<(usize, usize)>,
    reduced: Vec<(usize, usize)>,
}

impl Matrices {
    /// Of lengths, and whether each is reduced; the outermost first.
    pub(super) fn new(dims: &[(u32, bool)]) -> Self {
        let mut merged: Vec<(usize, bool)> = Vec::new();
        for (length, reduced) in dims.iter().filter(|(length, _)| *length != 1) {
            match merged.last_mut() {
                Some((outer, kind)) if kind == reduced => *outer *= *length as usize,
                _ => merged.push((*length as usize, *reduced)),
            }
        }
        let (inner, by_rows) = merged.pop().unwrap_or((1, true));
        let (other, _) = merged.pop().unwrap_or((1, !by_rows));
        let mut stride = inner * other;
        let (mut kept, mut reduced) = (Vec::new(), Vec::new());
        for (length, is_reduced) in merged.into_iter().rev() {
            if is_reduced { &mut reduced } else { &mut kept }.insert(0, (length, stride));
            stride *= length;
        }
        Self { by_rows, inner, other, kept, reduced }
    }

    /// Length of the reduced one of the two dimensions.
    pub(super) fn reduced(&self) -> usize {
        if self.by_rows { self.inner } else { self.other }
    }

    /// The first element of the matrix at an index of the kept dimensions and one of the reduced ones.
    pub(super) fn start(&self, kept: usize, reduced: usize) -> usize {
        offset(&self.kept, kept) + offset(&self.reduced, reduced)
    }
}

fn offset(dims: &[(usize, usize)], mut index: usize) -> usize {
    let mut offset = 0;
    for (length, stride) in dims.iter().rev() {
        offset += index % length * stride;
        index /= length;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::Matrices;

    #[test]
    fn the_innermost_two_dimensions_are_a_matrix() {
        let rows = Matrices::new(&[(5, true), (1, false), (7, true), (2, false), (3, true)]);
        let expected = Matrices { by_rows: true, inner: 3, other: 2, kept: Vec::new(), reduced: vec![(35, 6)] };
        assert_eq!(rows, expected);
        assert_eq!((rows.reduced(), rows.start(0, 4)), (3, 24));
        let columns = Matrices::new(&[(2, false), (3, true), (4, false), (5, true), (6, false)]);
        assert_eq!((columns.by_rows, columns.inner, columns.other), (false, 6, 5));
        assert_eq!(columns.start(5, 2), 5 * 120 + 30);
        assert_eq!(Matrices::new(&[]).reduced(), 1);
        assert_eq!(Matrices::new(&[(4, false)]).reduced(), 1);
    }
}
