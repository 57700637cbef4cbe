//! `headtime reload`: a running server reads certificates, keys and revocation lists again.

use clap::Args;
use headtime_serve::tls::TlsFiles;

use crate::commands::control::{ServerChoice, ask};
use headtime_console::Failure;
use headtime_console::output::{print, print_json};

/// Arguments of `headtime reload`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Server to address
    #[command(flatten)]
    pub server: ServerChoice,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const AFTER_HELP: &str = "\
Example: headtime reload --config /etc/headtime/headtime.toml

Connections that are open stay. Where the files do not go together, those that were read before \
stay in force, the program says what
is wrong, and its exit code is 1. SIGHUP has the server do the same, and say it in its log. \
docs/tls.md tells more.";

/// Does it.
///
/// # Errors
/// When no server answers, it has no TLS, or its files do not go together.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut client = arguments.server.connect("")?;
    let files: TlsFiles = ask(&mut client, "tls.reload", &serde_json::json!({}))?;
    if arguments.json {
        return print_json(&files);
    }
    let mut text = format!("certificate good until {}\n", files.certificate_until);
    if let Some(revoked) = files.revoked_certificates {
        text.push_str(&format!("{revoked} certificates of clients are revoked\n"));
    }
    files.notes.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    print(&text)
}
