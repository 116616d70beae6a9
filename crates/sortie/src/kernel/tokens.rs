//! A lexer for WGSL, as far as nesting depth needs it.
//!
//! Invariant: every operator or bracket of naga's lexer is one here, and none is swallowed by a comment, a word or a
//! number. Where naga's reading depends on context (`>>` may end two template lists), the token carries the
//! possibilities.

/// A token that counts towards a depth, or ends one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Open(char),
    Close,
    Comma,
    Semicolon,
    Dot,
    /// A `<` that naga may take for the start of a template list.
    Less,
    /// `>`, `>>`, `>=` or `>>=`, which naga may take for the end of this many template lists.
    Greater(u32),
    Operator,
    /// A number, without its suffix.
    Number,
    /// Tokens without depth: `:`, `@`.
    Other,
}

/// The unread part of a source.
#[derive(Clone)]
pub(super) struct Tokens<'a> {
    /// The unread text.
    pub(super) rest: &'a str,
    /// The text of the last token.
    pub(super) text: &'a str,
    /// The line of the last token, counted from 1 as in naga.
    pub(super) line: u32,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self { rest: source, text: "", line: 1 }
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        self.skip_trivia();
        let first = self.rest.chars().next()?;
        let (token, length) = match first {
            '(' | '[' | '{' => (Token::Open(first), 1),
            ')' | ']' | '}' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            ';' => (Token::Semicolon, 1),
            '0'..='9' => (Token::Number, number_length(self.rest.as_bytes())),
            '.' => match self.rest.as_bytes() {
                [_, b'0'..=b'9', ..] => (Token::Number, number_length(self.rest.as_bytes())),
                _ => (Token::Dot, 1),
            },
            '+' | '-' | '*' | '/' | '%' | '^' | '&' | '|' | '!' | '~' | '=' | '<' | '>' => {
                operator(self.rest.as_bytes())
            }
            // naga refuses characters that start no word, so every other letter may count as one.
            _ if first == '_' || first.is_ascii_alphabetic() || !first.is_ascii() => {
                let length = self.rest.find(|c: char| !is_word_part(c)).unwrap_or(self.rest.len());
                (Token::Word(&self.rest[..length]), length)
            }
            _ => (Token::Other, 1),
        };
        (self.text, self.rest) = self.rest.split_at(length);
        Some(token)
    }

    fn skip_trivia(&mut self) {
        loop {
            if self.rest.starts_with("//") {
                self.skip(self.rest.find(is_line_break).unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                self.skip(block_comment_length(self.rest.as_bytes()));
            } else {
                let blank = self.rest.find(|c| !is_blank(c)).unwrap_or(self.rest.len());
                if blank == 0 {
                    return;
                }
                self.skip(blank);
            }
        }
    }

    fn skip(&mut self, bytes: usize) {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.bytes().filter(|&b| b == b'\n').count() as u32;
        self.rest = rest;
    }
}

/// The operator that `bytes` starts with, by naga's longest match, and its length.
fn operator(bytes: &[u8]) -> (Token<'static>, usize) {
    match bytes {
        [b'>', b'>', b'=', ..] => (Token::Greater(2), 3),
        [b'>', b'>', ..] => (Token::Greater(2), 2),
        [b'>', b'=', ..] => (Token::Greater(1), 2),
        [b'>', ..] => (Token::Greater(1), 1),
        [b'<', b'<', b'=', ..] => (Token::Operator, 3),
        [b'<', b'<' | b'=', ..] | [b'-', b'>' | b'-', ..] | [b'+', b'+', ..] => (Token::Operator, 2),
        [b'<', ..] => (Token::Less, 1),
        [b'&', b'&', ..] | [b'|', b'|', ..] => (Token::Operator, 2),
        [b'~', ..] => (Token::Operator, 1),
        [_, b'=', ..] => (Token::Operator, 2),
        _ => (Token::Operator, 1),
    }
}

/// Length of the number that `bytes` starts with, without its suffix, which reads as a word.
fn number_length(bytes: &[u8]) -> usize {
    let hex = matches!(bytes, [b'0', b'x' | b'X', ..]);
    let digits = |from: usize| match hex {
        true => bytes[from..].iter().take_while(|b| b.is_ascii_hexdigit()).count(),
        false => bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count(),
    };
    let mut at = if hex { 2 } else { 0 };
    at += digits(at);
    if bytes.get(at) == Some(&b'.') {
        at += 1 + digits(at + 1);
    }
    // `e` is a digit of a hexadecimal number, so `0x1e-3` is a subtraction.
    let exponent = match bytes.get(at) {
        Some(b'p' | b'P') => hex,
        Some(b'e' | b'E') => !hex,
        _ => false,
    };
    if exponent {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        at += bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    }
    at
}

/// Length of the block comment that `bytes` starts with; up to the end if it is not closed.
fn block_comment_length(bytes: &[u8]) -> usize {
    let (mut at, mut open) = (2, 1);
    while open > 0 {
        match &bytes[at..] {
            [] => break,
            [b'/', b'*', ..] => (at, open) = (at + 2, open + 1),
            [b'*', b'/', ..] => (at, open) = (at + 2, open - 1),
            _ => at += 1,
        }
    }
    at
}

/// The characters that end a line comment for naga; missing one would hide the text after it from this lexer.
fn is_line_break(c: char) -> bool {
    matches!(c, '\u{a}'..='\u{d}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank(c: char) -> bool {
    is_line_break(c) || matches!(c, ' ' | '\t' | '\u{200e}' | '\u{200f}')
}

fn is_word_part(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric() || (!c.is_ascii() && !is_blank(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> Vec<Token<'_>> {
        let mut tokens = Tokens::new(source);
        std::iter::from_fn(|| tokens.next()).collect()
    }

    /// How many operators are in `source`.
    fn operators(source: &str) -> usize {
        let operator = |token: &Token<'_>| matches!(token, Token::Operator | Token::Less | Token::Greater(_));
        tokens(source).into_iter().filter(operator).count()
    }

    #[test]
    fn signs_and_points_inside_numbers_are_no_operators() {
        for number in ["1.5e-3", "0x1p+4", ".5", "1e+10f", "0x.8p-1h", "12u", "3.", "0xFFu", "1.e2"] {
            assert_eq!(operators(number), 0, "{number}");
            assert!(!tokens(number).contains(&Token::Dot), "{number}");
        }
    }

    #[test]
    fn operators_next_to_numbers_are_operators() {
        for (source, count) in [("1u-3", 1), ("0x1e-3", 1), ("1.5e-3-2", 1), ("1-.5", 1), ("2.0-a", 1), ("1f+2f", 1)] {
            assert_eq!(operators(source), count, "{source}");
        }
    }

    #[test]
    fn the_longest_operator_is_taken_except_where_naga_takes_them_one_by_one() {
        let longest =
            ["&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "->", "++", "--", "+=", "<<=", ">>=", "&=", "/="];
        for source in longest {
            assert_eq!(tokens(source).len(), 1, "{source}");
        }
        for source in ["~~~", "!!!", "***", "- - -", "&&& &"] {
            assert_eq!(operators(source), 3, "{source}");
        }
    }

    #[test]
    fn comments_hide_what_they_hold_and_nothing_after() {
        let break_lines = "// ~ \u{2028}- // ~ \u{85}- // ~ \r- // ~ \u{b}-";
        assert_eq!(operators(break_lines), 4);
        assert_eq!(operators("/* ~ /* ~ */ ~ */ - /**/ - /*/ ~ */ -"), 3);
        assert_eq!(operators("- /* ~ /* ~ */ ~"), 1);
    }

    #[test]
    fn words_may_hold_letters_of_any_script() {
        assert_eq!(tokens("Δx_1 + ψ"), [Token::Word("Δx_1"), Token::Operator, Token::Word("ψ")]);
    }

    #[test]
    fn lines_are_counted_by_line_feeds_inside_comments_too() {
        let mut tokens = Tokens::new("a\n/* \n\n */ // \n b");
        assert_eq!((tokens.next(), tokens.line), (Some(Token::Word("a")), 1));
        assert_eq!((tokens.next(), tokens.line), (Some(Token::Word("b")), 5));
    }
}
