//! `headtime reload`: a running server reads certificates, keys and revocation lists, and the scans
//! of its configuration again.

use clap::Args;
use headtime_serve::Reloaded;

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

Scans that are new or changed in [[scan]] start; docs/scan.md tells more. Nothing else of the \
configuration is read again.

Connections that are open stay. If the files of TLS do not go together, those that were read \
before stay in force, the mistake is printed, and the exit code is 1. SIGHUP does the same, and \
the server logs the result. docs/tls.md tells more.";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut client = arguments.server.connect("")?;
    let reloaded: Reloaded = ask(&mut client, "reload", &serde_json::json!({}))?;
    if arguments.json {
        return print_json(&reloaded);
    }
    let mut text = String::new();
    if let Some(files) = &reloaded.tls {
        text.push_str(&format!("certificate good until {}\n", files.certificate_until));
        if let Some(revoked) = files.revoked_certificates {
            text.push_str(&format!("{revoked} certificates of clients are revoked\n"));
        }
        files.notes.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    }
    if let Some(scans) = reloaded.scans {
        text.push_str(&format!(
            "scans in the configuration: {scans}; see `headtime scan status`\n"
        ));
    }
    print(&text)
}
