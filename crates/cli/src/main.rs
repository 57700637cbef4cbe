//! The `headtime` program; see `headtime --help`.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match headtime::Cli::parse().verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("headtime: {}", failure.message());
            ExitCode::from(failure.exit_code())
        }
    }
}
