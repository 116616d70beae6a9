//! Limits on WGSL text, checked by token before naga sees it.
//!
//! naga walks expressions, `else` chains, declarations and types by recursion, and a stack that overflows
//! aborts the process: no `Result` comes back. [`check`] bounds each of those depths in one linear pass.
//!
//! Invariant: what `check` accepts goes through naga's parser, validator and SPIR-V writer, built without
//! optimisation, on a stack of 128 MiB. The token rules below may count too much, never too little; text
//! that is not WGSL may pass, because naga refuses it while parsing, and its parser counts its own depth.

use std::fmt;

/// Keeps naga's front end, whose time grows with the square of a function's length, within minutes.
const SOURCE_BYTES: u64 = 1 << 20;

/// naga refuses from 200 nested expressions and statements on, so this costs no valid source anything.
const BRACKETS: u32 = 256;

/// Depth of one expression's tree. A level costs naga up to 7 KiB of stack, unoptimised.
const OPERATORS: u32 = 1_000;

/// Blocks within blocks, where each `else` nests once more. A level costs up to 80 KiB.
const BRANCHES: u32 = 500;

/// Every module-scope declaration may depend on the next, and naga sorts them depth first (1 KiB a level).
const DECLARATIONS: u32 = 4_096;

/// `struct` and `alias` can wrap one another; naga's layout conversions recurse into them (4 KiB a level).
const TYPE_LAYERS: u32 = 1_000;

/// `array(…)` of an `array(…)` of … builds types without naming them. Room for a table of 8,192 rows.
const ARRAYS: u32 = 10_000;

/// Why a source was not handed to naga.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    TooLong { bytes: u64, limit: u64 },
    TooDeep { what: &'static str, line: u32, limit: u32 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes, limit } => {
                write!(f, "the source is {bytes} bytes long; the limit is {limit}")
            }
            Self::TooDeep { what, line, limit } => {
                write!(f, "more than {limit} {what} at line {line}")
            }
        }
    }
}

/// Accepts or refuses `source`; says nothing about whether it is valid WGSL.
pub(crate) fn check(source: &str) -> Result<(), Refusal> {
    let bytes = source.len() as u64;
    if bytes > SOURCE_BYTES {
        return Err(Refusal::TooLong { bytes, limit: SOURCE_BYTES });
    }
    let mut tokens = Tokens { rest: source, line: 1 };
    let mut depths = Depths::new();
    while let Some(token) = tokens.next() {
        depths.take(token).map_err(|(what, limit)| Refusal::TooDeep { what, line: tokens.line, limit })?;
    }
    Ok(())
}

/// What was exceeded, and its limit.
type Excess = (&'static str, u32);

fn at_most(value: u32, limit: u32, what: &'static str) -> Result<(), Excess> {
    if value > limit { Err((what, limit)) } else { Ok(()) }
}

/// One open bracket, or the module scope.
#[derive(Default)]
struct Level {
    /// Opened by `{`: holds statements. Otherwise it is part of an operand.
    braces: bool,
    /// Binary and prefix operators of the expression being read.
    operators: u32,
    /// Depth of the operand being read: what its brackets hold, and each `.member` or `[index]` on top.
    operand: u32,
    /// Deepest of the expression's earlier operands.
    deepest: u32,
    /// Deepest of the bracket's earlier expressions.
    earlier: u32,
    /// `<` without their `>`. While there are any, a comma may be inside a template list and ends nothing.
    angles: u32,
    /// `else`s of the `if` chain being read, and its deepest block.
    elses: u32,
    block: u32,
    /// Deepest of the block's earlier statements.
    statements: u32,
}

impl Level {
    /// Upper bound: a path down the tree meets each operator of this level once, then goes into one operand.
    fn depth(&self) -> u32 {
        self.operators + self.deepest.max(self.operand)
    }

    fn end_expression(&mut self) {
        self.earlier = self.earlier.max(self.depth());
        (self.operators, self.operand, self.deepest, self.angles) = (0, 0, 0, 0);
    }

    fn end_chain(&mut self) {
        self.statements = self.statements.max(self.elses + self.block);
        (self.elses, self.block) = (0, 0);
    }
}

struct Depths {
    /// Never empty: the first is the module scope.
    levels: Vec<Level>,
    /// A block has just been closed, so an `else` would continue its chain.
    after_block: bool,
    declarations: u32,
    arrays: u32,
    type_layers: u32,
    /// Of the declaration being read: whether it names a type, and its deepest template list.
    names_type: bool,
    templates: u32,
}

impl Depths {
    fn new() -> Self {
        let mut levels = Vec::with_capacity(BRACKETS as usize + 1);
        levels.push(Level { braces: true, ..Level::default() });
        Self { levels, after_block: false, declarations: 0, arrays: 0, type_layers: 0, names_type: false, templates: 0 }
    }

    fn take(&mut self, token: Token<'_>) -> Result<(), Excess> {
        let at_module_scope = self.levels.len() == 1;
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        if std::mem::take(&mut self.after_block) {
            if token == Token::Word("else") {
                level.elses += 1;
                return at_most(level.elses + level.block, BRANCHES, "nested or chained branches");
            }
            level.end_chain();
        }
        match token {
            Token::Word("array") => {
                self.arrays += 1;
                at_most(self.arrays, ARRAYS, "uses of `array`")
            }
            Token::Word("alias" | "struct") if at_module_scope => {
                self.names_type = true;
                Ok(())
            }
            Token::Word(_) | Token::Other => Ok(()),
            Token::Operator | Token::Less | Token::Greater(_) => {
                match token {
                    Token::Less => level.angles += 1,
                    Token::Greater(closed) => level.angles = level.angles.saturating_sub(closed),
                    _ => {}
                }
                self.templates = self.templates.max(level.angles);
                level.operators += 1;
                level.deepest = level.deepest.max(level.operand);
                level.operand = 0;
                at_most(level.depth(), OPERATORS, "operators in one expression")
            }
            Token::Dot => {
                level.operand += 1;
                at_most(level.depth(), OPERATORS, "operators in one expression")
            }
            Token::Comma => {
                if level.angles == 0 {
                    level.end_expression();
                }
                Ok(())
            }
            Token::Semicolon => {
                level.end_expression();
                if at_module_scope { self.end_declaration() } else { Ok(()) }
            }
            Token::Open(bracket) => {
                match bracket {
                    '[' => level.operand += 1,
                    '{' => level.end_expression(),
                    _ => {}
                }
                self.levels.push(Level { braces: bracket == '{', ..Level::default() });
                at_most(self.levels.len() as u32 - 1, BRACKETS, "nested brackets")
            }
            Token::Close if at_module_scope => Ok(()),
            Token::Close => self.close(),
        }
    }

    fn close(&mut self) -> Result<(), Excess> {
        let Some(mut closed) = self.levels.pop() else { return Ok(()) };
        closed.end_expression();
        let at_module_scope = self.levels.len() == 1;
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        if !closed.braces {
            level.operand = level.operand.max(closed.earlier + 1);
            return at_most(level.depth(), OPERATORS, "operators in one expression");
        }
        closed.end_chain();
        level.end_expression();
        level.block = level.block.max(closed.statements + 1);
        at_most(level.elses + level.block, BRANCHES, "nested or chained branches")?;
        self.after_block = true;
        if at_module_scope { self.end_declaration() } else { Ok(()) }
    }

    fn end_declaration(&mut self) -> Result<(), Excess> {
        self.declarations += 1;
        if std::mem::take(&mut self.names_type) {
            self.type_layers += 1 + self.templates;
        }
        self.templates = 0;
        at_most(self.declarations, DECLARATIONS, "declarations")?;
        at_most(self.type_layers, TYPE_LAYERS, "layers of `struct`, `alias` and their templates")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Open(char),
    Close,
    Comma,
    Semicolon,
    Dot,
    /// A `<` that naga may take for the start of a template list.
    Less,
    /// `>`, `>>`, `>=` or `>>=`, which naga may take for the end of so many template lists.
    Greater(u32),
    Operator,
    /// Numbers, and what has no depth: `:`, `@`.
    Other,
}

/// Splits text the way naga's lexer does, as far as [`Depths`] can tell the difference.
struct Tokens<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_trivia();
        let first = self.rest.chars().next()?;
        let (token, length) = match first {
            '(' | '[' | '{' => (Token::Open(first), 1),
            ')' | ']' | '}' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            ';' => (Token::Semicolon, 1),
            '0'..='9' => (Token::Other, number_length(self.rest.as_bytes())),
            '.' => match self.rest.as_bytes() {
                [_, b'0'..=b'9', ..] => (Token::Other, number_length(self.rest.as_bytes())),
                _ => (Token::Dot, 1),
            },
            '+' | '-' | '*' | '/' | '%' | '^' | '&' | '|' | '!' | '~' | '=' | '<' | '>' => {
                operator(self.rest.as_bytes())
            }
            // What naga calls no word it refuses, so every other letter may count as one.
            _ if first == '_' || first.is_ascii_alphabetic() || !first.is_ascii() => {
                let length = self.rest.find(|c: char| !is_word_part(c)).unwrap_or(self.rest.len());
                (Token::Word(&self.rest[..length]), length.max(first.len_utf8()))
            }
            _ => (Token::Other, 1),
        };
        self.rest = &self.rest[length..];
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

/// Length of the block comment that `bytes` starts with; to the end when nothing closes it.
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

/// What ends a line comment for naga; missing one would hide the text after it from us.
fn is_line_break(c: char) -> bool {
    matches!(c, '\u{a}'..='\u{d}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank(c: char) -> bool {
    is_line_break(c) || matches!(c, ' ' | '\t' | '\u{200e}' | '\u{200f}')
}

fn is_word_part(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric() || (!c.is_ascii() && !is_blank(c))
}
