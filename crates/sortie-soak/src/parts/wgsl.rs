//! Expensive WGSL: small sources that take a compiler much time or memory, and mutations of good ones.

use std::{fs, path::Path};

use fastrand::Rng;

/// The sources of the library's own tests.
#[path = "../../../sortie/tests/hostile/sources.rs"]
#[expect(dead_code, reason = "the sizes and the markers are for the tests")]
mod sources;

/// Families of sources, each with a size at which it was found to be expensive.
pub(crate) const ADVERSARIES: &[(&str, usize)] = &[
    ("doubling_constants", 24),
    ("doubling_structs", 24),
    ("doubling_aliases", 24),
    ("doubling_calls", 20),
    ("temporary_array", 65_536),
    ("statements", 60_000),
    ("ifs", 20_000),
    ("nested_loops", 60),
    ("cases", 20_000),
    ("functions", 20_000),
    ("variables", 20_000),
    ("long_names", 100),
    ("elements", 60_000),
    ("additions", 5_000),
    ("parentheses", 5_000),
];

/// The source of a family in a size.
pub(crate) fn adversarial(family: &str, size: usize) -> String {
    let kernel = |value: String| {
        format!(
            "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
            @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
                let i = id.x; x[0] = {value};
            }}"
        )
    };
    match family {
        "elements" => kernel(format!("array({})[i]", "1u, ".repeat(size))),
        "additions" => kernel(format!("i{}", " + i".repeat(size))),
        "parentheses" => kernel(format!("{}i{}", "(".repeat(size), ")".repeat(size))),
        _ => {
            let known = sources::FAMILIES.iter().find(|known| known.name == family);
            (known.expect("a known family").make)(size)
        }
    }
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
    let (mut tokens, spice): (Vec<&str>, Vec<&str>) = (tokens(source), SPICE.lines().collect());
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
            3 => tokens[at] = spice[random.usize(..spice.len())],
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

/// Lines of words that are at the edge of what is allowed.
const SPICE: &str = include_str!("../../kernels/tokens.txt");

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
