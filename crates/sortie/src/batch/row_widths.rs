//! The widths of rows.

/// Elements per row of the input and of the output; at least 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowWidths {
    pub(crate) input: usize,
    pub(crate) output: usize,
}

impl RowWidths {
    pub(crate) fn new(input: usize, output: usize) -> Self {
        Self { input: input.max(1), output: output.max(1) }
    }
}
