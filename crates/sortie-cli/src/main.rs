//! The `sortie` command: parses, runs, and tells how it went.

mod array;
mod command;
mod demo;
mod devices;
mod draft;
mod map;
mod progress;
mod report;
mod size;
mod tune;
mod warm;

fn main() -> std::process::ExitCode {
    let command = <command::Sortie as clap::Parser>::parse();
    report::exit_code(command.run(&mut std::io::stdout().lock()))
}
