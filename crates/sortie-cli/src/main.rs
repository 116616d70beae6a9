//! The `sortie` command: parses its arguments, runs one verb and reports the result.

mod arguments;
mod array;
mod bench;
mod chain;
mod command;
mod curve;
mod demo;
mod device;
mod devices;
mod embed;
mod embeddings;
mod error;
mod input;
mod interrupt;
mod kernel;
mod lines;
mod machine;
mod map;
mod measurement;
mod number;
mod output;
mod plot;
mod profile;
mod progress;
mod rounds;
mod run;
mod size;
mod table;
mod terminal;
mod tune;
mod warm;

fn main() -> std::process::ExitCode {
    let command = <command::Sortie as clap::Parser>::parse();
    error::exit_code(command.run(&mut terminal::Escaping(std::io::stdout().lock())))
}
