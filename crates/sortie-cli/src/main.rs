//! The `sortie` command: parses, runs, and tells how it went.

mod array;
mod bench;
mod chain;
mod command;
mod contest;
mod curve;
mod demo;
mod devices;
mod draft;
mod input;
mod json;
mod lap;
mod machine;
mod map;
mod number;
mod pair;
mod plot;
mod profile;
mod progress;
mod report;
mod size;
mod terminal;
mod tune;
mod warm;
mod wrong;

fn main() -> std::process::ExitCode {
    let command = <command::Sortie as clap::Parser>::parse();
    report::exit_code(command.run(&mut terminal::Escaping(std::io::stdout().lock())))
}
