//! Limits on WGSL text, checked by token before naga sees it.
//!
//! naga walks expressions, `else` chains, declarations and types recursively, and a stack overflow aborts the process
//! instead of returning a `Result`. [`check`] bounds each of those depths in one linear pass.
//!
//! Invariant: a source that `check` accepts goes through naga's parser, validator and SPIR-V writer, built without
//! optimisation, on a stack of 128 MiB. The token rules below may count too much, never too little. Text that is not
//! WGSL may pass, because naga refuses it while parsing, and its parser counts its own depth.

use super::{
    elements,
    tokens::{Token, Tokens},
};

/// naga's time grows with the square of a function's length (30,000 statements in 240 KB: 6 s), so longer sources are
/// hardly usable.
const SOURCE_BYTES: u64 = 1 << 20;

/// naga refuses 200 nested expressions and statements, so this refuses no valid source.
const BRACKETS: u32 = 256;

/// Depth of one expression's tree. A level costs naga up to 7 KiB of stack, unoptimised.
const OPERATORS: u32 = 1_000;

/// Nested blocks, where each `else` adds a level. A level costs up to 80 KiB.
const BRANCHES: u32 = 500;

/// Every module-scope declaration may depend on the next, and naga sorts them depth first (1 KiB per level).
const DECLARATIONS: u32 = 4_096;

/// `struct` and `alias` can wrap one another; naga's layout conversions recurse into them (4 KiB per level).
const TYPE_LAYERS: u32 = 1_000;

/// Nested `array(…)` expressions build types without naming them. Room for a table of 8,192 rows.
const ARRAYS: u32 = 10_000;

/// Names and numbers in all functions together, and those at module scope. naga's time grows with the square of the
/// expressions of a function or of the module, and each name or number makes one or two: at this limit, parsing takes
/// up to 4 s unoptimised.
const OPERANDS: u32 = 65_536;

/// Elements of constants, each counted wherever it is used. An element takes naga up to 300 bytes.
const ELEMENTS: u32 = 1 << 20;

/// Why a source was not passed to naga.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("the source is {bytes} bytes long; the limit is {limit}")]
    TooLong { bytes: u64, limit: u64 },
    #[error("more than {limit} {what} at line {line}")]
    TooDeep { what: &'static str, line: u32, limit: u32 },
}

/// Accepts or refuses `source` by its limits. Does not check whether it is valid WGSL.
pub(crate) fn check(source: &str) -> Result<(), SourceError> {
    let bytes = source.len() as u64;
    if bytes > SOURCE_BYTES {
        return Err(SourceError::TooLong { bytes, limit: SOURCE_BYTES });
    }
    let mut tokens = Tokens::new(source);
    let mut depths = Depths::new();
    while let Some(token) = tokens.next() {
        depths.take(token).map_err(|(what, limit)| SourceError::TooDeep { what, line: tokens.line, limit })?;
    }
    elements::count(source, ELEMENTS).map_err(|(what, limit, line)| SourceError::TooDeep { what, line, limit })
}

/// Words that create no expression.
const KEYWORDS: &str = "break case const continue continuing default else for if let loop return switch var while";

fn is_keyword(word: &str) -> bool {
    KEYWORDS.split(' ').any(|keyword| keyword == word)
}

/// The exceeded quantity, and its limit.
type Excess = (&'static str, u32);

fn at_most(value: u32, limit: u32, what: &'static str) -> Result<(), Excess> {
    if value > limit { Err((what, limit)) } else { Ok(()) }
}

/// One open bracket, or the module scope.
#[derive(Default)]
struct Level {
    /// Opened by `{`: contains statements. Otherwise it is part of an operand.
    braces: bool,
    /// Binary and prefix operators of the expression being read.
    operators: u32,
    /// Depth of the operand being read: the content of its brackets, plus each `.member` or `[index]`.
    operand: u32,
    /// Maximum depth of the expression's earlier operands.
    deepest: u32,
    /// Maximum depth of the bracket's earlier expressions.
    earlier: u32,
    /// `<` without their `>`. While there are any, a comma may be inside a template list and ends no expression.
    angles: u32,
    /// `else`s of the `if` chain being read, and its deepest block.
    elses: u32,
    block: u32,
    /// Maximum depth of the block's earlier statements.
    statements: u32,
}

impl Level {
    /// Upper bound: a path down the tree meets each operator of this level once, then enters one operand.
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
    /// A block was just closed, so an `else` would continue its chain.
    after_block: bool,
    declarations: u32,
    arrays: u32,
    /// At module scope, and in braces.
    operands: [u32; 2],
    after_number: bool,
    type_layers: u32,
    /// Whether the declaration being read names a type, and the depth of its deepest template list.
    names_type: bool,
    templates: u32,
}

impl Depths {
    fn new() -> Self {
        let mut levels = Vec::with_capacity(BRACKETS as usize + 1);
        levels.push(Level { braces: true, ..Level::default() });
        Self {
            levels,
            after_block: false,
            declarations: 0,
            arrays: 0,
            operands: [0; 2],
            after_number: false,
            type_layers: 0,
            names_type: false,
            templates: 0,
        }
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
        // Inside braces, including those of structs.
        let in_braces = self.levels.get(1).is_some_and(|level| level.braces);
        let level = self.levels.last_mut().unwrap_or_else(|| unreachable!("never empty"));
        let is_operand = match token {
            // A word after a number is its suffix.
            Token::Word(word) => !is_keyword(word) && !self.after_number,
            token => token == Token::Number,
        };
        self.after_number = token == Token::Number;
        if is_operand {
            let what = ["names and numbers at module scope", "names and numbers in functions and structs"];
            let operands = &mut self.operands[usize::from(in_braces)];
            *operands += 1;
            at_most(*operands, OPERANDS, what[usize::from(in_braces)])?;
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
            Token::Word(_) | Token::Number | Token::Other => Ok(()),
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

#[cfg(test)]
mod tests {
    use naga::{
        back::spv,
        valid::{Capabilities, ValidationFlags, Validator},
    };

    use super::*;

    fn limit_of(source: &str) -> Option<u32> {
        match check(source) {
            Err(SourceError::TooDeep { limit, .. }) => Some(limit),
            other => other.map(|()| None).expect("short enough"),
        }
    }

    /// A kernel with `statements` in its body, where `a` is a `u32`, `f` an `f32` and `v` a `vec4<u32>`.
    fn kernel(declarations: &str, statements: &str) -> String {
        format!(
            "{declarations} @group(0) @binding(0) var<storage, read_write> o: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
                var a = id.x; var f = f32(a); var v = vec4(a); {statements} o[0] = a + u32(f) + v.x;
            }}"
        )
    }

    /// `count` declarations, each made of the next by `link`; `last` ends them.
    fn chain(count: u32, link: impl Fn(u32, u32) -> String, last: &str) -> String {
        (1..count).map(|i| link(i, i + 1)).chain([last.replace('N', &count.to_string())]).collect()
    }

    /// Processes `source` as wgpu does, on the stack size that this module promises to be enough.
    fn survives(source: String) {
        assert_eq!(check(&source), Ok(()));
        let run = move || {
            let module =
                naga::front::wgsl::parse_str(&source).unwrap_or_else(|e| panic!("{}", e.emit_to_string(&source)));
            let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect("valid");
            spv::write_vec(&module, &info, &spv::Options::default(), None).expect("written").len()
        };
        let thread = std::thread::Builder::new().stack_size(128 << 20).spawn(run).expect("a thread");
        assert!(thread.join().expect("no panic") > 0);
    }

    fn refused(source: &str, limit: u32) {
        assert_eq!(limit_of(source), Some(limit));
    }

    #[test]
    fn a_refusal_names_what_the_line_and_the_limit() {
        let source = format!("\n\nconst a = {}1;", "~".repeat(1001));
        let refusal = check(&source).expect_err("one too many");
        assert_eq!(refusal.to_string(), "more than 1000 operators in one expression at line 3");
        let refusal = check(&" ".repeat((1 << 20) + 1)).expect_err("one too many");
        assert_eq!(refusal.to_string(), "the source is 1048577 bytes long; the limit is 1048576");
    }

    #[test]
    fn what_people_write_passes() {
        let table = format!("const table = array<f32, 8192>({});", "-1.5e-3,".repeat(8192));
        let rows = format!("const rows = array<array<f32, 2>, 8192>({});", "array<f32, 2>(1.0, -2.0),".repeat(8192));
        let vectors =
            format!("const vectors = array<vec4<f32>, 8192>({});", "vec4<f32>(1.0, a.x, 3., -.5),".repeat(8192));
        let unrolled = kernel("", &"a = a * 3u + o[a & 7u];\n".repeat(3000));
        let sum = kernel("", &format!("a = {} 1u;", "o[a * 4u + 1u] * v.x + ".repeat(200)));
        let compares = format!("const t = array<bool, 400>({});", "a.x < 1 && b,".repeat(400));
        for source in [table, rows, vectors, unrolled, sum, compares] {
            assert_eq!(check(&source), Ok(()), "{}", &source[..60]);
        }
        survives(kernel("", &format!("a = {} 1u;", "o[a * 4u + 1u] * v.x + ".repeat(200))));
    }

    #[test]
    fn the_longest_expressions_survive_naga() {
        let most = OPERATORS as usize;
        survives(kernel("", &format!("a ={}a;", "~".repeat(most - 1))));
        survives(kernel("", &format!("f ={} f;", " -".repeat(most - 1))));
        survives(kernel("", &format!("a = a{};", " + a".repeat(most - 1))));
        survives(kernel("", &format!("a = {}a;", "*&".repeat(most / 2 - 1))));
        survives(kernel("", &format!("v = v{};", ".xyzw".repeat(most - 1))));
        survives(kernel("", &format!("if a > 1{} {{}}", " && true".repeat(most - 1))));
        survives(kernel(&format!("const K = 1{};", "+1".repeat(most - 1)), "a += K;"));
        refused(&kernel("", &format!("a ={}a;", "~".repeat(most))), OPERATORS);
        refused(&kernel("", &format!("v = v{};", ".xyzw".repeat(most))), OPERATORS);
        refused(&kernel("", &format!("o{} = a;", "[0]".repeat(most + 1))), OPERATORS);
    }

    #[test]
    fn operators_of_enclosing_expressions_add_up_across_commas() {
        let nested = |levels: usize, each: usize| {
            let open = "min(".repeat(levels);
            let close = format!("{}, 1u)", " + a".repeat(each)).repeat(levels);
            kernel("", &format!("a = {open}a{close};"))
        };
        survives(nested(180, 4));
        refused(&nested(180, 10), OPERATORS);
        // A trailing comma of a template list ends no expression either.
        let lengths =
            format!("alias A = {}1{};", "array<u32, vec2(".repeat(9), format!(").x{},>", " + 1".repeat(120)).repeat(9));
        refused(&lengths, OPERATORS);
    }

    #[test]
    fn the_deepest_statements_survive_naga() {
        let most = BRANCHES as usize;
        // The function's own body is one level, the last block another.
        survives(kernel("", &format!("if a == 0 {{}} {}", "else if a == 1 { a = 2; }".repeat(most - 2))));
        survives(kernel("", &format!("{}{}", "for (;;) { if a > 1 { break; }".repeat(125), "}".repeat(125))));
        survives(kernel("", &format!("{}{}", "switch a { default: {".repeat(63), "} }".repeat(63))));
        let chain = "if a == 0 {} ".to_owned() + &"else if a == 1 {} ".repeat(30);
        let nested =
            |levels| kernel("", &format!("{}{}", format!("{chain} else {{").repeat(levels), "}".repeat(levels)));
        survives(nested(15));
        refused(&nested(16), BRANCHES);
        refused(&kernel("", &format!("if a == 0 {{}} {}", "else if a == 1 {}".repeat(most - 1))), BRANCHES);
    }

    #[test]
    fn everything_deep_at_once_survives_naga() {
        let sum = " + a".repeat(OPERATORS as usize - 100);
        let expression = format!("{}a{sum}{}", "(".repeat(60), ")".repeat(60));
        let chain = "if a == 0 {} ".to_owned() + &"else if a == 1 {} ".repeat(350);
        let (open, close) = ("for (;;) { if a > 1 { break; }".repeat(120), "}".repeat(120));
        survives(kernel("", &format!("{open} {chain} else {{ a = {expression}; }} {close}")));
    }

    #[test]
    fn brackets_nest_no_deeper_than_naga_allows() {
        survives(kernel("", &format!("a = {}a{};", "o[".repeat(190), "]".repeat(190))));
        survives(kernel("", &format!("var t: {}u32{};", "array<".repeat(190), ", 1>".repeat(190))));
        refused(&kernel("", &format!("a = {}a{};", "(".repeat(256), ")".repeat(256))), BRACKETS);
    }

    #[test]
    fn the_longest_chains_of_declarations_survive_naga() {
        // The kernel itself is two.
        let most = DECLARATIONS - 2;
        survives(kernel(&chain(most, |i, j| format!("const T{i} = T{j};"), "const TN = 1u;"), "a = T1;"));
        let functions = |count| chain(count, |i, j| format!("fn run{i}() {{ run{j}(); }}"), "fn runN() {}");
        survives(kernel(&functions(most), "run1();"));
        refused(&kernel(&functions(most + 1), "run1();"), DECLARATIONS);
    }

    #[test]
    fn the_deepest_types_survive_naga() {
        let structs = |count| chain(count, |i, j| format!("struct T{i} {{ m: T{j} }}"), "struct TN { m: mat2x2<f32> }");
        let buffers = "@group(0) @binding(1) var<uniform> u: T1; @group(0) @binding(2) var<storage, read_write> s: T1;";
        survives(kernel(&(structs(TYPE_LAYERS - 1) + buffers), "s = u; var t = T1(); s = t;"));
        let arrays = |count| chain(count, |i, j| format!("alias T{i} = array<T{j}, 1>;"), "alias TN = mat2x2<f32>;");
        survives(kernel(&(arrays(TYPE_LAYERS / 2) + buffers), "s = u; var t = T1(); s = t;"));
        refused(&structs(TYPE_LAYERS), TYPE_LAYERS);
        refused(&arrays(TYPE_LAYERS / 2 + 1), TYPE_LAYERS);
    }

    #[test]
    fn the_deepest_inferred_types_survive_naga() {
        let arrays = |count: u32| {
            let step = |i| format!("const t{} = {}t{i}{};", i + 1, "array(".repeat(100), ")".repeat(100));
            let steps: String = (0..count / 100).map(step).collect();
            kernel("", &format!("const t0 = 1; {steps} var t = t{};", count / 100))
        };
        survives(arrays(ARRAYS - 1));
        refused(&arrays(ARRAYS), ARRAYS);
    }
}
