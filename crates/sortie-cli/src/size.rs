//! Sizes, as they are typed and shown.

use std::str::FromStr;

use bytesize::ByteSize;

/// In the largest binary unit that leaves at least 1; one decimal unless it is 0.
pub(crate) fn shown(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string().replace(".0 ", " ")
}

/// A number of bytes: `65536`, `64KiB`, `1MB`, `1.5 GiB`. A single letter is binary: `16M` is `16MiB`.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let letters = text.chars().rev().take_while(char::is_ascii_alphabetic).count();
    let binary = letters == 1 && !text.ends_with(['b', 'B']);
    let parsed = format!("{text}{}", if binary { "iB" } else { "" }).parse::<ByteSize>().ok();
    let bytes = parsed.and_then(|size| usize::try_from(size.0).ok());
    let bytes = bytes.filter(|bytes| (1..=isize::MAX as usize).contains(bytes));
    bytes.ok_or_else(|| "a size is a number and a unit, like 64MiB or 1MB".into())
}

/// Elements of a row in the input, and of the row that a kernel makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowWidths {
    pub(crate) input: usize,
    pub(crate) output: usize,
}

impl FromStr for RowWidths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (input, output) = text.split_once(':').unwrap_or((text, text));
        let width = |text: &str| {
            let width = text.trim().parse().ok().filter(|width| (1..=1 << 30).contains(width));
            width.ok_or_else(|| format!("{text:?} is not a number of elements; a row is IN or IN:OUT"))
        };
        Ok(Self { input: width(input)?, output: width(output)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_fits() {
        let shown = [0, 128, 1024, 1536, 128 << 20, (2 << 30) - 4, 1 << 42].map(shown);
        assert_eq!(shown, ["0 B", "128 B", "1 KiB", "1.5 KiB", "128 MiB", "2 GiB", "4 TiB"]);
    }

    #[test]
    fn sizes_are_numbers_with_or_without_a_unit() {
        let read = ["1", "64KiB", "16 MiB", "2g", "100B", "1MB", "1 MB", "1M", "1.5MiB"].map(|text| bytes(text).ok());
        let expected = [1, 64 << 10, 16 << 20, 2 << 30, 100, 1_000_000, 1_000_000, 1 << 20, 3 << 19];
        assert_eq!(read, expected.map(Some));
        for wrong in ["", "MiB", "0", "-1", "1 parsec", "99999999999999999999", "18446744073709551615T"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_row_is_one_width_or_two() {
        assert_eq!("3".parse(), Ok(RowWidths { input: 3, output: 3 }));
        assert_eq!("3:1".parse(), Ok(RowWidths { input: 3, output: 1 }));
        for wrong in ["", "0", "3:", ":3", "3:0", "3:1:1", "many", "99999999999"] {
            assert!(wrong.parse::<RowWidths>().is_err(), "{wrong}");
        }
    }
}
