//! WGSL that is made to hurt: small sources that ask for much, and mutations of good ones.

use std::{fmt::Write, fs, path::Path};

use fastrand::Rng;

/// A source that grows with a number.
pub(crate) struct Adversary {
    pub(crate) name: &'static str,
    /// The size at which it was found to hurt.
    pub(crate) size: u32,
    pub(crate) source: fn(u32) -> String,
}

/// All of them.
pub(crate) const ADVERSARIES: &[Adversary] = &[
    Adversary { name: "doubling constants", size: 24, source: doubling_constants },
    Adversary { name: "doubling structs", size: 24, source: doubling_structs },
    Adversary { name: "doubling arrays", size: 24, source: doubling_arrays },
    Adversary { name: "doubling calls", size: 20, source: doubling_calls },
    Adversary { name: "a large temporary", size: 65_536, source: large_temporary },
    Adversary { name: "statements", size: 60_000, source: statements },
    Adversary { name: "ifs", size: 20_000, source: ifs },
    Adversary { name: "nested loops", size: 60, source: nested_loops },
    Adversary { name: "cases of a switch", size: 20_000, source: cases },
    Adversary { name: "functions", size: 20_000, source: functions },
    Adversary { name: "variables", size: 20_000, source: variables },
    Adversary { name: "elements of a constant", size: 60_000, source: elements },
    Adversary { name: "a chain of additions", size: 5_000, source: additions },
    Adversary { name: "nested parentheses", size: 5_000, source: parentheses },
    Adversary { name: "a long name", size: 1_000_000, source: long_name },
];

const OUTPUT: &str = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n";

fn kernel(declarations: &str, body: &str) -> String {
    format!(
        "{OUTPUT}{declarations}@compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{\n\
         let i = id.x;\n{body}\n}}\n"
    )
}

fn doubling_constants(levels: u32) -> String {
    let mut text = "const T0 = array(1u, 2u);\n".to_owned();
    for level in 1..=levels {
        let below = level - 1;
        writeln!(text, "const T{level} = array(T{below}, T{below});").expect("a string");
    }
    let index = "[i]".repeat(levels as usize + 1);
    kernel(&text, &format!("x[0] = T{levels}{index};"))
}

fn doubling_structs(levels: u32) -> String {
    let mut text = "struct S0 { a: u32, b: u32 }\n".to_owned();
    for level in 1..=levels {
        let below = level - 1;
        writeln!(text, "struct S{level} {{ a: S{below}, b: S{below} }}").expect("a string");
    }
    format!("{text}@group(0) @binding(1) var<storage, read_write> s: S{levels};\n{}", kernel("", "x[0] = 1u;"))
}

fn doubling_arrays(levels: u32) -> String {
    let mut text = "alias A0 = array<u32, 2>;\n".to_owned();
    for level in 1..=levels {
        let below = level - 1;
        writeln!(text, "alias A{level} = array<A{below}, 2>;").expect("a string");
    }
    let index = "[i]".repeat(levels as usize + 1);
    kernel(&text, &format!("var a = A{levels}(); x[0] = a{index};"))
}

fn doubling_calls(levels: u32) -> String {
    let mut text = "fn f0(a: u32) -> u32 { return a * 3u + 1u; }\n".to_owned();
    for level in 1..=levels {
        let below = level - 1;
        writeln!(text, "fn f{level}(a: u32) -> u32 {{ return f{below}(a) + f{below}(a + 1u); }}").expect("a string");
    }
    kernel(&text, &format!("x[0] = f{levels}(i);"))
}

fn large_temporary(elements: u32) -> String {
    kernel("", &format!("x[0] = array<u32, {elements}>()[i];"))
}

fn statements(count: u32) -> String {
    kernel("", &"x[i] += 1u;\n".repeat(count as usize))
}

fn ifs(count: u32) -> String {
    kernel("", &"if x[i] > 3u { x[i] = 1u; }\n".repeat(count as usize))
}

fn nested_loops(depth: u32) -> String {
    let mut text = String::new();
    for level in 0..depth {
        write!(text, "for (var l{level} = 0u; l{level} < 2u; l{level}++) {{ ").expect("a string");
    }
    kernel("", &format!("{text} x[i] += 1u; {}", "}".repeat(depth as usize)))
}

fn cases(count: u32) -> String {
    let mut text = String::new();
    for case in 0..count {
        writeln!(text, "case {case}u: {{ x[i] = {case}u; }}").expect("a string");
    }
    kernel("", &format!("switch i {{ {text} default: {{ }} }}"))
}

fn functions(count: u32) -> String {
    let mut text = String::new();
    for function in 0..count {
        writeln!(text, "fn f{function}() -> u32 {{ return {function}u; }}").expect("a string");
    }
    kernel(&text, &format!("x[0] = f{}();", count - 1))
}

fn variables(count: u32) -> String {
    let mut text = String::new();
    for variable in 0..count {
        writeln!(text, "var v{variable} = i + {variable}u; x[i] += v{variable};").expect("a string");
    }
    kernel("", &text)
}

fn elements(count: u32) -> String {
    kernel(&format!("const T = array({});\n", "1u, ".repeat(count as usize)), "x[0] = T[i];")
}

fn additions(count: u32) -> String {
    kernel("", &format!("x[0] = i{};", " + i".repeat(count as usize)))
}

fn parentheses(depth: u32) -> String {
    kernel("", &format!("x[0] = {}i{};", "(".repeat(depth as usize), ")".repeat(depth as usize)))
}

fn long_name(length: u32) -> String {
    let name = "a".repeat(length as usize);
    kernel("", &format!("let {name} = i; x[0] = {name};"))
}

/// Any of them in a random size, up to twice that at which it hurts.
pub(crate) fn adversarial(random: &mut Rng) -> (String, String) {
    let Adversary { name, size, source } = &ADVERSARIES[random.usize(..ADVERSARIES.len())];
    let size = random.u32(1..=2 * size);
    (format!("{name}, {size} of them"), source(size))
}

/// The entry points that a source seems to have.
pub(crate) fn entries(source: &str) -> Vec<&str> {
    let name = |text: &'_ str| -> Option<usize> { text.find(|char: char| !char.is_alphanumeric() && char != '_') };
    let functions = source.split("@compute").skip(1).filter_map(|text| text.split_once("fn "));
    functions.filter_map(|(_, text)| Some(&text[..name(text)?])).collect()
}

/// Good sources to mutate: the library's kernels and the corpus of its tests.
pub(crate) fn corpus() -> Vec<String> {
    let library = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../sortie"));
    let mut sources: Vec<String> = Vec::new();
    for folder in ["kernels", "tests/corpus/kernels"] {
        let files = fs::read_dir(library.join(folder)).into_iter().flatten().flatten();
        let mut paths: Vec<_> = files.map(|file| file.path()).collect();
        paths.sort();
        sources.extend(paths.iter().filter_map(|path| fs::read_to_string(path).ok()));
    }
    sources
}

/// Changes some tokens or bytes of a source.
pub(crate) fn mutated(source: &str, others: &[String], random: &mut Rng) -> String {
    if random.u8(..4) == 0 {
        return bytes_changed(source, random);
    }
    let mut tokens: Vec<&str> = tokens(source);
    for _ in 0..random.usize(1..6) {
        if tokens.is_empty() {
            break;
        }
        let at = random.usize(..tokens.len());
        match random.u8(..6) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[random.usize(..tokens.len())]),
            2 => {
                let other = random.usize(..tokens.len());
                tokens.swap(at, other);
            }
            3 => tokens[at] = SPICE[random.usize(..SPICE.len())],
            4 => {
                // A stretch again.
                let end = (at + random.usize(1..30)).min(tokens.len());
                let stretch = tokens[at..end].to_vec();
                tokens.splice(at..at, stretch);
            }
            _ => {
                let Some(other) = others.get(random.usize(..others.len().max(1))) else { continue };
                let foreign: Vec<&str> = self::tokens(other);
                let begin = random.usize(..foreign.len().max(1));
                let end = (begin + random.usize(1..30)).min(foreign.len());
                tokens.splice(at..at, foreign[begin..end].to_vec());
            }
        }
    }
    tokens.concat()
}

/// Words that are at the edge of what is allowed.
const SPICE: &[&str] = &[
    "0",
    "-1",
    "4294967295u",
    "4294967296",
    "0x7fffffffi",
    "1e38",
    "1e-45",
    "array<u32, 65536>",
    "vec4<f32>",
    "mat4x4<f32>",
    "atomic<u32>",
    "loop {",
    "}",
    "{",
    "discard",
    "workgroupBarrier();",
    "const",
    "override",
    "var<workgroup>",
    "ptr<function, u32>",
    "@workgroup_size(1024, 1024, 64)",
    "@binding(4294967295)",
    "break;",
    "return;",
    "enable f16;",
    "&",
    "*",
    ">>",
    "u32",
    "f16",
];

fn bytes_changed(source: &str, random: &mut Rng) -> String {
    let mut bytes = source.as_bytes().to_vec();
    for _ in 0..random.usize(1..8) {
        if bytes.is_empty() {
            break;
        }
        let at = random.usize(..bytes.len());
        match random.u8(..4) {
            0 => bytes[at] = random.u8(..),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, random.u8(..)),
            _ => bytes.truncate(at),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Words, numbers, blanks and single characters; together they are the source.
fn tokens(source: &str) -> Vec<&str> {
    let is_word = |char: char| char.is_alphanumeric() || char == '_' || char == '.';
    let mut tokens = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let len =
            if is_word(first) { rest.find(|char| !is_word(char)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, after) = rest.split_at(len);
        tokens.push(token);
        rest = after;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_together_are_the_source() {
        let corpus = corpus();
        assert!(corpus.len() > 20);
        for source in corpus {
            assert_eq!(tokens(&source).concat(), source);
        }
    }
}
