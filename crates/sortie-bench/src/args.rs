//! The command line of a bench: `--quick`, `--json`, `--only NAME,…`, and the options that the bench adds.
//!
//! An unknown option ends the process. `--bench`, which `cargo bench` adds, is ignored.

#![expect(clippy::print_stderr, reason = "a wrong command line is answered on stderr")]

use std::{collections::BTreeMap, str::FromStr};

/// Options of the process.
#[derive(Debug)]
pub struct Args {
    /// Whether to take seconds instead of minutes.
    pub quick: bool,
    /// Whether to print one JSON object per line.
    pub json: bool,
    values: BTreeMap<String, String>,
}

impl Args {
    /// Reads the command line. `known` are this bench's own options; the name of one that takes a value ends in `=`.
    pub fn read(known: &[&str]) -> Self {
        Self::parse(std::env::args().skip(1), known).unwrap_or_else(|message| exit(&message))
    }

    fn parse(mut words: impl Iterator<Item = String>, own: &[&str]) -> Result<Self, String> {
        let known = [&["--quick", "--json", "--only="], own].concat();
        let mut values = BTreeMap::new();
        while let Some(word) = words.next() {
            if known.contains(&word.as_str()) {
                values.insert(word, String::new());
            } else if known.contains(&format!("{word}=").as_str()) {
                let value = words.next().ok_or_else(|| format!("{word} takes a value"))?;
                values.insert(word, value);
            } else if word != "--bench" {
                return Err(format!("unknown option {word}; there are {}", known.join(" ")));
            }
        }
        Ok(Self { quick: values.contains_key("--quick"), json: values.contains_key("--json"), values })
    }

    /// The value of an option, if it was given.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.values.get(option).map(String::as_str)
    }

    /// The comma-separated values of an option, if it was given. A value that cannot be parsed ends the process.
    pub fn list<T: FromStr>(&self, option: &str) -> Option<Vec<T>> {
        let parse = |item: &str| item.parse().unwrap_or_else(|_| exit(&format!("{option}: {item} is not a value")));
        Some(self.value(option)?.split(',').map(parse).collect())
    }

    /// Whether `--only` is absent or lists this name.
    pub fn selects(&self, name: &str) -> bool {
        self.value("--only").is_none_or(|only| only.split(',').any(|one| one == name))
    }

    /// Whether an option is absent or its value is part of this name, in any case. For `--device NAME`.
    pub fn matches(&self, option: &str, name: &str) -> bool {
        self.value(option).is_none_or(|part| name.to_lowercase().contains(&part.to_lowercase()))
    }
}

fn exit(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(str::to_owned), &["--device=", "--work"])
    }

    #[test]
    fn options_take_the_values_that_their_names_announce() {
        let args = parse("--bench --quick --device LLVM --only a,b").expect("known options");
        assert!(args.quick && !args.json && args.value("--work").is_none());
        assert!(args.matches("--device", "llvmpipe (LLVM 15)") && !args.matches("--device", "cpu"));
        assert!(args.selects("a") && args.selects("b") && !args.selects("ab"));
        assert_eq!(args.list::<String>("--only"), Some(vec!["a".into(), "b".into()]));
    }

    #[test]
    fn a_mistake_is_named() {
        assert!(parse("--fast").expect_err("unknown").contains("unknown option --fast"));
        assert_eq!(parse("--device").expect_err("no value"), "--device takes a value");
    }
}
