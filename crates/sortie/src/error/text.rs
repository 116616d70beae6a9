//! Printable messages.
//!
//! A message can quote a source, a label or a file with arbitrary content. Invariant: a stored message has no control
//! characters except line breaks and tabs, and is at most [`MAX_TEXT_BYTES`] long.

/// Maximum length of a message. A terminal shows about as much at once; naga's messages are shorter unless they quote a
/// very long line.
pub(super) const MAX_TEXT_BYTES: usize = 4096;

/// Maximum length of a line in a longer message. Both ends of a long line are kept: the beginning of the source and
/// naga's label.
const MAX_LINE_BYTES: usize = 512;

/// Bytes reserved for the text that gives the length of the omitted part.
const MISSING: usize = 40;

/// Escapes control characters, and omits the middle of long text.
pub(crate) fn printable(text: String) -> String {
    if text.len() <= MAX_LINE_BYTES && !text.contains(is_hidden) {
        return text;
    }
    let mut shown = String::new();
    let mut rest = &*text;
    while !rest.is_empty() && shown.len() <= MAX_TEXT_BYTES {
        let line;
        (line, rest) = match rest.find('\n') {
            Some(end) => rest.split_at(end + 1),
            None => (rest, ""),
        };
        // Before escaping, which expands one character to up to ten.
        shown.extend(elided(line, MAX_LINE_BYTES).chars().flat_map(escaped));
    }
    if shown.len() > MAX_TEXT_BYTES {
        let end = shown.floor_char_boundary(MAX_TEXT_BYTES - MISSING);
        let missing = shown.len() - end + rest.len();
        shown.truncate(end);
        shown.push_str(&format!("… {missing} bytes more"));
    }
    shown
}

/// At most `most` bytes of a text: its beginning, its end, and the length of the omitted part.
pub(super) fn elided(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(MISSING);
    let head = text.floor_char_boundary(kept - kept / 4);
    let tail = text.ceil_char_boundary(text.len() - kept / 4);
    format!("{}… {} bytes …{}", &text[..head], tail - head, &text[tail..])
}

fn escaped(character: char) -> impl Iterator<Item = char> {
    let hidden = is_hidden(character);
    let escape = hidden.then(|| character.escape_unicode()).into_iter().flatten();
    escape.chain((!hidden).then_some(character))
}

/// Characters that move the cursor, change colours or reorder text instead of being visible.
fn is_hidden(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        character => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in ["", "copy: 4 bytes into 8", "line\n\tline ┌─ é…", &"x".repeat(MAX_LINE_BYTES)] {
            assert_eq!(printable(text.into()), text);
        }
        let lines = "a line of a longer message\n".repeat(100);
        assert_eq!(printable(lines.clone()), lines);
    }

    #[test]
    fn control_characters_and_those_that_reorder_text_are_escaped() {
        let text = printable("\u{1b}[31mred\r\0\u{9b}0m \u{202e}txt.exe".into());
        assert_eq!(text, "\\u{1b}[31mred\\u{d}\\u{0}\\u{9b}0m \\u{202e}txt.exe");
        assert_eq!(printable(text.clone()), text, "escaping twice is escaping once");
    }

    #[test]
    fn giant_lines_many_lines_and_escapes_are_all_within_the_limit() {
        let giant = format!("error: here\n1 │ {}\n  │ {}^ the label\n", "é".repeat(1 << 20), " ".repeat(1 << 20));
        let shown = printable(giant);
        assert!(shown.len() < 2 * MAX_LINE_BYTES + 100, "{}", shown.len());
        assert!(shown.starts_with("error: here\n1 │ éé") && shown.ends_with("^ the label\n"), "{shown}");
        let many = [&"line\n".repeat(1 << 20), &"\u{1b}".repeat(1 << 20), &"\u{1b}\n".repeat(1 << 20)];
        for text in many {
            let shown = printable(text.clone());
            assert!(shown.len() <= MAX_TEXT_BYTES && shown.contains(" bytes "), "{}", shown.len());
            assert!(!shown.contains('\u{1b}'));
        }
    }
}
