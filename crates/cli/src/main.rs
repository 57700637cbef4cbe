//! The `headtime` program; see `headtime --help`.

use std::process::ExitCode;

use clap::FromArgMatches as _;

fn main() -> ExitCode {
    let matches = headtime_cli::command().get_matches();
    let cli = headtime_cli::Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("headtime: {}", failure.message());
            ExitCode::from(failure.exit_code())
        }
    }
}
