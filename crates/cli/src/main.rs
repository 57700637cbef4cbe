//! The `headtime` program; see `headtime --help`.

#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use std::process::ExitCode;

use clap::FromArgMatches as _;

fn main() -> ExitCode {
    let parsed = headtime_cli::command()
        .try_get_matches()
        .and_then(|matches| headtime_cli::Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && wants_json() => {
            return fail(error.to_string().trim_end(), 2);
        }
        Err(error) => error.exit(),
    };
    match cli.verb.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure.message(), failure.exit_code()),
    }
}

/// Prints an error; with `--json` as an object, also if the arguments could not be parsed.
fn fail(message: &str, exit_code: u8) -> ExitCode {
    if wants_json() {
        headtime_console::note!(
            "{}",
            serde_json::json!({ "error": message, "exit_code": exit_code })
        );
    } else {
        headtime_console::note!("headtime: {message}");
    }
    ExitCode::from(exit_code)
}

fn wants_json() -> bool {
    std::env::args_os().skip(1).any(|argument| argument == "--json")
}
