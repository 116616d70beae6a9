//! Lines of text from a file or a pipe, one at a time.
//!
//! Invariant: memory is bounded by [`MAX_LINE_BYTES`], whatever the file has.

use std::io::{BufRead, Read};

/// Far longer than any sentence.
pub(crate) const MAX_LINE_BYTES: usize = 1 << 20;

/// The lines of a reader, numbered from 1.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    /// What errors call it.
    name: String,
    number: u64,
    bytes: u64,
}

/// One line, without its end.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) text: String,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R, name: String) -> Self {
        Self { reader, name, number: 0, bytes: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A message about a line.
    pub(crate) fn at(&self, number: u64, what: &dyn std::fmt::Display) -> String {
        format!("{}:{number}: {what}", self.name)
    }

    /// The next line; `None` at the end.
    pub(crate) fn next_line(&mut self) -> Result<Option<Line>, String> {
        let mut bytes = Vec::new();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| format!("{}: {error}", self.name))?;
        if read == 0 {
            return Ok(None);
        }
        self.bytes += read as u64;
        self.number += 1;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        } else if bytes.len() > MAX_LINE_BYTES {
            return Err(self.at(self.number, &format!("it has more than {MAX_LINE_BYTES} bytes")));
        }
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        let text = String::from_utf8(bytes).map_err(|_| self.at(self.number, &"it is not UTF-8"))?;
        Ok(Some(Line { number: self.number, text }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Result<Vec<String>, String> {
        let mut lines = Lines::new(text, "a.txt".into());
        let mut all = Vec::new();
        while let Some(line) = lines.next_line()? {
            assert_eq!(line.number, all.len() as u64 + 1);
            all.push(line.text);
        }
        assert_eq!(lines.bytes(), text.len() as u64);
        Ok(all)
    }

    #[test]
    fn lines_end_with_either_end_and_the_last_one_with_none() {
        assert_eq!(all(b"").as_deref(), Ok(&[][..]));
        assert_eq!(all(b"a\r\n\nb").as_deref(), Ok(&["a".to_owned(), String::new(), "b".to_owned()][..]));
        assert_eq!(all(b"a\n").as_deref(), Ok(&["a".to_owned()][..]));
    }

    #[test]
    fn a_line_that_is_no_text_is_named() {
        assert_eq!(all(b"a\n\xff\n"), Err("a.txt:2: it is not UTF-8".into()));
        let long = [b"a\n".to_vec(), vec![b'x'; MAX_LINE_BYTES + 1]].concat();
        assert_eq!(all(&long), Err("a.txt:2: it has more than 1048576 bytes".into()));
        assert!(all(&[vec![b'x'; MAX_LINE_BYTES], b"\n".to_vec()].concat()).is_ok());
    }
}
