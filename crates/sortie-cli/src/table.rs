//! Tables in the terminal.

use comfy_table::{CellAlignment, Row, Table, presets};

/// A table without borders. The columns from `numbers` on are aligned to the right.
pub(crate) fn table(rows: impl IntoIterator<Item: Into<Row>>, numbers: usize) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).add_rows(rows);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if at == 0 { 0 } else { 2 }, 0));
        if at >= numbers {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        assert_eq!(table([["#", "name", ""], ["0*", "é", "x"]], 9), "#   name\n0*  é     x");
        assert_eq!(table([["a", "10"], ["bc", "9"]], 1), "a   10\nbc   9");
    }
}
