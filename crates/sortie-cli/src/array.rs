//! What a file of numbers is: NumPy's `.npy`, or nothing but the elements.

use std::{fmt, io::Read, str::FromStr};

use crate::terminal;

/// Every file of NumPy's begins so.
const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Headers that NumPy writes are far shorter; a length beyond it is not of a header.
const LONGEST_HEADER: usize = 1 << 20;

/// What the four bytes of an element are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    I32,
    U32,
}

impl Kind {
    fn descr(self) -> &'static str {
        match self {
            Self::F32 => "<f4",
            Self::I32 => "<i4",
            Self::U32 => "<u4",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::U32 => "u32",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::F32, Self::I32, Self::U32];
        let known = all.into_iter().find(|kind| kind.to_string() == text || kind.descr() == format!("<{text}"));
        known.ok_or_else(|| "it is one of f32, i32 and u32".into())
    }
}

/// The elements of a file: what they are, their shape, and where they start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) kind: Kind,
    /// The outermost first. Without any it is a single element.
    pub(crate) shape: Vec<u64>,
    pub(crate) start: u64,
}

impl Array {
    /// A file of nothing but elements.
    pub(crate) fn plain(kind: Kind, bytes: u64) -> Result<Self, String> {
        if !bytes.is_multiple_of(4) {
            return Err(format!("{bytes} bytes are no whole number of elements of 4"));
        }
        Ok(Self { kind, shape: vec![bytes / 4], start: 0 })
    }

    /// What the header of an `.npy` says, in a file of so many bytes.
    pub(crate) fn read(file: &mut impl Read, bytes: u64) -> Result<Self, String> {
        let mut fixed = [0; 8];
        exactly(file, &mut fixed)?;
        if !fixed.starts_with(MAGIC) {
            return Err("it is no .npy file: its first bytes are not NumPy's".into());
        }
        let (len, before) = match fixed[6] {
            1 => {
                let mut len = [0; 2];
                exactly(file, &mut len)?;
                (u16::from_le_bytes(len).into(), 10)
            }
            2 | 3 => {
                let mut len = [0; 4];
                exactly(file, &mut len)?;
                (u32::from_le_bytes(len) as usize, 12)
            }
            version => return Err(format!("version {version}.{} of .npy is not known, only 1 to 3", fixed[7])),
        };
        if len > LONGEST_HEADER {
            return Err(format!("a header of {len} bytes, where at most {LONGEST_HEADER} are expected"));
        }
        let mut header = vec![0; len];
        exactly(file, &mut header)?;
        let array = Self { start: (before + len) as u64, ..Self::parsed(&String::from_utf8_lossy(&header))? };
        let (wanted, found) = (array.bytes()?, bytes.saturating_sub(array.start));
        if wanted != found {
            return Err(format!("its header promises {wanted} bytes of elements, but {found} follow"));
        }
        Ok(array)
    }

    /// A Python dictionary of three entries, as NumPy writes it.
    fn parsed(header: &str) -> Result<Self, String> {
        let unread = |what: &str| {
            format!("its header has no {what} that can be understood: {}", terminal::quoted(header.trim()))
        };
        let entry = |key: &str| {
            let after = ["'", "\""].iter().find_map(|quote| header.split_once(&format!("{quote}{key}{quote}")));
            after.and_then(|(_, rest)| rest.trim_start().strip_prefix(':')).map(str::trim_start)
        };
        let descr = entry("descr").ok_or_else(|| unread("descr"))?;
        let descr = match descr.chars().next() {
            Some(quote @ ('\'' | '"')) => descr[1..].split_once(quote).map(|(descr, _)| descr),
            // Structures are lists.
            _ => None,
        };
        let descr = descr.ok_or_else(|| unread("plain descr"))?;
        let kind = [Kind::F32, Kind::I32, Kind::U32].into_iter().find(|kind| kind.descr() == descr);
        let kind = kind.ok_or_else(|| {
            format!("its elements are \"{}\"; only '<f4', '<i4' and '<u4' are known", terminal::quoted(descr))
        })?;
        let order = entry("fortran_order").ok_or_else(|| unread("fortran_order"))?;
        let shape = entry("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')')).map(|(shape, _)| shape);
        let shape = shape.ok_or_else(|| unread("shape"))?;
        let lengths = shape.split(',').map(str::trim).filter(|length| !length.is_empty());
        let shape: Vec<u64> = lengths.map(str::parse).collect::<Result<_, _>>().map_err(|_| unread("shape"))?;
        match order {
            order if order.starts_with("False") => {}
            // In one dimension both orders are the same.
            order if order.starts_with("True") && shape.len() < 2 => {}
            order if order.starts_with("True") => return Err("it is in Fortran's order; only C's is known".into()),
            _ => return Err(unread("fortran_order")),
        }
        let array = Self { kind, shape, start: 0 };
        array.bytes()?;
        Ok(array)
    }

    /// The header of an `.npy` file with these elements: version 1, elements at a multiple of 64.
    pub(crate) fn header(&self) -> Vec<u8> {
        let lengths: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        // One dimension is written with a comma, or it would be a number.
        let comma = if self.shape.len() == 1 { "," } else { "" };
        let descr = self.kind.descr();
        let shape = lengths.join(", ");
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}{comma}), }}");
        let before = MAGIC.len() + 4;
        let padded = (before + header.len() + 1).next_multiple_of(64) - before;
        header.push_str(&" ".repeat(padded - 1 - header.len()));
        header.push('\n');
        let len = u16::try_from(header.len()).unwrap_or_else(|_| unreachable!("a shape has at most 64 lengths"));
        [&MAGIC[..], &[1, 0], &len.to_le_bytes(), header.as_bytes()].concat()
    }

    pub(crate) fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    fn bytes(&self) -> Result<u64, String> {
        // NumPy has fewer dimensions than this; and no length of an empty array may overflow another.
        let fits = self.shape.len() <= 64
            && self.shape.iter().try_fold(4_u64, |all, len| all.checked_mul((*len).max(1))).is_some();
        if !fits {
            let shape = terminal::quoted(&format!("{:?}", self.shape));
            return Err(format!("a shape of {shape} is more than a file can have"));
        }
        Ok(4 * self.elements())
    }
}

fn exactly(file: &mut impl Read, into: &mut [u8]) -> Result<(), String> {
    file.read_exact(into).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "it is no .npy file: it ends within its header".into(),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str, elements: usize) -> Result<Array, String> {
        let len = u16::try_from(header.len()).expect("short");
        let file = [&MAGIC[..], &[1, 0], &len.to_le_bytes(), header.as_bytes(), &vec![0; 4 * elements]].concat();
        Array::read(&mut &file[..], file.len() as u64)
    }

    #[test]
    fn what_is_written_is_read_again() {
        for shape in [vec![], vec![0], vec![7], vec![2, 3], vec![1, 2, 3, 4]] {
            for kind in [Kind::F32, Kind::I32, Kind::U32] {
                let array = Array { kind, shape: shape.clone(), start: 0 };
                let header = array.header();
                assert!(header.len().is_multiple_of(64) && header.ends_with(b"\n"));
                let start = header.len() as u64;
                let found = Array::read(&mut &header[..], start + 4 * array.elements());
                assert_eq!(found, Ok(Array { start, ..array }));
            }
        }
    }

    #[test]
    fn the_second_version_has_a_longer_length() {
        let header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }";
        let len = (header.len() as u32).to_le_bytes();
        let file = [&MAGIC[..], &[2, 0], &len, header.as_bytes(), &[0; 4]].concat();
        let array = Array::read(&mut &file[..], file.len() as u64);
        assert_eq!(array, Ok(Array { kind: Kind::I32, shape: vec![1], start: 12 + header.len() as u64 }));
    }

    #[test]
    fn entries_may_come_in_any_order_and_with_any_blanks() {
        let array = read("{\"shape\":(2,3),  'fortran_order' : False,'descr':\"<u4\"}\n", 6);
        assert!(array.is_ok_and(|array| array.kind == Kind::U32 && array.shape == [2, 3]));
    }

    #[test]
    fn what_is_not_known_is_named() {
        let with = |descr: &str, order: &str, shape: &str| {
            let header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
            read(&header, 6).expect_err(&header)
        };
        assert!(with("'<f8'", "False", "(6,)").contains("\"<f8\""));
        assert!(with("'>f4'", "False", "(6,)").contains("\">f4\""));
        assert!(with("[('x', '<f4')]", "False", "(6,)").contains("('x', '<f4')"));
        assert!(with("'<f4'", "True", "(2, 3)").contains("Fortran"));
        assert!(with("'<f4'", "False", "(7,)").contains("promises 28 bytes of elements, but 24 follow"));
        assert!(with("'<f4'", "False", "(-6,)").contains("shape"));
        assert!(with("'<f4'", "False", "(4294967296, 4294967296)").contains("more than a file can have"));
        assert!(with("'<f4'", "maybe", "(6,)").contains("fortran_order"));
    }

    #[test]
    fn what_is_no_npy_is_said_to_be_none() {
        for file in [&b""[..], b"\x93NUM", b"PK\x03\x04 and so on", b"\x93NUMPY\x01\x00\xff\xff{"] {
            assert!(Array::read(&mut &file[..], file.len() as u64).is_err_and(|error| error.contains("no .npy file")));
        }
        let newer = [&MAGIC[..], &[9, 1], &[0; 8]].concat();
        assert!(Array::read(&mut &newer[..], 16).is_err_and(|error| error.contains("version 9.1")));
    }
}
