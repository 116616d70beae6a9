//! Text for the terminal.
//!
//! Names, headers and sources of input files may contain control characters, which could move the cursor or change the
//! window's title. Invariant: no control character reaches the terminal, except line breaks and tabs of this program.

use std::{
    io::{self, Write},
    path::Path,
};

/// The longest report of a failure.
const MAX_REPORT_BYTES: usize = 8192;

/// The longest quotation from a file.
const MAX_QUOTED_BYTES: usize = 200;

/// A path in one line.
pub(crate) fn name(path: &Path) -> String {
    escape(&path.to_string_lossy(), |_| false)
}

/// The beginning of a file's contents, in one line.
pub(crate) fn quoted(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_QUOTED_BYTES);
    let more = if end < text.len() { "…" } else { "" };
    escape(&text[..end], |_| false) + more
}

/// A report of a failure, which may have several lines.
pub(crate) fn report(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_REPORT_BYTES);
    let mut shown = escape(&text[..end], is_layout);
    if end < text.len() {
        shown.push_str(&format!("… {} more bytes", text.len() - end));
    }
    shown
}

/// Escapes what is written through it.
#[derive(Debug)]
pub(crate) struct Escaping<W>(pub(crate) W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for chunk in bytes.utf8_chunks() {
            let valid = chunk.valid();
            if valid.contains(|character| is_hidden(character) && !is_layout(character)) {
                self.0.write_all(escape(valid, is_layout).as_bytes())?;
            } else {
                self.0.write_all(valid.as_bytes())?;
            }
            chunk.invalid().iter().try_for_each(|byte| write!(self.0, "\\x{byte:02x}"))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) && !keep(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

fn is_layout(character: char) -> bool {
    matches!(character, '\n' | '\t')
}

/// Characters that move the cursor, change colours or reorder text.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_without_control_characters() {
        assert_eq!(name(Path::new("a\nerror: b\u{1b}[31m\u{202e}é.npy")), "a\\nerror: b\\u{1b}[31m\\u{202e}é.npy");
    }

    #[test]
    fn a_quotation_is_short() {
        assert_eq!(quoted("short"), "short");
        let long = quoted(&"\u{1b}é".repeat(1 << 20));
        assert!(long.len() < 8 * MAX_QUOTED_BYTES && long.ends_with('…'), "{long}");
    }

    #[test]
    fn a_report_keeps_its_lines_and_is_a_few_kilobytes_long() {
        assert_eq!(report("one\n\ttwo\u{7}"), "one\n\ttwo\\u{7}");
        let long = report(&"a line\n".repeat(1 << 20));
        assert!(long.len() < MAX_REPORT_BYTES + 100 && long.ends_with(" more bytes"), "{}", long.len());
    }

    #[test]
    fn what_is_written_is_escaped() {
        let mut out = Escaping(Vec::new());
        write!(out, "a\tb\n\u{1b}]0;title\u{7}\u{9b}c").expect("a vector takes anything");
        out.write_all(b"\xff\xc3").expect("a vector takes anything");
        assert_eq!(String::from_utf8(out.0).as_deref(), Ok("a\tb\n\\u{1b}]0;title\\u{7}\\u{9b}c\\xff\\xc3"));
    }
}
