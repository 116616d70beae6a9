//! Sizes, as they are typed and shown.

use std::str::FromStr;

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// In the largest unit that leaves at least 1; one decimal where it is not whole.
pub(crate) fn shown(count: u64) -> String {
    let power = (0..UNITS.len()).rev().find(|power| count >> (10 * power) > 0).unwrap_or(0);
    let unit = 1_u64 << (10 * power);
    let tenths = u128::from(count % unit) * 10 / u128::from(unit);
    let decimal = if tenths > 0 { format!(".{tenths}") } else { String::new() };
    format!("{}{decimal} {}", count / unit, UNITS[power])
}

/// A number of bytes: `65536`, `64KiB`, `16 MiB`, `1G`.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let known = |name: &&str| unit.eq_ignore_ascii_case(name) || unit.eq_ignore_ascii_case(&name[..1]);
    let power = if unit.is_empty() { Some(0) } else { UNITS.iter().position(known) };
    let power = power.ok_or_else(|| format!("{unit:?} is no unit of {}", UNITS.join(", ")))?;
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << (10 * power)));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| "it is given as a number and a unit, like 64MiB".into())
}

/// How many elements a row has, and what comes out of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) width: usize,
    pub(crate) out: usize,
}

impl FromStr for Row {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (width, out) = text.split_once(':').unwrap_or((text, text));
        let number = |text: &str| {
            let number = text.trim().parse().ok().filter(|number| (1..=1 << 30).contains(number));
            number.ok_or_else(|| format!("{text:?} is no number of elements; a row is given as IN or IN:OUT"))
        };
        Ok(Self { width: number(width)?, out: number(out)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_fits() {
        let told = [0, 128, 1024, 1536, 128 << 20, (2 << 30) - 4, u64::MAX].map(shown);
        assert_eq!(told, ["0 B", "128 B", "1 KiB", "1.5 KiB", "128 MiB", "1.9 GiB", "16777215.9 TiB"]);
    }

    #[test]
    fn sizes_are_numbers_with_or_without_a_unit() {
        let read = ["1", "64KiB", "16 MiB", "2g", "100B"].map(|text| bytes(text).ok());
        assert_eq!(read, [Some(1), Some(64 << 10), Some(16 << 20), Some(2 << 30), Some(100)]);
        for wrong in
            ["", "MiB", "0", "1.5MiB", "-1", "1 MB", "1 parsec", "99999999999999999999", "18446744073709551615T"]
        {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_row_is_one_width_or_two() {
        assert_eq!("3".parse(), Ok(Row { width: 3, out: 3 }));
        assert_eq!("3:1".parse(), Ok(Row { width: 3, out: 1 }));
        for wrong in ["", "0", "3:", ":3", "3:0", "3:1:1", "many", "99999999999"] {
            assert!(wrong.parse::<Row>().is_err(), "{wrong}");
        }
    }
}
