//! Metrics as a table, for a terminal.

use std::fmt;

use super::{FIGURES, Metrics};

impl fmt::Display for Metrics {
    /// One figure per line: names on the left, digits in groups of three on the right.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values().map(grouped);
        let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let names = width(&mut FIGURES.iter().map(|figure| figure.name.len()));
        let digits = width(&mut values.iter().map(String::len));
        for (index, (figure, value)) in FIGURES.iter().zip(&values).enumerate() {
            let end = if index + 1 == FIGURES.len() { "" } else { "\n" };
            write!(f, "{:names$}  {value:>digits$}{end}", figure.name)?;
        }
        Ok(())
    }
}

fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_groups_of_three() {
        assert_eq!([0, 999, 1000, 123_456, 1_234_567].map(grouped), ["0", "999", "1,000", "123,456", "1,234,567"]);
    }

    #[test]
    fn every_figure_has_a_line_and_all_lines_are_as_long() {
        let metrics = Metrics { batches: 3, pool_bytes_live: 1 << 20, ..Metrics::default() };
        let table = metrics.to_string();
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), FIGURES.len());
        assert_eq!(lines[0], "batches                              3");
        assert!(lines.contains(&"pool_bytes_live              1,048,576"), "{table}");
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{table}");
    }
}
