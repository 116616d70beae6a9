//! What is asked for on the command line.

use std::str::FromStr;
use std::time::Duration;

use crate::contest::{Outcome, Turns};
use crate::device::Case;

/// What to measure, and how to tell.
pub(crate) struct Options {
    /// For a program, not for a reader.
    pub(crate) json: bool,
    /// Most rows of a batch.
    pub(crate) limit: usize,
    /// Numbers of callers.
    pub(crate) callers: Vec<usize>,
    /// How long runs take.
    pub(crate) cases: Vec<Case>,
    /// The names of those who take part; everyone when there are none.
    pub(crate) only: Vec<String>,
    /// How long and how often everyone has a turn.
    pub(crate) turns: Turns,
}

impl Options {
    /// What the program was called with.
    pub(crate) fn read() -> Outcome<Self> {
        let mut read = Self {
            json: false,
            limit: 256,
            callers: vec![1, 64, 1024],
            cases: Case::ALL.to_vec(),
            only: Vec::new(),
            turns: Turns { rounds: 11, warm: Duration::from_millis(20), measured: Duration::from_millis(120) },
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{flag} takes a value"));
            match flag.as_str() {
                "--json" => read.json = true,
                "--quick" => {
                    read.turns = Turns { rounds: 3, measured: Duration::from_millis(60), ..read.turns };
                }
                "--rounds" => read.turns.rounds = value()?.parse::<usize>()?.max(1),
                "--limit" => read.limit = value()?.parse::<usize>()?.max(1),
                "--callers" => read.callers = list(&value()?)?,
                "--only" => read.only = list(&value()?)?,
                "--case" => {
                    let name = value()?;
                    read.cases.retain(|case| case.name() == name);
                }
                other => {
                    return Err(
                        format!("{other} is none of --quick --json --limit --callers --case --only --rounds").into()
                    );
                }
            }
        }
        if read.callers.contains(&0) {
            return Err("nobody calls".into());
        }
        Ok(read)
    }
}

fn list<T: FromStr<Err: std::error::Error + 'static>>(text: &str) -> Outcome<Vec<T>> {
    Ok(text.split(',').map(str::parse).collect::<Result<_, _>>()?)
}
