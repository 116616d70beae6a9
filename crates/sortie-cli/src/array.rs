//! Files of numbers: NumPy's `.npy`, or `.bin`, which is nothing but the elements.
//!
//! Headers are untrusted. Invariant: reading one takes no more memory than [`MAX_HEADER_BYTES`], and the length of the
//! file agrees with its shape. This is why `npyz` is not used: it allocates whatever length the header claims, and
//! multiplies the shape without checking for overflow.

use std::{io::Read, path::Path};

use sortie::kernel::Scalar;

use crate::terminal;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// NumPy's headers are far shorter.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// NumPy's own limit.
const MAX_DIMENSIONS: usize = 64;

/// Types of elements, by NumPy's names.
const TYPES: [(Scalar, &str); 3] = [(Scalar::F32, "<f4"), (Scalar::I32, "<i4"), (Scalar::U32, "<u4")];

/// The elements of a file: their type, their shape, and where they start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) scalar: Scalar,
    /// The outermost dimension first; empty for a single element.
    pub(crate) shape: Vec<u64>,
    pub(crate) start: u64,
}

/// Whether a file is .npy. Anything but that and .bin is an error.
pub(crate) fn is_npy(path: &Path) -> Result<bool, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("npy") => Ok(true),
        Some("bin") => Ok(false),
        _ => Err(format!("{}: only .npy and .bin are known", terminal::name(path))),
    }
}

/// A type of elements on the command line.
pub(crate) fn scalar(text: &str) -> Result<Scalar, String> {
    let known = TYPES.into_iter().find(|(scalar, descr)| scalar.to_string() == text || descr[1..] == *text);
    known.map(|(scalar, _)| scalar).ok_or_else(|| "it is one of f32, i32 and u32".into())
}

impl Array {
    /// A file of nothing but elements.
    pub(crate) fn plain(scalar: Scalar, bytes: u64) -> Result<Self, String> {
        if !bytes.is_multiple_of(4) {
            return Err(format!("{bytes} bytes are not a whole number of elements of 4 bytes"));
        }
        Ok(Self { scalar, shape: vec![bytes / 4], start: 0 })
    }

    /// Reads the header of an `.npy` file whose length is `bytes`.
    pub(crate) fn read(file: &mut impl Read, bytes: u64) -> Result<Self, String> {
        let mut fixed = [0; 8];
        exactly(file, &mut fixed)?;
        if !fixed.starts_with(MAGIC) {
            return Err("it is not an .npy file: its first bytes are not NumPy's".into());
        }
        // Version 1 has a length of two bytes.
        let before = match fixed[6] {
            1 => 10,
            2 | 3 => 12,
            version => return Err(format!("version {version}.{} of .npy is not known, only 1 to 3", fixed[7])),
        };
        let mut len = [0; 4];
        exactly(file, &mut len[..before - 8])?;
        let len = u32::from_le_bytes(len) as usize;
        if len > MAX_HEADER_BYTES {
            return Err(format!("a header of {len} bytes, but at most {MAX_HEADER_BYTES} are expected"));
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

    /// The header is a Python dictionary with three entries.
    fn parsed(header: &str) -> Result<Self, String> {
        let unread = |what: &str| format!("its header has no valid {what}: {}", terminal::quoted(header.trim()));
        let entry = |key: &str| {
            let after = ["'", "\""].iter().find_map(|quote| header.split_once(&format!("{quote}{key}{quote}")));
            after.and_then(|(_, rest)| rest.trim_start().strip_prefix(':')).map(str::trim_start)
        };
        let descr = entry("descr").ok_or_else(|| unread("descr"))?;
        let descr = match descr.chars().next() {
            Some(quote @ ('\'' | '"')) => descr[1..].split_once(quote).map(|(descr, _)| descr),
            // The types of structures are lists.
            _ => None,
        };
        let descr = descr.ok_or_else(|| unread("plain descr"))?;
        let (scalar, _) = TYPES.into_iter().find(|(_, known)| *known == descr).ok_or_else(|| {
            format!("its elements are \"{}\"; only '<f4', '<i4' and '<u4' are known", terminal::quoted(descr))
        })?;
        let order = entry("fortran_order").ok_or_else(|| unread("fortran_order"))?;
        let shape = entry("shape").and_then(|rest| rest.strip_prefix('(')?.split_once(')')).map(|(shape, _)| shape);
        let shape = shape.ok_or_else(|| unread("shape"))?;
        let lengths = shape.split(',').map(str::trim).filter(|length| !length.is_empty());
        let shape: Vec<u64> = lengths.map(str::parse).collect::<Result<_, _>>().map_err(|_| unread("shape"))?;
        match order {
            order if order.starts_with("False") => {}
            // Both orders are the same in one dimension.
            order if order.starts_with("True") && shape.len() < 2 => {}
            order if order.starts_with("True") => return Err("it is in Fortran order; only C order is known".into()),
            _ => return Err(unread("fortran_order")),
        }
        let array = Self { scalar, shape, start: 0 };
        array.bytes()?;
        Ok(array)
    }

    /// The header of an `.npy` file with these elements: version 1, padded to a multiple of 64 bytes.
    pub(crate) fn header(&self) -> Vec<u8> {
        let lengths: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        // A Python tuple of one element has a comma.
        let comma = if self.shape.len() == 1 { "," } else { "" };
        let descr = TYPES.iter().find(|(scalar, _)| *scalar == self.scalar).map_or("", |(_, descr)| descr);
        let shape = lengths.join(", ");
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}{comma}), }}");
        let before = MAGIC.len() + 4;
        let padded = (before + header.len() + 1).next_multiple_of(64) - before;
        header.push_str(&" ".repeat(padded - 1 - header.len()));
        header.push('\n');
        let len = u16::try_from(header.len()).unwrap_or_else(|_| unreachable!("a shape has at most 64 dimensions"));
        [&MAGIC[..], &[1, 0], &len.to_le_bytes(), header.as_bytes()].concat()
    }

    pub(crate) fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    fn bytes(&self) -> Result<u64, String> {
        // A length of 0 must not hide an overflow of the others.
        let fits = self.shape.len() <= MAX_DIMENSIONS
            && self.shape.iter().try_fold(4_u64, |all, len| all.checked_mul((*len).max(1))).is_some();
        if !fits {
            let shape = terminal::quoted(&format!("{:?}", self.shape));
            return Err(format!("a shape of {shape} is larger than any file"));
        }
        Ok(4 * self.elements())
    }
}

fn exactly(file: &mut impl Read, into: &mut [u8]) -> Result<(), String> {
    file.read_exact(into).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "it is not an .npy file: it ends within its header".into(),
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
            for (scalar, _) in TYPES {
                let array = Array { scalar, shape: shape.clone(), start: 0 };
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
        assert_eq!(array, Ok(Array { scalar: Scalar::I32, shape: vec![1], start: 12 + header.len() as u64 }));
    }

    #[test]
    fn entries_may_come_in_any_order_and_with_any_blanks() {
        let array = read("{\"shape\":(2,3),  'fortran_order' : False,'descr':\"<u4\"}\n", 6);
        assert!(array.is_ok_and(|array| array.scalar == Scalar::U32 && array.shape == [2, 3]));
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
        assert!(with("'<f4'", "False", "(4294967296, 4294967296)").contains("larger than any file"));
        assert!(with("'<f4'", "maybe", "(6,)").contains("fortran_order"));
    }

    #[test]
    fn other_files_are_refused() {
        for file in [&b""[..], b"\x93NUM", b"PK\x03\x04 and so on", b"\x93NUMPY\x01\x00\xff\xff{"] {
            assert!(
                Array::read(&mut &file[..], file.len() as u64).is_err_and(|error| error.contains("not an .npy file"))
            );
        }
        let newer = [&MAGIC[..], &[9, 1], &[0; 8]].concat();
        assert!(Array::read(&mut &newer[..], 16).is_err_and(|error| error.contains("version 9.1")));
    }
}
