//! `soak`: see the library's documentation.

fn main() -> std::process::ExitCode {
    sortie_soak::command::main()
}
