//! Numbers for people.

use indicatif::HumanCount;

/// With a comma between thousands.
pub(crate) fn whole(number: impl TryInto<u64>) -> String {
    HumanCount(number.try_into().unwrap_or(u64::MAX)).to_string()
}

/// A number of something: `1 kernel`, `2 kernels`, `2 dispatches`.
pub(crate) fn counted(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let ending = match number {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", whole(number))
}

/// About three digits.
pub(crate) fn rough(number: f64) -> String {
    match number.abs() {
        size if size >= 1000.0 => whole(number.abs().round() as u64),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 0.1 => format!("{number:.2}"),
        size if size >= 0.01 => format!("{number:.3}"),
        size if size > 0.0 => format!("{number:.4}"),
        _ => "0".into(),
    }
}

/// Microseconds in the largest unit that leaves at least 1.
pub(crate) fn micros(micros: f64) -> String {
    match micros {
        long if long >= 1e6 => format!("{} s", rough(long / 1e6)),
        long if long >= 1e3 => format!("{} ms", rough(long / 1e3)),
        short => format!("{} µs", rough(short)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_parted() {
        assert_eq!([0_u64, 999, 1000, 12_345_678].map(whole), ["0", "999", "1,000", "12,345,678"]);
    }

    #[test]
    fn one_is_singular_and_all_else_plural() {
        let counts = [0_u64, 1, 2, 1000].map(|number| counted(number, "kernel"));
        assert_eq!(counts, ["0 kernels", "1 kernel", "2 kernels", "1,000 kernels"]);
        assert_eq!([1_u64, 2].map(|number| counted(number, "dispatch")), ["1 dispatch", "2 dispatches"]);
    }

    #[test]
    fn rough_numbers_keep_about_three_digits() {
        let shown = [1234.5, 123.4, 12.34, 1.234, 0.1234, 0.01234, 0.0].map(rough);
        assert_eq!(shown, ["1,235", "123", "12.3", "1.23", "0.12", "0.012", "0"]);
    }

    #[test]
    fn times_have_the_unit_that_suits_them() {
        assert_eq!([0.5, 999.0, 1500.0, 2.5e6].map(micros), ["0.50 µs", "999 µs", "1.50 ms", "2.50 s"]);
    }
}
