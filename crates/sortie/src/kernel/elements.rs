//! Counts the elements of constants by token, before naga evaluates them.
//!
//! naga copies a constant, element by element, wherever it is converted, indexed or used in a function. `const T1 =
//! array(T0, T0);` repeated for 24 lines makes millions of elements, and so do zero values of large arrays and of
//! nested structs. [`count`] sums the cost of every use of a name.
//!
//! Invariant: the count is never below the number of expressions that naga makes of a valid source's constants. It may
//! be above: names are distinguished by spelling alone, and a name that is declared twice has the larger of both
//! counts.

use rustc_hash::FxHashMap;

use super::tokens::{Token, Tokens};

/// Larger than any limit: the length of an array whose length is not computed from integers and constants.
const UNKNOWN: u64 = 1 << 40;

/// Limit on the members of a struct, nested ones included; arrays count as one element. naga, wgpu and drivers visit
/// each: 2^28 take 10 s.
const MEMBERS: u32 = 1 << 16;

/// The exceeded quantity, its limit, and the line.
pub(super) type Excess = (&'static str, u32, u32);

/// Refuses a source whose constants have more elements than `limit`, each counted wherever it is used, or a type with
/// too many members.
pub(super) fn count(source: &str, limit: u32) -> Result<(), Excess> {
    let mut elements = Elements { named: declarations(source), ..Elements::default() };
    let mut tokens = Tokens::new(source);
    let mut total = 0_u64;
    let mut depth = 0_u32;
    // After a dot or `const`, a word is not a use of a constant.
    let mut is_name = false;
    while let Some(token) = tokens.next() {
        match token {
            Token::Open('{') => depth += 1,
            Token::Close => {
                depth = depth.saturating_sub(u32::from(tokens.text == "}"));
                if depth == 0 {
                    elements.locals.clear();
                }
            }
            Token::Word("const") if depth > 0 => elements.declare_local(tokens.clone()),
            Token::Word("struct" | "alias") if depth == 0 => {
                if let Some(Token::Word(name)) = tokens.clone().next()
                    && elements.members(name) > u64::from(MEMBERS)
                {
                    return Err(("members of a type, with those of its members,", MEMBERS, tokens.line));
                }
            }
            _ => {}
        }
        total = total.saturating_add(elements.token(token, &tokens, is_name));
        is_name = matches!(token, Token::Dot | Token::Word("const"));
        if total > u64::from(limit) {
            return Err(("elements of constants and zero values, counted at each use,", limit, tokens.line));
        }
    }
    Ok(())
}

/// A declared name.
#[derive(Clone, Copy)]
struct Named<'a> {
    is_type: bool,
    /// The text after the name.
    text: &'a str,
}

/// Constants and types at module scope.
fn declarations(source: &str) -> FxHashMap<&str, Named<'_>> {
    let mut named = FxHashMap::default();
    let mut tokens = Tokens::new(source);
    let mut depth = 0_u32;
    while let Some(token) = tokens.next() {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
            Token::Word(keyword @ ("const" | "alias" | "struct")) if depth == 0 => {
                let Some(Token::Word(name)) = tokens.next() else { continue };
                let text = declaration(&tokens);
                named.insert(name, Named { is_type: keyword != "const", text });
            }
            _ => {}
        }
    }
    named
}

/// The rest of a declaration: up to its semicolon, or to its closing brace.
fn declaration<'a>(tokens: &Tokens<'a>) -> &'a str {
    let whole = tokens.rest;
    let mut ahead = tokens.clone();
    let mut depth = 0_u32;
    while let Some(token) = ahead.next() {
        match token {
            Token::Open(_) => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
            Token::Semicolon => {}
            _ => continue,
        }
        if depth == 0 && (token == Token::Semicolon || ahead.text == "}") {
            break;
        }
    }
    &whole[..whole.len() - ahead.rest.len()]
}

/// A constant of the current function.
#[derive(Clone, Copy)]
struct Local {
    elements: u64,
    value: Option<i128>,
}

/// What is counted of a declared name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Count {
    /// Elements of a constant.
    Elements,
    /// Members of a type, nested ones included.
    Members,
    /// Elements of a type's zero value.
    Size,
}

#[derive(Default)]
struct Elements<'a> {
    named: FxHashMap<&'a str, Named<'a>>,
    locals: FxHashMap<&'a str, Local>,
    /// By name; 1 while it is being counted, because naga refuses cyclic definitions.
    counts: FxHashMap<(Count, &'a str), u64>,
    values: FxHashMap<&'a str, Option<i128>>,
}

impl<'a> Elements<'a> {
    fn token(&mut self, token: Token<'a>, tokens: &Tokens<'a>, is_name: bool) -> u64 {
        match token {
            Token::Number => 1,
            Token::Word(word) if !is_name => self.word(word).saturating_add(self.zero_value(word, tokens)),
            _ => 0,
        }
    }

    /// Elements of an expression.
    fn expression(&mut self, text: &'a str) -> u64 {
        let mut tokens = Tokens::new(text);
        let (mut sum, mut after_dot) = (0_u64, false);
        while let Some(token) = tokens.next() {
            sum = sum.saturating_add(self.token(token, &tokens, after_dot));
            after_dot = token == Token::Dot;
        }
        sum
    }

    fn word(&mut self, name: &'a str) -> u64 {
        let local = self.locals.get(name).map_or(1, |local| local.elements);
        // A type costs only where a value of it is constructed.
        let Some(named) = self.named.get(name).copied().filter(|named| !named.is_type) else { return local };
        local.max(self.once(Count::Elements, name, |counts| counts.expression(named.text).max(1)))
    }

    /// A count of a declared name, computed once.
    fn once(&mut self, what: Count, name: &'a str, count: impl FnOnce(&mut Self) -> u64) -> u64 {
        if let Some(known) = self.counts.get(&(what, name)) {
            return *known;
        }
        self.counts.insert((what, name), 1);
        let counted = count(self);
        self.counts.insert((what, name), counted);
        counted
    }

    fn declare_local(&mut self, mut tokens: Tokens<'a>) {
        let Some(Token::Word(name)) = tokens.next() else { return };
        let text = declaration(&tokens);
        let mut local = Local { elements: self.expression(text), value: self.initial(text) };
        if let Some(other) = self.locals.get(name) {
            local.elements = local.elements.max(other.elements);
            local.value = local.value.filter(|value| other.value == Some(*value));
        }
        self.locals.insert(name, local);
    }

    /// Members of a type, nested ones included. Their names count, too.
    fn members(&mut self, name: &'a str) -> u64 {
        let Some(named) = self.named.get(name).copied().filter(|named| named.is_type) else { return 1 };
        self.once(Count::Members, name, |counts| {
            counts.sum_of_words(named.text, |counts, word, _| counts.members(word))
        })
    }

    /// Elements of `T()`, if `word` is its `T`.
    fn zero_value(&mut self, word: &'a str, tokens: &Tokens<'a>) -> u64 {
        if word != "array" && !self.named.get(word).is_some_and(|named| named.is_type) {
            return 0;
        }
        let mut ahead = Type { tokens: tokens.clone(), closed: 0 };
        let size = self.size(word, &mut ahead);
        let empty = ahead.closed == 0
            && ahead.tokens.next() == Some(Token::Open('('))
            && ahead.tokens.next() == Some(Token::Close);
        if empty { size } else { 0 }
    }

    /// Elements of a type whose first word has been read.
    fn size(&mut self, word: &'a str, ahead: &mut Type<'a>) -> u64 {
        if let Some(named) = self.named.get(word).copied().filter(|named| named.is_type) {
            // A struct has the elements of all members, an alias those of its type. Names of members count, too.
            return self.once(Count::Size, word, |counts| counts.sum_of_words(named.text, Self::size).max(1));
        }
        let plain = if word.starts_with("mat") {
            16
        } else if word.starts_with("vec") {
            4
        } else {
            1
        };
        if ahead.peek() != Some(Token::Less) {
            return plain;
        }
        ahead.tokens.next();
        if word != "array" {
            ahead.skip();
            return plain;
        }
        let Some(Token::Word(base)) = ahead.tokens.next() else { return UNKNOWN };
        let base = self.size(base, ahead);
        if ahead.closed > 0 {
            ahead.closed -= 1;
            return base;
        }
        match ahead.tokens.next() {
            Some(Token::Comma) => {
                let length = ahead.length();
                let length = self.value(&length).and_then(|length| u64::try_from(length).ok());
                base.saturating_mul(length.unwrap_or(UNKNOWN))
            }
            Some(Token::Greater(closed)) => {
                ahead.closed += closed - 1;
                base
            }
            _ => UNKNOWN,
        }
    }

    /// Sums a count over the words of a declaration. `count` may read on.
    fn sum_of_words(&mut self, text: &'a str, count: impl Fn(&mut Self, &'a str, &mut Type<'a>) -> u64) -> u64 {
        let mut ahead = Type { tokens: Tokens::new(text), closed: 0 };
        let mut sum = 0_u64;
        while let Some(token) = ahead.tokens.next() {
            if let Token::Word(word) = token {
                sum = sum.saturating_add(count(self, word, &mut ahead));
            }
        }
        sum
    }

    /// The value of `: type = expression;`.
    fn initial(&mut self, text: &'a str) -> Option<i128> {
        let mut tokens = Tokens::new(text);
        loop {
            if tokens.next()? == Token::Operator && tokens.text == "=" {
                break;
            }
        }
        let mut words = Vec::new();
        while let Some(token) = tokens.next().filter(|token| *token != Token::Semicolon) {
            words.push((token, tokens.text));
        }
        self.value(&words)
    }

    fn named_value(&mut self, name: &'a str) -> Option<i128> {
        let local = self.locals.get(name).map(|local| local.value);
        let named = self.named.get(name).copied().filter(|named| !named.is_type);
        match (local, named) {
            (Some(local), None) => local,
            // Scoping decides which of the two is meant.
            (Some(_), Some(_)) | (None, None) => None,
            (None, Some(named)) => {
                if let Some(known) = self.values.get(name) {
                    return *known;
                }
                self.values.insert(name, None);
                let value = self.initial(named.text);
                self.values.insert(name, value);
                value
            }
        }
    }

    /// The value of an integer expression; `None` if it contains anything else.
    fn value(&mut self, words: &[(Token<'a>, &'a str)]) -> Option<i128> {
        let mut at = 0;
        let value = self.sum(words, &mut at, 0)?;
        (at == words.len()).then_some(value)
    }

    /// Parses operators of at least this precedence, from left to right.
    fn sum(&mut self, words: &[(Token<'a>, &'a str)], at: &mut usize, least: u32) -> Option<i128> {
        let mut left = self.operand(words, at)?;
        while let Some((_, operator)) = words.get(*at) {
            let binds = match *operator {
                "|" | "^" | "&" => 1,
                "<<" | ">>" => 2,
                "+" | "-" => 3,
                "*" | "/" | "%" => 4,
                _ => break,
            };
            if binds < least {
                break;
            }
            *at += 1;
            let right = self.sum(words, at, binds + 1)?;
            let shift = || u32::try_from(right).ok().filter(|by| *by < 64);
            left = match *operator {
                "|" => left | right,
                "^" => left ^ right,
                "&" => left & right,
                "<<" => left.checked_mul(1 << shift()?)?,
                ">>" => left >> shift()?,
                "+" => left.checked_add(right)?,
                "-" => left.checked_sub(right)?,
                "*" => left.checked_mul(right)?,
                "/" => left.checked_div(right)?,
                _ => left.checked_rem(right)?,
            };
        }
        Some(left)
    }

    fn operand(&mut self, words: &[(Token<'a>, &'a str)], at: &mut usize) -> Option<i128> {
        let (token, text) = *words.get(*at)?;
        *at += 1;
        match token {
            Token::Number => {
                // The lexer returns a suffix as a word.
                if let Some((Token::Word("u" | "i"), _)) = words.get(*at) {
                    *at += 1;
                }
                match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                    Some(digits) => i128::from_str_radix(digits, 16).ok(),
                    None => text.parse().ok(),
                }
            }
            Token::Word("u32" | "i32") => self.operand(words, at),
            Token::Word(name) => self.named_value(name),
            Token::Open('(') => {
                let value = self.sum(words, at, 0)?;
                let closed = words.get(*at)?.0 == Token::Close;
                *at += 1;
                closed.then_some(value)
            }
            Token::Operator if text == "-" => self.operand(words, at)?.checked_neg(),
            _ => None,
        }
    }
}

/// A type that is being read.
struct Type<'a> {
    tokens: Tokens<'a>,
    /// Additional template lists closed by the last token: `>>` closes two.
    closed: u32,
}

impl<'a> Type<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        if self.closed > 0 { None } else { self.tokens.clone().next() }
    }

    /// Skips to the end of an open template list.
    fn skip(&mut self) {
        let mut open = 1;
        while let Some(token) = self.tokens.next() {
            match token {
                Token::Less => open += 1,
                Token::Greater(closed) if closed >= open => {
                    self.closed += closed - open;
                    return;
                }
                Token::Greater(closed) => open -= closed,
                Token::Semicolon | Token::Open('{') => return,
                _ => {}
            }
        }
    }

    /// The tokens of an array's length, up to the end of its template list.
    fn length(&mut self) -> Vec<(Token<'a>, &'a str)> {
        let mut words = Vec::new();
        let mut depth = 0;
        while let Some(token) = self.tokens.next() {
            match token {
                Token::Greater(closed) if depth == 0 => {
                    self.closed += closed - 1;
                    break;
                }
                // A trailing comma.
                Token::Comma if depth == 0 => continue,
                Token::Semicolon | Token::Open('{') => break,
                Token::Open(_) => depth += 1,
                Token::Close => depth -= 1,
                _ => {}
            }
            words.push((token, self.tokens.text));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest limit that accepts a source.
    fn elements(source: &str) -> u64 {
        let (mut low, mut high) = (0_u32, 1 << 30);
        while low < high {
            let middle = (low + high) / 2;
            if count(source, middle).is_ok() { high = middle } else { low = middle + 1 }
        }
        u64::from(low)
    }

    #[test]
    fn a_constant_counts_wherever_it_is_used() {
        let table = "const t = array(1, 2, 3, 4);";
        let alone = elements(table);
        assert!((4..10).contains(&alone), "{alone}");
        let used = elements(&format!("{table} fn f(i: u32) -> i32 {{ return t[i] + t[1]; }}"));
        assert!(used >= alone + 8, "{used}");
    }

    #[test]
    fn doubling_doubles_in_any_order_and_scope() {
        let lines: Vec<String> = (1..20).map(|n| format!("const t{n} = array(t{}, t{});", n - 1, n - 1)).collect();
        let first = "const t0 = 1;";
        let forward = format!("{first} {}", lines.concat());
        let backward = format!("{} {first}", lines.iter().rev().cloned().collect::<String>());
        let local = format!("fn f() {{ {forward} }}");
        let shadowed = format!("fn f() {{ const t = 1; {} }}", "{ const t = array(t, t);".repeat(19));
        for source in [forward, backward, local, shadowed] {
            assert!(elements(&source) > 1 << 19, "{source}");
        }
    }

    #[test]
    fn zero_values_count_their_elements() {
        for (source, least) in [
            ("const z = array<u32, 1000>();", 1000),
            ("const z = array<array<vec4<f32>, 10>, 0x10>();", 640),
            ("const n = 1 << 10; const z = array<u32, (n + 2) * 3 - 6>();", 3072),
            ("fn f() { const n = 500u; var z = array<u32, n>(); }", 500),
            ("alias A = array<u32, 300>; struct S { a: A, b: array<A, 2> } const z = S();", 900),
            ("const z = array<u32, i32(sqrt(16.0))>();", UNKNOWN.min(1 << 30)),
        ] {
            assert!(elements(source) >= least, "{source}: {}", elements(source));
        }
        // Types that are not constructed cost nothing, however large.
        let buffer = "@group(0) @binding(0) var<storage> b: array<array<u32, 30000>, 30000>; fn f() { _ = b[0][1]; }";
        assert!(elements(buffer) < 100, "{}", elements(buffer));
    }

    #[test]
    fn structs_of_structs_count_their_members() {
        let structs: String = (1..12).map(|n| format!("struct S{n} {{ a: S{}, b: S{} }}", n - 1, n - 1)).collect();
        let source = format!("struct S0 {{ a: u32 }} {structs} fn f() {{ let x = -S11(); }}");
        assert!(elements(&source) > 1 << 11);
        let structs: String = (1..24).map(|n| format!("struct S{n} {{ a: S{}, b: S{} }}", n - 1, n - 1)).collect();
        let refused = count(&format!("struct S0 {{ a: u32 }} {structs}"), u32::MAX).expect_err("2^23 members");
        assert!(refused.0.contains("members"), "{refused:?}");
    }
}
