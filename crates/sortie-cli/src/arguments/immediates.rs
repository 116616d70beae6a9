//! The value of a kernel's `var<immediate>` on the command line.

use std::str::FromStr;

/// The bytes of the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Immediates(Vec<u8>);

impl Immediates {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for Immediates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(digits) = text.strip_prefix("0x") {
            let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default());
            // `from_str_radix` alone accepts a sign.
            let whole = |pair: &str| pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit());
            let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).ok().filter(|_| whole(pair)));
            let bytes = bytes.collect::<Option<Vec<u8>>>();
            return bytes.map(Self).ok_or_else(|| "0x is followed by two digits for each byte".into());
        }
        let words = text.split(',').map(|number| word(number.trim()).map(u32::to_le_bytes));
        Ok(Self(words.collect::<Result<Vec<_>, _>>()?.concat()))
    }
}

/// One number of four bytes.
fn word(number: &str) -> Result<u32, String> {
    let float = || number.parse::<f32>().ok().map(f32::to_bits);
    let signed = || number.parse::<i32>().ok().map(i32::cast_unsigned);
    let word = number.parse::<u32>().ok().or_else(signed).or_else(float);
    word.ok_or_else(|| format!("{number:?} is not a four-byte number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<Vec<u8>> {
        text.parse::<Immediates>().ok().map(|immediates| immediates.0)
    }

    #[test]
    fn numbers_are_what_they_look_like() {
        let words = |words: [u32; 4]| Some(words.map(u32::to_le_bytes).as_flattened().to_vec());
        assert_eq!(bytes("7, -1,1.0,4294967295"), words([7, u32::MAX, 1.0_f32.to_bits(), u32::MAX]));
    }

    #[test]
    fn bytes_are_two_digits_each() {
        assert_eq!(bytes("0x0010ff"), Some(vec![0, 16, 255]));
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in ["", "x", "1,,2", "0x123", "0xgg", "0x+1", "99999999999999x"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
